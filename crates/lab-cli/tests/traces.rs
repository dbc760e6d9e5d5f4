//! Tests of `larder lab import`, `export` and `record`: traces from other programs, for other
//! programs, and from the kernel.

mod support;

use larder_testkit::report_skipped;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use support::{User, assert_fails, binary, command, lab, lab_ok};
use tempfile::TempDir;

fn path(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn keys_from_standard_input_are_imported_and_exported_unchanged() {
    let dir = TempDir::new().unwrap();
    let (trace, exported) = (path(&dir, "keys.parquet"), path(&dir, "keys.oracleGeneral"));
    let mut import = Command::new(binary())
        .args(["import", "keys", "-", &trace, "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    import
        .stdin
        .take()
        .unwrap()
        .write_all(b"7\n\n0x10\n7\nname\n")
        .unwrap();
    let imported = json(&import.wait_with_output().unwrap());
    assert_eq!(imported["rows"]["inode"], 3);
    assert_eq!(imported["rows"]["dentry"], 1);
    assert_eq!(imported["skipped"][0]["reason"], "an empty line");
    assert_eq!(imported["skipped"][0]["first"], 2);

    let text = lab_ok(["export", &trace, &exported, "--cache", "inode"]);
    assert!(text.ends_with("records: 3\n"), "{text}");
    let bytes = fs::read(&exported).unwrap();
    let (records, rest) = bytes.as_chunks::<24>();
    let field =
        |record: &[u8; 24], at: usize| i64::from_le_bytes(record[at..at + 8].try_into().unwrap());
    let objects: Vec<_> = records
        .iter()
        .map(|record| (field(record, 4), field(record, 16)))
        .collect();
    assert_eq!((objects, rest.len()), (vec![(7, 2), (16, -1), (7, -1)], 0));

    let again = path(&dir, "again.parquet");
    let text = lab_ok(["import", "oracle-general", &exported, &again]);
    assert!(text.contains("inode 3"), "{text}");
}

#[test]
fn import_and_export_errors_have_hints() {
    let dir = TempDir::new().unwrap();
    let (text, trace) = (path(&dir, "keys.txt"), path(&dir, "keys.parquet"));
    fs::write(&text, "7\n").unwrap();
    lab_ok(["import", "keys", &text, &trace]);
    let taken = lab(["import", "keys", &text, &trace]);
    assert_fails(
        &taken,
        1,
        &["keys.parquet", "hint:", "must name a new file"],
    );
    let missing = lab(["import", "keys", &path(&dir, "none"), &path(&dir, "x")]);
    assert_fails(&missing, 1, &["none", "hint:"]);
    let unknown = lab(["import", "csv", &text, &path(&dir, "x")]);
    assert_fails(&unknown, 2, &["csv", "blkparse"]);
    let out = path(&dir, "x");
    fs::write(
        &text,
        "7 1700000000.5 read(3, \"\", 1) = 0\n7 1700000000.5 access(\"/etc\", 0) = 0\n",
    )
    .unwrap();
    let foreign = lab(["import", "fio", &text, &out]);
    let parts = [
        "line 1",
        "read(3",
        "fio version 2 iolog",
        "hint:",
        "import strace",
    ];
    assert_fails(&foreign, 1, &parts);
    assert!(!Path::new(&out).exists());
    let useless = lab(["import", "fio", &text, &path(&dir, "x"), "--cache", "page"]);
    assert_fails(&useless, 2, &["--cache", "hint:"]);
    let no_trace = lab(["export", &text, &path(&dir, "x")]);
    assert_fails(&no_trace, 1, &["not a trace", "hint:"]);
    assert!(!Path::new(&path(&dir, "x")).exists());
}

#[test]
fn export_selects_the_only_cache_and_requires_a_choice_of_several() {
    let dir = TempDir::new().unwrap();
    let (text, out) = (path(&dir, "keys.txt"), path(&dir, "out"));
    let (one, two) = (path(&dir, "one.parquet"), path(&dir, "two.parquet"));
    fs::write(&text, "7\n8\n").unwrap();
    lab_ok(["import", "keys", &text, &one]);
    fs::write(&text, "7\nname\n8\n").unwrap();
    lab_ok(["import", "keys", &text, &two]);
    let several = lab(["export", &two, &out]);
    assert_fails(&several, 2, &["dentry 1, inode 2", "hint:", "--cache"]);
    let other = lab(["export", &two, &out, "--cache", "page"]);
    assert_fails(&other, 1, &["page cache", "hint:", "dentry 1, inode 2"]);
    assert!(!Path::new(&out).exists());
    let text = lab_ok(["export", &one, &out]);
    assert!(text.ends_with("records: 2\n"), "{text}");
}

#[test]
fn trace_cut_short_is_exported_only_with_salvage() {
    let dir = TempDir::new().unwrap();
    let (text, trace) = (path(&dir, "keys.txt"), path(&dir, "keys.parquet"));
    fs::write(&text, "7\n8\n").unwrap();
    lab_ok(["import", "keys", &text, &trace]);
    let file = fs::File::options().write(true).open(&trace).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4).unwrap();
    let out = path(&dir, "out");
    assert_fails(
        &lab(["export", &trace, &out]),
        1,
        &["cut short", "--salvage"],
    );
    let salvaged = lab([
        "export",
        &trace,
        &out,
        "--salvage",
        "--cache",
        "inode",
        "--json",
    ]);
    assert_eq!(json(&salvaged)["records"], 2);
    assert!(String::from_utf8_lossy(&salvaged.stderr).contains("warning:"));
}

#[test]
fn hash_and_advise_report_that_the_end_of_a_trace_is_missing() {
    let dir = TempDir::new().unwrap();
    let (text, trace) = (path(&dir, "keys.txt"), path(&dir, "keys.parquet"));
    fs::write(&text, "7\n8\n".repeat(50)).unwrap();
    lab_ok(["import", "keys", &text, &trace]);
    let file = fs::File::options().write(true).open(&trace).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4).unwrap();
    let hash = [
        "hash",
        "--functions",
        "golden",
        "--trace",
        &trace,
        "--salvage",
    ];
    let advise = ["advise", "--memory", "16M", "--seed=1", &trace, "--salvage"];
    for command in [hash, advise] {
        let mut args = command.to_vec();
        let output = lab(&args);
        let warning = format!("warning: {trace}: the end is missing: ");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(&warning),
            "{output:?}"
        );
        let report = path(&dir, command[0]);
        args.extend(["--json", "--output", &report]);
        let report_json = json(&lab(&args));
        assert_eq!(report_json["losses"]["is_cut_short"], true);
        assert_eq!(report_json["losses"]["events"], 0);
        for kind in ["md", "html"] {
            let page = fs::read_to_string(format!("{report}/{}.{kind}", command[0])).unwrap();
            assert!(page.contains("the end is missing"), "{page}");
        }
    }
}

