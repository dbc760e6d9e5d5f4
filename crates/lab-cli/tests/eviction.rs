//! Tests of `larder lab eviction`: its output, and its policies compared with libCacheSim.

mod support;

use larder::{CacheKind, Operation};
use larder_testkit::seed::Random;
use larder_testkit::{Seed, report_skipped};
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{assert_fails, binary, lab, lab_ok};
use tempfile::TempDir;

/// Returns keys of which some are frequent. Scans interrupt them, and in the second half, other keys are frequent.
fn keys(seed: Seed, len: usize) -> Vec<u64> {
    let mut random = Random::new(seed);
    let mut keys = Vec::new();
    while keys.len() < len {
        let first = if keys.len() < len / 2 { 0 } else { 1500 };
        if random.below(400) == 0 {
            let start = random.below(20_000);
            keys.extend((start..start + 300).map(|key| 10_000 + key));
        }
        let (most, next) = (1 + random.below(6000), random.below(6000));
        keys.push(first + next % most);
    }
    keys
}

fn write_keys(dir: &TempDir, keys: &[u64]) -> PathBuf {
    let path = dir.path().join("keys.txt");
    let text = keys.iter().fold(String::new(), |mut text, key| {
        writeln!(text, "{key}").unwrap();
        text
    });
    fs::write(&path, text).unwrap();
    path
}

/// Writes a trace of 40 pages that are looked up. Five of them are then removed, and looked up again.
fn write_removals(path: &Path) {
    begin_removals(path, &TraceInfo::default())
        .finish()
        .unwrap();
}

fn begin_removals(path: &Path, info: &TraceInfo) -> TraceWriter {
    let mut writer = TraceWriter::create(path, info).unwrap();
    let lookup = Operation::Lookup { hit: false };
    let first = (0..40).map(|index| (lookup, index));
    let removed = (7..12).map(|index| (Operation::Remove, index));
    let again = (7..12).map(|index| (lookup, index));
    for (time_ns, (operation, index)) in (0..).zip(first.chain(removed).chain(again)) {
        let event = TraceEvent {
            time_ns,
            cache: CacheKind::Page,
            operation,
            device: 0,
            inode: 12,
            index,
            name_hash: 0,
        };
        writer.push(&event).unwrap();
    }
    writer
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&lab_ok(args)).unwrap()
}

#[test]
fn miss_ratios_are_those_of_libcachesim() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/tools/libcachesim/bin/python");
    if !python.exists() {
        report_skipped("libcachesim is not installed: make python-tools");
        return;
    }
    let dir = TempDir::new().unwrap();
    let seed = Seed::from_environment(0x51);
    let trace = write_keys(&dir, &keys(seed, 60_000));
    let compared = Command::new(python)
        .arg(root.join("scripts/compare-eviction"))
        .arg("--lab")
        .arg(binary())
        .args(["--sizes", "100,777,3000,10000", "--json"])
        .arg(&trace)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "seed {seed}: {compared:?}");
    let results: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(results.len(), 4 * 7, "{text}");
    for result in results {
        let ratio = result["libcachesim"].as_f64().unwrap();
        assert!(
            ratio > 0.05 && ratio < 0.99,
            "the trace distinguishes nothing: {result}"
        );
    }
}

#[test]
fn report_has_a_row_for_each_policy_and_a_plot_for_each_trace() {
    let dir = TempDir::new().unwrap();
    let trace = write_keys(&dir, &keys(Seed(3), 20_000));
    let (trace, report) = (trace.to_str().unwrap(), dir.path().join("report"));
    let text = lab_ok(["eviction", trace, "--output", report.to_str().unwrap()]);
    for policy in [
        "clock",
        "lru",
        "sieve",
        "s3-fifo",
        "clock2q+",
        "arc",
        "w-tinylfu",
        "belady",
    ] {
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("{policy} ")));
        assert!(row.is_some(), "{policy}: {text}");
    }
    for name in [
        "eviction.md",
        "eviction.html",
        "eviction.csv",
        "eviction.json",
        "eviction.svg",
        "eviction-0.svg",
    ] {
        assert!(report.join(name).exists(), "{name}");
    }
    let csv = fs::read_to_string(report.join("eviction.csv")).unwrap();
    assert_eq!(
        csv.lines().count(),
        1 + 10 * 7,
        "0.1% of the objects is less than 32: {csv}"
    );
}

