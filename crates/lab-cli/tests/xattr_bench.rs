//! Tests of `larder lab xattr-bench`: its arguments, its output, and directories of mounted file
//! systems.

#[path = "../../fuse/tests/mounted/mod.rs"]
mod mounted;
mod support;

use larder::{MbCacheVariant, OpenOptions};
use larder_fuse::MountOptions;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use mounted::Mounted;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use support::{
    Fixture, User, assert_clean, assert_fails, can_mount, command, lab, lab_ok, wait_until,
};
use tempfile::TempDir;

/// A very short bench.
const SMALL: [&str; 4] = ["xattr-bench", "--ops=60", "--runs=2", "--files=20"];

fn small_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Runs the small bench with three processes on a directory, and returns its figures.
fn on_directory(dir: &Path, fs_type: &str) -> Value {
    let dir = dir.to_str().unwrap();
    let text = lab_ok(small_with(&["--processes=3", "--target", dir, "--json"]));
    let json = json_of(&text);
    assert_eq!(json["target"], format!("{dir} ({fs_type})"));
    let measured = &json["measured"][0];
    assert_eq!(
        (&measured["variant"], &measured["stats"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(measured["seconds"].as_array().unwrap().len(), 2);
    let left = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left
        .filter(|name| name.to_string_lossy().contains("xattr"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    json
}

#[test]
fn engine_prints_a_row_and_the_entry_size_of_each_variant() {
    let text = lab_ok(SMALL);
    for variant in ["old", "lru", "list-lru", "referenced", "clock"] {
        let rows = text
            .lines()
            .filter(|line| line.split(' ').next() == Some(variant));
        assert_eq!(rows.count(), 2, "{variant}: {text}");
    }
    assert!(
        text.contains("104 (13 longs)") && text.contains("56 (7 longs)"),
        "{text}"
    );
    let off = lab_ok(small_with(&["--variant=off"]));
    assert!(
        !off.contains("referenced") && !off.contains("longs"),
        "{off}"
    );
}

#[test]
fn matrix_prints_a_row_for_each_case_and_the_report_has_the_published_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let numbers = ["--matrix", "--processes=1,2", "--variant=clock,off,lru"];
    let text = lab_ok(small_with(&[&numbers[..], &["--output", path]].concat()));
    let is_head = |line: &&str| {
        line.split_whitespace()
            .eq(["P", "F", "V", "lru", "off", "clock"])
    };
    let rows = text.lines().skip_while(|line| !is_head(line)).skip(1);
    let rows = rows.take_while(|line| line.contains('*'));
    assert_eq!(rows.count(), 10, "{text}");
    let report = std::fs::read_to_string(dir.path().join("xattr-bench.md")).unwrap();
    assert!(report.contains("lru,off,clock"), "{report}");
    for heading in ["V=10", "V=100", "V=1000", "V=10000", "V=100000"] {
        assert!(report.contains(&format!("## {heading}\n")), "{report}");
    }
}

#[test]
fn bench_writes_csv_plot_and_report_to_the_given_paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (csv, plot, report) = (path("x.csv"), path("x.svg"), path("new/report"));
    let json = json_of(&lab_ok(small_with(&[
        "--processes=1,2,1",
        "--values=5,5",
        "--variant=clock,off",
        "--json",
        "--csv",
        csv.to_str().unwrap(),
        "--plot",
        plot.to_str().unwrap(),
        "--output",
        report.to_str().unwrap(),
    ])));
    assert_eq!(json["measured"].as_array().unwrap().len(), 4);
    assert!(json["measured"][0]["stats"]["shares"].as_u64().unwrap() > 0);
    assert_eq!(json["measured"][1]["stats"]["shares"], 0);
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 5);
    assert!(fs::read_to_string(&plot).unwrap().contains("processes"));
    for extension in ["md", "html", "csv", "json"] {
        let file = report.join("xattr-bench").with_extension(extension);
        assert!(file.exists(), "{}", file.display());
    }
    assert!(report.join("v5-f20.svg").exists());
}

#[test]
fn invalid_arguments_are_rejected_with_a_hint() {
    for (code, args, parts) in [
        (2, &["--processes=0"][..], &["--processes", "1 to 1024"][..]),
        (2, &["--files=1,x"], &["--files", "x"]),
        (2, &["--values=0"], &["--values", "0"]),
        (2, &["--seed=-1"], &["--seed", "`-1` is not a seed"]),
        (
            2,
            &["--variant=clock,LRU"],
            &["--variant", "'LRU'", "list-lru", "all"],
        ),
        (
            2,
            &["--target=/tmp", "--variant=off"],
            &["--variant", "hint:", "mbcache=NAME", "no_mbcache"],
        ),
        (
            2,
            &["--matrix", "--plot=x.svg"],
            &["--plot", "hint:", "--output"],
        ),
        (2, &["--plot=x.png"], &["--plot", "x.png", "hint:", ".svg"]),
        (2, &["--target="], &["--target", "engine, volume"]),
        (
            1,
            &["--target=/nonexistent"],
            &["/nonexistent", "hint:", "engine, volume"],
        ),
        (
            1,
            &["--target=/proc"],
            &["/proc", "hint:", "writable directory"],
        ),
    ] {
        let args: Vec<&str> = ["xattr-bench"].iter().chain(args).copied().collect();
        assert_fails(&lab(args), code, parts);
    }
}

#[test]
fn directory_of_a_kernel_mount_keeps_values_and_is_cleaned_up() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
        return;
    }
    let fixture = Fixture::new();
    let mount = LoopMount::new(&fixture.image(), Access::ReadWrite, &[]).unwrap();
    on_directory(&mount.path(), "ext4");
    drop(mount);
    assert_clean(&fixture.image());
}

