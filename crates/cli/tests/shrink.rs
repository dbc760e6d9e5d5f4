//! `larder shrink`, with e2fsck, dumpe2fs and the kernel as oracles.

mod support;

use larder_block::{FileDevice, FileRange};
use larder_testkit::e2fsprogs::debugfs_write;
use larder_testkit::mount::{Access, LoopMount};
use larder_testkit::qemu::convert;
use larder_testkit::sfdisk::write_table;
use larder_testkit::{Requirement, skip};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{
    Fixture, User, assert_clean, assert_fails, block_bytes, can_make_images, command, field,
    larder, larder_ok, text,
};

fn can_shrink() -> bool {
    can_make_images() && !skip(&["e2fsck", "resize2fs", "dumpe2fs"].map(Requirement::Tool))
}

fn shrink(image: &Path) -> Output {
    larder(["shrink".as_ref(), image.as_os_str()])
}

#[track_caller]
fn shrink_ok(image: &Path) -> String {
    larder_ok(["shrink".as_ref(), image.as_os_str()])
}

/// Returns the paths of copies that are left.
fn copies(fixture: &Fixture) -> Vec<PathBuf> {
    let names = fs::read_dir(fixture.path("")).unwrap();
    let paths = names.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().contains(".larder-shrink-"))
        .collect()
}

/// Asserts that the file of `image` ends with its file system, which is clean.
#[track_caller]
fn assert_fits(image: &Path) {
    let bytes = field(image, "Block count:") * block_bytes(image);
    assert_eq!(fs::metadata(image).unwrap().len(), bytes);
    assert_clean(image);
}

#[test]
fn shrunk_image_has_the_same_files() {
    if !can_shrink() {
        return;
    }
    for fs_type in ["ext4", "ext2"] {
        let fixture = Fixture::new();
        fixture.make_image(fs_type, "");
        let image = fixture.image();
        let before = fixture.path("before");
        fs::copy(&image, &before).unwrap();
        fs::set_permissions(&image, Permissions::from_mode(0o640)).unwrap();
        let output = shrink_ok(&image);
        assert!(output.contains("from 32.0 MiB to "), "{output}");
        assert_fits(&image);
        let metadata = fs::metadata(&image).unwrap();
        assert!(metadata.len() < 24 << 20, "{}", metadata.len());
        assert_eq!(metadata.mode() & 0o7777, 0o640);
        assert_eq!(copies(&fixture), [] as [PathBuf; 0]);
        larder_ok(
            ["diff", "--times"]
                .map(Path::new)
                .into_iter()
                .chain([&*before, &*image]),
        );
        if !skip(&[Requirement::LoopMount, Requirement::Tool("diff")]) {
            let mounts = [&before, &image]
                .map(|image| LoopMount::new(image, Access::ReadOnly, &[]).unwrap());
            let output = Command::new("diff")
                .args(["-r", "--no-dereference"])
                .args(mounts.each_ref().map(LoopMount::path))
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", text(&output.stdout));
        }
        // There is nothing left to do, or nearly so.
        shrink_ok(&image);
        assert_fits(&image);
    }
}

#[test]
fn image_with_space_after_the_file_system_is_truncated() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    shrink_ok(&image);
    shrink_ok(&image);
    let small = fs::metadata(&image).unwrap().len();
    let file = File::options().write(true).open(&image).unwrap();
    file.set_len(small + 5000).unwrap();
    drop(file);
    shrink_ok(&image);
    assert!(fs::metadata(&image).unwrap().len() <= small);
    assert_fits(&image);
}

#[test]
fn size_option_sets_image_size() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let sized = |size: &str| {
        larder([
            "shrink".as_ref(),
            "--size".as_ref(),
            size.as_ref(),
            image.as_os_str(),
        ])
    };
    let before = fs::read(&image).unwrap();
    assert_fails(&sized("64M"), 1, &["not larger than --size", "32.0 MiB"]);
    assert_fails(&sized("1M"), 1, &["resize2fs", "omit --size"]);
    assert!(fs::read(&image).unwrap() == before);
    let output = sized("24M");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::metadata(&image).unwrap().len(), 24 << 20);
    assert_fits(&image);
}

#[test]
fn symbolic_link_to_an_image_stays() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let link = fixture.directory("links", User::Same).join("link");
    symlink("../image", &link).unwrap();
    shrink_ok(&link);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_fits(&fixture.image());
}

