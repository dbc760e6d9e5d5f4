//! `larder lab xattr-bench`: its arguments, what it writes, and directories of mounted file systems.

mod support;

use larder_testkit::{Access, LoopMount, Requirement, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use support::{
    Fixture, Mountpoint, User, assert_clean, assert_fails, can_mount, larder, larder_ok, mount,
    umount,
};

/// A bench that takes no time.
const SMALL: [&str; 5] = ["lab", "xattr-bench", "--ops=60", "--runs=2", "--files=20"];

fn small_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Runs the small bench by three processes on a directory, and gives its figures.
fn on_directory(dir: &Path) -> Value {
    let dir = dir.to_str().unwrap();
    let text = larder_ok(small_with(&["--processes=3", "--target", dir, "--json"]));
    let json = json_of(&text);
    assert_eq!(json["target"], dir);
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
fn engine_prints_a_row_for_each_variant_and_what_its_entries_take() {
    let text = larder_ok(SMALL);
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
    let off = larder_ok(small_with(&["--variant=off"]));
    assert!(
        !off.contains("referenced") && !off.contains("longs"),
        "{off}"
    );
}

#[test]
fn matrix_prints_the_tables_of_the_letter() {
    let numbers = ["--matrix", "--processes=1,2", "--variant=clock,off,lru"];
    let text = larder_ok(small_with(&numbers));
    assert!(text.contains("lru,off,clock"), "{text}");
    for heading in ["V=10", "V=100", "V=1000", "V=10000", "V=100000"] {
        let mut lines = text.lines().skip_while(|line| *line != heading).skip(1);
        let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(head, ["F\\P", "1", "2"]);
        let row: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!((row[0], row.len()), ("20", 3), "{text}");
        assert_eq!(row[2].split(',').count(), 3, "{text}");
    }
}

#[test]
fn bench_writes_csv_plot_and_report_where_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (csv, plot, report) = (path("x.csv"), path("x.svg"), path("new/report"));
    let json = json_of(&larder_ok(small_with(&[
        "--processes=1,2",
        "--values=5",
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
fn arguments_that_make_no_sense_are_told_with_what_helps() {
    for (code, args, parts) in [
        (2, &["--processes=0"][..], &["--processes", "1..=1024"][..]),
        (2, &["--files=1,x"], &["--files", "x"]),
        (2, &["--values=0"], &["--values", "0"]),
        (2, &["--seed=-1"], &["--seed", "`-1` is not a seed"]),
        (
            2,
            &["--variant=clock,LRU"],
            &["--variant", "`LRU`", "list-lru", "all"],
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
        (
            1,
            &["--target=/nonexistent"],
            &["/nonexistent", "hint:", "engine, volume"],
        ),
        (
            1,
            &["--target=/proc"],
            &["/proc", "hint:", "can be written"],
        ),
    ] {
        let args: Vec<&str> = ["lab", "xattr-bench"].iter().chain(args).copied().collect();
        assert_fails(&larder(args), code, parts);
    }
}

#[test]
fn directory_of_the_kernel_keeps_what_was_set_and_is_left_as_it_was() {
    if skip(&[Requirement::Tool("mke2fs"), Requirement::LoopMount]) {
        return;
    }
    let fixture = Fixture::new();
    let mount = LoopMount::new(&fixture.image(), Access::ReadWrite, &[]).unwrap();
    on_directory(&mount.path());
    drop(mount);
    assert_clean(&fixture.image());
}

#[test]
fn directory_of_a_mount_of_ours_keeps_what_was_set_and_is_left_as_it_was() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let at = Mountpoint(fixture.directory("mnt", User::Same));
    mount(User::Same, &fixture, &at.0, "rw,mbcache=clock");
    on_directory(&at.0);
    let stats = larder_ok(["stats".as_ref(), "--json".as_ref(), at.0.as_os_str()]);
    let attributes = &json_of(&stats)["attributes"];
    assert_eq!(attributes["variant"], "clock");
    assert!(
        attributes["blocks"]["lookups"].as_u64().unwrap() > 0,
        "{stats}"
    );
    umount(User::Same, &at.0);
    assert_clean(&fixture.image());
}
