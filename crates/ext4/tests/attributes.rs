//! Comparison of attributes, access control lists, link targets and inline data with the kernel's.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::{Error, Filesystem, Ino, Inode, XattrOffer};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};

/// Opens the file system of an image in memory.
fn open_bytes(bytes: Vec<u8>) -> Filesystem {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    image::open(&device)
}

fn resolve(fs: &Filesystem, path: &str) -> Inode {
    let mut at = fs.inode(Ino::ROOT).expect("root");
    for name in path.split('/') {
        let found = fs.lookup(&at, name.as_bytes()).expect("lookup");
        at = fs.inode(found.expect(name).0).expect("inode");
    }
    at
}

fn kernel_xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; 65536];
    let len = llistxattr(path, &mut names[..]).expect("llistxattr");
    names[..len]
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| {
            let name = String::from_utf8(name.to_vec()).expect("plain name");
            let mut value = vec![0; 65536];
            let len = lgetxattr(path, &name, &mut value[..]).expect("lgetxattr");
            value.truncate(len);
            (name, value)
        })
        .collect()
}

fn our_xattrs(fs: &Filesystem, inode: &Inode) -> Vec<(String, Vec<u8>)> {
    let names = fs.xattrs(inode, XattrOffer::Nothing).expect("names");
    names
        .into_iter()
        .map(|name| {
            let value = fs
                .xattr(inode, &name, XattrOffer::Nothing)
                .expect("value")
                .expect("is there");
            (String::from_utf8(name).expect("plain name"), value)
        })
        .collect()
}

fn value(len_bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(len_bytes).collect()
}

