//! `larder mount --record`.

mod support;

use larder::Operation;
use larder_lab::trace::{Error, Tolerance, TraceReader, TraceSummary, salvage};
use larder_trace::{Batch, TraceEvent};
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{
    Fixture, Mountpoint, Server, User, assert_fails, binary, can_mount, command, has_root,
    is_mounted, larder, larder_ok, signal, umount, wait_until,
};

/// Visits every file of the mount, and returns their number.
fn walk(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.file_type().unwrap() {
            kind if kind.is_dir() && entry.file_name() != "lost+found" => walk(&entry.path()),
            kind if kind.is_file() => usize::from(fs::read(entry.path()).is_ok()),
            _ => 0,
        })
        .sum()
}

fn info(trace: &Path) -> Value {
    let mut reader = TraceReader::open(trace, Tolerance::Whole).unwrap();
    serde_json::to_value(TraceSummary::of(&mut reader).unwrap()).unwrap()
}

/// Starts a foreground server that records.
fn record(fixture: &Fixture, mountpoint: &Path, trace: &Path) -> Server {
    let child = command("larder", User::Same)
        .args(["mount", "-f", "--record"])
        .args([trace, &fixture.image(), mountpoint])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let server = Server(child);
    wait_until("the mount", || is_mounted(mountpoint));
    server
}

/// Mounts the image of `fixture` and records `trace`. The server continues to run in the background.
fn mount_in_background(fixture: &Fixture, mountpoint: &Mountpoint, trace: &Path) {
    larder_ok([
        "mount".as_ref(),
        "--record".as_ref(),
        trace.as_os_str(),
        fixture.image().as_os_str(),
        mountpoint.0.as_os_str(),
    ]);
}

#[test]
fn mount_in_the_background_is_recorded_until_it_is_unmounted() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let trace = fixture.path("disk.trace");
    mount_in_background(&fixture, &mountpoint, &trace);
    assert_eq!(
        trace.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::write(mountpoint.0.join("new"), "content").unwrap();
    walk(&mountpoint.0);
    umount(User::Same, &mountpoint.0);

    let info = info(&trace);
    assert_eq!(info["info"]["lost"], 0);
    assert_eq!(info["info"]["is_cut_short"], false);
    assert_eq!(info["info"]["tables"]["page"]["function"], "larder");
    for cache in ["buffer", "dentry", "inode"] {
        let events = &info["caches"][cache];
        assert!(events["lookups"].as_u64() > Some(0), "{cache}: {events}");
        assert!(events["inserts"].as_u64() > Some(0), "{cache}: {events}");
    }
    let mut first = Batch::default();
    let mut reader = TraceReader::open(&trace, Tolerance::Whole).unwrap();
    assert!(reader.read(&mut first).unwrap());
    let missed = |event: TraceEvent| event.operation == Operation::Lookup { hit: false };
    assert!(first.events().take(3).any(missed));
}

#[test]
fn trace_contains_the_use_of_mbcache() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let trace = fixture.path("attributes.trace");
    mount_in_background(&fixture, &mountpoint, &trace);
    // The value is too long for an inode, so that it is stored in a block.
    for number in 0..5 {
        let file = mountpoint.0.join(format!("file{number}"));
        fs::write(&file, "").unwrap();
        setxattr(&file, "user.equal", &[b'x'; 500], XattrFlags::empty()).unwrap();
    }
    umount(User::Same, &mountpoint.0);
    let attributes = &info(&trace)["info"]["attributes"];
    assert_eq!(attributes["variant"], "referenced");
    assert_eq!(
        [
            &attributes["lookups"],
            &attributes["hits"],
            &attributes["shares"]
        ],
        [5, 4, 4],
        "{attributes}"
    );
}

#[test]
fn recording_is_complete_after_ctrl_c_and_salvaged_after_kill() {
    if !can_mount(User::Same) || !has_root() {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let trace = fixture.path("interrupted.trace");
    let mut server = record(&fixture, &mountpoint.0, &trace);
    walk(&mountpoint.0);
    signal(&server, Signal::INT);
    assert!(server.0.wait().unwrap().success());
    let whole = info(&trace)["events"].as_u64();
    assert!(whole > Some(0));

    let trace = fixture.path("killed.trace");
    let mut server = record(&fixture, &mountpoint.0, &trace);
    walk(&mountpoint.0);
    // A row group is written every few seconds, and ends with the mark `larderRG`.
    wait_until("a row group", || {
        fs::read(&trace).unwrap().ends_with(b"larderRG")
    });
    signal(&server, Signal::KILL);
    server.0.wait().unwrap();
    umount(User::Same, &mountpoint.0);
    let cut = TraceReader::open(&trace, Tolerance::Whole);
    assert!(matches!(cut, Err(Error::CutShort)), "{cut:?}");
    let saved = fixture.path("saved.trace");
    salvage(&trace, &saved).unwrap();
    let info = info(&saved);
    assert!(info["events"].as_u64() > Some(0), "{info}");
    assert_eq!(info["info"]["is_cut_short"], true);
}

#[test]
fn recording_is_read_while_the_mount_works_and_has_reads_and_paths() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let trace = fixture.path("live.trace");
    let mounted = Command::new(binary())
        .args([
            "mount",
            "-o",
            "ro,cache_size=64M",
            "--record-paths",
            "--record",
        ])
        .args([&trace, &fixture.image(), &mountpoint.0])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
    let files = walk(&mountpoint.0);
    let open = || TraceReader::open(&trace, Tolerance::Whole);
    wait_until("a row group", || open().is_ok());
    let mut reader = open().unwrap();
    assert!(reader.is_being_recorded());
    let mount = reader.info().mount.clone().unwrap();
    assert_eq!(mount.cache_bytes, 64 << 20);
    assert_eq!(mount.options, ["ro", "cache_size=67108864"]);
    let (mut batch, mut reads, mut paths) = (Batch::default(), Vec::new(), Vec::new());
    while reader.read(&mut batch).unwrap() {
        reads.extend(batch.reads());
        paths.extend(batch.paths());
    }
    // The mount still works.
    assert_eq!(walk(&mountpoint.0), files);
    assert!(!reads.is_empty());
    for read in &reads {
        assert!(read.thread > 0 && read.duration_ns > 0, "{read:?}");
        let path = paths.iter().find(|path| path.inode == read.inode);
        let path = &path.unwrap().path;
        if path.contains('\u{fffd}') {
            // The name is not UTF-8.
            continue;
        }
        let path = mountpoint.0.join(path.trim_start_matches('/'));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(
            (metadata.ino(), metadata.len()),
            (read.inode, read.file_bytes)
        );
        let end_bytes = read.offset_bytes + u64::from(read.len_bytes);
        assert!(end_bytes <= metadata.len(), "{read:?}");
    }
    umount(User::Same, &mountpoint.0);
    let info = info(&trace);
    assert_eq!(info["is_being_recorded"], false);
    assert_eq!(info["info"]["records_paths"], true);
}

