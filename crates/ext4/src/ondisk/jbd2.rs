//! The journal (jbd2): its superblock, and the blocks of its log.
//!
//! Layout, big-endian. Every block but copies of data starts with a header of
//! three words: magic number, block type, transaction. The superblock is the
//! journal's first block; from `s_first` on, the log goes round in circles:
//!
//! ```text
//! [descriptor: tags][data][data]...[descriptor]...[revoke]...[commit]  next transaction
//! ```
//!
//! A tag says where one data block belongs. Its size depends on the features:
//!
//! | features | bytes | fields |
//! |---|---|---|
//! | none | 8 | home (4), 0 (2), flags (2) |
//! | 64bit | 12 | home (4), 0 (2), flags (2), home's high half (4) |
//! | `csum_v2` | 10 | home (4), checksum (2), flags (2), unused (2) |
//! | `csum_v2`, 64bit | 14 | home (4), checksum (2), flags (2), high half (4), unused (2) |
//! | `csum_v3` | 16 | home (4), flags (4), high half (4), checksum (4) |
//!
//! and 16 bytes of UUID follow unless the tag says that it is the same as
//! before. With `csum_v2` and `csum_v3` each descriptor and revoke block ends in
//! a CRC-32C of itself, and each commit block holds one.

use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::{Error, FsBlock, Result};
use bitflags::bitflags;
use std::fmt;

/// The number that each of the journal's own blocks starts with.
pub const MAGIC: u32 = 0xC03B_3998;

/// Bytes of the journal's superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;

const HEADER_BYTES: usize = 12;
const TAIL_BYTES: usize = 4;
const UUID_BYTES: usize = 16;
const CHECKSUM_TYPE_CRC32: u8 = 1;
const CHECKSUM_TYPE_CRC32C: u8 = 4;
const SUPERBLOCK_CHECKSUM: usize = 0xfc;
const COMMIT_CHECKSUM: usize = 0x10;
/// Blocks of the fast-commit area where the superblock does not say.
const DEFAULT_FAST_COMMIT_BLOCKS: u32 = 256;

/// A transaction's number. Numbers wrap around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tid(pub u32);

impl Tid {
    /// The transaction after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

bitflags! {
    /// Features of a journal that a reader must know.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u32 {
        /// There may be revoke blocks.
        const REVOKE = 0x1;
        /// Block numbers of 64 bits.
        const BIT64 = 0x2;
        /// Commit blocks are written without waiting for what they commit.
        const ASYNC_COMMIT = 0x4;
        /// Checksums, 16 bits of them in tags.
        const CSUM_V2 = 0x8;
        /// Checksums, all 32 bits of them in tags.
        const CSUM_V3 = 0x10;
        /// The last blocks are for fast commits.
        const FAST_COMMIT = 0x20;
    }
}

/// Compatible feature: commit blocks hold a CRC-32 of the transaction.
const COMPAT_CHECKSUM: u32 = 0x1;

/// The type of one of the journal's own blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Tags, and as many data blocks behind it.
    Descriptor,
    /// The end of a transaction.
    Commit,
    /// Blocks that earlier transactions must not write.
    Revoke,
}

/// The kind and transaction of a block of the log; `None` if it is no such block.
#[must_use]
pub fn log_block(block: &[u8]) -> Option<(BlockKind, Tid)> {
    if be32(block, 0)? != MAGIC {
        return None;
    }
    let kind = match be32(block, 4)? {
        1 => BlockKind::Descriptor,
        2 => BlockKind::Commit,
        5 => BlockKind::Revoke,
        _ => return None,
    };
    Some((kind, Tid(be32(block, 8)?)))
}

/// The journal's superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSuperblock {
    /// 1 or 2; only 2 has features.
    pub version: u8,
    /// Bytes of a block.
    pub block_size_bytes: u32,
    /// Blocks of the journal, this one included.
    pub length_blocks: u32,
    /// The log's first block.
    pub first: u32,
    /// The block behind the log's last.
    pub end: u32,
    /// The first transaction that the log holds.
    pub sequence: Tid,
    /// Where that transaction starts; 0 if the log is empty.
    pub start: u32,
    /// The error because of which the journal was aborted; 0 if none.
    pub errno: u32,
    /// Features.
    pub features: Features,
    /// Whether commit blocks hold a CRC-32 of the whole transaction.
    pub has_commit_crc32: bool,
    /// The journal's UUID.
    pub uuid: [u8; UUID_BYTES],
}