#[test]
fn optimum_is_never_worse_and_json_has_what_the_help_describes() {
    let dir = TempDir::new().unwrap();
    let trace = write_keys(&dir, &keys(Seed(4), 20_000));
    let study = json(&[
        "eviction",
        trace.to_str().unwrap(),
        "--sizes",
        "2%,500",
        "--policies",
        "all",
        "--json",
    ]);
    let trace = &study["traces"][0];
    assert_eq!(trace["format"], "keys");
    assert_eq!(trace["sha256"].as_str().unwrap().len(), 64);
    assert!(trace["accesses"].as_u64().unwrap() >= 20_000);
    let cells = study["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2 * 10);
    let misses = |policy: &str, size: usize| {
        let of_size = cells.iter().skip(size * 10).take(10);
        let mut own = of_size.filter(|cell| cell["policy"] == policy);
        own.next().unwrap()["misses"].as_u64().unwrap()
    };
    for cell in cells {
        let size = usize::from(cell["objects"] == 500);
        let own = misses(cell["policy"].as_str().unwrap(), size);
        assert!(misses("belady", size) <= own, "{cell}");
    }
    let summaries = study["summaries"].as_array().unwrap();
    assert_eq!(summaries.len(), 9);
    let belady = summaries
        .iter()
        .find(|summary| summary["policy"] == "belady")
        .unwrap();
    assert_eq!(belady["verdict"], "optimum");
    assert!((belady["share_of_optimum"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}

#[test]
fn removed_object_misses_again_unless_removals_are_ignored() {
    let dir = TempDir::new().unwrap();
    let trace = dir.path().join("trace.parquet");
    write_removals(&trace);
    let misses = |more: &[&str]| {
        let args = ["eviction", trace.to_str().unwrap(), "--json"];
        let args = [&args[..], &["--sizes", "40", "--policies", "lru"], more].concat();
        let study = json(&args);
        (
            study["cells"][0]["misses"].as_u64(),
            study["traces"][0]["removals"].as_u64(),
        )
    };
    assert_eq!(misses(&[]), (Some(45), Some(5)));
    assert_eq!(misses(&["--ignore-removals"]), (Some(40), Some(0)));
}

#[test]
fn incomplete_trace_is_reported() {
    let dir = TempDir::new().unwrap();
    let [lossy, live] = ["lossy", "live"].map(|name| dir.path().join(name));
    let info = TraceInfo {
        lost: 7,
        ..TraceInfo::default()
    };
    begin_removals(&lossy, &info).finish().unwrap();
    let mut writer = begin_removals(&live, &TraceInfo::default());
    writer.write_row_group().unwrap();
    for (trace, losses) in [
        (&lossy, "lossy: 7 events were lost during the recording"),
        (
            &live,
            "live: the end is missing: it is still being recorded",
        ),
    ] {
        let report = dir.path().join("report");
        let args = [
            "eviction",
            trace.to_str().unwrap(),
            "--sizes",
            "40",
            "--json",
        ];
        let output = lab(args
            .into_iter()
            .chain(["--output", report.to_str().unwrap()]));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && stderr.contains(losses),
            "{stderr}"
        );
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let is_lossy = trace == &lossy;
        assert_eq!(
            json["traces"][0]["losses"]["events"],
            if is_lossy { 7 } else { 0 }
        );
        assert_eq!(json["traces"][0]["losses"]["is_cut_short"], !is_lossy);
        let page = fs::read_to_string(report.join("eviction.md")).unwrap();
        assert!(page.contains(losses), "{page}");
        fs::remove_dir_all(&report).unwrap();
    }
    drop(writer);
}

#[test]
fn invalid_argument_or_file_is_an_error_with_a_hint() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let keys = path("keys", b"1\n2\n1\n");
    let fails = |args: &[&str], code, expected: &str| {
        let output = lab([&["eviction"][..], args].concat());
        assert_fails(&output, code, &[expected]);
    };
    fails(&["/nonexistent"], 1, "PATH must name an existing trace");
    fails(
        &[&path("zeros", &[0; 100])],
        1,
        "no format matches its content",
    );
    fails(&[&keys, "--cache", "page"], 1, "no lookups in page");
    fails(&[&keys, "--sizes", "5"], 2, "`5` is not a size");
    fails(&[&keys, "--policies", "fifo"], 2, "fifo");
    fails(
        &[&path("cut.gz", b"\x1f\x8b\x08\0\0\0")],
        1,
        "the compressed file is damaged",
    );
}
