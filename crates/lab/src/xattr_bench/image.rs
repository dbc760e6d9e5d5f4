//! The image of the volume: mke2fs formats it in memory, and a volume creates the files of the case.

use super::{Case, Error};
use crate::operations::NEW;
use larder::{Ino, OpenOptions, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::mbcache::Variant;
use larder_instruments::mke2fs;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;
/// Space for one file, in bytes: an inode, and its name in a directory.
const FILE_BYTES: u64 = 256 + 64;
/// Size of the journal in MiB: 16,384 blocks, of which Linux gave a transaction a quarter until 2024.
const JOURNAL_MIB: u64 = 64;
/// Space for all other data, in bytes: the journal, bitmaps, tables, and the blocks that mke2fs reserves for
/// growth. The journal must not be larger than half of the file system.
const BASE_BYTES: u64 = (2 * JOURNAL_MIB + 32) << 20;
/// The minimum size of the caches in bytes. With this size, the limit for dirty metadata does not limit a
/// transaction: a quarter of the caches may be dirty, and a quarter of that may belong to one transaction.
const MIN_CACHE_BYTES: u64 = (4 * JOURNAL_MIB) << 20;
/// Number of inodes in addition to the files and the directory of each process: the reserved inodes, and the
/// root.
const BASE_INODES: u64 = 16;

/// The room for attributes on an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// Each file has room for two attribute blocks, since freed blocks are not reused immediately.
    EachFile,
    /// Eight files have room for one attribute block, which up to 1,024 files share.
    Shared,
}

impl Room {
    /// The largest number of values for which [`Room::Shared`] is enough. The blocks of so many values also have
    /// room in the space for all other data.
    pub(super) const SHARED_VALUES: u32 = 1024;

    /// Returns the number of attribute blocks for a number of files.
    fn blocks(self, files: u64) -> u64 {
        match self {
            Self::EachFile => 2 * files,
            Self::Shared => files / 8,
        }
    }

    /// Returns the options of mke2fs for the sizes of block groups. A group has at most 32,768 inodes, so that many
    /// files with few blocks need small groups.
    fn groups(self) -> &'static str {
        match self {
            Self::EachFile => "",
            Self::Shared => "-g 4096",
        }
    }
}

/// An ext4 file system with the files of a case, which have no attributes yet.
#[derive(Debug)]
pub(super) struct Image {
    bytes: Vec<u8>,
    /// The files of each process.
    pub files: Vec<Vec<Ino>>,
}

impl Image {
    pub(super) fn new(case: Case, room: Room, has_journal: bool) -> Result<Self, Error> {
        let formatted = formatted_with(case, room, has_journal)?;
        let device = Arc::new(MemoryDevice::new(content(formatted)?));
        let options = options(Variant::Off, &device);
        let volume = Volume::open_device(Arc::clone(&device) as _, &options)?;
        let files = (0..case.processes)
            .map(|process| make_files(&volume, process, case.files))
            .collect::<larder::Result<_>>()?;
        volume.close()?;
        drop(volume);
        Ok(Self {
            bytes: device.to_bytes(),
            files,
        })
    }

    /// Opens a volume on a copy of the image. With `examines_full`, searches also examine full blocks.
    pub(super) fn open(&self, variant: Variant, examines_full: bool) -> Result<Volume, Error> {
        let device = MemoryDevice::new(self.bytes.clone());
        let mut options = options(variant, &device);
        options.examines_full_attributes = examines_full;
        Ok(Volume::open_device(Arc::new(device), &options)?)
    }
}

/// Returns the default options for writing, with a cache that has room for the whole image, as the kernel's
/// page cache has.
fn options(mbcache: Variant, device: &MemoryDevice) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.mbcache = mbcache;
    options.cache_size_bytes = MIN_CACHE_BYTES.max(2 * device.size_bytes());
    options
}

fn make_files(volume: &Volume, process: u32, files: u32) -> larder::Result<Vec<Ino>> {
    let folder = volume.make_dir(Ino::ROOT, format!("p{process}").as_bytes(), &NEW)?;
    let make = |file| volume.create(folder.ino, format!("f{file}").as_bytes(), &NEW);
    (0..files).map(|file| Ok(make(file)?.ino)).collect()
}

/// Formats an ext4 file system with room for the files of a case, and with or without a journal of 64 MiB, in an
/// unnamed file in memory. There is room for the attributes of each file.
pub(crate) fn formatted(case: Case, has_journal: bool) -> Result<File, Error> {
    formatted_with(case, Room::EachFile, has_journal)
}

fn formatted_with(case: Case, room: Room, has_journal: bool) -> Result<File, Error> {
    let files = case.all_files();
    let content_bytes = files * FILE_BYTES + room.blocks(files) * BLOCK_BYTES;
    let size_bytes = (content_bytes + BASE_BYTES).next_multiple_of(BLOCK_BYTES);
    let inodes = files + u64::from(case.processes) + BASE_INODES;
    let groups = room.groups();
    let journal = if has_journal {
        format!("-J size={JOURNAL_MIB}")
    } else {
        "-O ^has_journal".to_owned()
    };
    let options = format!("-t ext4 {journal} -m 0 -I 256 -b {BLOCK_BYTES} -N {inodes} {groups}");
    Ok(mke2fs::formatted(size_bytes, &options)?)
}

fn content(mut image: File) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = image.read_to_end(&mut bytes);
    read.map_err(|source| Error::Process {
        what: "read the image for",
        source,
    })?;
    Ok(bytes)
}
