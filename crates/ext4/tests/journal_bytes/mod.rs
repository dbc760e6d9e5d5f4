//! The journal of an image as bytes, and the kinds of damage to it.

mod fast_commit_cases;
mod log_cases;

pub use fast_commit_cases::{FAST_COMMIT_CASES, move_ranges_outside, put_slash};
pub use log_cases::{LOG_CASES, SUPERBLOCK_CASES};

use crate::dirty::Dirty;
use larder_ext4::FsBlock;
use larder_ext4::ondisk::checksum::Crc32c;
use larder_ext4::ondisk::jbd2::{BlockKind, JournalSuperblock, SUPERBLOCK_BYTES, log_block};
use std::collections::BTreeMap;
use std::fs;

const BLOCK_BYTES: usize = 1024;

/// The code of the last tag of a fast commit.
const TAIL: u16 = 8;

/// The name of a kind of damage, and the function that causes it.
pub type Case = (&'static str, fn(&mut JournalBytes));

/// A copy of a block in the log.
#[derive(Clone, Copy, Debug)]
struct Copy {
    tid: u32,
    home: FsBlock,
    at: usize,
}

/// An image with a journal that needs recovery. Positions are byte offsets in the image.
#[derive(Clone)]
pub struct JournalBytes {
    pub image: Vec<u8>,
    /// The position of each block of the journal.
    journal: Vec<usize>,
    superblock: JournalSuperblock,
    /// The journal's own blocks in the log, in log order.
    log: Vec<(BlockKind, usize)>,
    copies: Vec<Copy>,
    /// For each revoked block, the last transaction that revokes it.
    revoked: BTreeMap<FsBlock, u32>,
    /// The tags of fast commits: code and position.
    tags: Vec<(u16, usize)>,
}

impl JournalBytes {
    pub fn read(image: &Dirty) -> Self {
        let place = |block: &u64| usize::try_from(*block).expect("small image") * BLOCK_BYTES;
        let journal: Vec<usize> = image.journal_blocks().iter().map(place).collect();
        let image = fs::read(image.path()).expect("image");
        let superblock = JournalSuperblock::parse(&image[journal[0]..]).expect("superblock");
        let mut bytes = Self {
            image,
            journal,
            superblock,
            log: Vec::new(),
            copies: Vec::new(),
            revoked: BTreeMap::new(),
            tags: Vec::new(),
        };
        bytes.find_log();
        bytes.find_fast_commits();
        bytes
    }

    fn block(&self, at: usize) -> &[u8] {
        &self.image[at..at + BLOCK_BYTES]
    }

    fn find_log(&mut self) {
        let format = self.superblock.format();
        let mut tid = self.superblock.sequence;
        let mut index = self.superblock.start as usize;
        while let Some(&at) = self.journal.get(index) {
            let Some((kind, of)) = log_block(self.block(at)).filter(|(_, of)| *of == tid) else {
                break;
            };
            self.log.push((kind, at));
            index += 1;
            match kind {
                BlockKind::Descriptor => {
                    for tag in format.tags(self.block(at)).collect::<Vec<_>>() {
                        let at = self.journal[index];
                        let home = tag.home;
                        self.copies.push(Copy {
                            tid: of.0,
                            home,
                            at,
                        });
                        index += 1;
                    }
                }
                BlockKind::Revoke => {
                    let revoked = format.revoked(self.block(at)).expect("revoke block");
                    let revoked: Vec<FsBlock> = revoked.collect();
                    self.revoked
                        .extend(revoked.into_iter().map(|block| (block, of.0)));
                }
                BlockKind::Commit => tid = tid.next(),
            }
        }
        assert!(self.log.len() > 8, "the log is too short: {:?}", self.log);
        assert!(!self.revoked.is_empty(), "nothing is revoked");
    }

    fn find_fast_commits(&mut self) {
        for block in self.superblock.fast_commit_blocks() {
            let mut at = self.journal[block as usize];
            let end = at + BLOCK_BYTES;
            while at + 4 <= end {
                let [code, len] = [0, 2].map(|skip| self.half(at + skip));
                if code == 0 {
                    break;
                }
                self.tags.push((code, at));
                at += 4 + usize::from(len);
            }
        }
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.image[at], self.image[at + 1]])
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.image[at..at + 4].try_into().expect("four bytes"))
    }

    fn put(&mut self, at: usize, word: u32) {
        self.image[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }

    fn put_le(&mut self, at: usize, word: u32) {
        self.image[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    fn flip(&mut self, at: usize) {
        self.image[at] ^= 0x10;
    }

    /// Sets a word of the journal's superblock, and its checksum.
    fn superblock_word(&mut self, offset: usize, word: u32) {
        let at = self.journal[0];
        self.put(at + offset, word);
        self.set_superblock_checksum();
    }

    fn set_superblock_checksum(&mut self) {
        let at = self.journal[0];
        if self.superblock.format().has_data_checksums() {
            self.put(at + 0xfc, 0);
            let sum = Crc32c::START.bytes(&self.image[at..at + SUPERBLOCK_BYTES]);
            self.put(at + 0xfc, sum.0);
        }
    }

    /// Sets the checksum of the block of the log at `at`.
    fn set_checksum(&mut self, kind: BlockKind, at: usize) {
        if !self.superblock.format().has_data_checksums() {
            return;
        }
        let offset = match kind {
            BlockKind::Commit => 0x10,
            BlockKind::Descriptor | BlockKind::Revoke => BLOCK_BYTES - 4,
        };
        self.put(at + offset, 0);
        let seed = Crc32c::START.bytes(&self.superblock.uuid);
        let sum = seed.bytes(self.block(at));
        self.put(at + offset, sum.0);
    }

    /// Returns the positions of all blocks of this kind.
    fn all(&self, kind: BlockKind) -> Vec<usize> {
        let blocks = self.log.iter().filter(|(of, _)| *of == kind);
        blocks.map(|(_, at)| *at).collect()
    }

    fn first(&self, kind: BlockKind) -> usize {
        self.all(kind)[0]
    }

    fn last(&self, kind: BlockKind) -> usize {
        *self.all(kind).last().expect("a block of the kind")
    }

    /// Sets a word of the block at `at`, and its checksum.
    fn log_word(&mut self, kind: BlockKind, at: usize, offset: usize, word: u32) {
        self.put(at + offset, word);
        self.set_checksum(kind, at);
    }

    /// Removes the commit block of the transaction that contains `at`.
    fn uncommit(&mut self, at: usize) {
        let mut after = self.log.iter().skip_while(|(_, block)| *block != at);
        let commit = after.find(|(kind, _)| *kind == BlockKind::Commit);
        let (_, commit) = *commit.expect("it was committed");
        self.image[commit..commit + BLOCK_BYTES].fill(0);
    }

    fn revokes_after(&self, copy: &Copy) -> bool {
        self.revoked
            .get(&copy.home)
            .is_some_and(|tid| *tid >= copy.tid)
    }

    fn is_replaced(&self, copy: &Copy) -> bool {
        let mut others = self.copies.iter();
        others.any(|other| other.home == copy.home && other.tid > copy.tid)
    }

    fn find_copy(&self, wanted: impl Fn(&Copy) -> bool) -> usize {
        self.copies
            .iter()
            .find(|copy| wanted(copy))
            .expect("such a copy")
            .at
    }

    /// Returns the position of the first or the last tag `code` of the fast commits.
    fn tag(&self, code: u16, is_last: bool) -> usize {
        let mut places = self.tags.iter().filter(|(of, _)| *of == code);
        let place = if is_last {
            places.next_back()
        } else {
            places.next()
        };
        place.expect("such a tag").1
    }

    /// Sets a little-endian word of a fast commit's tag, and the checksums of the commits.
    fn tag_word(&mut self, code: u16, offset: usize, word: u32) {
        let at = self.tag(code, false);
        self.put_le(at + offset, word);
        self.set_fast_commit_checksums();
    }

    fn set_fast_commit_checksums(&mut self) {
        let mut sum = Crc32c(0);
        for (code, at) in self.tags.clone() {
            let len = 4 + usize::from(self.half(at + 2));
            if code == TAIL {
                sum = sum.bytes(&self.image[at..at + 8]);
                self.put_le(at + 8, sum.0);
                sum = Crc32c(0);
            } else {
                let end = (at + len).min(self.image.len());
                sum = sum.bytes(&self.image[at..end]);
            }
        }
    }
}