#[test]
fn recording_without_root_fails_with_alternatives() {
    let output = command(User::Nobody)
        .args([
            "record",
            "--kernel",
            "--output",
            "/tmp/larder-test-none.parquet",
        ])
        .output()
        .unwrap();
    assert_fails(&output, 1, &["root", "hint:", "--record"]);
}

/// Returns whether the kernel can be recorded here.
fn can_record(dir: &TempDir) -> bool {
    let probe = path(dir, "probe.parquet");
    let output = lab(["record", "--kernel", "--output", &probe, "--", "true"]);
    if !output.status.success() {
        report_skipped(String::from_utf8_lossy(&output.stderr).trim());
    }
    output.status.success()
}

/// Starts a recording of `script` to `trace`, and waits until the script prints `begun`. Returns
/// the recording, its process ID, and the rest of its output.
fn begin(trace: &str, script: &str) -> (Child, Pid, Lines<BufReader<ChildStdout>>) {
    let mut recording = Command::new(binary())
        .args(["record", "--kernel", "--output", trace, "--"])
        .args(["sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "begun");
    let pid = Pid::from_raw(recording.id().cast_signed()).unwrap();
    (recording, pid, lines)
}

/// Exports the lookups of pages from `trace`, which must succeed, and returns the output.
fn exported_pages(dir: &TempDir, trace: &str) -> String {
    lab_ok(["export", trace, &path(dir, "out"), "--cache", "page"])
}

#[test]
fn command_is_recorded_and_its_exit_code_is_passed_on() {
    let dir = TempDir::new().unwrap();
    if !can_record(&dir) {
        return;
    }
    let (trace, file) = (path(&dir, "kernel.parquet"), path(&dir, "file"));
    let script = format!("echo text > {file}; cat {file} > /dev/null; exit 3");
    let recorded = lab([
        "record", "--kernel", "--output", &trace, "--json", "--", "sh", "-c", &script,
    ]);
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    let summary: serde_json::Value = serde_json::from_slice(&recorded.stdout).unwrap();
    assert_eq!(summary["lost"], 0);
    assert!(summary["events"]["page"].as_u64().unwrap() > 0, "{summary}");
    let text = exported_pages(&dir, &trace);
    assert!(text.contains("records: "), "{text}");
}

#[test]
fn empty_recording_lists_possible_reasons() {
    let dir = TempDir::new().unwrap();
    // The recorded program `true` accesses no file in this directory.
    let elsewhere = "/dev/shm";
    if !can_record(&dir) || !Path::new(elsewhere).exists() {
        return;
    }
    let trace = path(&dir, "kernel.parquet");
    let record = [
        "record", "--kernel", "--output", &trace, "--mount", elsewhere,
    ];
    let output = lab([&record[..], &["--json", "--", "true"]].concat());
    let warning = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(json(&output)["events"]["page"], 0);
    assert!(
        warning.contains("no events were recorded: nothing was read"),
        "{warning}"
    );
    assert!(warning.contains("than that of --mount"), "{warning}");
}

#[test]
fn command_that_ignores_signals_is_killed_at_the_second_one() {
    let dir = TempDir::new().unwrap();
    if !can_record(&dir) {
        return;
    }
    let trace = path(&dir, "kernel.parquet");
    // `_lines` keeps the pipe open, because the recording prints a summary at the end.
    let (mut recording, pid, _lines) =
        begin(&trace, "trap '' INT TERM; echo begun; exec sleep 1000");
    // Two different signals, since two of the same kind may be merged.
    kill_process(pid, Signal::INT).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(recording.wait().unwrap().code(), Some(128 + 9));
    exported_pages(&dir, &trace);
}

#[test]
fn interrupted_recording_completes_its_trace_and_removes_its_instance() {
    let dir = TempDir::new().unwrap();
    if !can_record(&dir) {
        return;
    }
    let trace = path(&dir, "kernel.parquet");
    let (mut recording, pid, lines) = begin(&trace, "echo begun; exec sleep 1000");
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(recording.wait().unwrap().code(), Some(128 + 15));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().any(|line| line.contains("lost: 0")), "{rest:?}");
    exported_pages(&dir, &trace);
    let instances = Path::new("/sys/kernel/tracing/instances");
    if !instances.exists() {
        return report_skipped("tracefs is not mounted where it usually is");
    }
    let own = format!("larder-record-{}-", recording.id());
    let names = fs::read_dir(instances)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names
        .filter(|name| name.to_string_lossy().starts_with(&own))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn keys_of_a_table_are_recorded_without_names_and_replayed() {
    let dir = TempDir::new().unwrap();
    let trace = path(&dir, "keys.parquet");
    let record = ["record", "--output", &trace, "--json", "--keys"];
    let recorded = lab([&record[..], &["processes", "--", "sh", "-c", "exit 3"]].concat());
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    let summary: serde_json::Value = serde_json::from_slice(&recorded.stdout).unwrap();
    assert!(summary["scans"].as_u64() >= Some(1), "{summary}");
    assert_eq!(summary["events"]["page"], 0);
    // Each key has an insertion and a lookup.
    assert!(
        summary["events"]["inode"].as_u64().unwrap() >= 2 * summary["keys"].as_u64().unwrap(),
        "{summary}"
    );
    let info = lab_ok(["trace", "info", &trace]);
    assert!(info.contains("keys of processes, kernel"), "{info}");
    assert!(!info.contains("sh"), "{info}");
    let hash = [
        "hash",
        "--trace",
        &trace,
        "--functions",
        "pid-reference",
        "--bits",
        "7",
        "--json",
    ];
    let replayed = json(&lab(hash));
    let row = &replayed["caches"][0]["rows"][0];
    assert_eq!(row["function"], "pid-reference");
    assert_eq!(row["lookups"], row["hits"]);
}

#[test]
fn record_requires_one_source_with_its_own_options() {
    let dir = TempDir::new().unwrap();
    let trace = path(&dir, "keys.parquet");
    assert_fails(
        &lab(["record", "--output", &trace]),
        2,
        &["--kernel", "--keys"],
    );
    let both = ["record", "--kernel", "--keys", "users", "--output", &trace];
    assert_fails(&lab(both), 2, &["--keys"]);
    let unknown = ["record", "--keys", "sockets", "--output", &trace];
    assert_fails(
        &lab(unknown),
        2,
        &["sockets", "processes", "users", "areas"],
    );
    let limited = [
        "record", "--keys", "areas", "--pid", "1", "--output", &trace,
    ];
    assert_fails(&lab(limited), 2, &["--pid"]);
    let absent = [
        "record",
        "--keys",
        "users",
        "--output",
        &trace,
        "--",
        "/nonexistent",
    ];
    assert_fails(&lab(absent), 1, &["/nonexistent", "hint:"]);
    assert!(!Path::new(&trace).exists());
}
