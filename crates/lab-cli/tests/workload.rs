//! Tests of `larder lab sdm`, and of the tables that its recorded operations reproduce.

#[path = "../../fuse/tests/mounted/mod.rs"]
mod mounted;
mod support;

use larder::OpenOptions;
use larder_fuse::MountOptions;
use larder_lab::operations::{Operation, Operations};
use larder_lab::sdm;
use larder_testkit::{Requirement, report_skipped, skip};
use mounted::Mounted;
use serde_json::Value;
use std::fs;
use std::path::Path;
use support::{Fixture, User, assert_clean, assert_fails, can_make_images, can_mount, lab, lab_ok};

/// Returns whether all commands of the script are installed, and prints a message if not.
fn has_commands() -> bool {
    sdm::check_commands()
        .inspect_err(|error| report_skipped(error))
        .is_ok()
}

fn assert_empty(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "lost+found" && name != "dir")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn sdm_prints_each_load_once_and_removes_its_files() {
    if !has_commands() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let args = ["sdm", path, "--users=2,1,2", "--runs=2", "--seed=7"];
    let text = lab_ok([&args[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["directory"], &json["seed"], &json["runs"]),
        (&path.into(), &7.into(), &2.into())
    );
    let loads = json["loads"].as_array().unwrap();
    let users: Vec<_> = loads.iter().map(|load| load["users"].as_u64()).collect();
    assert_eq!(users, [Some(2), Some(1)]);
    for load in loads {
        let elapsed = load["elapsed_s"].as_array().unwrap();
        assert_eq!(elapsed.len(), 2);
        assert!(elapsed.iter().all(|one| one.as_f64().unwrap() > 0.0));
    }
    assert_empty(dir.path());
}

#[test]
fn sdm_of_one_run_prints_no_deviation_and_one_csv_line() {
    if !has_commands() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let csv = dir.path().join("sdm.csv");
    fs::create_dir(&work).unwrap();
    let (at, to) = (work.to_str().unwrap(), csv.to_str().unwrap());
    let text = lab_ok(["sdm", at, "--users=1", "--runs=1", "--csv", to]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.contains("s="), "{text}");
    let csv = fs::read_to_string(csv).unwrap();
    assert!(
        csv.starts_with("users,run,elapsed_s,scripts_hour\n1,1,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 2);
}

#[test]
fn sdm_records_the_operations_of_one_user() {
    if !has_commands() || skip(&[Requirement::Tool("strace")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    let file = dir.path().join("sdm.operations");
    fs::create_dir(&work).unwrap();
    let (at, to) = (work.to_str().unwrap(), file.to_str().unwrap());
    assert_eq!(lab_ok(["sdm", at, "--record", to]), "");
    assert_empty(&work);
    let operations = Operations::read(fs::read(file).unwrap().as_slice()).unwrap();
    let before = &operations.before;
    assert!(before.directories.contains(&"home".to_owned()));
    assert!(
        before
            .files
            .iter()
            .any(|(path, _)| path.starts_with("shared/"))
    );
    let opened = operations
        .done
        .iter()
        .filter(|done| matches!(done.0, Operation::Open(..)));
    assert!(opened.count() > 100);
}

#[test]
fn sdm_on_a_mount_succeeds_and_leaves_the_image_clean() {
    if !has_commands() || !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    fixture.directory("mnt", User::Same);
    let mut volume = OpenOptions::default();
    volume.read_write = true;
    let options = MountOptions {
        read_write: true,
        ..MountOptions::default()
    };
    let mounted = Mounted::open(&fixture.path(""), &volume, &options);
    let work = mounted.path.join("work");
    fs::create_dir(&work).unwrap();
    let dir = work.to_str().unwrap();
    lab_ok(["sdm", dir, "--users=2", "--runs=1"]);
    assert_empty(&work);
    drop(mounted);
    assert_clean(&fixture.image());
}

#[test]
fn sdm_without_a_directory_or_users_fails_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let output = lab(["sdm", file.to_str().unwrap()]);
    assert_fails(
        &output,
        1,
        &[
            "is not a directory",
            "hint: DIR must be an existing, writable directory",
        ],
    );
    let none = lab(["sdm", dir.path().to_str().unwrap(), "--users=0"]);
    assert_fails(&none, 2, &["--users"]);
}

#[test]
fn quick_lever2000_writes_its_report_without_throughput_verdicts() {
    if !can_make_images() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap();
    let text = lab_ok(["reproduce", "lever2000", "--quick", "--output", to]);
    assert!(text.contains("proves nothing"), "{text}");
    let plots = (1..=6).map(|table| format!("lever2000-table{table}.svg"));
    let texts = ["md", "html", "csv", "json"].map(|kind| format!("lever2000.{kind}"));
    for name in plots.chain(texts) {
        assert!(dir.path().join(&name).is_file(), "{name}");
    }
    let json = fs::read(dir.path().join("lever2000.json")).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let verdict = |name: &str| {
        let mut findings = json["findings"].as_array().unwrap().iter();
        let finding = findings.find(|finding| finding["name"] == name).unwrap();
        finding["verdict"].clone()
    };
    for throughput in ["inode table, throughput", "kernel D", "eager shrinking"] {
        assert_eq!(verdict(throughput), "quick-run");
    }
    assert_eq!(verdict("swap-like keys"), "holds");
    let findings = json["findings"].as_array().unwrap().len();
    assert!(findings >= 28);
    assert_eq!(text.matches("\n  rule       ").count(), findings, "{text}");
}
