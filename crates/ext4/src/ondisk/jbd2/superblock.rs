//! The journal's superblock, which is the first block of the journal.

use super::block::Format;
use super::header::{Features, MAGIC, Tid, be32, zeroed};
use crate::error::Place;
use crate::ondisk::checksum::Crc32c;
use crate::{Error, Result};

/// The length in bytes of the journal's superblock.
pub const SUPERBLOCK_BYTES: usize = 1024;

const UUID_BYTES: usize = 16;
const CHECKSUM_TYPE_CRC32C: u8 = 4;
const S_TYPE: usize = 0x4;
const TYPE_V1: u32 = 3;
const TYPE_V2: u32 = 4;
const S_SEQUENCE: usize = 0x18;
const S_START: usize = 0x1c;
const S_ERRNO: usize = 0x20;
const S_FEATURE_COMPAT: usize = 0x24;
const S_FEATURE_INCOMPAT: usize = 0x28;
const S_FEATURE_RO_COMPAT: usize = 0x2c;
const S_USERS: usize = 0x40;
const S_CHECKSUM_TYPE: usize = 0x50;
const S_CHECKSUM: usize = 0xfc;
/// The minimum number of blocks of a journal, without the blocks for fast commits.
const MIN_BLOCKS: u32 = 1024;
/// The number of blocks of the fast-commit area if the field in the superblock is 0.
const DEFAULT_FAST_COMMIT_BLOCKS: u32 = 256;

/// Compatible feature: commit blocks hold a CRC-32 of the transaction.
const COMPAT_CHECKSUM: u32 = 0x1;

/// The journal's superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSuperblock {
    /// The version, which is 1 or 2. Only a journal of version 2 has features.
    pub version: u8,
    /// The size of a block in bytes.
    pub block_size_bytes: u32,
    /// The number of blocks of the journal, including the superblock.
    pub length_blocks: u32,
    /// The first block of the log.
    pub first: u32,
    /// The block after the last block of the log.
    pub end: u32,
    /// The number of the first transaction in the log, or of the next transaction if the log is
    /// empty.
    pub sequence: Tid,
    /// The block at which the first transaction starts; 0 if the log is empty.
    pub start: u32,
    /// The error that aborted the journal; 0 if the journal was not aborted.
    pub errno: u32,
    /// Features.
    pub features: Features,
    /// Whether commit blocks hold a CRC-32 of the whole transaction.
    pub has_commit_crc32: bool,
    /// The journal's UUID.
    pub uuid: [u8; UUID_BYTES],
}

impl JournalSuperblock {
    /// Parses a superblock and checks that its numbers are consistent.
    ///
    /// # Errors
    /// [`Error::UnsupportedFeature`] for an unknown feature; [`Error::Corrupt`] otherwise.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let bytes: &[u8; SUPERBLOCK_BYTES] = bytes
            .first_chunk()
            .ok_or_else(|| Place::Journal(0).corrupt("journal superblock is truncated"))?;
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        check(word(0) == MAGIC, "journal superblock has no magic number")?;
        let version = match word(S_TYPE) {
            TYPE_V1 => 1,
            TYPE_V2 => 2,
            _ => return Err(Place::Journal(0).corrupt("journal superblock has an unknown type")),
        };
        let (compat, incompat, ro_compat) = match version {
            1 => (0, 0, 0),
            _ => (
                word(S_FEATURE_COMPAT),
                word(S_FEATURE_INCOMPAT),
                word(S_FEATURE_RO_COMPAT),
            ),
        };
        let features = known_features(incompat)?;
        check_unknown("ro_compat", ro_compat)?;
        let has_commit_crc32 = compat & COMPAT_CHECKSUM != 0;
        check_checksums(bytes, features, has_commit_crc32)?;
        let mut sb = Self {
            version,
            block_size_bytes: word(0xc),
            length_blocks: word(0x10),
            first: word(0x14),
            end: word(0x10),
            sequence: Tid(word(S_SEQUENCE)),
            start: word(S_START),
            errno: word(S_ERRNO),
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
            "the journal has no blocks for a log",
        )?;
        check(sb.end >= MIN_BLOCKS, "the journal is too short")?;
        check(
            sb.start == 0 || (sb.first..sb.end).contains(&sb.start),
            "the log starts outside the journal",
        )?;
        Ok(sb)
    }

    /// Stores the fields that can change (the log's position, the features and the error) into
    /// `bytes`, the superblock as it was read, and sets its checksum. If `bytes` has version 1 and
    /// `self` has version 2, initializes the fields that version 1 does not have.
    pub fn store(&self, bytes: &mut [u8; SUPERBLOCK_BYTES]) {
        if self.version == 2 && be32(bytes, S_TYPE) == Some(TYPE_V1) {
            bytes[S_FEATURE_COMPAT..].fill(0);
            bytes[S_USERS..S_USERS + 4].copy_from_slice(&1_u32.to_be_bytes());
            bytes[S_TYPE..S_TYPE + 4].copy_from_slice(&TYPE_V2.to_be_bytes());
        }
        let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
        put(S_SEQUENCE, self.sequence.0);
        put(S_START, self.start);
        put(S_ERRNO, self.errno);
        put(S_FEATURE_INCOMPAT, self.features.bits());
        if !self.has_commit_crc32 {
            let compat = be32(bytes, S_FEATURE_COMPAT).unwrap_or(0) & !COMPAT_CHECKSUM;
            bytes[S_FEATURE_COMPAT..S_FEATURE_COMPAT + 4].copy_from_slice(&compat.to_be_bytes());
        }
        if self.format().has_data_checksums() {
            bytes[S_CHECKSUM_TYPE] = CHECKSUM_TYPE_CRC32C;
            bytes[S_CHECKSUM..S_CHECKSUM + 4].fill(0);
            let checksum = Crc32c::START.bytes(bytes);
            bytes[S_CHECKSUM..S_CHECKSUM + 4].copy_from_slice(&checksum.0.to_be_bytes());
        }
    }

    /// Returns the blocks for fast commits; an empty range without the feature. One block between
    /// the log and these blocks is unused.
    #[must_use]
    pub fn fast_commit_blocks(&self) -> std::ops::Range<u32> {
        self.end.saturating_add(1).min(self.length_blocks)..self.length_blocks
    }

    /// Returns the layout of the blocks of this journal's log.
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
    check_unknown("incompat", incompat & !Features::all().bits())?;
    Ok(Features::from_bits_truncate(incompat))
}

