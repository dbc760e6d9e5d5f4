//! The readable rest of a directory when a part of it is damaged, unreadable or missing.

mod directory;
mod image;

use directory::{dir_block, list, name, one_directory, open_bytes, resolve, target};
use image::Image;
use larder_block::BlockDevice;
use larder_ext4::Ino;
use larder_instruments::FaultyDevice;
use larder_testkit::e2fsprogs::debugfs_write;
use std::ops::ControlFlow;
use std::sync::Arc;

#[test]
fn directory_with_a_damaged_block_is_listed_without_it() {
    for arguments in [
        "-t ext4 -b 1024",
        "-t ext4 -b 1024 -O ^dir_index",
        "-t ext3 -b 1024",
    ] {
        let Some((image, names, path)) = one_directory(arguments, 300) else {
            return;
        };
        let (fs, _) = image.open();
        let dir = resolve(&fs, &path);
        let block = dir_block(&fs, &dir, 4);
        let mut bytes = image.bytes();
        // A wrong length of the first record is an error both with and without checksums.
        bytes[usize::try_from(block).unwrap() * 1024 + 4] ^= 1;
        let fs = open_bytes(bytes);
        let place = format!("block {block} of inode {}", dir.ino());
        for step in [usize::MAX, 3, 1] {
            let (listed, error) = list(&fs, &dir, step);
            let error = error.expect("damage is reported").to_string();
            assert!(error.contains(&place), "{error} for {place}");
            assert!(listed.len() < names.len() && listed.len() + 20 > names.len());
            assert!(
                listed
                    .iter()
                    .all(|(name, value)| names.get(name) == Some(value))
            );
            for name in names.keys() {
                match target(&fs, &dir, name) {
                    Ok(found) => assert!(found.is_some() && listed.contains_key(name)),
                    Err(error) => {
                        assert!(error.to_string().contains(&place), "{error}");
                        assert!(!listed.contains_key(name));
                    }
                }
            }
        }
    }
}

#[test]
fn name_with_a_slash_is_reported_as_damage_and_not_listed() {
    let Some((image, _, path)) = one_directory("-t ext3 -b 1024", 5) else {
        return;
    };
    let mut bytes = image.bytes();
    // The journal contains copies.
    while let Some(at) = bytes.windows(7).position(|bytes| bytes == b"000003-") {
        bytes[at + 2] = b'/';
    }
    let fs = open_bytes(bytes);
    let (listed, error) = list(&fs, &resolve(&fs, &path), usize::MAX);
    assert!(error.expect("damage").to_string().contains("slash"));
    assert!(listed.keys().all(|name| !name.contains(&b'/')));
    assert!(
        listed.contains_key(&name(4, 100)),
        "names after the damaged block are listed"
    );
}

#[test]
fn lookup_in_an_encrypted_or_casefolded_directory_has_its_own_error() {
    for (arguments, flag, what) in [
        ("-t ext4 -O encrypt", 0x800, "encrypted"),
        ("-t ext4 -O casefold", 0x4000_0000_u32, "case-insensitive"),
    ] {
        let Some(image) = Image::make(arguments, "20M") else {
            return;
        };
        for command in [
            "mkdir secret".to_owned(),
            "mkdir plain".to_owned(),
            "write /dev/null secret/name".to_owned(),
            "write /dev/null plain/name".to_owned(),
            format!("sif secret flags {:#x}", flag | 0x8_0000),
        ] {
            debugfs_write(image.path(), &[command]).expect("debugfs");
        }
        let (fs, _) = image.open();
        let restricted = resolve(&fs, "secret");
        let error = fs.lookup(&restricted, b"name").unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(target(&fs, &restricted, b"..").unwrap(), Some(Ino::ROOT));
        let listed = fs.read_dir(&restricted, 0, &mut |_| ControlFlow::Continue(()));
        assert_eq!(listed.is_err(), what == "encrypted", "{listed:?}");
        resolve(&fs, "plain/name");
    }
}

#[test]
fn directory_with_an_unreadable_block_is_listed_without_it() {
    let Some((image, names, path)) = one_directory("-t ext3 -b 1024", 300) else {
        return;
    };
    let (fs, device) = image.open();
    let block = dir_block(&fs, &resolve(&fs, &path), 4);
    let faulty = FaultyDevice::new(device).fail_range(block * 1024..block * 1024 + 1);
    let device: Arc<dyn BlockDevice> = Arc::new(faulty);
    let fs = image::open(&device);
    let (listed, error) = list(&fs, &resolve(&fs, &path), 10);
    let error = error.expect("the error is reported").to_string();
    assert!(
        error.contains(&format!("block {block} of inode")),
        "{error}"
    );
    assert!(listed.len() < names.len() && listed.len() + 20 > names.len());
}

#[test]
fn directory_with_a_hole_is_listed_around_it() {
    let arguments = "-t ext2 -b 1024 -O ^dir_index";
    let Some((image, names, path)) = one_directory(arguments, 300) else {
        return;
    };
    debugfs_write(image.path(), &[format!("sif {path} block[3] 0")]).expect("debugfs");
    let (fs, _) = image.open();
    let dir = resolve(&fs, &path);
    let (listed, error) = list(&fs, &dir, 10);
    assert!(error.is_none(), "{error:?}");
    assert!(listed.len() < names.len() && listed.len() + 20 > names.len());
    for name in names.keys() {
        let found = target(&fs, &dir, name).expect("no damage");
        assert_eq!(found.is_some(), listed.contains_key(name));
    }
}

#[test]
fn directory_larger_than_the_file_system_is_damage() {
    let Some((image, _, path)) = one_directory("-t ext4 -b 1024 -O large_dir", 20) else {
        return;
    };
    debugfs_write(image.path(), &[format!("sif {path} size 0x7000000000")]).expect("debugfs");
    let (fs, _) = image.open();
    let dir = resolve(&fs, &path);
    let listed = fs.read_dir(&dir, 0, &mut |_| ControlFlow::Continue(()));
    let error = listed.expect_err("damage").to_string();
    assert!(error.contains(&format!("inode {}", dir.ino())), "{error}");
    assert!(target(&fs, &dir, b"absent").is_err());
}
