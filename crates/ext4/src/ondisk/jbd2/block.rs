//! The blocks of the log: descriptor, revoke and commit blocks.

use super::header::{Features, MAGIC, Tid, be16, be32, zeroed};
use crate::FsBlock;
use crate::ondisk::checksum::Crc32c;

pub(super) const HEADER_BYTES: usize = 12;
pub(super) const TAIL_BYTES: usize = 4;
pub(super) const UUID_BYTES: usize = 16;
const CHECKSUM_TYPE_CRC32: u8 = 1;
pub(super) const COMMIT_CHECKSUM: usize = 0x10;
/// The length in bytes of the used part of a commit block.
const COMMIT_BYTES: usize = 64;

pub(super) const TAG_ESCAPED: u32 = 0x1;
pub(super) const TAG_SAME_UUID: u32 = 0x2;
pub(super) const TAG_LAST: u32 = 0x8;

/// The type of a block of the log that is not a copy of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A descriptor block, which contains tags. A data block follows for each tag.
    Descriptor,
    /// A commit block, which ends a transaction.
    Commit,
    /// A revoke block, which lists blocks whose copies in this and earlier transactions must not be
    /// replayed.
    Revoke,
}

/// Returns the kind and the transaction number of a descriptor, revoke or commit block, or `None`
/// for any other block.
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

/// The layout and checksums of the blocks of a log.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    pub(super) features: Features,
    /// The initial value of checksums; `None` if the journal has no checksums.
    pub(super) seed: Option<Crc32c>,
}

/// The description of one data block of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The block's home, which is its location in the file system.
    pub home: FsBlock,
    /// Whether the block's first four bytes were zeroed because they equal the magic number.
    pub is_escaped: bool,
    /// The checksum of the data block, or the low 16 bits of the checksum; 0 without checksums.
    pub checksum: u32,
}

/// The contents of a commit block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The time of the commit in whole seconds since 1970. This precision suffices to detect a
    /// commit block that was written before the log wrapped around.
    pub time_seconds: u64,
    /// The CRC-32 of the transaction's descriptor and data blocks, if the commit block contains
    /// one.
    pub crc32: Option<u32>,
}

impl Format {
    pub(super) fn has(&self, feature: Features) -> bool {
        self.features.contains(feature)
    }

    /// Returns whether a block of the log has the correct CRC-32C. Returns true if the blocks of the journal
    /// have no CRC-32C.
    ///
    /// Only the start of a commit block contains data, and the start is written atomically. All
    /// other bytes should be zeros. An interrupted write may have left other data there, so a
    /// checksum that is correct with zeros in their place is also accepted.
    #[must_use]
    pub fn block_is_intact(&self, kind: BlockKind, block: &[u8]) -> bool {
        let Some(seed) = self.seed else { return true };
        let at = match kind {
            BlockKind::Commit => COMMIT_CHECKSUM,
            BlockKind::Descriptor | BlockKind::Revoke => block.len().saturating_sub(TAIL_BYTES),
        };
        let stored = be32(block, at).map(Crc32c);
        if stored == Some(zeroed(seed, block, at)) {
            return true;
        }
        let start = block.get(..COMMIT_BYTES).unwrap_or(block);
        let rest = vec![0; block.len() - start.len()];
        kind == BlockKind::Commit && stored == Some(zeroed(seed, start, at).bytes(&rest))
    }

    /// Returns whether `data`, as stored in the journal, matches the checksum in `tag` of
    /// transaction `tid`.
    #[must_use]
    pub fn data_is_intact(&self, tid: Tid, tag: &Tag, data: &[u8]) -> bool {
        let Some(seed) = self.seed else { return true };
        tag.checksum == self.data_checksum(seed, tid, data)
    }

    /// Returns the checksum of a data block of transaction `tid`, truncated to what a tag can hold.
    pub(super) fn data_checksum(&self, seed: Crc32c, tid: Tid, data: &[u8]) -> u32 {
        let computed = seed.bytes(&tid.0.to_be_bytes()).bytes(data).0;
        let is_whole = self.has(Features::CSUM_V3);
        computed & if is_whole { u32::MAX } else { 0xffff }
    }

    /// Returns whether tags contain checksums of their data blocks.
    #[must_use]
    pub fn has_data_checksums(&self) -> bool {
        self.seed.is_some()
    }

    /// Iterates over the tags of a descriptor block, in the order of the data blocks.
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
        let (flags, checksum) = if self.has(Features::CSUM_V3) {
            (be32(tag, 4)?, be32(tag, 12)?)
        } else {
            (be16(tag, 6)?.into(), be16(tag, 4)?.into())
        };
        let high = if self.has(Features::BIT64) {
            be32(tag, 8)?
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

    pub(super) fn tag_bytes(&self) -> usize {
        if self.has(Features::CSUM_V3) {
            return 16;
        }
        let checksum_bytes = if self.has(Features::CSUM_V2) { 2 } else { 0 };
        let home_bytes = if self.has(Features::BIT64) { 12 } else { 8 };
        home_bytes + checksum_bytes
    }

    pub(super) fn tail_bytes(&self) -> usize {
        if self.seed.is_some() { TAIL_BYTES } else { 0 }
    }

    /// Iterates over the blocks that a revoke block lists. Returns `None` if the byte count of the
    /// revoke block is larger than the block. If the count ends before the first record, the list
    /// is empty.
    #[must_use]
    pub fn revoked<'a>(&self, block: &'a [u8]) -> Option<impl Iterator<Item = FsBlock> + use<'a>> {
        let is_wide = self.has(Features::BIT64);
        let end = usize::try_from(be32(block, HEADER_BYTES)?).ok()?;
        let fits = end <= block.len().checked_sub(self.tail_bytes())?;
        let start = HEADER_BYTES + 4;
        let records = block.get(start..end.max(start))?;
        fits.then(|| {
            records
                .chunks_exact(if is_wide { 8 } else { 4 })
                .map(|record| {
                    let bytes = record.iter();
                    FsBlock(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
                })
        })
    }
}