/// Starts a background server that records, and that may not write files larger than 2 KiB. A
/// footer fits into such a file, but a row group does not.
fn record_with_size_limit(fixture: &Fixture, mountpoint: &Path, trace: &Path) {
    let mounted = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\""])
        .arg(binary())
        .args(["mount", "-o", "ro", "--record"])
        .args([trace, &fixture.image(), mountpoint])
        .output()
        .unwrap();
    assert!(mounted.status.success(), "{mounted:?}");
}

#[test]
fn stats_and_umount_report_full_recording() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let (trace, at) = (fixture.path("disk.trace"), mountpoint.0.to_str().unwrap());
    record_with_size_limit(&fixture, &mountpoint.0, &trace);
    let recording = || -> Value {
        let stats = larder_ok(["stats", "--json", at]);
        serde_json::from_str::<Value>(&stats).unwrap()["recording"].clone()
    };
    assert_eq!(recording()["file"], trace.to_str().unwrap());
    assert!(recording()["failure"].is_null());
    wait_until("the end of the recording", || {
        walk(&mountpoint.0);
        recording()["failure"] == "File too large (os error 27)"
    });
    let recorded = recording();
    let text = larder_ok(["stats", at]);
    assert!(
        text.contains("the trace cannot be written any more: File too large"),
        "{text}"
    );
    let metrics = larder_ok(["stats", "--prometheus", at]);
    assert!(metrics.contains("larder_recording_failed{"), "{metrics}");
    walk(&mountpoint.0);

    let umount_output = larder(["umount", at]);
    let why = format!(
        "but the recording is not: the trace {} cannot be written any more: File",
        trace.display()
    );
    assert_fails(
        &umount_output,
        1,
        &["the image is complete", &why, "hint: free some space"],
    );
    assert!(!is_mounted(&mountpoint.0));
    let info = info(&trace);
    assert_eq!(info["info"]["is_cut_short"], true);
    assert_eq!(info["events"], recorded["events"]);
    assert!(
        info["info"]["lost"].as_u64() >= recorded["lost"].as_u64(),
        "{info}"
    );
    assert!(recorded["lost"].as_u64() > Some(0), "{recorded}");
}

#[test]
fn recording_of_a_mount_that_fails_leaves_no_file() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let (damaged, trace) = (fixture.path("damaged"), fixture.path("failed.trace"));
    fs::write(&damaged, vec![0; 1 << 16]).unwrap();
    for more in [&["--foreground"][..], &[]] {
        let mut mount = command("larder", User::Same);
        mount.arg("mount").args(more).arg("--record");
        mount.args([&trace, &damaged, &mountpoint.0]);
        let output = mount.output().unwrap();
        assert_fails(&output, 1, &["damaged"]);
        assert!(!trace.exists(), "{more:?}");
    }
}

#[test]
fn recording_overwrites_nothing() {
    if !can_mount(User::Same) {
        return;
    }
    let fixture = Fixture::new();
    let existing = fixture.path("existing");
    fs::write(&existing, "existing file").unwrap();
    let mountpoint = Mountpoint(fixture.directory("mnt", User::Same));
    let inside = mountpoint.0.join("new.trace");
    for (trace, why) in [
        (&existing, "cannot record to"),
        (&inside, "would be inside the mount"),
    ] {
        let output = larder([
            "mount".as_ref(),
            "--record".as_ref(),
            trace.as_os_str(),
            fixture.image().as_os_str(),
            mountpoint.0.as_os_str(),
        ]);
        assert_fails(&output, 1, &[why, "hint: --record must name a new file"]);
        assert!(!is_mounted(&mountpoint.0));
    }
    assert_eq!(fs::read(&existing).unwrap(), b"existing file");
    assert!(!inside.exists());
}