#[test]
fn images_that_cannot_be_shrunk_are_refused_with_what_helps() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let refused = |image: &Path, parts: &[&str]| {
        let before = fs::read(image).ok();
        assert_fails(&shrink(image), 1, parts);
        assert!(fs::read(image).ok() == before);
        assert_eq!(copies(&fixture), [] as [PathBuf; 0]);
    };
    refused(&fixture.path("missing"), &["does not exist"]);
    refused(&fixture.path("tree"), &["is a directory"]);
    refused(
        Path::new("/dev/null"),
        &["not a file", "resize2fs -M /dev/null"],
    );
    let reader = FileDevice::open(&image, FileRange::default()).unwrap();
    refused(&image, &["in use", "unmount it"]);
    drop(reader);
    let other = fixture.path("other");
    fs::write(&other, [7; 8192]).unwrap();
    refused(&other, &["not an ext2, ext3 or ext4 image"]);
    if !skip(&[Requirement::Tool("qemu-img")]) {
        convert(&image, &other, "qcow2", "").unwrap();
        refused(&other, &["qcow2", "qemu-img convert"]);
    }
    if !skip(&[Requirement::Tool("sfdisk")]) {
        let disk = File::create(&other).unwrap();
        disk.set_len(50 << 20).unwrap();
        write_table(&other, "label: gpt\nstart=1MiB, size=32MiB, type=linux\n").unwrap();
        disk.write_all_at(&fs::read(&image).unwrap(), 1 << 20)
            .unwrap();
        refused(&other, &["has partitions", "larder info"]);
    }
    // e2fsck finds the first error. The state in the superblock shows the second one.
    debugfs_write(&image, &["freeb 5000"]).unwrap();
    refused(&image, &["has errors", "e2fsck -f"]);
    debugfs_write(&image, &["set_super_value state 2"]).unwrap();
    refused(&image, &["was not unmounted", "e2fsck -f"]);
}

/// Runs `larder shrink` with a resize2fs that runs `script`. Its arguments are those of resize2fs.
fn shrink_with(fixture: &Fixture, script: &str) -> Output {
    let programs = fixture.path("programs");
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("resize2fs");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    command("larder", User::Same)
        .arg("shrink")
        .arg(fixture.image())
        .env("PATH", format!("{}:{path}", programs.display()))
        .output()
        .unwrap()
}

#[test]
fn interrupted_shrink_leaves_the_image_as_it_was() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    let before = fs::read(&image).unwrap();
    // The last argument is the copy. It is damaged, and then larder is killed.
    let output = shrink_with(
        &fixture,
        "head -c 100000 /dev/urandom > \"$2\"\nkill -9 $PPID",
    );
    assert_eq!(output.status.signal(), Some(9));
    assert!(fs::read(&image).unwrap() == before);
    assert_eq!(copies(&fixture).len(), 1);
    // Other signals remove the copy.
    let output = shrink_with(
        &fixture,
        "kill -TERM $PPID; while kill -0 $PPID 2>/dev/null; do sleep 0.01; done",
    );
    assert_eq!(output.status.signal(), Some(15));
    assert!(fs::read(&image).unwrap() == before);
    assert_eq!(copies(&fixture).len(), 1);
    for (script, message) in [
        ("echo broken >&2; exit 1", "broken"),
        (
            "head -c 5000000 \"$2\" > x.$$; cat x.$$ > \"$2\"; rm x.$$",
            "has errors",
        ),
    ] {
        let output = shrink_with(&fixture, &script.replace("x.", "/tmp/larder-test-x."));
        assert_eq!(output.status.code(), Some(1), "{script}");
        assert!(
            text(&output.stderr).contains(message),
            "{}",
            text(&output.stderr)
        );
        assert!(fs::read(&image).unwrap() == before);
        assert_eq!(copies(&fixture).len(), 1);
    }
    shrink_ok(&image);
    assert_fits(&image);
}

#[test]
fn missing_program_is_named_with_its_package() {
    if !can_shrink() {
        return;
    }
    let fixture = Fixture::new();
    let image = fixture.image();
    // The program is found in the directories of the administrator, even if PATH lacks them.
    let output = command("larder", User::Same)
        .arg("shrink")
        .arg(&image)
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    match output.status.code() {
        Some(0) => assert_fits(&image),
        _ => assert_fails(&output, 1, &["needs the program", "package e2fsprogs"]),
    }
}
