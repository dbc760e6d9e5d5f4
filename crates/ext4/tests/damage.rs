//! Damaged images: checksums detect every flipped bit. Without checksums, the worst results of any
//! damage are an error or wrong content.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::group::DescriptorPlace;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, Filesystem, GroupNo, Ino, Inode, MappingKind};
use larder_instruments::RecordingDevice;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The mke2fs arguments of each image. All are small, because each mutation copies one.
const IMAGES: &[&str] = &[
    "-t ext4 -b 1024 -O ^has_journal,^resize_inode -N 64",
    "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,^resize_inode -N 64",
    "-t ext2 -b 1024 -O ^resize_inode -N 64",
    "-t ext4 -b 1024 -O ^has_journal,^resize_inode,^metadata_csum,meta_bg,^flex_bg,uninit_bg -g 256 -N 64",
];
const MUTATIONS_PER_IMAGE: u64 = 300;

/// More steps than any walk of a file's mapping can need. Each step visits one run of blocks, and a
/// damaged tree of at most 4 MiB cannot map so many runs.
const STEPS_MAX: u32 = 2_000_000;

/// Returns an image with a fragmented file, created without the kernel.
fn make(arguments: &str) -> Option<Image> {
    let tree = tempfile::TempDir::new().expect("temporary directory");
    let pieces = File::create(tree.path().join("pieces")).expect("file");
    for piece in 0..600 {
        pieces.write_all_at(b"piece", piece * 8192).expect("write");
    }
    let far = File::create(tree.path().join("far")).expect("file");
    far.write_all_at(b"far", 90_000_000).expect("write");
    std::fs::write(tree.path().join("plain"), vec![1; 20_000]).expect("file");
    let arguments = format!("{arguments} -d {}", tree.path().display());
    Image::make(&arguments, "4M")
}

/// Reads everything that this crate can read of every inode. Returns the number of steps.
fn walk(fs: &Filesystem) -> u32 {
    let mut steps = 0;
    let _ = fs.statfs();
    for group in 0..fs.superblock().groups_count.min(100) {
        let _ = fs.group(GroupNo(group));
    }
    for ino in 0..=fs.superblock().inodes_count.min(200) {
        steps += 1;
        if let Ok(inode) = fs.inode(Ino(ino)) {
            let _ = (inode.kind(), inode.device(), inode.blocks_512(1024));
            steps += walk_map(fs, &inode);
            let _ = fs.seek_data(&inode, inode.size_bytes() / 2);
            let _ = fs.seek_hole(&inode, inode.size_bytes() / 2);
        }
    }
    steps
}

fn walk_map(fs: &Filesystem, inode: &Inode) -> u32 {
    let mut at = 0_u32;
    let mut steps = 0;
    while let Ok(mapping) = fs.map(inode, FileBlock(at), u32::MAX - at) {
        assert!(mapping.blocks >= 1);
        if let MappingKind::Written(block) | MappingKind::Unwritten(block) = mapping.kind {
            let blocks = u64::from(mapping.blocks);
            assert!(fs.superblock().contains_blocks(block, blocks));
        }
        steps += 1;
        assert!(steps < STEPS_MAX, "inode {}", inode.ino());
        match at.checked_add(mapping.blocks) {
            Some(next) if next < u32::MAX => at = next,
            _ => break,
        }
    }
    steps
}

/// A sequence of numbers determined by a seed: `SplitMix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }
}

/// Returns the byte offsets of the blocks with metadata that a walk of the image reads: superblock,
/// descriptors, used inodes and nodes of mappings.
fn metadata_starts(bytes: &[u8]) -> Vec<usize> {
    let whole = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let recording = Arc::new(RecordingDevice::new(whole));
    let device: Arc<dyn BlockDevice> = recording.clone();
    walk(&image::open(&device));
    let mut starts: Vec<usize> = recording
        .take_log()
        .iter()
        .flat_map(|read| (read.offset_bytes..read.offset_bytes + read.len_bytes).step_by(1024))
        .map(|start| usize::try_from(start).expect("inside the image"))
        .collect();
    starts.sort_unstable();
    starts.dedup();
    // Blocks of zeros contain no metadata and would only dilute the damage.
    starts.retain(|&start| bytes[start..][..1024].iter().any(|&byte| byte != 0));
    starts
}

