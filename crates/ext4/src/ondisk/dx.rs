//! Nodes of a directory's hash tree.
//!
//! The root is stored in the space after the `..` entry; every other node is one free record that
//! fills its block. An entry refers to the block with the names whose hashes are at least the hash
//! of the entry and less than the hash of the next entry. The hash of the first entry is not
//! stored: its bytes contain the limit and the count of entries. If the lowest bit of an entry's
//! hash is set, the preceding block also contains names with that hash.
//!
//! ```text
//! root: "." (12 bytes), ".." (12 bytes, its record reaches to the end),
//!       reserved (4), hash_version, info_length = 8, indirect_levels, unused_flags,
//!       entries from byte 32
//! node: a free record's header (8 bytes), entries from byte 8
//! entries: limit (2), count (2), block (4); then hash (4), block (4) each
//! tail, after space for `limit` entries: reserved (4), checksum (4)
//! ```

use super::Damage;
use super::checksum::Crc32c;
use super::fields::{le16, le32};

pub(super) const ENTRY_BYTES: usize = 8;
const TAIL_BYTES: usize = 8;
pub(super) const ROOT_INFO_OFFSET: usize = 24;
pub(super) const ROOT_INFO_BYTES: u8 = 8;
pub(super) const ROOT_ENTRIES_OFFSET: usize = 32;
pub(super) const NODE_ENTRIES_OFFSET: usize = 8;

/// The bits of an entry's block field that hold the block number. The other bits are reserved.
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// The description of the whole tree in the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxInfo {
    /// The number of the hash function.
    pub hash_version: u8,
    /// The number of levels of nodes between the root and the leaves.
    pub indirect_levels: u8,
    /// Flags, which should be zero.
    pub unused_flags: u8,
}

/// The kind of a node, which determines where its entries are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DxKind {
    /// The root, in which the entries follow "." and "..".
    Root,
    /// A node below the root, in which the entries follow the header of a free record.
    Inner,
}

/// The entries of a root or another node.
#[derive(Clone, Copy, Debug)]
pub struct DxNode<'a> {
    block: &'a [u8],
    entries_offset: usize,
    limit: usize,
    count: usize,
}

impl DxKind {
    /// Determines the kind of `block` from its first records. Returns `None` for a leaf, which
    /// contains directory entries.
    #[must_use]
    pub fn of(block: &[u8]) -> Option<Self> {
        let rec_len = |at: usize| Some(usize::from(le16(block, at + 4)?));
        let whole = |len_bytes, whole_bytes: usize| {
            len_bytes == Some(whole_bytes)
                || whole_bytes == 1 << 16 && matches!(len_bytes, Some(0 | 0xffff))
        };
        if le32(block, 0) == Some(0) && whole(rec_len(0), block.len()) {
            return Some(Self::Inner);
        }
        let is_root = rec_len(0) == Some(12)
            && rec_len(12) == block.len().checked_sub(12)
            && le32(block, ROOT_INFO_OFFSET) == Some(0)
            && block.get(ROOT_INFO_OFFSET + 5) == Some(&ROOT_INFO_BYTES);
        is_root.then_some(Self::Root)
    }

    pub(super) fn entries_offset(self) -> usize {
        match self {
            Self::Root => ROOT_ENTRIES_OFFSET,
            Self::Inner => NODE_ENTRIES_OFFSET,
        }
    }

    /// Returns the maximum number of entries in a node of this kind.
    pub(crate) fn limit(self, block_bytes: usize, has_tail: bool) -> usize {
        let tail_bytes = if has_tail { TAIL_BYTES } else { 0 };
        block_bytes.saturating_sub(self.entries_offset() + tail_bytes) / ENTRY_BYTES
    }
}

impl DxInfo {
    /// Parses the root's description of the tree.
    pub fn parse(root: &[u8]) -> Result<Self, Damage> {
        let reserved = le32(root, ROOT_INFO_OFFSET);
        let info = root.get(ROOT_INFO_OFFSET + 4..ROOT_ENTRIES_OFFSET);
        let (Some(0), Some(&[hash_version, ROOT_INFO_BYTES, indirect_levels, unused_flags])) =
            (reserved, info)
        else {
            return Err("root of the hash tree has a malformed header");
        };
        Ok(Self {
            hash_version,
            indirect_levels,
            unused_flags,
        })
    }
}

impl<'a> DxNode<'a> {
    /// Parses the entries of the node in `block`. `has_tail` must be true if the file system has
    /// metadata checksums.
    pub fn parse(block: &'a [u8], kind: DxKind, has_tail: bool) -> Result<Self, Damage> {
        let entries_offset = kind.entries_offset();
        let (Some(limit), Some(count)) = (
            le16(block, entries_offset).map(usize::from),
            le16(block, entries_offset + 2).map(usize::from),
        ) else {
            return Err("node of the hash tree is too short");
        };
        if limit != kind.limit(block.len(), has_tail) {
            return Err("node of the hash tree has a wrong entry limit");
        }
        if count == 0 || count > limit {
            return Err("node of the hash tree has a wrong entry count");
        }
        Ok(Self {
            block,
            entries_offset,
            limit,
            count,
        })
    }

    /// Returns the number of entries, at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the lower bound of the hashes of entry `index`. It is 0 for the first entry.
    #[must_use]
    pub fn hash(&self, index: usize) -> u32 {
        if index == 0 {
            return 0;
        }
        le32(self.block, self.entries_offset + index * ENTRY_BYTES).unwrap_or(u32::MAX)
    }

