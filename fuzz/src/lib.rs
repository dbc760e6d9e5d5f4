//! Code that the fuzz targets share. It makes inputs valid if a checksum or a few fixed numbers would
//! otherwise prevent the parser from reading them, and it provides base images for targets that open
//! complete images.

mod trace;
mod writable;

pub use trace::trace_with_checksums;
pub use writable::{WritableImage, open_for_writing};

use larder::{OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::jbd2::{Format, JournalSuperblock};
use larder_ext4::ondisk::superblock::{SUPERBLOCK_BYTES, Superblock};
use larder_image::{Overlay, open_disk};
use larder_instruments::{FaultyDevice, OverlayDevice};
use larder_remote::profile::pack::{HEAD_BYTES, Head};
use larder_testkit::device::PatchedDevice;
use larder_testkit::mutate::{WalkLimits, walk};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use twox_hash::XxHash3_128;

/// Block size of the base images, in bytes.
pub const BLOCK_BYTES: usize = 1024;

/// The limit of device reads for a walk over a base image: many times what a walk of an undamaged image
/// needs.
const READ_LIMIT: u64 = 50_000;

/// Splits a superblock off `data`, corrects its magic number and checksum, and parses it.
#[must_use]
pub fn split_superblock(data: &[u8]) -> Option<(Superblock, &[u8])> {
    let (head, rest) = data.split_first_chunk::<SUPERBLOCK_BYTES>()?;
    Some((
        Superblock::parse(&superblock_with_checksum(head)).ok()?,
        rest,
    ))
}

/// Returns `bytes` with a superblock's magic number, checksum type and checksum.
#[must_use]
pub fn superblock_with_checksum(bytes: &[u8; SUPERBLOCK_BYTES]) -> [u8; SUPERBLOCK_BYTES] {
    let mut copy = *bytes;
    copy[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
    copy[0x175] = 1;
    let checksum = Crc32c::START.bytes(&copy[..0x3FC]).0;
    copy[0x3FC..].copy_from_slice(&checksum.to_le_bytes());
    copy
}

/// Returns `bytes` with a journal superblock's magic number and checksum.
#[must_use]
pub fn journal_superblock_with_checksum(bytes: &[u8; 1024]) -> [u8; 1024] {
    let mut copy = *bytes;
    copy[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
    copy[0x50] = 4;
    copy[0xFC..0x100].fill(0);
    let checksum = Crc32c::START.bytes(&copy).0;
    copy[0xFC..0x100].copy_from_slice(&checksum.to_be_bytes());
    copy
}

/// Returns `bytes`, a file of the disk cache, with a valid magic number, version and checksum in its header, and a
/// valid checksum in its record. If one of them is not complete, it stays unchanged.
#[must_use]
pub fn cache_file_with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    if let Some(header) = copy.first_chunk_mut::<512>() {
        header[..12].copy_from_slice(b"larderdc\x01\0\0\0");
        header[496..].fill(0);
        let checksum = XxHash3_128::oneshot(header);
        header[496..].copy_from_slice(&checksum.to_le_bytes());
    }
    if let Some(record) = copy.get_mut(512..4096) {
        record[3568..].fill(0);
        let checksum = XxHash3_128::oneshot_with_seed(1, record);
        record[3568..].copy_from_slice(&checksum.to_le_bytes());
    }
    copy
}

/// Returns `bytes`, a disk, with the signature and the checksums of a GPT with sectors of 512 bytes. If the header or the
/// array of entries is not complete, returns `bytes` unchanged.
#[must_use]
pub fn gpt_with_checksums(bytes: &[u8]) -> Vec<u8> {
    const HEADER: std::ops::Range<usize> = 512..604;
    let mut copy = bytes.to_vec();
    let number = |bytes: &[u8], at: usize| {
        let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
        number.map_or(0, |number| u32::from_le_bytes(*number) as usize)
    };
    let start = number(bytes, HEADER.start + 72).saturating_mul(512);
    let len = number(bytes, HEADER.start + 80).saturating_mul(number(bytes, HEADER.start + 84));
    let array = copy.get(start..start.saturating_add(len));
    let Some(array) = array.map(crc32fast::hash) else {
        return copy;
    };
    let Some(header) = copy.get_mut(HEADER) else {
        return copy;
    };
    header[..8].copy_from_slice(b"EFI PART");
    header[12..16].copy_from_slice(&92_u32.to_le_bytes());
    header[16..20].fill(0);
    header[24..32].copy_from_slice(&1_u64.to_le_bytes());
    header[88..92].copy_from_slice(&array.to_le_bytes());
    let checksum = crc32fast::hash(header);
    header[16..20].copy_from_slice(&checksum.to_le_bytes());
    copy
}

/// Returns `file` with a seek table for `frames` frames, without checksums. The last bytes of `file` become the entries
/// of the table. If the file is too short, the table has all entries that fit.
#[must_use]
pub fn with_seek_table(file: &[u8], frames: u8) -> Vec<u8> {
    let frames = usize::from(frames).min(file.len() / 8);
    let (content, entries) = file.split_at(file.len() - 8 * frames);
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let mut copy = content.to_vec();
    copy.extend(0x184D_2A5E_u32.to_le_bytes());
    copy.extend(number(entries.len() + 9));
    copy.extend(entries);
    copy.extend(number(frames));
    copy.push(0);
    copy.extend(0x8F92_EAB1_u32.to_le_bytes());
    copy
}

/// Opens the disk image `bytes` of `format`, and reads a part of each sixteenth of the disk.
///
/// # Panics
/// If one part is read differently by two calls, or if the disk has bytes past its end.
pub fn read_disk(bytes: &[u8], format: larder_image::Format) {
    const PARTS: u64 = 16;
    const CACHE_BYTES: u64 = 64 << 10;
    let file = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let Ok(Some(disk)) = open_disk(file, format, CACHE_BYTES) else {
        return;
    };
    let size_bytes = disk.size_bytes();
    let (mut first, mut second) = ([0; 3000], [1; 3000]);
    for part in 0..PARTS {
        let offset_bytes = size_bytes / PARTS * part;
        let len = usize::try_from(size_bytes - offset_bytes).unwrap_or(usize::MAX);
        let len = len.min(first.len());
        let (first, second) = (&mut first[..len], &mut second[..len]);
        let is_read = disk.read_at(first, offset_bytes).is_ok();
        assert_eq!(disk.read_at(second, offset_bytes).is_ok(), is_read);
        assert!(!is_read || first == second);
    }
    assert!(disk.read_at(&mut [0], size_bytes).is_err());
}

/// Returns an overlay with changes, on a base that is zero. Also returns the offsets of the bytes of its file that are neither
/// zero nor content.
fn overlay() -> &'static (OverlayDevice, Vec<u64>) {
    const CONTENT: u8 = 7;
    static OVERLAY: OnceLock<(OverlayDevice, Vec<u64>)> = OnceLock::new();
    OVERLAY.get_or_init(|| {
        let base = Arc::new(OverlayDevice::zeros(OVERLAY_DISK_BYTES));
        let file_bytes = Overlay::max_file_bytes(OVERLAY_DISK_BYTES).expect("a small disk");
        let file = Arc::new(OverlayDevice::zeros(file_bytes));
        Overlay::create(&*file, &*base, b"base".to_vec(), "raw".to_owned()).expect("memory");
        let disk = Overlay::open(Arc::clone(&file) as _, base).expect("a new overlay");
        for offset_bytes in [0, 5000, 200_000, 400_000] {
            disk.write_at(&[CONTENT; 9000], offset_bytes).expect("memory");
        }
        disk.flush().expect("memory");
        let mut bytes = vec![0; usize::try_from(file_bytes).expect("small")];
        file.read_at(&mut bytes, 0).expect("memory");
        let used = (0..).zip(bytes).filter(|(_, byte)| ![0, CONTENT].contains(byte));
        (OverlayDevice::clone(&file), used.map(|(at, _)| at).collect())
    })
}

/// The size of the disk of the overlay in bytes.
const OVERLAY_DISK_BYTES: u64 = 700_000;

/// Opens an overlay with changed bytes, reads it and writes to it. Each change has three bytes: two that choose the byte,
/// and its value.
///
/// # Panics
/// If a part that was written is read differently.
pub fn changed_overlay(changes: &[u8]) {
    let (file, used) = overlay();
    let file = file.clone();
    for change in changes.as_chunks::<3>().0 {
        let number = usize::from(u16::from_le_bytes([change[0], change[1]]));
        let at = used[number % used.len()];
        file.write_at(&change[2..], at).expect("memory");
    }
    let base = Arc::new(OverlayDevice::zeros(OVERLAY_DISK_BYTES));
    let Ok(disk) = Overlay::open(Arc::new(file), base) else {
        return;
    };
    let (written, mut read) = ([9; 300_000], vec![0; 300_000]);
    let _ = disk.read_at(&mut read, 1000);
    if disk.write_at(&written, 1000).is_ok() {
        disk.flush().expect("memory");
        disk.read_at(&mut read, 1000).expect("what was written");
        assert!(read == written);
    }
    let _ = disk.changes();
}

/// Checks that requests can be signed with a key: its ID and its token can be parts of headers.
///
/// # Panics
/// If they cannot.
pub fn assert_valid((id, token): &(String, Option<String>)) {
    for text in std::iter::once(id).chain(token) {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(is_plain && !text.is_empty(), "{text:?}");
    }
}

/// Returns `bytes`, a profile, with its last line replaced by a line `end` that has the correct checksum.
#[must_use]
pub fn profile_with_checksum(bytes: &[u8]) -> Vec<u8> {
    let last = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let start = last.iter().rposition(|&byte| byte == b'\n');
    let mut copy = bytes[..start.map_or(0, |newline| newline + 1)].to_vec();
    let checksum = XxHash3_128::oneshot(&copy);
    copy.extend(format!("end {checksum:032x}\n").into_bytes());
    copy
}

/// Returns `bytes`, a pack, with a valid checksum of its head, `ETag` and map. If they are not complete, returns `bytes`
/// unchanged.
#[must_use]
pub fn pack_with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let head = copy.first_chunk().map(Head::parse);
    if let Some(Ok(head)) = head
        && let Some(described) = copy.get_mut(..HEAD_BYTES + head.rest_bytes())
    {
        described[32..HEAD_BYTES].fill(0);
        let checksum = XxHash3_128::oneshot(described);
        described[32..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
    copy
}

/// Returns the layout of a journal's blocks with the incompatible features `features`.
#[must_use]
pub fn journal_format(features: u8) -> Option<Format> {
    let mut bytes = [0; 1024];
    for (at, word) in [
        (0x04, 4_u32),
        (0x0C, 1024),
        (0x10, 4096),
        (0x14, 1),
        (0x28, u32::from(features)),
    ] {
        bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    let copy = journal_superblock_with_checksum(&bytes);
    Some(JournalSuperblock::parse(&copy).ok()?.format())
}

/// A small image without metadata checksums, made by the example `seeds`.
#[derive(Debug)]
pub struct BaseImage {
    device: Arc<dyn BlockDevice>,
    /// Offsets of its metadata blocks, in bytes.
    pub metadata_offsets: Vec<u64>,
}

impl BaseImage {
    /// Reads the image `name` from the folder `images`.
    ///
    /// # Panics
    /// If it does not exist.
    #[must_use]
    pub fn read(name: &str) -> Self {
        let bytes = image_bytes(name);
        Self {
            metadata_offsets: metadata_offsets(&bytes),
            device: Arc::new(MemoryDevice::new(bytes)),
        }
    }

    /// Returns the image as a device that can be patched.
    #[must_use]
    pub fn device(&self) -> PatchedDevice {
        PatchedDevice::new(Arc::clone(&self.device))
    }
}

/// Reads the image `name` from the folder `images`.
fn image_bytes(name: &str) -> Vec<u8> {
    std::fs::read(images().join(name)).expect("`cargo run --example seeds` created the image")
}

/// Returns the offsets of the metadata blocks of an image, in bytes.
fn metadata_offsets(image: &[u8]) -> Vec<u64> {
    /// A content block has at most one byte that is not zero. A block with more such bytes is treated as metadata.
    const MAX_NONZERO_CONTENT_BYTES: usize = 1;
    let bytes_set = |block: &[u8]| block.iter().filter(|&&byte| byte != 0).count();
    (0..)
        .zip(image.chunks(BLOCK_BYTES))
        .filter(|(_, block)| bytes_set(block) > MAX_NONZERO_CONTENT_BYTES)
        .map(|(index, _)| index * BLOCK_BYTES as u64)
        .collect()
}

/// Decodes a patch of eight bytes: the index of a metadata block (1 byte), the offset in it (2), the length
/// (1) and the new bytes (4). Returns the offset in the image, and the new bytes.
#[must_use]
pub fn patch<'a>(metadata_offsets: &[u64], patch: &'a [u8; 8]) -> (u64, &'a [u8]) {
    let &[block, low, high, len, ref bytes @ ..] = patch;
    let block = metadata_offsets[usize::from(block) % metadata_offsets.len()];
    let offset = u64::from(u16::from_le_bytes([low, high])) % BLOCK_BYTES as u64;
    (block + offset, &bytes[..=usize::from(len % 4)])
}

/// Returns the folder of the base images.
#[must_use]
pub fn images() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("images")
}

/// Opens the image on `device` with 2 MiB of cache and reads everything in it.
///
/// # Panics
/// If this takes more than `READ_LIMIT` device reads, which means that the walk may not terminate.
pub fn open_and_walk(device: PatchedDevice) {
    let device = FaultyDevice::new(Arc::new(device)).fail_calls(READ_LIMIT..u64::MAX);
    let device = Arc::new(device);
    let mut options = OpenOptions::default();
    options.cache_size_bytes = 2 << 20;
    options.readahead_max_bytes = 0;
    options.readahead = larder::PolicyName::Off;
    if let Ok(volume) = Volume::open_device(device.clone(), &options) {
        let limits = WalkLimits {
            entries: 2000,
            runs: 8,
            piece_bytes: 4096,
            content: true,
        };
        let _ = walk(&volume, &limits);
    }
    assert_eq!(
        device.failed_count(),
        0,
        "the walk exceeds its limit of device reads"
    );
}

/// The kernel's layout of a page of its ring buffer, as in `events/header_page`.
pub const PAGE_HEADER: &str = "\
\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

/// The kernel's layout of each kind of event that is read, as in the `format` files.
pub const EVENT_FORMAT: &str = "\
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t s_dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:unsigned long i_ino;\toffset:16;\tsize:8;\tsigned:0;
\tfield:ino_t ino;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned long index;\toffset:24;\tsize:8;\tsigned:0;
\tfield:unsigned long last_index;\toffset:32;\tsize:8;\tsigned:0;
\tfield:unsigned char order;\toffset:40;\tsize:1;\tsigned:0;
";
