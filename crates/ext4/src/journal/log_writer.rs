//! Writing the log: a transaction's blocks, and the journal's superblock.
//!
//! ```text
//!  [revoke]...[descriptor][data]...[descriptor][data]...[zeros]   flush   [commit]   flush
//! ```
//!
//! The zeros are written where the commit block will be, and the commit block overwrites them. The
//! fields of a commit block are in its first sector, but its checksum covers the whole block. If a
//! power cut interrupts the write after the first sector, the other sectors are zeros, as in the
//! complete block, so the commit block is valid. If those sectors still contained older data, the
//! transaction would appear to be committed but corrupt. Linux and e2fsck ignore a transaction
//! without a commit block, but treat a corrupt one as an error.
//!
//! Everything up to the commit block is written with one write for each run of adjacent blocks.
//!
//! Cost: data is copied only in blocks that must be escaped.

use super::checkpoint::Ring;
use super::file::{Extent, JournalFile};
use super::running::Snapshot;
use crate::Result;
use crate::ondisk::jbd2::{
    Format, JournalSuperblock, MAGIC, SUPERBLOCK_BYTES, Tag, Tid, looks_like_log,
};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::io::IoSlice;
use std::time::SystemTime;

/// The log of a file system that is open for writing.
#[derive(Debug)]
pub(super) struct LogWriter {
    file: JournalFile,
    format: Format,
    ring: Ring,
    tags_in_block: usize,
    revocations_in_block: usize,
    superblock: Mutex<OnDisk>,
}

/// The journal's superblock, as bytes and parsed.
#[derive(Debug)]
struct OnDisk {
    bytes: Box<[u8; SUPERBLOCK_BYTES]>,
    parsed: JournalSuperblock,
}

impl LogWriter {
    /// Creates the writer for the log in `file`. `parsed` is the parsed form of the superblock in
    /// `bytes`, possibly with changes to be written.
    pub(super) fn new(
        file: JournalFile,
        bytes: Box<[u8; SUPERBLOCK_BYTES]>,
        parsed: JournalSuperblock,
    ) -> Self {
        let format = parsed.format();
        Self {
            tags_in_block: format.tags_in_block(file.block_size_bytes()).max(1),
            revocations_in_block: format.revocations_in_block(file.block_size_bytes()).max(1),
            format,
            ring: Ring::of(&parsed),
            file,
            superblock: Mutex::new(OnDisk { bytes, parsed }),
        }
    }

    /// Returns the blocks of the image that belong to the journal.
    pub(super) fn extent(&self) -> Extent {
        self.file.extent()
    }

    /// Returns the size of the log in blocks.
    pub(super) fn len_blocks(&self) -> u32 {
        self.ring.len_blocks()
    }

    /// Returns the blocks of the journal that the log uses.
    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// Returns the maximum number of blocks of the log that a transaction of `blocks` blocks needs. The result
    /// includes as many revoke blocks as are needed to revoke every block in the log.
    pub(super) fn needed_blocks(&self, blocks: u32) -> u32 {
        let descriptors = (blocks as usize).div_ceil(self.tags_in_block);
        let revokes = (self.len_blocks() as usize).div_ceil(self.revocations_in_block);
        let own = u32::try_from(descriptors + revokes + 1).unwrap_or(u32::MAX);
        blocks.saturating_add(own)
    }

