//! Tests of `larder lab trace`.

mod support;

use larder::{CacheKind, Operation};
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
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
fn trace_without_a_footer_is_rejected_and_salvaged_to_a_new_file() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, saved) = (dir.path().join("cut.trace"), dir.path().join("saved.trace"));
    drop(begin(&trace, &TraceInfo::default()));
    let (trace, saved) = (trace.to_str().unwrap(), saved.to_str().unwrap());
    let cut = lab(["trace", "show", trace]);
    let hint = "hint: if the trace is still being recorded, wait";
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
