//! Nodes of extent trees. The root is stored in the inode, and all other nodes are stored in
//! blocks.
//!
//! ```text
//! header: magic, entries, max, depth, generation           12 bytes
//! depth > 0: index entries: first file block, child block  12 bytes each
//! depth = 0: extents: first file block, length, block      12 bytes each
//! after `max` entries, with metadata_csum, not in the root: CRC-32C
//! ```
//!
//! Invariants of a tree, each checked before code relies on it:
//!
//! - A child's depth is one less than its parent's, and the root's is at most 5, so loops are
//!   impossible.
//! - Entries are sorted and do not overlap.
//! - A node maps only file blocks from the key of its index entry up to the key of the next index
//!   entry.

#[cfg(test)]
mod tests;

use super::Damage;
use super::checksum::Crc32c;
use super::fields::join32;
use crate::{FileBlock, FsBlock};
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The maximum depth of a root.
pub const DEPTH_MAX: u16 = 5;

/// The limit of file blocks: one more than the last possible file block.
pub const FILE_BLOCKS: u64 = 1 << 32;

/// The limit of physical blocks: one more than the last block that an entry can store.
pub const BLOCKS_MAX: u64 = 1 << 48;

/// The length of an entry in bytes.
pub const ENTRY_BYTES: usize = 12;

const MAGIC: u16 = 0xF30A;

/// The maximum length of a written extent. An unwritten extent stores its length plus this number.
const WRITTEN_MAX: u16 = 1 << 15;

/// The maximum length of an unwritten extent. It is one block less than that of a written extent,
/// because an unwritten extent with a length of 0 would be stored like a written extent of the
/// maximum length.
const UNWRITTEN_MAX: u16 = WRITTEN_MAX - 1;

/// The damage of a node that maps file blocks outside the range of its index entry.
pub(crate) const OUTSIDE: Damage = "extent node maps blocks that belong to another node";

const UNSORTED: Damage = "entries of an extent node overlap or are not sorted";

/// A node whose header is consistent with its length.
#[derive(Debug)]
pub struct Node<'a> {
    depth: u16,
    entries: Entries<'a>,
}

#[derive(Debug)]
enum Entries<'a> {
    Leaf(&'a [RawExtent]),
    Index(&'a [RawIndex]),
}

/// The result of searching a node for one file block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The block is not mapped. The hole ends before this file block.
    Hole(u64),
    /// The extent that contains the block.
    Extent(Extent),
    /// The child node to search next.
    Child(Child),
}

/// An extent: a run of file blocks, and the blocks to which it is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The file blocks.
    pub file_blocks: Range<u64>,
    /// The physical block to which the first file block is mapped.
    pub block: FsBlock,
    /// Whether the blocks were written.
    pub is_written: bool,
}

impl Extent {
    /// Returns the maximum number of blocks of an extent.
    pub(crate) fn blocks_max(is_written: bool) -> u64 {
        u64::from(if is_written {
            WRITTEN_MAX
        } else {
            UNWRITTEN_MAX
        })
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.file_blocks.end.saturating_sub(self.file_blocks.start)
    }

    /// Returns the part of the extent that maps `file_blocks`, which must be within it.
    #[must_use]
    pub fn part(&self, file_blocks: Range<u64>) -> Self {
        let skip = file_blocks.start.saturating_sub(self.file_blocks.start);
        Self {
            block: FsBlock(self.block.0.saturating_add(skip)),
            file_blocks,
            is_written: self.is_written,
        }
    }

    /// Returns whether `next` continues this extent, in the file and on the image, and one extent
    /// can map the blocks of both.
    pub(crate) fn can_merge(&self, next: &Self) -> bool {
        self.file_blocks.end == next.file_blocks.start
            && self.block.0.checked_add(self.blocks()) == Some(next.block.0)
            && self.is_written == next.is_written
            && self.blocks() + next.blocks() <= Self::blocks_max(self.is_written)
    }
}

/// An entry of an index node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// The first file block that the child maps.
    pub start: u64,
    /// The block that holds the child.
    pub block: FsBlock,
}

/// An entry of an index node or of a leaf.
pub trait Entry {
    /// Returns the first file block that the entry maps.
    fn start(&self) -> u64;

    /// Returns the 12 bytes of the entry in the node.
    fn encode(&self) -> [u8; ENTRY_BYTES];
}

impl Entry for Extent {
    fn start(&self) -> u64 {
        self.file_blocks.start
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let [b0, b1, b2, b3, b4, b5, ..] = self.block.0.to_le_bytes();
        let blocks = low16(self.blocks());
        let length = if self.is_written {
            blocks
        } else {
            WRITTEN_MAX.saturating_add(blocks)
        };
        let [s0, s1, s2, s3] = low32(self.file_blocks.start).to_le_bytes();
        let [l0, l1] = length.to_le_bytes();
        [s0, s1, s2, s3, l0, l1, b4, b5, b0, b1, b2, b3]
    }
}

