//! Tests of `larder lab trace`.

mod support;

use larder::{CacheKind, Operation};
use larder_trace::{FilePath, FileRead, TraceEvent, TraceInfo, TraceWriter};
use std::fs;
use std::path::Path;
use support::{assert_fails, lab, lab_ok};

/// Starts a trace of ten lookups in one row group, all of which miss.
fn begin(path: &Path, info: &TraceInfo) -> TraceWriter {
    let mut writer = TraceWriter::create(path, info).unwrap();
    for index in 0..10 {
        let event = TraceEvent {
            time_ns: index,
            cache: CacheKind::Buffer,
            operation: Operation::Lookup { hit: false },
            device: 1,
            inode: 0,
            index,
            name_hash: 0,
        };
        writer.push(&event).unwrap();
    }
    writer.write_row_group().unwrap();
    writer
}

#[test]
fn show_prints_the_first_events_and_info_counts_all() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("whole.trace");
    begin(&trace, &TraceInfo::default()).finish().unwrap();
    let trace = trace.to_str().unwrap();
    let shown = lab_ok(["trace", "show", trace, "--rows=3"]);
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(shown.contains("lookup, miss"), "{shown}");
    let info: serde_json::Value =
        serde_json::from_str(&lab_ok(["trace", "info", trace, "--json"])).unwrap();
    assert_eq!(info["info"]["is_cut_short"], false);
    assert_eq!(info["caches"]["buffer"]["lookups"], 10);
}

