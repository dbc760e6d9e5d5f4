//! Images that are not opened for writing, the reasons in the errors, and damaged journals.

mod dirty;
mod image;

use dirty::Dirty;
use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Error, Filesystem, FsBlock, Ino, Result, WriteOptions};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Requirement, skip};
use std::sync::Arc;

/// The offset of the journal's inode number in the superblock.
const S_JOURNAL_INUM: usize = 1024 + 0xE0;
/// The offset of the number of blocks in the journal's superblock.
const S_MAXLEN: usize = 0x10;

const PLAIN: &str = "-t ext4 -b 1024 -O ^metadata_csum -J size=1";

/// The arguments of mke2fs, and the text of the error.
const REFUSED: &[(&str, &str)] = &[
    ("-t ext4 -O quota", "quota"),
    ("-t ext4 -O verity", "verity"),
    ("-t ext4 -O quota,project", "quota"),
];

const ACCEPTED: &[&str] = &[
    "-t ext4 -O encrypt",
    "-t ext4 -O casefold",
    "-t ext4 -O bigalloc",
    "-t ext4 -O inline_data,ea_inode,large_dir",
    "-t ext4 -O ^has_journal",
    "-t ext2 -r 0",
];

fn open(bytes: &[u8]) -> Result<Filesystem> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let mut fs = image::open_with(Superblock::read(&*device)?, &device);
    fs.enable_writing(device, WriteOptions::default())?;
    Ok(fs)
}

fn reason(bytes: &[u8]) -> String {
    match open(bytes) {
        Err(Error::NotWritable(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn feature_that_cannot_be_written_is_refused_by_name() {
    for (arguments, name) in REFUSED {
        let Some(image) = Image::make(arguments, "16M") else {
            return;
        };
        let reason = reason(&image.bytes());
        assert!(reason.contains(name), "{arguments}: {reason}");
    }
    for arguments in ACCEPTED {
        let image = Image::make(arguments, "16M").unwrap();
        let fs = open(&image.bytes()).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        fs.close().unwrap();
    }
}

#[test]
fn external_or_small_journal_is_refused_by_name() {
    let Some(image) = Image::make(PLAIN, "16M") else {
        return;
    };
    let mut bytes = image.bytes();
    let journal = first_journal_block(&image);
    bytes[journal + S_MAXLEN..][..4].copy_from_slice(&900_u32.to_be_bytes());
    let error = open(&bytes).map(drop).unwrap_err();
    assert!(error.to_string().contains("too short"), "{error}");
    let mut bytes = image.bytes();
    bytes[S_JOURNAL_INUM..][..4].fill(0);
    assert!(reason(&bytes).contains("another device"));
}

/// Returns the byte offset of the journal in an image with blocks of 1 KiB.
fn first_journal_block(image: &Image) -> usize {
    let blocks = image.debugfs("blocks <8>");
    let first = blocks.split_whitespace().next().unwrap();
    first.parse::<usize>().unwrap() * 1024
}

#[test]
fn read_only_device_is_refused() {
    let Some(image) = Image::make(PLAIN, "16M") else {
        return;
    };
    let (mut fs, device) = image.open();
    let refused = fs.enable_writing(device, WriteOptions::default());
    assert!(matches!(refused, Err(Error::ReadOnly(None))));
    assert!(matches!(fs.start(1).map(drop), Err(Error::ReadOnly(None))));
}

#[test]
fn replayed_superblock_with_wrong_values_is_refused() {
    /// Wrong values for the number of blocks and for the journal's inode: the offset in the
    /// superblock, the value, and the text of the error.
    const WRONG_VALUES: [(usize, u32, &str); 2] = [
        (0x04, 1 << 20, "end of the image is missing"),
        (0xE0, 12, "journal's location"),
    ];
    let Some(image) = Image::make(PLAIN, "16M") else {
        return;
    };
    for (at, value, what) in WRONG_VALUES {
        let device = Arc::new(MemoryDevice::new(image.bytes()));
        let shared: Arc<dyn BlockDevice> = device.clone();
        let mut fs = image::open(&shared);
        fs.enable_writing(shared, WriteOptions::default()).unwrap();
        let mut handle = fs.start(1).unwrap();
        let change = |bytes: &mut [u8]| {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            Ok(())
        };
        // With blocks of 1 KiB, the superblock is the second block.
        handle.update(FsBlock(1), Ino(0), change).unwrap();
        fs.commit(handle.stop()).unwrap();
        let refused = open(&device.to_bytes()).map(drop).unwrap_err();
        assert!(refused.to_string().contains(what), "{refused}");
    }
}

/// Opens the image, changes a few blocks outside the journal, and closes it.
fn use_it(bytes: &[u8]) -> Result<()> {
    let fs = open(bytes)?;
    for number in 0..20_u64 {
        let mut handle = fs.start(10)?;
        for block in 0..10 {
            let block = FsBlock(15_000 + block * 7 + number);
            handle.create(block, Ino(12), |bytes| {
                bytes.fill(3);
                Ok(())
            })?;
        }
        fs.commit(handle.stop())?;
    }
    fs.close()
}

#[test]
fn damaged_journals_do_not_panic() {
    if skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
    ]) {
        return;
    }
    let seed = Seed::from_environment(7);
    println!("seed {seed}");
    let dirty = Dirty::make(PLAIN, "16M", "", |root, sync| {
        for number in 0..200 {
            std::fs::create_dir(root.join(number.to_string())).unwrap();
        }
        sync();
        for number in 0..100 {
            std::fs::remove_dir(root.join(number.to_string())).unwrap();
        }
        sync();
    });
    let bytes = std::fs::read(dirty.path()).unwrap();
    let journal: Vec<u64> = dirty.journal_blocks().iter().copied().collect();
    let mut random = Random::new(seed);
    let mut outcomes = [0_u32; 2];
    for _ in 0..400 {
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(3) {
            // The journal's superblock and its first blocks, or the inode of the journal.
            let block = match random.below(3) {
                0 => journal[0],
                1 => journal[usize::try_from(random.below(40)).unwrap()],
                _ => *random.choose(&journal).unwrap(),
            };
            let within = if random.below(2) == 0 { 96 } else { 1024 };
            let at = usize::try_from(block * 1024 + random.below(within)).unwrap();
            bytes[at] = random.byte();
        }
        outcomes[usize::from(use_it(&bytes).is_ok())] += 1;
    }
    println!("{} refused, {} succeeded", outcomes[0], outcomes[1]);
    assert!(outcomes[0] > 20 && outcomes[1] > 20);
}
