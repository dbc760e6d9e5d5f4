//! Encoding of the blocks of the log.

use super::block::{
    BlockKind, COMMIT_CHECKSUM, Format, HEADER_BYTES, TAG_ESCAPED, TAG_LAST, TAG_SAME_UUID,
    TAIL_BYTES, Tag, UUID_BYTES,
};
use super::header::{Features, MAGIC, Tid, zeroed};
use crate::FsBlock;
use std::time::Duration;

/// The offset in bytes of the records in a revoke block.
const REVOKE_HEADER_BYTES: usize = HEADER_BYTES + 4;
const COMMIT_SECONDS: usize = 0x30;

impl Format {
    /// Returns the number of tags that fit in a descriptor block.
    pub(crate) fn tags_in_block(&self, block_size_bytes: usize) -> usize {
        let taken = HEADER_BYTES + UUID_BYTES + self.tail_bytes();
        block_size_bytes.saturating_sub(taken) / self.tag_bytes()
    }

    /// Returns the number of revocations that fit in a revoke block.
    pub(crate) fn revocations_in_block(&self, block_size_bytes: usize) -> usize {
        let taken = REVOKE_HEADER_BYTES + self.tail_bytes();
        block_size_bytes.saturating_sub(taken) / self.revocation_bytes()
    }

    fn revocation_bytes(&self) -> usize {
        if self.has(Features::BIT64) { 8 } else { 4 }
    }

    /// Returns the tag of a data block of transaction `tid` whose home is `home`. `data` is the
    /// block as stored in the journal, escaped if necessary.
    pub(crate) fn tag_of(&self, tid: Tid, home: FsBlock, data: &[u8], is_escaped: bool) -> Tag {
        let checksum = self.seed.map(|seed| self.data_checksum(seed, tid, data));
        Tag {
            home,
            is_escaped,
            checksum: checksum.unwrap_or(0),
        }
    }

    /// Encodes a descriptor block with `tags`, which must fit in it.
    #[must_use]
    pub fn descriptor(
        &self,
        tid: Tid,
        uuid: &[u8; UUID_BYTES],
        tags: &[Tag],
        block_size_bytes: usize,
    ) -> Vec<u8> {
        let mut block = header(BlockKind::Descriptor, tid, block_size_bytes);
        for (index, tag) in tags.iter().enumerate() {
            let mut flags = 0;
            for (flag, is_set) in [
                (TAG_ESCAPED, tag.is_escaped),
                (TAG_SAME_UUID, index > 0),
                (TAG_LAST, index + 1 == tags.len()),
            ] {
                flags |= if is_set { flag } else { 0 };
            }
            self.push_tag(&mut block, tag, flags);
            if index == 0 {
                block.extend_from_slice(uuid);
            }
        }
        self.finish(block, block_size_bytes)
    }

    fn push_tag(&self, block: &mut Vec<u8>, tag: &Tag, flags: u32) {
        let [h0, h1, h2, h3, l0, l1, l2, l3] = tag.home.0.to_be_bytes();
        let [c0, c1, c2, c3] = tag.checksum.to_be_bytes();
        let [f0, f1, f2, f3] = flags.to_be_bytes();
        let has_high = self.has(Features::BIT64);
        let high = if has_high { [h0, h1, h2, h3] } else { [0; 4] };
        block.extend_from_slice(&[l0, l1, l2, l3]);
        if self.has(Features::CSUM_V3) {
            block.extend_from_slice(&[f0, f1, f2, f3]);
            block.extend_from_slice(&high);
            block.extend_from_slice(&[c0, c1, c2, c3]);
            return;
        }
        block.extend_from_slice(&[c2, c3, f2, f3]);
        if has_high {
            block.extend_from_slice(&high);
        }
        if self.has(Features::CSUM_V2) {
            block.extend_from_slice(&[0, 0]);
        }
    }

    /// Encodes a revoke block with `revoked`, which must fit in it.
    pub(crate) fn revoke_block(
        &self,
        tid: Tid,
        revoked: &[FsBlock],
        block_size_bytes: usize,
    ) -> Vec<u8> {
        let mut block = header(BlockKind::Revoke, tid, block_size_bytes);
        let used = REVOKE_HEADER_BYTES + revoked.len() * self.revocation_bytes();
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        block.extend_from_slice(&used.to_be_bytes());
        for home in revoked {
            let bytes = home.0.to_be_bytes();
            block.extend_from_slice(&bytes[bytes.len() - self.revocation_bytes()..]);
        }
        self.finish(block, block_size_bytes)
    }

    /// Encodes the block that commits transaction `tid`. `time` is the time of the commit since
    /// 1970.
    pub(crate) fn commit_block(
        &self,
        tid: Tid,
        time: Duration,
        block_size_bytes: usize,
    ) -> Vec<u8> {
        let mut block = header(BlockKind::Commit, tid, block_size_bytes);
        block.resize(block_size_bytes, 0);
        block[COMMIT_SECONDS..COMMIT_SECONDS + 8].copy_from_slice(&time.as_secs().to_be_bytes());
        block[COMMIT_SECONDS + 8..COMMIT_SECONDS + 12]
            .copy_from_slice(&time.subsec_nanos().to_be_bytes());
        self.set_checksum(&mut block, COMMIT_CHECKSUM);
        block
    }