#[test]
fn trace_that_is_being_recorded_is_shown_up_to_its_last_row_group() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.trace");
    let mut writer = begin(&path, &TraceInfo::default());
    writer
        .push_path(&FilePath {
            time_ns: 20,
            device: 1,
            inode: 12,
            file_bytes: 8192,
            path: "/dir/\u{1b}[31mfile".into(),
        })
        .unwrap();
    writer.push_read(&read(1, 12, 4096, 30)).unwrap();
    writer.write_row_group().unwrap();
    // This event is not in a row group yet.
    writer.push_read(&read(1, 12, 0, 40)).unwrap();
    let trace = path.to_str().unwrap();
    let info = lab_ok(["trace", "info", trace]);
    for part in [
        "still being recorded",
        "12 in 2 row groups",
        "Reads      1 of 4.0 KiB",
    ] {
        assert!(info.contains(part), "{info}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&lab_ok(["trace", "info", trace, "--json"])).unwrap();
    assert_eq!(json["is_being_recorded"], true);
    assert_eq!(json["files"]["read_bytes"], 4096);
    let shown = lab_ok(["trace", "show", trace, "--rows=100"]);
    assert_eq!(shown.lines().count(), 13, "{shown}");
    assert!(shown.contains("bytes 4096 to 8192"), "{shown}");
    // The terminal must not interpret the path.
    assert!(
        shown.contains("/dir/") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    writer.finish().unwrap();
    let info = lab_ok(["trace", "info", trace]);
    assert!(!info.contains("still being recorded"), "{info}");
}

/// Returns a read of 4 KiB of a file of 1 MiB, by `thread`.
fn read(thread: u32, inode: u64, offset_bytes: u64, time_ns: u64) -> FileRead {
    FileRead {
        time_ns,
        device: 1,
        inode,
        offset_bytes,
        len_bytes: 4096,
        file_bytes: 1 << 20,
        stream: 0,
        thread,
        duration_ns: 5,
        is_fault: false,
    }
}

/// Without readahead, each page of a sequential read is a request of its own. With it, the device reads each page once, in
/// fewer requests, and no page is wasted.
#[test]
fn readahead_replays_the_reads_of_a_trace_under_every_policy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reads.trace");
    let mut writer = TraceWriter::create(&path, &TraceInfo::default()).unwrap();
    for page in 0..256 {
        for thread in [1, 2] {
            let inode = u64::from(thread) + 11;
            let read = read(thread, inode, page * 4096, page * 1_000_000);
            writer.push_read(&read).unwrap();
        }
    }
    writer.finish().unwrap();
    let trace = path.to_str().unwrap();
    let args = ["readahead", "--trace", trace, "--device", "sata-2007"];
    let text = lab_ok(args);
    assert!(
        text.contains("512 reads of 2 files by 2 threads in 255 ms"),
        "{text}"
    );
    let json = lab_ok(args.into_iter().chain(["--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let policies = json["policies"].as_array().unwrap();
    let names: Vec<_> = policies.iter().map(|policy| &policy["policy"]).collect();
    assert_eq!(names, ["off", "legacy", "ondemand", "modern", "adaptive"]);
    for policy in policies {
        assert_eq!(policy["pages_read"], 512, "{policy}");
        assert_eq!(policy["requests"], 512, "{policy}");
        let requests = policy["device_reads"].as_u64().unwrap();
        let waits = policy["waits"].as_u64().unwrap();
        if policy["policy"] == "off" {
            assert_eq!((requests, waits), (512, 512));
        } else {
            assert!(requests < 64 && waits < 256, "{policy}");
            assert_eq!(policy["pages_unused"], 0, "{policy}");
        }
        assert!(policy["elapsed_s"].as_f64() >= Some(0.25), "{policy}");
    }
    let csv = dir.path().join("replay.csv");
    let report = dir.path().join("report");
    lab_ok(args.into_iter().chain([
        "--csv",
        csv.to_str().unwrap(),
        "--output",
        report.to_str().unwrap(),
    ]));
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 6);
    assert!(report.join("replay.html").exists());
}

#[test]
fn readahead_rejects_a_trace_without_reads_and_a_workload_beside_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks.trace");
    begin(&path, &TraceInfo::default()).finish().unwrap();
    let trace = path.to_str().unwrap();
    let none = lab(["readahead", "--trace", trace]);
    assert_fails(&none, 1, &["no reads of files", "larder mount --record"]);
    let both = lab(["readahead", "--trace", trace, "--workload", "random"]);
    assert_fails(&both, 2, &["cannot be used with"]);
    let neither = lab(["readahead"]);
    assert_fails(&neither, 2, &["--workload", "--trace"]);
}

#[test]
fn trace_without_a_footer_is_rejected_and_salvaged_to_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, saved) = (dir.path().join("cut.trace"), dir.path().join("saved.trace"));
    drop(begin(&trace, &TraceInfo::default()));
    let (trace, saved) = (trace.to_str().unwrap(), saved.to_str().unwrap());
    let cut = lab(["trace", "show", trace]);
    let hint = "hint: larder lab trace salvage copies";
    assert_fails(&cut, 1, &["footer is missing", hint]);
    lab_ok(["trace", "salvage", trace, saved]);
    let info: serde_json::Value =
        serde_json::from_str(&lab_ok(["trace", "info", saved, "--json"])).unwrap();
    assert_eq!(info["events"], 10);
    assert_eq!(info["info"]["is_cut_short"], true);
    let again = lab(["trace", "salvage", trace, saved]);
    assert_fails(
        &again,
        1,
        &["saved.trace", "hint: OUTPUT must name a new file"],
    );
}

#[test]
fn info_says_that_the_end_of_a_recording_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("short.trace");
    let info = TraceInfo {
        lost: 7,
        is_cut_short: true,
        ..TraceInfo::default()
    };
    begin(&trace, &info).finish().unwrap();
    let text = lab_ok(["trace", "info", trace.to_str().unwrap()]);
    assert!(text.contains("7; the end is missing"), "{text}");
}

#[test]
fn file_that_is_not_a_trace_is_rejected_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let mine = dir.path().join("mine");
    fs::write(&mine, "not a trace").unwrap();
    let output = lab(["trace", "info", mine.to_str().unwrap()]);
    assert_fails(&output, 1, &["mine: not a trace", "hint:", "--record"]);
    let output = lab(["trace", "info", "/nowhere.trace"]);
    assert_fails(&output, 1, &["/nowhere.trace"]);
}