impl Entry for Index {
    fn start(&self) -> u64 {
        self.start
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let [b0, b1, b2, b3, b4, b5, ..] = self.block.0.to_le_bytes();
        let [s0, s1, s2, s3] = low32(self.start).to_le_bytes();
        [s0, s1, s2, s3, b0, b1, b2, b3, b4, b5, 0, 0]
    }
}

/// Converts a number below 2^32, such as any mapped file block.
fn low32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Converts a number below 2^16, such as any length of an extent.
fn low16(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Returns the number of entries that fit into a node of `bytes` bytes, which is a block or the 60
/// bytes in the inode.
#[must_use]
pub fn capacity(bytes: usize) -> usize {
    bytes.saturating_sub(size_of::<RawHeader>()) / ENTRY_BYTES
}

/// Writes a node with `entries`, which must fit, to `bytes`. If `seed` is given, also sets the
/// checksum.
///
/// # Panics
/// If `bytes` is shorter than a header.
pub fn encode_node<E: Entry>(bytes: &mut [u8], depth: u16, entries: &[E], seed: Option<Crc32c>) {
    let max = capacity(bytes.len());
    debug_assert!(entries.len() <= max, "entries do not fit into the node");
    let (header, rest) = RawHeader::mut_from_prefix(bytes).expect("a node has a header");
    header.eh_magic.set(MAGIC);
    header.eh_entries.set(low16(entries.len().min(max) as u64));
    header.eh_max.set(low16(max as u64));
    header.eh_depth.set(depth);
    rest.fill(0);
    let (places, _) = rest.as_chunks_mut::<ENTRY_BYTES>();
    for (place, entry) in places.iter_mut().zip(entries) {
        *place = entry.encode();
    }
    if let Some(seed) = seed {
        let covered_bytes = size_of::<RawHeader>() + max * ENTRY_BYTES;
        let (covered, tail) = bytes.split_at_mut(covered_bytes);
        let checksum = seed.bytes(covered).0.to_le_bytes();
        if let Some(place) = tail.first_chunk_mut() {
            *place = checksum;
        }
    }
}

/// The properties that a child node must have, according to its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The block that contains the node.
    pub block: FsBlock,
    /// The depth of the node.
    pub depth: u16,
    /// The file blocks that the node may map.
    pub file_blocks: Range<u64>,
}

impl<'a> Node<'a> {
    /// Parses the node in `bytes`: a block, or the 60 bytes in the inode.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Damage> {
        let Ok((header, rest)) = RawHeader::ref_from_prefix(bytes) else {
            return Err("extent node is truncated");
        };
        if header.eh_magic.get() != MAGIC {
            return Err("extent node has no magic number");
        }
        let depth = header.eh_depth.get();
        if depth > DEPTH_MAX {
            return Err("extent tree is too deep");
        }
        let count = usize::from(header.eh_entries.get());
        let max = usize::from(header.eh_max.get());
        if count > max || max > rest.len() / size_of::<RawExtent>() {
            return Err("extent node has more entries than it can hold");
        }
        if depth == 0 {
            let (extents, _) = <[RawExtent]>::ref_from_prefix_with_elems(rest, count)
                .map_err(|_| "extent node is truncated")?;
            return Ok(Self {
                depth,
                entries: Entries::Leaf(extents),
            });
        }
        if count == 0 {
            return Err("index node of an extent tree is empty");
        }
        let (indexes, _) = <[RawIndex]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| "extent node is truncated")?;
        Ok(Self {
            depth,
            entries: Entries::Index(indexes),
        })
    }

    /// Parses the node like [`Node::parse`], and also checks the order of the entries.
    pub fn parse_sorted(bytes: &'a [u8]) -> Result<Self, Damage> {
        let node = Self::parse(bytes)?;
        node.check_order()?;
        Ok(node)
    }

    /// Returns the number of levels below this node.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Returns the extents of a leaf; an empty vector for an index node.
    #[must_use]
    pub fn extents(&self) -> Vec<Extent> {
        match self.entries {
            Entries::Leaf(extents) => extents.iter().map(RawExtent::decode).collect(),
            Entries::Index(_) => Vec::new(),
        }
    }

    /// Returns the entries of an index node; an empty vector for a leaf.
    #[must_use]
    pub fn indexes(&self) -> Vec<Index> {
        match self.entries {
            Entries::Leaf(_) => Vec::new(),
            Entries::Index(indexes) => indexes.iter().map(RawIndex::decode).collect(),
        }
    }

    /// Checks that the entries are sorted and do not overlap.
    pub fn check_order(&self) -> Result<(), Damage> {
        let mut free_from = 0;
        match self.entries {
            Entries::Leaf(extents) => {
                for extent in extents {
                    let blocks = extent.file_blocks();
                    if blocks.is_empty() {
                        return Err("extent has a length of 0");
                    }
                    if blocks.start < free_from {
                        return Err(UNSORTED);
                    }
                    if blocks.end > FILE_BLOCKS {
                        return Err("extent is past the maximum file size");
                    }
                    free_from = blocks.end;
                }
            }
            Entries::Index(indexes) => {
                for index in indexes {
                    if index.start() < free_from {
                        return Err(UNSORTED);
                    }
                    free_from = index.start() + 1;
                }
            }
        }
        Ok(())
    }

    /// Searches the node, which may map the file blocks `within`, for `target`.
    ///
    /// # Errors
    /// The description of the damage, if the entries map file blocks outside `within`.
    pub fn find(&self, target: FileBlock, within: &Range<u64>) -> Result<Found, Damage> {
        let target = u64::from(target.0);
        match self.entries {
            Entries::Leaf(extents) => {
                let (before, end) = around(extents, target, within)?;
                let extent = before.filter(|extent| extent.file_blocks().contains(&target));
                match extent {
                    Some(extent) if extent.file_blocks().end > within.end => Err(OUTSIDE),
                    Some(extent) => Ok(Found::Extent(extent.decode())),
                    None => Ok(Found::Hole(end)),
                }
            }
            Entries::Index(indexes) => {
                let (before, end) = around(indexes, target, within)?;
                Ok(before.map_or(Found::Hole(end), |index| {
                    let Index { start, block } = index.decode();
                    Found::Child(Child {
                        block,
                        depth: self.depth - 1,
                        file_blocks: start..end,
                    })
                }))
            }
        }
    }
}

