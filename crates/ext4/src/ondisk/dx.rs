//! Nodes of a directory's hash tree.
//!
//! The root hides behind the record of `..`, the other nodes are one free
//! record of a whole block. An entry leads to the block that holds the names
//! whose hashes are at least the entry's and less than the next one's; the
//! first entry's hash is not stored, its place holds how many entries there
//! are and could be. A hash whose lowest bit is set says that the names of that
//! hash began in the block before.
//!
//! ```text
//! root: "." (12 bytes), ".." (12 bytes, its record reaches to the end),
//!       reserved (4), hash_version, info_length = 8, indirect_levels, unused_flags,
//!       entries from byte 32
//! node: a free record's header (8 bytes), entries from byte 8
//! entries: limit (2), count (2), block (4); then hash (4), block (4) each
//! tail, behind room for `limit` entries: reserved (4), checksum (4)
//! ```

pub(super) const ENTRY_BYTES: usize = 8;
pub(super) const TAIL_BYTES: usize = 8;
pub(super) const ROOT_INFO_OFFSET: usize = 24;
pub(super) const ROOT_INFO_BYTES: u8 = 8;
pub(super) const ROOT_ENTRIES_OFFSET: usize = 32;
pub(super) const NODE_ENTRIES_OFFSET: usize = 8;

/// The part of an entry's block number that is one: the rest is reserved.
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// What the root says of the whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxInfo {
    /// The number of the hash function.
    pub hash_version: u8,
    /// How many levels of nodes lie between the root and the leaves.
    pub indirect_levels: u8,
    /// Flags that should be zero.
    pub unused_flags: u8,
}

/// The entries of a root or another node.
#[derive(Clone, Copy, Debug)]
pub struct DxNode<'a> {
    block: &'a [u8],
    entries_offset: usize,
    limit: usize,
    count: usize,
}

/// A checksum and the two parts of a block that it covers, followed by four
/// zero bytes in place of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxChecksum<'a> {
    /// Everything before the first free entry.
    pub head: &'a [u8],
    /// The tail without the checksum.
    pub tail: &'a [u8],
    /// The checksum.
    pub checksum: u32,
}

/// What a block of an indexed directory looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DxShape {
    /// The root of the tree.
    Root,
    /// A node below the root.
    Node,
    /// A block of entries.
    Leaf,
}

impl DxShape {
    /// The shape of `block` by its first records.
    #[must_use]
    pub fn of(block: &[u8]) -> Self {
        let rec_len = |at: usize| Some(usize::from(u16_at(block, at + 4)?));
        let whole = |len_bytes, whole_bytes: usize| {
            len_bytes == Some(whole_bytes)
                || whole_bytes == 1 << 16 && matches!(len_bytes, Some(0 | 0xffff))
        };
        if u32_at(block, 0) == Some(0) && whole(rec_len(0), block.len()) {
            Self::Node
        } else if rec_len(0) == Some(12)
            && rec_len(12) == block.len().checked_sub(12)
            && u32_at(block, ROOT_INFO_OFFSET) == Some(0)
            && block.get(ROOT_INFO_OFFSET + 5) == Some(&ROOT_INFO_BYTES)
        {
            Self::Root
        } else {
            Self::Leaf
        }
    }
}

impl DxInfo {
    /// Reads the root's description of the tree.
    pub fn parse(root: &[u8]) -> Result<Self, &'static str> {
        let info = root.get(ROOT_INFO_OFFSET..ROOT_ENTRIES_OFFSET);
        let Some(
            &[
                0,
                0,
                0,
                0,
                hash_version,
                ROOT_INFO_BYTES,
                indirect_levels,
                unused_flags,
            ],
        ) = info
        else {
            return Err("root of the hash tree has a malformed description");
        };
        Ok(Self {
            hash_version,
            indirect_levels,
            unused_flags,
        })
    }
}