impl JournalSuperblock {
    /// Parses a superblock and checks that its numbers fit each other.
    ///
    /// # Errors
    /// [`Error::UnsupportedFeature`] for a feature that this version does not
    /// know, [`Error::Corrupt`] otherwise.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; SUPERBLOCK_BYTES] = bytes
            .first_chunk()
            .ok_or_else(|| corrupt("journal superblock is cut off"))?;
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        check(
            word(0) == MAGIC,
            "no magic number in the journal superblock",
        )?;
        let version = match word(4) {
            3 => 1,
            4 => 2,
            _ => return Err(corrupt("unknown type of journal superblock")),
        };
        let (compat, incompat) = match version {
            1 => (0, 0),
            _ => (word(0x24), word(0x28)),
        };
        let features = known_features(incompat)?;
        let has_commit_crc32 = compat & COMPAT_CHECKSUM != 0;
        check_checksums(bytes, features, has_commit_crc32)?;
        let mut sb = Self {
            version,
            block_size_bytes: word(0xc),
            length_blocks: word(0x10),
            first: word(0x14),
            end: word(0x10),
            sequence: Tid(word(0x18)),
            start: word(0x1c),
            errno: word(0x20),
            features,
            has_commit_crc32,
            uuid: [0; UUID_BYTES],
        };
        if version == 2 {
            sb.uuid.copy_from_slice(&bytes[0x30..0x40]);
        }
        if features.contains(Features::FAST_COMMIT) {
            let blocks = match word(0x54) {
                0 => DEFAULT_FAST_COMMIT_BLOCKS,
                blocks => blocks,
            };
            sb.end = sb.length_blocks.saturating_sub(blocks);
        }
        check(
            sb.first > 0 && sb.first < sb.end,
            "the journal has no room for a log",
        )?;
        check(
            sb.start == 0 || (sb.first..sb.end).contains(&sb.start),
            "the log starts outside the journal",
        )?;
        Ok(sb)
    }

    /// The blocks for fast commits: empty without the feature. The block between
    /// them and the log is not used.
    #[must_use]
    pub fn fast_commit_blocks(&self) -> std::ops::Range<u32> {
        self.end.saturating_add(1).min(self.length_blocks)..self.length_blocks
    }

    /// How the blocks of this journal's log are laid out.
    #[must_use]
    pub fn format(&self) -> Format {
        let has_checksums = self
            .features
            .intersects(Features::CSUM_V2 | Features::CSUM_V3);
        Format {
            features: self.features,
            seed: has_checksums.then(|| Crc32c::START.bytes(&self.uuid)),
        }
    }
}

fn known_features(incompat: u32) -> Result<Features> {
    let unknown = incompat & !Features::all().bits();
    if unknown != 0 {
        let bit = unknown.trailing_zeros();
        return Err(Error::UnsupportedFeature(format!("journal_incompat_{bit}")));
    }
    Ok(Features::from_bits_truncate(incompat))
}

fn check_checksums(
    bytes: &[u8; SUPERBLOCK_BYTES],
    features: Features,
    has_commit_crc32: bool,
) -> Result<()> {
    let (v2, v3) = (
        features.contains(Features::CSUM_V2),
        features.contains(Features::CSUM_V3),
    );
    let kinds = u8::from(v2) + u8::from(v3) + u8::from(has_commit_crc32);
    check(kinds <= 1, "the journal has several kinds of checksum")?;
    if v2 || v3 {
        check(
            bytes[0x50] == CHECKSUM_TYPE_CRC32C,
            "unknown type of checksum in the journal",
        )?;
        let computed = zeroed(Crc32c::START, bytes, SUPERBLOCK_CHECKSUM);
        check(
            Some(computed.0) == be32(bytes, SUPERBLOCK_CHECKSUM),
            "checksum of the journal superblock is wrong",
        )?;
    }
    Ok(())
}

/// How the blocks of a log are laid out and checked.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    features: Features,
    /// What checksums start from, if there are any.
    seed: Option<Crc32c>,
}

/// Where one data block of a transaction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The block's home.
    pub home: FsBlock,
    /// Whether the block's first four bytes were blanked because they were the
    /// magic number.
    pub is_escaped: bool,
    /// The data block's checksum, or its low 16 bits; 0 without checksums.
    pub checksum: u32,
}

/// A commit block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// When the transaction was committed: seconds, nanoseconds.
    pub time: (u64, u32),
    /// CRC-32 of the transaction's descriptor and data blocks, if there is one.
    pub crc32: Option<u32>,
}

impl Format {
    /// Whether a block of the log carries the right checksum, as far as its kind
    /// and the journal's features provide for one.
    #[must_use]
    pub fn block_is_intact(&self, kind: BlockKind, block: &[u8]) -> bool {
        let Some(seed) = self.seed else { return true };
        let at = match kind {
            BlockKind::Commit => COMMIT_CHECKSUM,
            BlockKind::Descriptor | BlockKind::Revoke => block.len().saturating_sub(TAIL_BYTES),
        };
        be32(block, at) == Some(zeroed(seed, block, at).0)
    }

    /// Whether `data`, as it lies in the journal, is what `tag` of transaction
    /// `tid` describes.
    #[must_use]
    pub fn data_is_intact(&self, tid: Tid, tag: &Tag, data: &[u8]) -> bool {
        let Some(seed) = self.seed else { return true };
        let computed = seed.bytes(&tid.0.to_be_bytes()).bytes(data).0;
        if self.features.contains(Features::CSUM_V3) {
            tag.checksum == computed
        } else {
            tag.checksum == computed & 0xffff
        }
    }