/// Returns the last of a node's `entries` that starts at or before `target`, and the end of its
/// range. This is the start of the next entry or, for the last entry, the end of `within`, the
/// range of the node.
fn around<'e, E: RawEntry>(
    entries: &'e [E],
    target: u64,
    within: &Range<u64>,
) -> Result<(Option<&'e E>, u64), Damage> {
    if entries
        .first()
        .is_some_and(|first| first.start() < within.start)
    {
        return Err(OUTSIDE);
    }
    let next = entries.partition_point(|entry| entry.start() <= target);
    let (before, after) = entries.split_at(next);
    let end = after
        .first()
        .map_or(within.end, |next| next.start().min(within.end));
    if end <= target {
        return Err(UNSORTED);
    }
    Ok((before.last(), end))
}

/// Returns whether the checksum after the entries of the node in the block `bytes` is correct.
/// `seed` must be the seed of the inode.
#[must_use]
pub fn checksum_is_right(bytes: &[u8], seed: Crc32c) -> bool {
    let Ok((header, _)) = RawHeader::ref_from_prefix(bytes) else {
        return false;
    };
    let entries_bytes = usize::from(header.eh_max.get()) * size_of::<RawExtent>();
    let Some((covered, tail)) = bytes.split_at_checked(size_of::<RawHeader>() + entries_bytes)
    else {
        return false;
    };
    U32::read_from_prefix(tail).is_ok_and(|(stored, _)| seed.bytes(covered).0 == stored.get())
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    eh_magic: U16,
    eh_entries: U16,
    eh_max: U16,
    eh_depth: U16,
    eh_generation: U32,
}

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtent {
    ee_block: U32,
    ee_len: U16,
    ee_start_hi: U16,
    ee_start_lo: U32,
}

#[derive(Debug, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIndex {
    ei_block: U32,
    ei_leaf_lo: U32,
    ei_leaf_hi: U16,
    ei_unused: U16,
}

/// An index entry or an extent in its on-disk form.
trait RawEntry {
    /// Returns the first file block that the entry maps.
    fn start(&self) -> u64;
}

impl RawEntry for RawExtent {
    fn start(&self) -> u64 {
        self.ee_block.into()
    }
}

impl RawEntry for RawIndex {
    fn start(&self) -> u64 {
        self.ei_block.into()
    }
}

impl RawExtent {
    fn is_written(&self) -> bool {
        self.ee_len.get() <= WRITTEN_MAX
    }

    fn file_blocks(&self) -> Range<u64> {
        let length = self.ee_len.get();
        let blocks = if self.is_written() {
            length
        } else {
            length - WRITTEN_MAX
        };
        self.start()..self.start() + u64::from(blocks)
    }

    fn decode(&self) -> Extent {
        Extent {
            file_blocks: self.file_blocks(),
            block: FsBlock(join32(self.ee_start_lo, self.ee_start_hi)),
            is_written: self.is_written(),
        }
    }
}

impl RawIndex {
    fn decode(&self) -> Index {
        Index {
            start: self.start(),
            block: FsBlock(join32(self.ei_leaf_lo, self.ei_leaf_hi)),
        }
    }
}
