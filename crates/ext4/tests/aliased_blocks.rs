//! Mappings that refer to one block many times, so that an image of a few blocks claims to contain
//! billions of blocks. Walks must end, with time and memory bounded by the size of the image.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::journal::recover;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, Ino, Inode, Result};
use std::sync::Arc;

const BLOCK_BYTES: usize = 1024;

/// A block after all those that mke2fs allocates.
const ALIASED: u32 = 8000;

/// The first inode that is not reserved: `lost+found`.
const FIRST: Ino = Ino(11);

const JOURNAL: Ino = Ino(8);

/// Returns an image of 8,192 blocks. The triple indirect block of `inode`, a file with `mode` and
/// `blocks` blocks, refers to a block filled with its own number.
fn aliased(arguments: &str, inode: Ino, mode: u16, blocks: u64) -> Option<Vec<u8>> {
    let image = Image::make(arguments, "8M")?;
    let (fs, _) = image.open();
    let desc = fs.group(larder_ext4::GroupNo(0)).unwrap();
    let size_bytes = usize::from(fs.superblock().inode_size_bytes);
    let table = usize::try_from(desc.inode_table.0).unwrap() * BLOCK_BYTES;
    let at = table + usize::try_from(inode.0 - 1).unwrap() * size_bytes;
    let mut bytes = image.bytes();
    let raw = &mut bytes[at..at + 128];
    let [s0, s1, s2, s3, s4, s5, s6, s7] = (blocks * BLOCK_BYTES as u64).to_le_bytes();
    raw[..2].copy_from_slice(&mode.to_le_bytes());
    raw[0x04..0x08].copy_from_slice(&[s0, s1, s2, s3]);
    raw[0x20..0x24].fill(0);
    for number in raw[0x28..0x64].chunks_mut(4) {
        number.copy_from_slice(&ALIASED.to_le_bytes());
    }
    raw[0x6C..0x70].copy_from_slice(&[s4, s5, s6, s7]);
    for number in block(&mut bytes, ALIASED).chunks_mut(4) {
        number.copy_from_slice(&ALIASED.to_le_bytes());
    }
    Some(bytes)
}

fn block(bytes: &mut [u8], block: u32) -> &mut [u8] {
    let start = usize::try_from(block).unwrap() * BLOCK_BYTES;
    &mut bytes[start..start + BLOCK_BYTES]
}

fn open(bytes: Vec<u8>, inode: Ino) -> (larder_ext4::Filesystem, Inode) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let fs = image::open(&device);
    let inode = fs.inode(inode).unwrap();
    (fs, inode)
}

fn assert_damage<T: std::fmt::Debug>(result: Result<T>, inode: Ino, what: &str) {
    match result {
        Err(Error::Corrupt(corrupt)) => {
            assert_eq!(corrupt.to_string(), format!("inode {inode}: {what}"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn hole_search_in_a_file_that_repeats_one_block_ends_with_damage() {
    let Some(bytes) = aliased("-t ext2 -b 1024", FIRST, 0o100_644, 1 << 24) else {
        return;
    };
    let (fs, file) = open(bytes, FIRST);
    assert_eq!(fs.seek_data(&file, 0).unwrap(), Some(0));
    let what = "file has more runs of blocks than the file system has blocks";
    assert_damage(fs.seek_hole(&file, 0), FIRST, what);
}

#[test]
fn directory_longer_than_the_device_is_damage() {
    let Some(mut bytes) = aliased("-t ext2 -b 1024", FIRST, 0o40_755, 1 << 21) else {
        return;
    };
    // A superblock that claims 2^32 - 1 blocks.
    block(&mut bytes, 1)[0x04..0x08].fill(0xFF);
    let (fs, dir) = open(bytes, FIRST);
    assert!(fs.superblock().size_bytes() > dir.size_bytes());
    let what = "directory is larger than the file system";
    assert_damage(fs.lookup(&dir, b"absent"), FIRST, what);
    let mut ignore = |_: larder_ext4::DirEntry<'_>| std::ops::ControlFlow::Continue(());
    assert_damage(fs.read_dir(&dir, 0, &mut ignore), FIRST, what);
}

#[test]
fn journal_longer_than_the_device_is_damage() {
    let arguments = "-t ext3 -b 1024 -J size=1";
    let Some(mut bytes) = aliased(arguments, JOURNAL, 0o100_600, 1 << 24) else {
        return;
    };
    block(&mut bytes, 1)[0x60] |= 4; // needs_recovery
    // The first block of the journal's mapping is valid: the journal's superblock.
    let fs = open(bytes.clone(), JOURNAL).0;
    let table = fs.group(larder_ext4::GroupNo(0)).unwrap().inode_table;
    let size_bytes = usize::from(fs.superblock().inode_size_bytes);
    let at = usize::try_from(table.0).unwrap() * BLOCK_BYTES + 7 * size_bytes + 0x28;
    bytes[at..at + 4].copy_from_slice(&(ALIASED + 1).to_le_bytes());
    let superblock = block(&mut bytes, ALIASED + 1);
    for (at, word) in [
        (0, 0xC03B_3998_u32),
        (4, 4),
        (0xC, 1024),
        (0x10, 1 << 24),
        (0x14, 1),
        (0x18, 1),
        (0x1C, 1),
    ] {
        superblock[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let Err(error) = recover(Superblock::read(&*device).unwrap(), device) else {
        panic!("the journal was accepted");
    };
    assert_eq!(
        error.to_string(),
        "journal block 0: the journal is longer than the file system"
    );
}