/// If there are unknown features, returns an error that names the lowest of their bits.
fn check_unknown(kind: &str, unknown: u32) -> Result<()> {
    if unknown == 0 {
        return Ok(());
    }
    let bit = unknown.trailing_zeros();
    Err(Error::UnsupportedFeature(format!("journal_{kind}_{bit}")))
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
    check(kinds <= 1, "the journal has several checksum features")?;
    if v2 || v3 {
        check(
            bytes[S_CHECKSUM_TYPE] == CHECKSUM_TYPE_CRC32C,
            "the journal has an unknown checksum type",
        )?;
        let computed = zeroed(Crc32c::START, bytes, S_CHECKSUM);
        check(
            Some(computed.0) == be32(bytes, S_CHECKSUM),
            "checksum of the journal superblock is wrong",
        )?;
    }
    Ok(())
}

fn check(holds: bool, what: &'static str) -> Result<()> {
    Place::Journal(0).ensure(holds, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a superblock of version 2 with these words; the others are zero.
    fn bytes(words: &[(usize, u32)]) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let usual = [
            (0, MAGIC),
            (4, 4),
            (0xc, 1024),
            (0x10, 1024),
            (0x14, 1),
            (0x18, 9),
        ];
        for (at, word) in usual.iter().chain(words) {
            bytes[*at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn fast_commit_area_takes_the_last_blocks() {
        let long = (0x10, 2048);
        let sb = JournalSuperblock::parse(&bytes(&[long, (0x28, 0x20), (0x54, 16)])).unwrap();
        assert_eq!((sb.end, sb.fast_commit_blocks()), (2032, 2033..2048));
        let sb = JournalSuperblock::parse(&bytes(&[long, (0x28, 0x20)])).unwrap();
        assert_eq!((sb.end, sb.fast_commit_blocks()), (1792, 1793..2048));
        let sb = JournalSuperblock::parse(&bytes(&[])).unwrap();
        assert!(sb.fast_commit_blocks().is_empty());
    }

    #[test]
    fn unknown_incompatible_feature_is_refused_by_bit() {
        let error = JournalSuperblock::parse(&bytes(&[(0x28, 0x80)])).unwrap_err();
        assert!(matches!(error, Error::UnsupportedFeature(name) if name == "journal_incompat_7"));
        // Version 1 has no features, regardless of the field's content.
        assert!(JournalSuperblock::parse(&bytes(&[(4, 3), (0x28, 0x80)])).is_ok());
    }

    #[test]
    fn contradictory_numbers_are_corrupt() {
        let cases: &[&[(usize, u32)]] = &[
            &[(0, 1)],
            &[(4, 1)],
            &[(0x14, 0)],
            &[(0x14, 1024)],
            &[(0x10, 0)],
            &[(0x1c, 1024)],
            &[(0x14, 8), (0x1c, 7)],
            &[(0x10, 1023)],
            &[(0x28, 0x20), (0x54, 1)],
            &[(0x28, 0x20), (0x54, 1024)],
            &[(0x28, 0x20), (0x54, u32::MAX)],
            &[(0x28, 0x18)],
            &[(0x24, 1), (0x28, 0x10)],
            &[(0x28, 0x10)],
            &[(0x28, 0x10), (0x50, 4 << 24)],
        ];
        for words in cases {
            let outcome = JournalSuperblock::parse(&bytes(words));
            assert!(matches!(outcome, Err(Error::Corrupt(_))), "{words:x?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_superblock_parses_to_a_log_inside_the_journal(
            words in prop::collection::vec((2_usize..32, any::<u32>()), 0..8),
        ) {
            let words: Vec<_> = words.iter().map(|(at, word)| (at * 4, *word)).collect();
            if let Ok(sb) = JournalSuperblock::parse(&bytes(&words)) {
                prop_assert!(sb.first > 0 && sb.first < sb.end && sb.end <= sb.length_blocks);
                prop_assert!(sb.start == 0 || (sb.first..sb.end).contains(&sb.start));
                prop_assert!(sb.fast_commit_blocks().end <= sb.length_blocks);
            }
        }
    }
}
