//! Features that change only one field for a reader, or have no effect on readers.

mod directory;
mod image;

use directory::{open_bytes, resolve};
use image::Image;
use larder_ext4::ondisk::features::{Compat, Incompat, RoCompat};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, Ino};
use larder_testkit::e2fsprogs::debugfs_write;
use std::ops::ControlFlow;

/// The offsets of the superblock's feature words in the image.
const COMPAT_AT: usize = 1024 + 0x5C;
const INCOMPAT_AT: usize = 1024 + 0x60;
const RO_COMPAT_AT: usize = 1024 + 0x64;

/// Sets bits of a word of the superblock.
fn set(bytes: &mut [u8], at: usize, bits: u32) {
    let old = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(old | bits).to_le_bytes());
}

#[test]
fn features_that_only_writers_need_leave_the_image_readable() {
    let Some(image) = Image::make("-t ext2 -b 1024", "4M") else {
        return;
    };
    // Features that add a journal, checksums or clusters change what is read, and are left out.
    let compat = !Compat::HAS_JOURNAL.bits();
    let ro_compat = !(RoCompat::GDT_CSUM | RoCompat::METADATA_CSUM | RoCompat::BIGALLOC).bits();
    let mut bytes = image.bytes();
    set(&mut bytes, COMPAT_AT, compat);
    set(&mut bytes, RO_COMPAT_AT, ro_compat);
    let fs = open_bytes(bytes);
    let sb = fs.superblock();
    let names: Vec<String> = sb.compat.names().chain(sb.ro_compat.names()).collect();
    for name in [
        "dir_prealloc",
        "imagic_inodes",
        "lazy_bg",
        "snapshot_bitmap",
        "stable_inodes",
        "FEATURE_C31",
        "snapshot",
        "replica",
        "read-only",
        "FEATURE_R31",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let root = fs.inode(Ino::ROOT).unwrap();
    let mut entries = 0;
    fs.read_dir(&root, 0, &mut |_| {
        entries += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(entries, 3, ". .. lost+found");
}

#[test]
fn unsupported_incompatible_features_are_refused_by_name() {
    let Some(image) = Image::make("-t ext2 -b 1024", "4M") else {
        return;
    };
    for (bits, name) in [
        (Incompat::COMPRESSION.bits(), "compression"),
        (Incompat::DIRDATA.bits(), "dirdata"),
        (1 << 31, "FEATURE_I31"),
    ] {
        let mut bytes = image.bytes();
        set(&mut bytes, INCOMPAT_AT, bits);
        let parsed = larder_ext4::ondisk::superblock::Superblock::parse(&bytes[1024..]);
        match parsed {
            Err(Error::UnsupportedFeature(names)) => assert_eq!(names, name),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn directory_with_more_subdirectories_than_can_be_counted_has_one_link() {
    let Some(image) = Image::make("-t ext4 -b 1024", "8M") else {
        return;
    };
    let commands = ["mkdir many", "mkdir many/sub", "sif many links_count 1"];
    debugfs_write(image.path(), &commands).expect("debugfs");
    let (fs, _) = image.open();
    assert!(fs.superblock().ro_compat.contains(RoCompat::DIR_NLINK));
    let many = resolve(&fs, "many");
    assert_eq!(many.links(), 1);
    assert!(many.is_directory() && resolve(&fs, "many/sub").is_directory());
}

#[test]
fn file_counted_in_blocks_is_reported_in_sectors() {
    let Some(image) = Image::make("-t ext4 -b 4096", "8M") else {
        return;
    };
    let flags = InodeFlags::HUGE_FILE | InodeFlags::EXTENTS;
    let commands = [
        "write /dev/null huge".to_owned(),
        format!("sif huge flags {:#x}", flags.bits()),
        "sif huge blocks 0x300000005".to_owned(),
    ];
    debugfs_write(image.path(), &commands).expect("debugfs");
    let (fs, _) = image.open();
    let huge = resolve(&fs, "huge");
    assert_eq!(huge.blocks_512(4096), 0x3_0000_0005 * 8);
}