    /// Returns the maximum number of blocks of a transaction that fits into `room` blocks of the
    /// log.
    pub(super) fn fitting_blocks(&self, room: u32) -> u32 {
        // Each block of the transaction needs a tag, and each descriptor block takes a block of the
        // log.
        let own = self.needed_blocks(0);
        let room = u64::from(room.saturating_sub(own));
        let tags = self.tags_in_block as u64;
        let blocks = room * tags / (tags + 1);
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Writes all blocks of `transaction` except for the commit block, starting at `at`, and zeros
    /// where the commit block will be. Returns the location of the commit block.
    pub(super) fn write_body(&self, at: u32, transaction: &Snapshot) -> Result<u32> {
        let mut pieces = self.pieces(transaction);
        let blocks = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let commit_at = self.ring.wrapped(at, blocks);
        pieces.push(Cow::Owned(vec![0; self.file.block_size_bytes()]));
        let mut at = at;
        let mut rest = pieces.as_slice();
        while !rest.is_empty() {
            let until_end = self.ring.end - at;
            let wanted = u32::try_from(rest.len()).unwrap_or(u32::MAX).min(until_end);
            let adjoining = self.file.adjoining_blocks(at, wanted)?.max(1);
            let (now, later) = rest.split_at(adjoining as usize);
            let slices: Vec<_> = now.iter().map(|piece| IoSlice::new(piece)).collect();
            self.file.write(at, &slices)?;
            at = self.ring.wrapped(at, adjoining);
            rest = later;
        }
        Ok(commit_at)
    }

    /// Returns the contents of the log's blocks for `transaction`, in order, without the commit
    /// block.
    fn pieces<'a>(&self, transaction: &'a Snapshot) -> Vec<Cow<'a, [u8]>> {
        let block_bytes = self.file.block_size_bytes();
        let tid = transaction.tid;
        let uuid = self.superblock.lock().parsed.uuid;
        let mut pieces = Vec::with_capacity(transaction.blocks.len() + 8);
        for revoked in transaction.revoked.chunks(self.revocations_in_block) {
            let block = self.format.revoke_block(tid, revoked, block_bytes);
            pieces.push(Cow::Owned(block));
        }
        for blocks in transaction.blocks.chunks(self.tags_in_block) {
            let descriptor_at = pieces.len();
            pieces.push(Cow::Owned(Vec::new()));
            let mut tags: Vec<Tag> = Vec::with_capacity(blocks.len());
            for (home, contents) in blocks {
                let is_escaped = looks_like_log(contents);
                let piece = if is_escaped {
                    Cow::Owned(escaped(contents))
                } else {
                    Cow::Borrowed(&**contents)
                };
                tags.push(self.format.tag_of(tid, *home, &piece, is_escaped));
                pieces.push(piece);
            }
            let descriptor = self.format.descriptor(tid, &uuid, &tags, block_bytes);
            pieces[descriptor_at] = Cow::Owned(descriptor);
        }
        pieces
    }

    /// Writes the commit block of transaction `tid` at `at`. Returns the block where the next
    /// transaction starts.
    pub(super) fn write_commit(&self, at: u32, tid: Tid) -> Result<u32> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let time = now.unwrap_or_default();
        let block = self
            .format
            .commit_block(tid, time, self.file.block_size_bytes());
        self.file.write(at, &[IoSlice::new(&block)])?;
        Ok(self.ring.wrapped(at, 1))
    }

    /// Records in the journal's superblock that the log starts at `start` with transaction `tid`.
    /// If `start` is 0, the log is empty.
    pub(super) fn write_tail(&self, start: u32, tid: Tid) -> Result<()> {
        self.write_superblock(|superblock| {
            superblock.start = start;
            superblock.sequence = tid;
        })
    }

    /// Records in the journal's superblock that the journal was aborted.
    pub(super) fn write_error(&self, errno: u32) -> Result<()> {
        self.write_superblock(|superblock| superblock.errno = errno)
    }

    fn write_superblock(&self, change: impl FnOnce(&mut JournalSuperblock)) -> Result<()> {
        let mut superblock = self.superblock.lock();
        let OnDisk { bytes, parsed } = &mut *superblock;
        change(parsed);
        parsed.store(bytes);
        self.file.write(0, &[IoSlice::new(&**bytes)])
    }
}

/// Returns `contents` without the magic number that would make them look like a block of the log.
fn escaped(contents: &[u8]) -> Vec<u8> {
    let mut escaped = contents.to_vec();
    escaped[..size_of_val(&MAGIC)].fill(0);
    escaped
}