/// Parses a commit block. Returns `None` if the block is too short.
#[must_use]
pub fn commit(block: &[u8]) -> Option<Commit> {
    let time_seconds = u64::from(be32(block, 0x30)?) << 32 | u64::from(be32(block, 0x34)?);
    let has_crc32 = *block.get(HEADER_BYTES)? == CHECKSUM_TYPE_CRC32
        && usize::from(*block.get(HEADER_BYTES + 1)?) == size_of::<u32>();
    Some(Commit {
        time_seconds,
        crc32: has_crc32.then_some(be32(block, COMMIT_CHECKSUM)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format(features: Features) -> Format {
        let has_checksums = features.intersects(Features::CSUM_V2 | Features::CSUM_V3);
        Format {
            features,
            seed: has_checksums.then_some(Crc32c::START),
        }
    }

    fn descriptor(tags: &[&[u8]]) -> Vec<u8> {
        let mut block = vec![0; HEADER_BYTES];
        for tag in tags {
            block.extend_from_slice(tag);
        }
        block.resize(256, 0);
        block
    }

    #[test]
    fn tags_of_each_size_parse() {
        type Case<'a> = (Features, &'a [u8], &'a [u8], u64, u32);
        let uuid = [0xee; UUID_BYTES];
        let wide = Features::BIT64;
        let cases: [Case<'_>; 5] = [
            (
                Features::empty(),
                &[0, 0, 0, 5, 0, 0, 0, 1],
                &[0, 0, 0, 6, 0, 0, 0, 10],
                5,
                0,
            ),
            (
                wide,
                &[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2],
                &[0, 0, 0, 6, 0, 0, 0, 10, 0, 0, 0, 0],
                0x2_0000_0005,
                0,
            ),
            (
                Features::CSUM_V2,
                &[0, 0, 0, 5, 7, 8, 0, 1, 9, 9],
                &[0, 0, 0, 6, 0, 0, 0, 10, 0, 0],
                5,
                0x0708,
            ),
            (
                Features::CSUM_V2 | wide,
                &[0, 0, 0, 5, 7, 8, 0, 1, 0, 0, 0, 2, 9, 9],
                &[0, 0, 0, 6, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0],
                0x2_0000_0005,
                0x0708,
            ),
            (
                Features::CSUM_V3 | wide,
                &[0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 7, 8, 9, 10],
                &[0, 0, 0, 6, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0],
                0x2_0000_0005,
                0x0708_090a,
            ),
        ];
        for (features, first, last, home, checksum) in cases {
            let block = descriptor(&[first, &uuid, last, &[0xff; 32]]);
            let tags: Vec<Tag> = format(features).tags(&block).collect();
            assert_eq!(tags.len(), 2, "{features:?}");
            let expected = Tag {
                home: FsBlock(home),
                is_escaped: true,
                checksum,
            };
            assert_eq!(tags[0], expected, "{features:?}");
            assert_eq!(
                (tags[1].home, tags[1].is_escaped),
                (FsBlock(6), false),
                "{features:?}"
            );
        }
    }

    #[test]
    fn revoked_count_past_block_is_refused() {
        let mut block = vec![0; 64];
        block[12..16].copy_from_slice(&24_u32.to_be_bytes());
        block[19] = 7;
        let format = format(Features::REVOKE);
        let revoked: Vec<FsBlock> = format.revoked(&block).unwrap().collect();
        assert_eq!(revoked, [FsBlock(7), FsBlock(0)]);
        for count in [0_u32, 15, 16] {
            block[12..16].copy_from_slice(&count.to_be_bytes());
            assert_eq!(format.revoked(&block).unwrap().count(), 0, "{count}");
        }
        for count in [65_u32, u32::MAX] {
            block[12..16].copy_from_slice(&count.to_be_bytes());
            assert!(format.revoked(&block).is_none(), "{count}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_block_parses_without_panic(
            block in prop::collection::vec(any::<u8>(), 0..300),
            bits in 0_u32..64,
        ) {
            let format = format(Features::from_bits_truncate(bits));
            let _ = log_block(&block);
            let _ = commit(&block);
            prop_assert!(format.tags(&block).count() <= block.len() / 8);
            if let Some(revoked) = format.revoked(&block) {
                prop_assert!(revoked.count() <= block.len() / 4);
            }
            for kind in [BlockKind::Descriptor, BlockKind::Commit, BlockKind::Revoke] {
                let _ = format.block_is_intact(kind, &block);
            }
        }
    }
}
