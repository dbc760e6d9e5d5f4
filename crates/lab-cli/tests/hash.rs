//! Tests of `larder lab hash`, and the same sweep on Dask.

mod support;

use larder::CacheKind;
use larder_lab::hash::{KeyKind, Keys, Source};
use larder_testkit::page::blocks;
use larder_testkit::report_skipped;
use larder_trace::{TraceInfo, TraceWriter};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{assert_fails, binary, lab, lab_ok};

/// Writes a trace of names and pages with lookups only.
fn write_trace(path: &Path) {
    let mut writer = TraceWriter::create(path, &TraceInfo::default()).unwrap();
    for (kind, cache) in [
        (KeyKind::Names, CacheKind::Dentry),
        (KeyKind::Pages, CacheKind::Page),
    ] {
        let keys = Keys::new(kind, cache, 3000, 1);
        keys.read(&mut |events| {
            events.for_each(|event| writer.push(&event).unwrap());
            true
        })
        .unwrap();
    }
    writer.finish().unwrap();
}

fn traced() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    write_trace(&path);
    (dir, path.to_str().unwrap().to_owned())
}

#[test]
fn hash_of_generated_keys_prints_a_row_for_each_function_and_chance() {
    let args = ["hash", "--keys", "names", "--objects", "2000"];
    let choice = ["--functions", "published,golden", "--bits", "10,12"];
    let text = lab_ok(args.into_iter().chain(choice));
    assert!(
        text.starts_with("2000 generated keys: names, seed 1\n"),
        "{text}"
    );
    assert!(text.contains("dentry cache: 10000 lookups, 80.0% hit, up to 2000 objects"));
    assert_eq!(text.matches("\n chance ").count(), 2, "{text}");
    assert!(text.matches("\n*").count() >= 1, "{text}");
    // The four published functions for dentries, each for words of 32 and of 64 bits, and with two
    // table sizes.
    assert_eq!(text.matches("dentry-").count(), 16, "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
}

#[test]
fn hash_of_pages_compares_trees_and_judges_the_function_of_larder() {
    let args = ["hash", "--keys", "pages", "--objects", "5000"];
    let choice = ["--functions", "larder,rbtree,mult", "--bits", "10,13"];
    let text = lab_ok(args.into_iter().chain(choice));
    assert_eq!(text.matches("larder ").count(), 2, "{text}");
    // Trees have no buckets, and therefore no sizes.
    assert_eq!(text.matches("rbtree").count(), 1, "{text}");
    assert!(text.contains("larder's own function (golden) "), "{text}");
    assert!(
        text.contains("links than chance (limit: 2% more): met."),
        "{text}"
    );
    assert!(text.contains("misses are not counted: "), "{text}");
    let json = lab_ok(args.into_iter().chain(choice).chain(["--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["caches"][0]["rows"].as_array().unwrap();
    let trees = rows.iter().find(|row| row["function"] == "rbtree").unwrap();
    assert!(trees["links"]["hit"].as_f64().unwrap() > 1.0, "{trees}");
    assert!(trees.get("over_chance").is_none(), "{trees}");
    assert!(rows.iter().any(|row| row["is_fastest"] == true));
}

#[test]
fn hash_of_a_trace_reports_each_cache_in_every_output_format() {
    let (dir, trace) = traced();
    let report = dir.path().join("report");
    let report = report.to_str().unwrap();
    let args = ["hash", "--trace", &trace, "--functions", "reference,golden"];
    let json = lab_ok(args.into_iter().chain(["--json", "--output", report]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let caches = json["caches"].as_array().unwrap();
    let names: Vec<_> = caches
        .iter()
        .map(|of| of["cache"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["page", "dentry"]);
    assert_eq!(caches[0]["rows"].as_array().unwrap().len(), 2);
    assert_eq!(json["is_completed"], true);
    let html = fs::read_to_string(Path::new(report).join("hash.html")).unwrap();
    assert!(html.contains("<svg") && !html.contains("src=\"http"));
    let histograms = lab_ok(args.into_iter().chain(["--cache", "page", "--histograms"]));
    assert!(
        histograms.contains("find_page() iterations/lookup:"),
        "{histograms}"
    );
}

#[test]
fn hash_errors_have_hints() {
    let (dir, trace) = traced();
    assert_fails(&lab(["hash"]), 2, &["--trace <FILE>|--keys <KIND>"]);
    let nothing = ["hash", "--keys", "pages", "--memory", "0"];
    assert_fails(&lab(nothing), 2, &["too small", "8K"]);
    let unknown = ["hash", "--keys", "pages", "--functions", "best"];
    assert_fails(
        &lab(unknown),
        2,
        &["unknown hash function 'best'", "golden"],
    );
    let inodes = ["hash", "--trace", &trace, "--cache", "inode"];
    assert_fails(&lab(inodes), 1, &["no lookups of the inode cache", "hint:"]);
    let absent = ["hash", "--trace", "/nonexistent"];
    assert_fails(&lab(absent), 1, &["/nonexistent", "hint:"]);
    let whole = std::fs::read(&trace).unwrap();
    let cut = dir.path().join("cut.parquet");
    std::fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
    let cut = cut.to_str().unwrap();
    assert_fails(
        &lab(["hash", "--trace", cut]),
        1,
        &["cut short", "--salvage"],
    );
    let salvaged = ["hash", "--trace", cut, "--salvage", "--functions", "golden"];
    assert!(lab_ok(salvaged).contains("page cache:"));
}

/// Fields of a sweep that are the same on every machine.
const FIELDS: [&str; 7] = [
    "cache",
    "function",
    "bits",
    "lookups",
    "hits",
    "links_on_hits",
    "longest_chain",
];

/// Runs the Python block of the page about clusters on `sweep.csv` in `directory`.
fn assert_page_lists_the_best_functions(python: &Path, directory: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/cluster.md")).unwrap();
    let (_, program) = blocks(&page)
        .find(|(language, _)| *language == "python")
        .unwrap();
    let mut command = Command::new(python);
    let output = command.args(["-c", program]).current_dir(directory);
    let output = output.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("over_chance"), "{printed}");
}

#[test]
fn sweep_on_a_cluster_equals_a_local_sweep() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let has_dask = |python: &PathBuf| {
        let imported = Command::new(python).args(["-c", "import dask"]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    let Some(python) = larder_testkit::tool::python().filter(has_dask) else {
        return report_skipped("python3 has no dask: make python-tools");
    };
    let (dir, trace) = traced();
    let output = dir.path().join("sweep.csv");
    // The script takes the place of `larder`: its first argument is `lab`, which it removes.
    let larder = dir.path().join("larder");
    let script = format!("#!/bin/sh\nshift\nexec '{}' \"$@\"\n", binary().display());
    fs::write(&larder, script).unwrap();
    fs::set_permissions(&larder, Permissions::from_mode(0o755)).unwrap();
    let status = Command::new(&python)
        .arg(root.join("scripts/sweep-cluster"))
        .arg("--larder")
        .arg(larder)
        .arg("--work")
        .arg(dir.path().join("parts"))
        .args([
            "--functions",
            "reference,golden",
            "--bits",
            "9..10",
            "--output",
        ])
        .args([output.to_str().unwrap(), &trace])
        .status()
        .unwrap();
    assert!(status.success());
    assert_page_lists_the_best_functions(&python, dir.path());
    let sweep = fs::read_to_string(&output).unwrap();
    let mut lines = sweep
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = |field: &str| head.iter().position(|one| *one == field).unwrap();
    let mut of_cluster: Vec<_> = lines
        .map(|line| FIELDS.map(|field| line[at(field)].to_owned()))
        .collect();
    let args = ["hash", "--trace", &trace, "--functions", "reference,golden"];
    let here = lab_ok(args.into_iter().chain(["--bits", "9..10", "--json"]));
    let here: serde_json::Value = serde_json::from_str(&here).unwrap();
    let mut of_here = Vec::new();
    for of in here["caches"].as_array().unwrap() {
        for row in of["rows"].as_array().unwrap() {
            let text = |value: &serde_json::Value| value.to_string().replace('"', "");
            of_here.push(FIELDS.map(|field| match field {
                "cache" => text(&of["cache"]),
                field => text(&row[field]),
            }));
        }
    }
    of_cluster.sort();
    of_here.sort();
    assert_eq!(of_here.len(), 8);
    assert_eq!(of_cluster, of_here);
}