/// Returns an access control list in the format of the system calls.
fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(perm.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

/// Sets an attribute and returns whether `lsetxattr` accepted it. It rejects values that are
/// too large for this file system.
fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

/// Creates files, directories and links with attributes under `root`. Returns how many attributes
/// could be set.
fn populate(root: &Path) -> usize {
    const NO_ID: u32 = u32::MAX;
    let list = acl(&[
        (1, 6, NO_ID),
        (2, 4, 1000),
        (2, 7, 70_000),
        (4, 4, NO_ID),
        (8, 5, 33),
        (0x10, 7, NO_ID),
        (0x20, 0, NO_ID),
    ]);
    let mut count = 0;
    for len_bytes in [0, 1, 3, 30, 100, 500, 900, 2000, 3900, 5000, 20_000, 65_536] {
        let path = root.join(format!("one-{len_bytes}"));
        fs::write(&path, "").expect("file");
        count += usize::from(set(&path, "user.value", &value(len_bytes)));
        let path = root.join(format!("more-{len_bytes}"));
        fs::create_dir(&path).expect("directory");
        for name in ["user.a", "trusted.long.name", "security.x", "user.b"] {
            count += usize::from(set(&path, name, &value(len_bytes)));
        }
        count += usize::from(set(&path, "system.posix_acl_access", &list));
        count += usize::from(set(&path, "system.posix_acl_default", &list));
    }
    for len_bytes in [1, 20, 59, 60, 61, 100, 150, 1000, 1023, 1024, 4000, 4095] {
        let target = PathBuf::from("t".repeat(len_bytes));
        for with in ["none", "small", "large"] {
            let path = root.join(format!("link-{len_bytes}-{with}"));
            if std::os::unix::fs::symlink(&target, &path).is_err() {
                continue; // The target is longer than a block.
            }
            count += match with {
                "small" => usize::from(set(&path, "trusted.small", &value(10))),
                "large" => {
                    usize::from(set(&path, "trusted.large", &value(700)))
                        + usize::from(set(&path, "trusted.huge", &value(9000)))
                }
                _ => 0,
            };
        }
    }
    for len_bytes in (0..180).step_by(13).chain([59, 60, 61]) {
        let path = root.join(format!("content-{len_bytes}"));
        fs::write(&path, value(len_bytes)).expect("file");
        if len_bytes % 2 == 0 {
            count += usize::from(set(&path, "user.beside", &value(12)));
        }
    }
    count
}

const LAYOUTS: &[&str] = &[
    "-t ext2 -b 1024",
    "-t ext3 -b 4096 -I 128",
    "-t ext4 -b 4096",
    "-t ext4 -b 1024 -O ^metadata_csum",
    "-t ext4 -b 4096 -O ea_inode",
    "-t ext4 -b 1024 -I 512 -O ea_inode,metadata_csum_seed",
    "-t ext4 -b 4096 -O inline_data",
    "-t ext4 -b 4096 -I 1024 -O inline_data,ea_inode",
    "-t ext4 -b 2048 -O bigalloc -C 16384",
];

#[test]
fn attributes_and_links_match_the_kernel() {
    for arguments in LAYOUTS {
        let Some(image) = Image::make(arguments, "30M") else {
            return;
        };
        let Some(mount) = image.mount("rw,acl,user_xattr") else {
            return;
        };
        let set = populate(mount.path());
        drop(mount);
        let (ours, _) = image.open();
        let Some(mount) = image.mount("ro,noload") else {
            return;
        };
        let (mut compared, mut inline) = (0, 0);
        for entry in fs::read_dir(mount.path()).expect("root") {
            let entry = entry.expect("entry");
            let name = String::from_utf8(entry.file_name().into_vec()).expect("plain name");
            let inode = resolve(&ours, &name);
            let expected = kernel_xattrs(&entry.path());
            compared += expected.len();
            let found = our_xattrs(&ours, &inode);
            assert!(found == expected, "attributes of {name} on {arguments}");
            if entry.file_type().expect("type").is_symlink() {
                let expected = fs::read_link(entry.path()).expect("target");
                let found = ours.read_link(&inode).expect("target");
                assert_eq!(
                    found,
                    expected.into_os_string().into_vec(),
                    "{name} on {arguments}"
                );
            }
            if inode.has_inline_data() && name.starts_with("content-") {
                inline += 1;
                let expected = fs::read(entry.path()).expect("content");
                assert_eq!(ours.inline_data(&inode).expect("data"), expected, "{name}");
            }
            assert_eq!(
                ours.xattr(&inode, b"user.absent", XattrOffer::Nothing)
                    .expect("no damage"),
                None
            );
            let hidden = ours.xattr(&inode, b"system.data", XattrOffer::Nothing);
            assert!(matches!(hidden, Err(Error::NotSupported(..))), "{hidden:?}");
        }
        println!("{arguments}: {compared} attributes, {inline} inline files");
        assert_eq!(compared, set, "{arguments}");
        assert_eq!(inline > 0, arguments.contains("inline_data"));
    }
}

#[test]
fn damaged_attribute_block_is_an_error_that_names_it() {
    let Some(image) = Image::make("-t ext4 -b 1024", "20M") else {
        return;
    };
    let Some(mount) = image.mount("rw") else {
        return;
    };
    let path = mount.path().join("file");
    fs::write(&path, "").expect("file");
    assert!(set(&path, "user.in.inode", b"small"));
    assert!(set(&path, "user.value", &value(800)));
    drop(mount);
    let (fs, _) = image.open();
    let inode = resolve(&fs, "file");
    let block = inode.file_acl().expect("an attribute block");
    let mut bytes = image.bytes();
    bytes[usize::try_from(block.0).unwrap() * 1024 + 1000] ^= 1;
    let fs = open_bytes(bytes);
    let place = format!("block {block} of inode {}", inode.ino());
    let error = fs
        .xattr(&inode, b"user.value", XattrOffer::Nothing)
        .unwrap_err()
        .to_string();
    assert!(error.contains(&place), "{error}");
    assert!(fs.xattrs(&inode, XattrOffer::Nothing).is_err());
    let kept = fs
        .xattr(&inode, b"user.in.inode", XattrOffer::Nothing)
        .expect("not in the block");
    assert_eq!(kept.as_deref(), Some(&b"small"[..]));
}

/// Replaces every `from` by `to`, which has the same length. Returns the number of replacements.
fn replace_all(bytes: &mut [u8], from: &[u8], to: &[u8]) -> usize {
    let mut count = 0;
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + to.len()].copy_from_slice(to);
            count += 1;
        }
    }
    count
}

#[test]
fn changed_value_inode_is_an_error() {
    let Some(image) = Image::make("-t ext4 -b 1024 -O ea_inode", "20M") else {
        return;
    };
    let Some(mount) = image.mount("rw") else {
        return;
    };
    let path = mount.path().join("file");
    fs::write(&path, "").expect("file");
    assert!(set(&path, "user.value", &b"recognisable ".repeat(500)));
    drop(mount);
    let mut bytes = image.bytes();
    // Replace all of them, because the journal may contain copies.
    let changed = replace_all(&mut bytes, b"recognisable ", b"Recognisable ");
    assert!(changed >= 500, "{changed}");
    let fs = open_bytes(bytes);
    let inode = resolve(&fs, "file");
    assert_eq!(
        fs.xattrs(&inode, XattrOffer::Nothing).expect("names").len(),
        1
    );
    let error = fs
        .xattr(&inode, b"user.value", XattrOffer::Nothing)
        .unwrap_err()
        .to_string();
    assert!(error.contains("hash"), "{error}");
}