    /// Returns the directory block to which entry `index` refers.
    #[must_use]
    pub fn block(&self, index: usize) -> u32 {
        le32(self.block, self.entries_offset + index * ENTRY_BYTES + 4).unwrap_or(u32::MAX)
            & BLOCK_MASK
    }

    /// Returns the index of the last entry whose hash is at most `hash`.
    #[must_use]
    pub fn search(&self, hash: u32) -> usize {
        let (mut low, mut high) = (0, self.count);
        // The hash at `low` is at most `hash`. The hash at `high` is greater, or `high` is the
        // count.
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.hash(middle) <= hash {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Returns whether the hashes are in ascending order. If they are not, some names cannot be
    /// found.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        (1..self.count).is_sorted_by_key(|index| self.hash(index))
    }

    /// Returns the computed and the stored checksum of a node that was parsed with a tail. `seed`
    /// must be the seed of the directory. The checksum covers all bytes before the first free
    /// entry, and the tail with a zeroed checksum field.
    #[must_use]
    pub fn checksum(&self, seed: Crc32c) -> Option<(u32, u32)> {
        let end = self.entries_offset + self.count * ENTRY_BYTES;
        let at = self.checksum_offset();
        let covered = seed.bytes(self.block.get(..end)?);
        let covered = covered.bytes(self.block.get(at - 4..at)?);
        Some((covered.u32(0).0, le32(self.block, at)?))
    }

    /// Returns the offset of the checksum.
    pub(super) fn checksum_offset(&self) -> usize {
        self.entries_offset + self.limit * ENTRY_BYTES + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node_of(entries: &[(u32, u32)]) -> Vec<u8> {
        let mut block = vec![0; 1024];
        block[4..6].copy_from_slice(&1024_u16.to_le_bytes());
        for (index, (hash, target)) in entries.iter().enumerate() {
            let at = 8 + index * 8;
            block[at..at + 4].copy_from_slice(&hash.to_le_bytes());
            block[at + 4..at + 8].copy_from_slice(&target.to_le_bytes());
        }
        block[8..10].copy_from_slice(&126_u16.to_le_bytes());
        block[10..12].copy_from_slice(&u16::try_from(entries.len()).unwrap().to_le_bytes());
        block
    }

    #[test]
    fn search_between_hashes_finds_the_entry_before() {
        let block = node_of(&[(0, 1), (100, 2), (200, 3), (201, 4), (300, 0xf000_0005)]);
        let node = DxNode::parse(&block, DxKind::Inner, true).unwrap();
        for (hash, index) in [
            (0, 0),
            (98, 0),
            (100, 1),
            (199, 1),
            (200, 2),
            (202, 3),
            (u32::MAX, 4),
        ] {
            assert_eq!(node.search(hash), index, "{hash}");
        }
        assert_eq!(node.block(4), 5, "reserved bits are not part of the number");
        assert!(node.is_sorted());
        assert_eq!(DxKind::of(&block), Some(DxKind::Inner));
    }

    #[test]
    fn node_with_wrong_counts_is_refused() {
        let good = node_of(&[(0, 1), (100, 2)]);
        for (at, value) in [(8, 127_u16), (8, 0), (10, 0), (10, 127)] {
            let mut block = good.clone();
            block[at..at + 2].copy_from_slice(&value.to_le_bytes());
            assert!(
                DxNode::parse(&block, DxKind::Inner, true).is_err(),
                "{at} {value}"
            );
        }
        assert!(
            DxNode::parse(&good, DxKind::Inner, false).is_err(),
            "limit with a tail"
        );
    }

    #[test]
    fn unsorted_node_is_detected() {
        let block = node_of(&[(0, 1), (200, 2), (100, 3)]);
        assert!(
            !DxNode::parse(&block, DxKind::Inner, true)
                .unwrap()
                .is_sorted()
        );
    }

    proptest! {
        #[test]
        fn node_of_any_bytes_finds_an_entry_that_exists(
            mut block in prop::collection::vec(any::<u8>(), 512..=512),
            hash in any::<u32>(), count in 0_u16..80, has_tail in any::<bool>(), root in any::<bool>(),
        ) {
            let at = if root { 32 } else { 8 };
            let limit = (512 - at - if has_tail { 8 } else { 0 }) / 8;
            block[at..at + 2].copy_from_slice(&u16::try_from(limit).unwrap().to_le_bytes());
            block[at + 2..at + 4].copy_from_slice(&count.to_le_bytes());
            let kind = if root { DxKind::Root } else { DxKind::Inner };
            let node = DxNode::parse(&block, kind, has_tail);
            prop_assert_eq!(node.is_ok(), (1..=limit).contains(&usize::from(count)));
            if let Ok(node) = node {
                prop_assert!(node.search(hash) < node.count());
                prop_assert!(!has_tail || node.checksum(Crc32c::START).is_some());
            }
        }

        #[test]
        fn node_of_any_length_does_not_panic(block in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (DxKind::of(&block), DxInfo::parse(&block));
            for has_tail in [false, true] {
                for kind in [DxKind::Root, DxKind::Inner] {
                    let _ = DxNode::parse(&block, kind, has_tail);
                }
            }
        }
    }
}