#[test]
fn directory_of_a_larder_mount_keeps_values_and_is_cleaned_up() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    fixture.directory("mnt", User::Same);
    let mut volume = OpenOptions::default();
    volume.read_write = true;
    volume.mbcache = MbCacheVariant::Clock;
    let options = MountOptions {
        read_write: true,
        ..MountOptions::default()
    };
    let mounted = Mounted::open(&fixture.path(""), &volume, &options);
    on_directory(&mounted.path, "fuse.larder");
    let stats = serde_json::to_value(mounted.volume.stats()).unwrap();
    let attributes = &stats["attributes"];
    assert_eq!(attributes["variant"], "clock");
    assert!(
        attributes["blocks"]["lookups"].as_u64().unwrap() > 0,
        "{stats}"
    );
    drop(mounted);
    assert_clean(&fixture.image());
}

/// A bench on a directory. It does not end by itself, and its processes are setting attributes.
struct Endless {
    bench: Child,
    dir: TempDir,
}

impl Endless {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let endless = ["xattr-bench", "--processes=2", "--files=1"];
        let bench = command(User::Same)
            .args(endless)
            .arg("--ops=4000000000")
            .arg("--target")
            .arg(dir.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let endless = Self { bench, dir };
        let made = endless
            .dir
            .path()
            .join(format!("xattr-bench-{}", endless.bench.id()));
        wait_until("files are made", || {
            made.join("0/f0").exists() && made.join("1/f0").exists()
        });
        endless
    }

    /// Returns the processes that the bench has started.
    fn processes(&self) -> Vec<Pid> {
        let id = self.bench.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        let ids = children.split_whitespace().map(|id| id.parse().unwrap());
        ids.map(|id| Pid::from_raw(id).unwrap()).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.bench), signal).unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.bench.kill();
        let _ = self.bench.wait();
    }
}

#[test]
fn bench_terminated_by_a_signal_ends_its_processes_and_removes_its_files() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut endless = Endless::start();
        let processes = endless.processes();
        assert_eq!(processes.len(), 2);
        endless.signal(signal);
        let mut errors = String::new();
        let stderr = endless.bench.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        assert_eq!(endless.bench.wait().unwrap().code(), Some(1), "{errors}");
        assert!(errors.contains("interrupted"), "{errors}");
        assert_eq!(fs::read_dir(&endless.dir).unwrap().count(), 0);
        for process in processes {
            assert!(test_kill_process(process).is_err(), "{process:?} is left");
        }
    }
}

#[test]
fn processes_of_a_killed_bench_exit() {
    let endless = Endless::start();
    let processes = endless.processes();
    assert_eq!(processes.len(), 2);
    endless.signal(Signal::KILL);
    for process in processes {
        wait_until("a process ends", || !is_running(process));
    }
}

/// Returns whether a process exists and is not a zombie.
fn is_running(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}
