//! Changes of the superblock, as read by e2fsprogs.

mod image;
mod writable;

use larder_ext4::ondisk::superblock::{ErrorCode, ErrorRecord, Superblock};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{Error, FsBlock, Ino};
use larder_testkit::e2fsprogs::superblock;
use larder_testkit::{Requirement, skip};
use writable::Writable;

const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024",
    "-t ext2 -b 4096 -r 0",
    "-t ext3 -b 4096 -I 128",
    "-t ext4 -b 1024",
    "-t ext4 -b 1024 -O orphan_file",
    "-t ext4 -b 4096 -O ^metadata_csum,^64bit",
    "-t ext4 -b 1024 -O bigalloc -C 8192",
    "-t ext4 -b 65536",
];

fn needs() -> bool {
    skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::Tool("dumpe2fs"),
        Requirement::Tool("e2fsck"),
    ])
}

/// Returns the fields in the output of dumpe2fs, which must not report a wrong checksum.
fn fields(writable: &Writable) -> impl Fn(&str) -> String {
    let text = writable.on_file(superblock);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", writable.made_by()));
    move |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }
}

fn commit(writable: &Writable) {
    let fs = &writable.fs;
    fs.commit(fs.running_tid().expect("tid")).expect("commit");
}

#[test]
fn superblock_records_whether_the_file_system_is_in_use() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "24M").expect("mke2fs");
        let open = fields(&writable);
        assert_eq!(open("Mount count:"), "1", "{arguments}");
        let features = open("Filesystem features:");
        if features.contains("has_journal") {
            assert!(features.contains("needs_recovery"), "{arguments}");
            assert_eq!(open("Filesystem state:"), "clean");
        } else {
            assert_eq!(open("Filesystem state:"), "not clean");
        }
        let has_orphan_file = features.contains("orphan_file");
        assert_eq!(features.contains("orphan_present"), has_orphan_file);
        writable.fs.close().expect("closed");
        let closed = fields(&writable);
        assert_eq!(closed("Filesystem state:"), "clean", "{arguments}");
        assert!(!closed("Filesystem features:").contains("orphan_present"));
        assert!(!closed("Filesystem features:").contains("needs_recovery"));
        assert_eq!(closed("Free blocks:"), open("Free blocks:"));
        assert_eq!(closed("Free inodes:"), open("Free inodes:"));
        writable.assert_clean();
    }
}

#[test]
fn label_is_set_by_a_handle_and_undone_with_it() {
    if needs() {
        return;
    }
    for arguments in LAYOUTS {
        let writable = Writable::make(arguments, "24M").expect("mke2fs");
        let fs = &writable.fs;
        for (label, is_kept) in [(&b"sixteen bytes, ."[..], true), (b"other", false)] {
            let mut handle = fs.start(1).expect("handle");
            fs.set_label(&mut handle, label).expect("label");
            assert_eq!(fs.label().expect("label"), label);
            if is_kept {
                handle.stop();
            }
        }
        assert_eq!(fs.label().expect("label"), b"sixteen bytes, .");
        let mut handle = fs.start(1).expect("handle");
        let long = fs.set_label(&mut handle, b"more than sixteen");
        assert!(matches!(long, Err(Error::Invalid(..))));
        drop(handle);
        commit(&writable);
        fs.close().expect("closed");
        let closed = fields(&writable);
        assert_eq!(closed("Filesystem volume name:"), "sixteen bytes, .");
        writable.assert_clean();
    }
}

#[test]
fn error_is_recorded_as_first_and_last() {
    if needs() {
        return;
    }
    for arguments in ["-t ext4 -b 1024", "-t ext2 -b 4096"] {
        let writable = Writable::make(arguments, "24M").expect("mke2fs");
        let mut error = ErrorRecord {
            time: Timestamp {
                seconds: 5_000_000_000,
                nanoseconds: 0,
            },
            function: "first_function",
            ino: Some(Ino(12)),
            block: Some(FsBlock(777)),
            code: ErrorCode::Corrupt,
        };
        let fs = &writable.fs;
        // The label waits for its commit while errors are recorded on the device. Neither change
        // may be lost.
        let mut handle = fs.start(1).expect("handle");
        fs.set_label(&mut handle, b"label").expect("label");
        handle.stop();
        fs.record_error(&*writable.device, &error)
            .expect("recorded");
        error.function = "last_function_with_a_name_that_is_too_long";
        error.ino = None;
        error.code = ErrorCode::Device;
        fs.record_error(&*writable.device, &error)
            .expect("recorded");
        for _ in 0..2 {
            let found = fields(&writable);
            assert!(found("Filesystem state:").contains("with errors"));
            assert_eq!(found("FS Error count:"), "2");
            assert_eq!(found("First error function:"), "first_function");
            assert_eq!(found("First error inode #:"), "12");
            assert_eq!(found("First error block #:"), "777");
            assert_eq!(found("First error err:"), "EFSCORRUPTED");
            let superblock = Superblock::read(&*writable.device).expect("superblock");
            assert_eq!(superblock.first_error, error.time);
            assert_eq!(found("Last error function:"), &error.function[..32]);
            assert_eq!(found("Last error block #:"), "777");
            assert_eq!(found("Last error err:"), "EIO");
            commit(&writable);
        }
        fs.close().expect("closed");
        let closed = fields(&writable);
        assert_eq!(closed("FS Error count:"), "2");
        assert_eq!(closed("Filesystem volume name:"), "label");
        assert!(closed("Filesystem state:").contains("with errors"));
    }
}

#[test]
fn file_of_2_gib_sets_its_feature() {
    if needs() {
        return;
    }
    for (arguments, sizes) in [
        ("-t ext2 -b 1024 -O ^large_file", [(1 << 31) - 1, 1 << 31]),
        ("-t ext2 -b 1024 -r 0", [(1 << 31) - 1, 1 << 31]),
    ] {
        let writable = Writable::make(arguments, "24M").expect("mke2fs");
        let fs = &writable.fs;
        for (size_bytes, has_feature) in sizes.into_iter().zip([false, true]) {
            let mut handle = fs.start(1).expect("handle");
            fs.allow_file_size(&mut handle, size_bytes)
                .expect("allowed");
            handle.stop();
            commit(&writable);
            let features = fields(&writable)("Filesystem features:");
            assert_eq!(features.contains("large_file"), has_feature, "{arguments}");
        }
        fs.close().expect("closed");
        writable.assert_clean();
    }
}
