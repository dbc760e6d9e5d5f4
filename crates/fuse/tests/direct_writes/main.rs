//! Reads through the page cache, concurrent with writes that bypass it. After a write has completed,
//! reads must return the data of the write, as on the kernel's ext4.

#[path = "../mounted/mod.rs"]
mod mounted;

use larder_fuse::{MountOptions, WriteBack};
use larder_testkit::tool::Tool;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use mounted::Mounted;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Enough rounds to find stale reads: when they occurred, they did so after 10 to 130 rounds.
const ROUNDS: u32 = 1000;
/// Fewer rounds, because the kernel's writes go to the disk.
const KERNEL_ROUNDS: u32 = 100;

/// Creates a directory with `image`, `mnt`, and the program that writes and reads. Returns `None` if this
/// test cannot run here.
fn folder() -> Option<TempDir> {
    let tools = ["mke2fs", "gcc"].map(Requirement::Tool);
    if skip(&tools) || skip(&[Requirement::LoopMount, Requirement::Fuse]) {
        return None;
    }
    let folder = mounted::folder("-t ext4 -b 4096", "32M");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/direct_writes/writer.c");
    let gcc = Tool::new("gcc").args(["-O2", "-pthread", "-o"]);
    gcc.arg(program(&folder)).arg(source).run().unwrap();
    Some(folder)
}

fn program(folder: &TempDir) -> PathBuf {
    folder.path().join("writer")
}

/// Writes and reads below `root`, and returns a description of stale data.
fn stale(folder: &TempDir, root: &Path, how: [&str; 2], rounds: u32) -> Option<String> {
    let output = Command::new(program(folder))
        .arg(root.join(how.join("-")))
        .args(how)
        .arg(rounds.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{error}");
    (!output.status.success()).then(|| format!("{how:?}: {text}"))
}

fn check(options: &MountOptions, ways: &[[&str; 2]]) {
    let Some(folder) = folder() else {
        return;
    };
    let mounted = Mounted::for_writing(folder.path(), options);
    let all = ways
        .iter()
        .map(|how| stale(&folder, &mounted.path, *how, ROUNDS));
    let all: Vec<String> = all.flatten().collect();
    assert!(all.is_empty(), "{all:?}");
    assert!(
        mounted.volume.stats().writing.is_some(),
        "the mount is not writable"
    );
}

const WAYS: [[&str; 2]; 4] = [
    ["aio", "read"],
    ["aio", "mmap"],
    ["pwrite", "read"],
    ["pwrite", "mmap"],
];

#[test]
fn cached_reads_after_direct_writes_return_what_was_written() {
    check(
        &MountOptions {
            write_back: WriteBack::Off,
            ..MountOptions::default()
        },
        &WAYS,
    );
}

#[test]
fn cached_reads_after_direct_writes_are_current_with_a_writeback_cache() {
    let options = MountOptions {
        write_back: WriteBack::On,
        ..MountOptions::default()
    };
    check(&options, &WAYS);
}

#[test]
fn cached_reads_after_direct_writes_are_current_with_direct_io() {
    let options = MountOptions {
        direct_io: true,
        ..MountOptions::default()
    };
    check(&options, &WAYS);
}

#[test]
fn cached_reads_after_direct_writes_are_current_on_the_kernels_mount() {
    let Some(folder) = folder() else {
        return;
    };
    let image = folder.path().join("image");
    let kernel = LoopMount::new(&image, Access::ReadWrite, &[]).unwrap();
    for how in WAYS {
        assert_eq!(stale(&folder, &kernel.path(), how, KERNEL_ROUNDS), None);
    }
}
