//! Runs the Rust blocks of the guide and of the READMEs. Each block is one file of this test.

mod copy;
mod errors;
mod formats;
mod list;
mod open;
mod read;
mod readme;
mod statistics;
mod threads;
mod volume;
mod write;

use larder::OpenOptions;
use larder_testkit::{Requirement, e2fsprogs, skip};
use std::fs;
use std::path::Path;

const GUIDE: &str = include_str!("../../../../docs/guide/library.md");

/// The files with the blocks of the guide, in the order of the guide.
const BLOCKS: [&str; 10] = [
    include_str!("open.rs"),
    include_str!("formats.rs"),
    include_str!("list.rs"),
    include_str!("read.rs"),
    include_str!("write.rs"),
    include_str!("copy.rs"),
    include_str!("errors.rs"),
    include_str!("threads.rs"),
    include_str!("statistics.rs"),
    include_str!("volume.rs"),
];

/// The block of the README of the crate.
const README_BLOCK: &str = include_str!("readme.rs");

/// Makes a disk at `disk` with one partition, which contains the image of 64 MiB at `image`.
fn partition(image: &Path, disk: &Path) {
    let mut bytes = vec![0; 1 << 20];
    bytes[450] = 0x83;
    bytes[454..458].copy_from_slice(&2048_u32.to_le_bytes());
    bytes[458..462].copy_from_slice(&(64_u32 << 11).to_le_bytes());
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes.extend(fs::read(image).unwrap());
    fs::write(disk, bytes).unwrap();
}

/// Returns the Rust blocks of a page.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn blocks_of_the_guide_are_the_files_of_this_test() {
    assert_eq!(blocks(GUIDE), BLOCKS);
}

#[test]
fn blocks_of_the_readmes_are_a_file_of_this_test() {
    let of_crate = blocks(include_str!("../../README.md"));
    assert_eq!(of_crate, [README_BLOCK.strip_prefix("pub ").unwrap()]);
    // The block of the project's README is a part of the block of the crate's README.
    let of_project = blocks(include_str!("../../../../README.md"));
    let lines = README_BLOCK.replace("\n    ", "\n");
    assert_eq!(of_project.len(), 1);
    assert!(lines.contains(of_project[0]), "{of_project:?}");
}

#[test]
fn blocks_of_the_guide_run() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The blocks open an image in the current directory. This is the only test that changes it.
    std::env::set_current_dir(&dir).unwrap();
    let image = Path::new("disk.img");
    e2fsprogs::make_image(image, "-t ext4", "64M").unwrap();
    let fs = OpenOptions::new().read_write(true).open(image).unwrap();
    fs.create_dir_all("/etc").unwrap();
    fs.create_dir_all("/data").unwrap();
    fs.write("/etc/hostname", "example\n").unwrap();
    fs.write("/data/shard-0.tar", vec![0; 8 << 20]).unwrap();
    fs.close().unwrap();
    drop(fs);

    readme::main().unwrap();
    let fs = open::open().unwrap();
    list::list(&fs).unwrap();
    read::read(&fs).unwrap();
    assert!(errors::read_if_present(&fs, "/missing").unwrap().is_none());
    assert!(
        errors::read_if_present(&fs, "/etc/hostname")
            .unwrap()
            .is_some()
    );
    let paths = ["/etc/hostname", "/data/shard-0.tar"];
    assert_eq!(threads::read_in_parallel(&fs, &paths).unwrap(), 8 + 4096);
    statistics::report(&fs);
    drop(fs);

    let disk = Path::new("card.img");
    partition(image, disk);
    for path in [image, disk] {
        let fs = formats::open_any(path).unwrap();
        assert_eq!(fs.read_to_string("/etc/hostname").unwrap(), "example\n");
    }

    write::write().unwrap();
    copy::copy().unwrap();
    volume::by_inode().unwrap();
    e2fsprogs::check(image).unwrap();
    let fs = larder::open(image).unwrap();
    assert_eq!(fs.read("/backup/app/config").unwrap(), b"key = value\n");
    assert_eq!(fs.read("/final").unwrap(), b"key = value\n");
}