impl<'a> DxNode<'a> {
    /// The entries of the root in `block`. `has_tail` says whether the file
    /// system keeps checksums of metadata.
    pub fn root(block: &'a [u8], has_tail: bool) -> Result<Self, &'static str> {
        Self::parse(block, ROOT_ENTRIES_OFFSET, has_tail)
    }

    /// The entries of the node in `block`.
    pub fn node(block: &'a [u8], has_tail: bool) -> Result<Self, &'static str> {
        Self::parse(block, NODE_ENTRIES_OFFSET, has_tail)
    }

    fn parse(block: &'a [u8], entries_offset: usize, has_tail: bool) -> Result<Self, &'static str> {
        let (Some(limit), Some(count)) = (
            u16_at(block, entries_offset).map(usize::from),
            u16_at(block, entries_offset + 2).map(usize::from),
        ) else {
            return Err("node of the hash tree is too short");
        };
        let tail_bytes = if has_tail { TAIL_BYTES } else { 0 };
        let room_bytes = block.len().saturating_sub(entries_offset + tail_bytes);
        if limit != room_bytes / ENTRY_BYTES {
            return Err("node of the hash tree has a wrong limit of entries");
        }
        if count == 0 || count > limit {
            return Err("node of the hash tree has a wrong number of entries");
        }
        Ok(Self {
            block,
            entries_offset,
            limit,
            count,
        })
    }

    /// How many entries there are: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The hash from which on entry `index` holds the names. The first has all
    /// from 0 on.
    #[must_use]
    pub fn hash(&self, index: usize) -> u32 {
        if index == 0 {
            return 0;
        }
        u32_at(self.block, self.entries_offset + index * ENTRY_BYTES).unwrap_or(u32::MAX)
    }

    /// The block of the directory that entry `index` leads to.
    #[must_use]
    pub fn block(&self, index: usize) -> u32 {
        u32_at(self.block, self.entries_offset + index * ENTRY_BYTES + 4).unwrap_or(u32::MAX)
            & BLOCK_MASK
    }

    /// The last entry whose hash is not greater than `hash`.
    #[must_use]
    pub fn search(&self, hash: u32) -> usize {
        let (mut low, mut high) = (0, self.count);
        // The entry at `low` is not greater, the one at `high` is or is none.
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

    /// Whether the hashes rise: if not, names behind the disorder are not found.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        (1..self.count).is_sorted_by_key(|index| self.hash(index))
    }

    /// The checksum and what it covers, if the node was parsed as having a tail.
    #[must_use]
    pub fn checksum(&self) -> Option<DxChecksum<'a>> {
        let tail_offset = self.entries_offset + self.limit * ENTRY_BYTES;
        Some(DxChecksum {
            head: self
                .block
                .get(..self.entries_offset + self.count * ENTRY_BYTES)?,
            tail: self.block.get(tail_offset..tail_offset + 4)?,
            checksum: u32_at(self.block, tail_offset + 4)?,
        })
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
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
        let node = DxNode::node(&block, true).unwrap();
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
        assert_eq!(DxShape::of(&block), DxShape::Node);
    }

    #[test]
    fn node_with_wrong_counts_is_refused() {
        let good = node_of(&[(0, 1), (100, 2)]);
        for (at, value) in [(8, 127_u16), (8, 0), (10, 0), (10, 127)] {
            let mut block = good.clone();
            block[at..at + 2].copy_from_slice(&value.to_le_bytes());
            assert!(DxNode::node(&block, true).is_err(), "{at} {value}");
        }
        assert!(DxNode::node(&good, false).is_err(), "limit with a tail");
    }

    #[test]
    fn node_out_of_order_is_noticed() {
        let block = node_of(&[(0, 1), (200, 2), (100, 3)]);
        assert!(!DxNode::node(&block, true).unwrap().is_sorted());
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
            let node = if root { DxNode::root(&block, has_tail) } else { DxNode::node(&block, has_tail) };
            prop_assert_eq!(node.is_ok(), (1..=limit).contains(&usize::from(count)));
            if let Ok(node) = node {
                prop_assert!(node.search(hash) < node.count());
                prop_assert!(!has_tail || node.checksum().is_some());
            }
        }

        #[test]
        fn node_of_any_length_is_no_panic(block in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (DxShape::of(&block), DxInfo::parse(&block));
            for has_tail in [false, true] {
                let _ = (DxNode::root(&block, has_tail), DxNode::node(&block, has_tail));
            }
        }
    }
}
