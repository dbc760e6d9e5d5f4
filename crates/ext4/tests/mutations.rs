//! Directories, attributes, links and inline data of damaged images: every walk ends, none panics,
//! and its results are bounded. Only blocks that these walks read are damaged. The images have no
//! checksums, because checksums would detect the damage.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::{FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind, XattrOffer};
use larder_testkit::seed::{Random, Seed};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

const MUTATIONS: u64 = 600;

/// More results than a walk of any undamaged image here returns.
const MAX_ENTRIES: usize = 100_000;

fn populate(root: &Path) {
    for (dir, count) in [("few", 3), ("some", 40), ("many", 1500)] {
        fs::create_dir(root.join(dir)).expect("directory");
        let first = root.join(dir).join("first");
        fs::write(&first, "").expect("file");
        for number in 0..count {
            let name = format!("{number:05}-{}", "n".repeat(number % 180));
            fs::hard_link(&first, root.join(dir).join(name)).expect("link");
        }
    }
    for len_bytes in [5, 100, 800, 3000] {
        let path = root.join(format!("attributes-{len_bytes}"));
        fs::write(&path, vec![b'c'; len_bytes / 8]).expect("file");
        for name in ["user.a", "user.b", "trusted.c"] {
            let value = vec![b'v'; len_bytes];
            let _ = rustix::fs::setxattr(&path, name, &value, rustix::fs::XattrFlags::empty());
        }
        std::os::unix::fs::symlink(
            "t".repeat(len_bytes % 900),
            root.join(format!("link-{len_bytes}")),
        )
        .expect("link");
    }
}

/// Reads everything that the walks of directories and attributes read: inode by inode, without
/// following directory entries.
fn walk(fs: &Filesystem) -> usize {
    let mut count = 0;
    for ino in (2..=60).map(Ino) {
        let Ok(inode) = fs.inode(ino) else {
            continue;
        };
        if let Ok(names) = fs.xattrs(&inode, XattrOffer::Nothing) {
            count += names.len();
            for name in names {
                let _ = fs.xattr(&inode, &name, XattrOffer::Nothing);
            }
        }
        let _ = (fs.read_link(&inode), fs.inline_data(&inode));
        if inode.kind() == FileKind::Directory {
            for name in [&b"."[..], b"..", b"first", b"00003-nnn", b"absent"] {
                let _ = fs.lookup(&inode, name);
            }
            let mut cookie = 0;
            let _ = fs.read_dir(&inode, 0, &mut |entry| {
                count += 1;
                assert!(count < MAX_ENTRIES, "the listing does not end");
                assert!(entry.next_cookie > cookie, "the cookie does not increase");
                assert!(!entry.name.is_empty() && !entry.name.contains(&b'/'));
                cookie = entry.next_cookie;
                if count % 16 == 0 {
                    let _ = fs.lookup(&inode, entry.name);
                }
                ControlFlow::Continue(())
            });
        }
    }
    count
}

/// Returns the blocks with the entries of the root and the named directories, attribute blocks, and
/// the first inodes.
fn interesting(fs: &Filesystem) -> Vec<u64> {
    let mut blocks = Vec::new();
    let table = fs
        .group(larder_ext4::GroupNo(0))
        .expect("group")
        .inode_table
        .0;
    blocks.extend(table..table + 8);
    for ino in (2..=60).map(Ino) {
        let Ok(inode) = fs.inode(ino) else {
            continue;
        };
        blocks.extend(inode.file_acl().map(|block| block.0));
        if matches!(inode.kind(), FileKind::Directory | FileKind::Symlink) {
            blocks.extend(blocks_of(fs, &inode));
        }
    }
    blocks
}

fn blocks_of(fs: &Filesystem, inode: &Inode) -> Vec<u64> {
    (0..200)
        .filter_map(
            |index| match fs.map(inode, FileBlock(index), 1).ok()?.kind {
                MappingKind::Written(block) => Some(block.0),
                _ => None,
            },
        )
        .collect()
}

fn mutate(bytes: &mut [u8], random: &mut Random, blocks: &[u64], block_size: u64) {
    const EDGES: [u8; 8] = [0, 1, 4, 8, 0x7f, 0x80, 0xfe, 0xff];
    for _ in 0..=random.below(12) {
        let block = random.choose(blocks).expect("blocks");
        // The starts of blocks contain most of the structure.
        let span = *random.choose(&[16, 64, block_size]).expect("spans");
        let at = usize::try_from(block * block_size + random.below(span)).expect("small image");
        bytes[at] = match random.below(3) {
            0 => random.byte(),
            1 => bytes[at] ^ (1 << random.below(8)),
            _ => *random.choose(&EDGES).expect("edges"),
        };
    }
}

#[test]
fn walks_over_damaged_directories_and_attributes_end() {
    let seed = Seed::from_environment(0x00d1_ec70_41e5);
    println!("seed {seed}");
    for (layout, arguments) in (0..).zip([
        "-t ext3 -b 1024 -O ^has_journal",
        "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,inline_data,ea_inode,large_dir",
    ]) {
        let Some(image) = Image::make(arguments, "4M") else {
            return;
        };
        let Some(mount) = image.mount("rw") else {
            return;
        };
        populate(mount.path());
        drop(mount);
        let whole = image.bytes();
        let (fs, _) = image.open();
        let blocks = interesting(&fs);
        let block_size = u64::from(fs.superblock().block_size_bytes());
        let expected = walk(&fs);
        assert!(
            expected > 1500 && blocks.len() > 100,
            "{expected} {}",
            blocks.len()
        );
        for number in 0..MUTATIONS {
            let seed = seed.part(layout * MUTATIONS + number);
            let mut random = Random::new(seed);
            let mut bytes = whole.clone();
            mutate(&mut bytes, &mut random, &blocks, block_size);
            let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
            let fs = image::open(&device);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk(&fs)));
            assert!(
                outcome.is_ok(),
                "{arguments}: part {number} of the seed: {seed}"
            );
        }
    }
}