    /// Pads the block with zeros, and sets the checksum at the end of the block.
    fn finish(&self, mut block: Vec<u8>, block_size_bytes: usize) -> Vec<u8> {
        block.resize(block_size_bytes, 0);
        self.set_checksum(&mut block, block_size_bytes - TAIL_BYTES);
        block
    }

    fn set_checksum(&self, block: &mut [u8], at: usize) {
        if let Some(seed) = self.seed {
            let checksum = zeroed(seed, block, at);
            block[at..at + TAIL_BYTES].copy_from_slice(&checksum.0.to_be_bytes());
        }
    }
}

/// Encodes the header of a block of the log.
fn header(kind: BlockKind, tid: Tid, capacity_bytes: usize) -> Vec<u8> {
    let number: u32 = match kind {
        BlockKind::Descriptor => 1,
        BlockKind::Commit => 2,
        BlockKind::Revoke => 5,
    };
    let mut block = Vec::with_capacity(capacity_bytes);
    for word in [MAGIC, number, tid.0] {
        block.extend_from_slice(&word.to_be_bytes());
    }
    block
}

/// Returns whether a data block must be escaped in the log, because it starts with the magic number
/// of the log's own blocks.
pub(crate) fn looks_like_log(block: &[u8]) -> bool {
    block.first_chunk() == Some(&MAGIC.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ondisk::checksum::Crc32c;
    use crate::ondisk::jbd2::{commit, log_block};
    use proptest::prelude::*;

    const UUID: [u8; UUID_BYTES] = [0xAB; UUID_BYTES];

    fn formats() -> impl Iterator<Item = Format> {
        let checksums = [Features::empty(), Features::CSUM_V2, Features::CSUM_V3];
        let widths = [Features::empty(), Features::BIT64];
        checksums.into_iter().flat_map(move |checksum| {
            widths.into_iter().map(move |width| Format {
                features: checksum | width | Features::REVOKE,
                seed: (!checksum.is_empty()).then(|| Crc32c::START.bytes(&UUID)),
            })
        })
    }

    /// Returns `home` truncated to the bits that `format` can store.
    fn held(format: &Format, home: u64) -> FsBlock {
        if format.features.contains(Features::BIT64) {
            FsBlock(home)
        } else {
            FsBlock(home & 0xffff_ffff)
        }
    }

    proptest! {
        #[test]
        fn log_blocks_in_every_format_are_read_back(
            homes in prop::collection::vec((any::<u64>(), any::<bool>()), 1..100),
            tid in any::<u32>(),
            seconds in any::<u32>(),
        ) {
            let tid = Tid(tid);
            for format in formats() {
                let room = format.tags_in_block(1024);
                prop_assert!((44..=124).contains(&room), "{}", room);
                let tags: Vec<Tag> = homes.iter().take(room).map(|(home, is_escaped)| {
                    format.tag_of(tid, held(&format, *home), b"data", *is_escaped)
                }).collect();
                let block = format.descriptor(tid, &UUID, &tags, 1024);
                prop_assert_eq!(log_block(&block), Some((BlockKind::Descriptor, tid)));
                prop_assert!(format.block_is_intact(BlockKind::Descriptor, &block));
                prop_assert_eq!(format.tags(&block).collect::<Vec<_>>(), tags.clone());
                prop_assert!(format.data_is_intact(tid, &tags[0], b"data"));

                let revoked: Vec<FsBlock> =
                    homes.iter().map(|(home, _)| held(&format, *home)).collect();
                let block = format.revoke_block(tid, &revoked, 1024);
                prop_assert_eq!(log_block(&block), Some((BlockKind::Revoke, tid)));
                prop_assert!(format.block_is_intact(BlockKind::Revoke, &block));
                prop_assert_eq!(format.revoked(&block).unwrap().collect::<Vec<_>>(), revoked);

                let time = Duration::new(seconds.into(), 7);
                let block = format.commit_block(tid, time, 1024);
                prop_assert_eq!(log_block(&block), Some((BlockKind::Commit, tid)));
                prop_assert!(format.block_is_intact(BlockKind::Commit, &block));
                prop_assert_eq!(commit(&block).unwrap().time_seconds, u64::from(seconds));
            }
        }
    }

    #[test]
    fn full_blocks_of_every_format_are_read_back() {
        for format in formats() {
            for block_size_bytes in [1024, 4096, 65536] {
                let homes = (0_u64..).map(FsBlock);
                let room = format.tags_in_block(block_size_bytes);
                let tags: Vec<Tag> = homes
                    .clone()
                    .take(room)
                    .map(|home| format.tag_of(Tid(1), home, b"", false))
                    .collect();
                let block = format.descriptor(Tid(1), &UUID, &tags, block_size_bytes);
                assert_eq!(block.len(), block_size_bytes);
                assert!(format.tags(&block).eq(tags));
                let room = format.revocations_in_block(block_size_bytes);
                let revoked: Vec<FsBlock> = homes.take(room).collect();
                let block = format.revoke_block(Tid(1), &revoked, block_size_bytes);
                assert_eq!(block.len(), block_size_bytes);
                assert!(format.revoked(&block).unwrap().eq(revoked));
            }
        }
    }
}
