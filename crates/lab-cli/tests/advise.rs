//! Tests of `larder lab advise` and `larder lab device`.

mod support;

use larder::{CacheKind, Operation};
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use support::{assert_fails, lab, lab_ok};
use tempfile::TempDir;

/// Number of pages that are read in a loop: 160 MB.
const PAGES: u64 = 40_000;

/// The distance in the file from one of these pages to the next, in pages.
const DISTANCE: u64 = 1536;

/// Writes a trace in which 160 MB of a sparse file are read three times in 24 s.
fn write_trace(path: &Path) {
    // The pages are farther apart than any window, and the order has no pattern, so that readahead has no effect.
    let mut order: Vec<u64> = (0..PAGES).collect();
    order.sort_by_cached_key(|page| {
        let mut hasher = DefaultHasher::new();
        page.hash(&mut hasher);
        hasher.finish()
    });
    let pages = order.iter().cycle().take(3 * order.len());
    let mut writer = TraceWriter::create(path, &TraceInfo::default()).unwrap();
    for (place, page) in (0..).zip(pages) {
        let event = TraceEvent {
            time_ns: place * 200_000,
            cache: CacheKind::Page,
            operation: Operation::Lookup { hit: false },
            device: 1,
            inode: 12,
            index: *page * DISTANCE,
            name_hash: 0,
        };
        writer.push(&event).unwrap();
    }
    writer.finish().unwrap();
}

fn traced() -> (TempDir, String) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("trace.parquet");
    write_trace(&path);
    (dir, path.to_str().unwrap().to_owned())
}

#[test]
fn advise_prints_the_options_and_their_saving() {
    let (dir, trace) = traced();
    let report = dir.path().join("advice");
    let current = ["--current", "ro,cache_size=64M"];
    let args = [&["advise", &trace], &current[..]].concat();
    let text = lab_ok(args.iter().copied());
    let last: Vec<&str> = text.lines().rev().take(2).collect();
    assert_eq!(last[1], "Mount with: -o ro,cache_size=192M", "{text}");
    assert!(last[0].starts_with("This is predicted to save "), "{text}");
    assert!(last[0].ends_with(" of the recording."), "{text}");
    assert!(text.contains("The trace has no lookups of these caches: buffer, dentry, inode."));
    let json = ["--json", "--output", report.to_str().unwrap()];
    let json = lab_ok(args.iter().copied().chain(json));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["mount_option"], "ro,cache_size=192M");
    assert_eq!(json["caches"][0]["knee_objects"], PAGES);
    assert_eq!(json["tables"], serde_json::Value::Null);
    let html = fs::read_to_string(report.join("advise.html")).unwrap();
    assert_eq!(html.matches("<svg").count(), 2);
    let kept = lab_ok(["advise", &trace, "--current", "cache_size=1G"]);
    assert!(
        kept.contains("Keep the current options (-o cache_size=1G)"),
        "{kept}"
    );
    let limited = lab_ok([
        "advise",
        &trace,
        "--memory",
        "100M",
        "--current",
        "cache_size=64M",
    ]);
    assert!(limited.contains("Keep the current options"), "{limited}");
}

#[test]
fn advise_rejects_bad_traces_and_arguments() {
    let (dir, trace) = traced();
    let file = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |args: &[&str], code, texts: &[&str]| {
        assert_fails(&lab([&["advise"], args].concat()), code, texts);
    };
    let whole = fs::read(&trace).unwrap();
    let cut = file("cut", &whole[..whole.len() - 10]);
    refused(
        &[&file("empty", b"")],
        1,
        &["empty", "not a trace", "hint:"],
    );
    refused(
        &[&file("text", b"a text of some length")],
        1,
        &["not a trace", "larder lab import"],
    );
    refused(&[&cut], 1, &["cut short", "--salvage"]);
    refused(&["/nonexistent"], 1, &["/nonexistent", "hint:"]);
    refused(
        &[&trace, "--device", "floppy"],
        2,
        &["floppy", "nvme", "larder lab device"],
    );
    refused(&[&trace, "--device", &cut], 1, &["hint:"]);
    refused(
        &[&trace, "--device", &file("json", b"{}")],
        1,
        &["not the figures", "hint:"],
    );
    refused(
        &[&trace, "--current", "cache_size=big"],
        2,
        &["cache_size", "hint:"],
    );
    refused(
        &[&trace, "--current", "readahead=psychic"],
        2,
        &["psychic", "ondemand"],
    );
    let none = dir.path().join("none");
    TraceWriter::create(&none, &TraceInfo::default())
        .unwrap()
        .finish()
        .unwrap();
    refused(&[none.to_str().unwrap()], 1, &["has no lookups", "hint:"]);
    assert!(lab_ok(["advise", &cut, "--salvage"]).contains("The trace is incomplete"));
}

#[test]
fn tune_names_its_replacement() {
    let (_dir, trace) = traced();
    let output = lab(["tune", "--trace", &trace, "--memory", "16M"]);
    assert_fails(
        &output,
        2,
        &["hint: `larder lab tune` is now `larder lab advise`"],
    );
}

#[test]
fn device_writes_figures_that_advise_reads() {
    let (_dir, trace) = traced();
    // Direct reads need a file system on a device, so the file is not in the temporary directory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [image, figures] = ["disk.img", "figures.json"].map(|name| {
        let path = dir.path().join(name);
        path.to_str().unwrap().to_owned()
    });
    fs::write(&image, vec![7; 17 << 20]).unwrap();
    fs::File::open(&image).unwrap().sync_all().unwrap();
    let output = lab(["device", &image, "--output", &figures]);
    if !output.status.success() {
        assert_fails(&output, 1, &["O_DIRECT", "hint:"]);
        return eprintln!("skipped: no direct reads of {image}");
    }
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "random reads of 4 KiB, one at a time:",
        "sequential reads:",
        "flush:",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let advice = lab_ok(["advise", &trace, "--device", &figures]);
    assert!(
        advice.contains(&format!("on {image} (measured)")),
        "{advice}"
    );
    let json = lab_ok(["device", &image, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["size_bytes"], 17 << 20);
    assert!(
        fs::read(&image).unwrap() == vec![7; 17 << 20],
        "the content changed"
    );
    assert_fails(
        &lab(["device", "/nonexistent"]),
        1,
        &["cannot open /nonexistent", "hint:"],
    );
    assert_fails(&lab(["device", "/dev/null"]), 1, &["/dev/null", "hint:"]);
    let small = dir.path().join("small.img");
    fs::write(&small, "small").unwrap();
    assert_fails(
        &lab(["device", small.to_str().unwrap()]),
        1,
        &["bytes of data", "hint:"],
    );
}