#[test]
fn image_damaged_anywhere_is_walked_in_bounded_steps() {
    for (number, arguments) in (0_u64..).zip(IMAGES) {
        let Some(image) = make(arguments) else {
            return;
        };
        let whole = image.bytes();
        let starts = metadata_starts(&whole);
        assert!(starts.len() > 8, "{arguments}: {starts:?}");
        let mut opened = 0;
        for mutation in 0..MUTATIONS_PER_IMAGE {
            let seed = (number << 32) | mutation;
            println!("{arguments}: seed {seed}");
            let mut random = Random(seed);
            let mut bytes = whole.clone();
            for _ in 0..=random.below(6) {
                let at = starts[random.below(starts.len())] + random.below(1024);
                bytes[at] = match random.below(4) {
                    0 => 0,
                    1 => 0xFF,
                    2 => bytes[at] ^ (1 << random.below(8)),
                    _ => random.next().to_le_bytes()[0],
                };
            }
            let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
            if let Ok(sb) = Superblock::read(&*device) {
                opened += 1;
                walk(&image::open_with(sb, &device));
            }
        }
        assert!(opened > MUTATIONS_PER_IMAGE / 4, "{arguments}: {opened}");
    }
}

/// Returns the image of [`IMAGES`] with checksums, and the inode of the fragmented file.
fn checksummed() -> Option<(Vec<u8>, Ino)> {
    let image = make(IMAGES[0])?;
    let stat = image.debugfs("stat /pieces");
    let number = stat.split_whitespace().nth(1).expect("inode number");
    Some((image.bytes(), Ino(number.parse().expect("number"))))
}

fn with_flipped_bit(bytes: &[u8], at: usize, bit: usize) -> Filesystem {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1 << bit;
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    image::open(&device)
}

#[test]
fn inode_with_any_flipped_bit_is_refused() {
    let Some((bytes, ino)) = checksummed() else {
        return;
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.clone()));
    let fs = image::open(&device);
    let raw = fs.inode_bytes(ino).unwrap().to_vec();
    let start = bytes.windows(raw.len()).position(|window| window == raw);
    let start = start.expect("the inode is in the image");
    for at in 0..raw.len() {
        let fs = with_flipped_bit(&bytes, start + at, at % 8);
        assert!(fs.inode(ino).is_err(), "byte {at}");
    }
}

#[test]
fn group_descriptor_with_any_flipped_bit_is_refused() {
    let Some((bytes, _)) = checksummed() else {
        return;
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.clone()));
    let place = DescriptorPlace::of(image::open(&device).superblock(), GroupNo(0));
    let start = usize::try_from(place.block.0 * 1024).unwrap() + place.offset_bytes;
    for at in 0..64 {
        let fs = with_flipped_bit(&bytes, start + at, at % 8);
        assert!(fs.group(GroupNo(0)).is_err(), "byte {at}");
        assert!(fs.inode(Ino::ROOT).is_err(), "byte {at}");
    }
}

#[test]
fn extent_block_with_any_flipped_bit_is_refused() {
    let Some((bytes, ino)) = checksummed() else {
        return;
    };
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.clone()));
    let fs = image::open(&device);
    let inode = fs.inode(ino).unwrap();
    // The child block of the root's first index entry.
    let root = inode.i_block();
    assert!(root[6] > 0, "the tree has a depth");
    let child = u32::from_le_bytes([root[16], root[17], root[18], root[19]]);
    let start = usize::try_from(child).unwrap() * 1024;
    // The entries that fit, and the checksum after them.
    let covered = 12 + 84 * 12 + 4;
    for at in 0..covered {
        let fs = with_flipped_bit(&bytes, start + at, at % 8);
        let inode = fs.inode(ino).unwrap();
        let refused = fs.map(&inode, FileBlock(0), 1).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("block {child} of inode {ino}")),
            "byte {at}: {refused}"
        );
    }
}
