//! Changing nodes of a directory's hash tree.

use super::checksum::Crc32c;
use super::dx::{
    DxNode, ENTRY_BYTES, NODE_ENTRIES_OFFSET, ROOT_ENTRIES_OFFSET, ROOT_INFO_BYTES,
    ROOT_INFO_OFFSET, TAIL_BYTES,
};

/// Where the header of the root's ".." starts.
const DOTDOT_OFFSET: usize = 12;

/// Where a node's entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DxKind {
    /// Behind "." and "..".
    Root,
    /// Behind the header of a free record.
    Inner,
}

/// An entry of a node: where the names from a hash on are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxEntry {
    /// The first hash; of a node's first entry it is not stored.
    pub hash: u32,
    /// The block of the directory.
    pub block: u32,
}

impl DxKind {
    fn entries_offset(self) -> usize {
        match self {
            Self::Root => ROOT_ENTRIES_OFFSET,
            Self::Inner => NODE_ENTRIES_OFFSET,
        }
    }

    /// How many entries a node of this kind has room for.
    #[must_use]
    pub fn limit(self, block_bytes: usize, has_tail: bool) -> usize {
        let tail_bytes = if has_tail { TAIL_BYTES } else { 0 };
        block_bytes.saturating_sub(self.entries_offset() + tail_bytes) / ENTRY_BYTES
    }
}

/// The entries of a node.
#[must_use]
pub fn entries(node: &DxNode<'_>) -> Vec<DxEntry> {
    (0..node.count())
        .map(|index| DxEntry {
            hash: node.hash(index),
            block: node.block(index),
        })
        .collect()
}

/// Writes the root's description of a tree with this hash version and as many levels between
/// root and leaves, and makes the record of ".." reach to the end of the block.
pub fn describe_root(block: &mut [u8], hash_version: u8, indirect_levels: u8) {
    let rest = u16::try_from(block.len() - DOTDOT_OFFSET).unwrap_or(u16::MAX);
    block[DOTDOT_OFFSET + 4..DOTDOT_OFFSET + 6].copy_from_slice(&rest.to_le_bytes());
    let info = [
        0,
        0,
        0,
        0,
        hash_version,
        ROOT_INFO_BYTES,
        indirect_levels,
        0,
    ];
    block[ROOT_INFO_OFFSET..ROOT_ENTRIES_OFFSET].copy_from_slice(&info);
}

/// Sets how many levels lie between root and leaves.
pub fn set_indirect_levels(root: &mut [u8], levels: u8) {
    root[ROOT_INFO_OFFSET + 6] = levels;
}

/// Writes the header of an inner node: a free record of the whole block.
pub fn init_inner(block: &mut [u8]) {
    let whole = u16::try_from(block.len()).unwrap_or(u16::MAX);
    block[..NODE_ENTRIES_OFFSET].fill(0);
    block[4..6].copy_from_slice(&whole.to_le_bytes());
}

/// Makes `entries` those of the node; false, with nothing done, if it has no room.
pub fn write_entries(block: &mut [u8], kind: DxKind, has_tail: bool, entries: &[DxEntry]) -> bool {
    let limit = kind.limit(block.len(), has_tail);
    let (Ok(limit_field), Ok(count_field)) = (u16::try_from(limit), u16::try_from(entries.len()))
    else {
        return false;
    };
    if entries.len() > limit || entries.is_empty() {
        return false;
    }
    let at = kind.entries_offset();
    block[at..at + limit * ENTRY_BYTES].fill(0);
    for (slot, entry) in block[at..].chunks_exact_mut(ENTRY_BYTES).zip(entries) {
        slot[..4].copy_from_slice(&entry.hash.to_le_bytes());
        slot[4..].copy_from_slice(&entry.block.to_le_bytes());
    }
    block[at..at + 2].copy_from_slice(&limit_field.to_le_bytes());
    block[at + 2..at + 4].copy_from_slice(&count_field.to_le_bytes());
    true
}

/// Puts `entry` before the entry at `index`, which is 1 or more, of the node of `count`
/// entries; false, with nothing done, if it has no room.
pub fn insert_entry(
    block: &mut [u8],
    kind: DxKind,
    has_tail: bool,
    (index, count): (usize, usize),
    entry: DxEntry,
) -> bool {
    let start = kind.entries_offset();
    let Ok(count_field) = u16::try_from(count + 1) else {
        return false;
    };
    if count >= kind.limit(block.len(), has_tail) || index == 0 || index > count {
        return false;
    }
    let at = start + index * ENTRY_BYTES;
    block.copy_within(at..start + count * ENTRY_BYTES, at + ENTRY_BYTES);
    block[at..at + 4].copy_from_slice(&entry.hash.to_le_bytes());
    block[at + 4..at + 8].copy_from_slice(&entry.block.to_le_bytes());
    block[start + 2..start + 4].copy_from_slice(&count_field.to_le_bytes());
    true
}

/// Stores the checksum of a node, continued from `seed`, the directory's.
///
/// # Errors
/// What is wrong with the node.
pub fn seal(block: &mut [u8], kind: DxKind, seed: Crc32c) -> Result<(), &'static str> {
    let node = match kind {
        DxKind::Root => DxNode::root(block, true),
        DxKind::Inner => DxNode::node(block, true),
    }?;
    let parts = node
        .checksum()
        .ok_or("node of the hash tree has no checksum")?;
    let checksum = seed.bytes(parts.head).bytes(parts.tail).u32(0).0;
    let tail = kind.entries_offset() + kind.limit(block.len(), true) * ENTRY_BYTES;
    block[tail + 4..tail + 8].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_written_and_inserted_into_is_read_back_in_order() {
        for (kind, has_tail) in [
            (DxKind::Root, true),
            (DxKind::Inner, true),
            (DxKind::Inner, false),
        ] {
            let mut block = vec![0xFF; 1024];
            init_inner(&mut block);
            let all: Vec<_> = (0..10)
                .map(|number| DxEntry {
                    hash: number * 20,
                    block: number + 1,
                })
                .collect();
            assert!(write_entries(&mut block, kind, has_tail, &all));
            let new = DxEntry {
                hash: 50,
                block: 99,
            };
            assert!(insert_entry(&mut block, kind, has_tail, (3, 10), new));
            assert!(!insert_entry(&mut block, kind, has_tail, (0, 11), new));
            let node = match kind {
                DxKind::Root => DxNode::root(&block, has_tail),
                DxKind::Inner => DxNode::node(&block, has_tail),
            }
            .unwrap();
            assert!(node.is_sorted() && node.count() == 11);
            assert_eq!(node.block(node.search(50)), 99);
            assert_eq!(entries(&node)[4], all[3]);
        }
    }

    #[test]
    fn node_that_is_full_takes_no_entry() {
        let mut block = vec![0; 1024];
        init_inner(&mut block);
        let full = vec![DxEntry { hash: 2, block: 1 }; 126];
        assert!(write_entries(&mut block, DxKind::Inner, true, &full));
        let before = block.clone();
        let entry = DxEntry { hash: 2, block: 9 };
        assert!(!insert_entry(
            &mut block,
            DxKind::Inner,
            true,
            (5, 126),
            entry
        ));
        assert_eq!(block, before);
        assert!(insert_entry(
            &mut [&block[..], &[0; 8]].concat(),
            DxKind::Inner,
            true,
            (5, 126),
            entry
        ));
        assert!(!write_entries(&mut block, DxKind::Root, true, &full));
        assert!(!write_entries(&mut block, DxKind::Root, true, &[]));
    }
}