    /// Whether data blocks have checksums of their own.
    #[must_use]
    pub fn has_data_checksums(&self) -> bool {
        self.seed.is_some()
    }

    /// The tags of a descriptor block, in the order of the data blocks.
    pub fn tags<'a>(&self, block: &'a [u8]) -> impl Iterator<Item = Tag> + use<'a> {
        let format = *self;
        let body = &block[..block.len() - format.tail_bytes().min(block.len())];
        let mut next = Some(HEADER_BYTES);
        std::iter::from_fn(move || {
            let at = next.take()?;
            let tag = body.get(at..at + format.tag_bytes())?;
            let (parsed, flags) = format.tag(tag)?;
            if flags & TAG_LAST == 0 {
                let uuid_bytes = if flags & TAG_SAME_UUID == 0 {
                    UUID_BYTES
                } else {
                    0
                };
                next = Some(at + format.tag_bytes() + uuid_bytes);
            }
            Some(parsed)
        })
    }

    fn tag(&self, tag: &[u8]) -> Option<(Tag, u32)> {
        let low = be32(tag, 0)?;
        let (flags, checksum, high_at) = if self.features.contains(Features::CSUM_V3) {
            (be32(tag, 4)?, be32(tag, 12)?, 8)
        } else {
            (be16(tag, 6)?.into(), be16(tag, 4)?.into(), 8)
        };
        let high = if self.features.contains(Features::BIT64) {
            be32(tag, high_at)?
        } else {
            0
        };
        let parsed = Tag {
            home: FsBlock(u64::from(high) << 32 | u64::from(low)),
            is_escaped: flags & TAG_ESCAPED != 0,
            checksum,
        };
        Some((parsed, flags))
    }

    fn tag_bytes(&self) -> usize {
        if self.features.contains(Features::CSUM_V3) {
            return 16;
        }
        let checksum_bytes = if self.features.contains(Features::CSUM_V2) {
            2
        } else {
            0
        };
        let home_bytes = if self.features.contains(Features::BIT64) {
            12
        } else {
            8
        };
        home_bytes + checksum_bytes
    }

    fn tail_bytes(&self) -> usize {
        if self.seed.is_some() { TAIL_BYTES } else { 0 }
    }

    /// The blocks that a revoke block names; `None` if its count is wrong.
    #[must_use]
    pub fn revoked<'a>(&self, block: &'a [u8]) -> Option<impl Iterator<Item = FsBlock> + use<'a>> {
        let is_wide = self.features.contains(Features::BIT64);
        let end = usize::try_from(be32(block, HEADER_BYTES)?).ok()?;
        let records = block.get(HEADER_BYTES + 4..end)?;
        let fits = end <= block.len() - self.tail_bytes();
        fits.then(|| {
            records
                .chunks_exact(if is_wide { 8 } else { 4 })
                .map(|record| {
                    FsBlock(
                        record
                            .iter()
                            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
                    )
                })
        })
    }
}

const TAG_ESCAPED: u32 = 0x1;
const TAG_SAME_UUID: u32 = 0x2;
const TAG_LAST: u32 = 0x8;

/// What a commit block says; `None` if it is too short.
#[must_use]
pub fn commit(block: &[u8]) -> Option<Commit> {
    let seconds = u64::from(be32(block, 0x30)?) << 32 | u64::from(be32(block, 0x34)?);
    let has_crc32 = *block.get(HEADER_BYTES)? == CHECKSUM_TYPE_CRC32
        && usize::from(*block.get(HEADER_BYTES + 1)?) == size_of::<u32>();
    Some(Commit {
        time: (seconds, be32(block, 0x38)?),
        crc32: has_crc32.then_some(be32(block, COMMIT_CHECKSUM)?),
    })
}

/// The CRC-32 of a transaction as commit blocks hold it: most significant bit
/// first, started from all ones, not inverted at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(pub u32);

impl Crc32 {
    /// The checksum of no bytes.
    pub const START: Self = Self(!0);

    /// This checksum, continued with `bytes`.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |crc, byte| {
            let [high, ..] = crc.to_be_bytes();
            (crc << 8) ^ CRC32_TABLE[usize::from(high ^ byte)]
        }))
    }
}

const CRC32_TABLE: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut seed: u32 = 0;
    while index < table.len() {
        let mut crc = seed << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ if crc >> 31 == 1 { 0x04C1_1DB7 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
        seed += 1;
    }
    table
}

/// The checksum of `bytes` with the four at `at` taken as zeros.
fn zeroed(seed: Crc32c, bytes: &[u8], at: usize) -> Crc32c {
    let (before, rest) = bytes.split_at(at.min(bytes.len()));
    seed.bytes(before)
        .bytes(&[0; 4])
        .bytes(rest.get(4..).unwrap_or_default())
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn corrupt(what: &'static str) -> Error {
    Error::corrupt(Place::Journal(0), what)
}

fn check(holds: bool, what: &'static str) -> Result<()> {
    if holds { Ok(()) } else { Err(corrupt(what)) }
}
