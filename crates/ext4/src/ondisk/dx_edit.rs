//! Modification of nodes of a directory's hash tree.

use super::Damage;
use super::checksum::Crc32c;
use super::dx::{
    DxKind, DxNode, ENTRY_BYTES, NODE_ENTRIES_OFFSET, ROOT_ENTRIES_OFFSET, ROOT_INFO_BYTES,
    ROOT_INFO_OFFSET,
};
use super::fields::{put16, put32};

/// The offset of the header of the root's ".." record.
const DOTDOT_OFFSET: usize = 12;

/// An entry of a node. It refers to the block with the names whose hashes are at least `hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxEntry {
    /// The lower bound of the hashes, which is not stored for the first entry.
    pub hash: u32,
    /// The number of the block in the directory.
    pub block: u32,
}

impl DxEntry {
    fn put(self, bytes: &mut [u8], at: usize) {
        put32(bytes, at, self.hash);
        put32(bytes, at + 4, self.block);
    }
}

/// Returns the entries of a node.
pub fn entries(node: &DxNode<'_>) -> Vec<DxEntry> {
    (0..node.count())
        .map(|index| DxEntry {
            hash: node.hash(index),
            block: node.block(index),
        })
        .collect()
}

/// Writes the root's description of a tree with this hash version and number of levels between the
/// root and the leaves. Extends the ".." record to the end of the block.
pub fn describe_root(block: &mut [u8], hash_version: u8, indirect_levels: u8) {
    let rest = u16::try_from(block.len() - DOTDOT_OFFSET).unwrap_or(u16::MAX);
    put16(block, DOTDOT_OFFSET + 4, rest);
    put32(block, ROOT_INFO_OFFSET, 0);
    let info = [hash_version, ROOT_INFO_BYTES, indirect_levels, 0];
    block[ROOT_INFO_OFFSET + 4..ROOT_ENTRIES_OFFSET].copy_from_slice(&info);
}

/// Sets the number of levels between the root and the leaves.
pub fn set_indirect_levels(root: &mut [u8], levels: u8) {
    root[ROOT_INFO_OFFSET + 6] = levels;
}

/// Writes the header of an inner node: a free record that fills the block.
pub fn init_inner(block: &mut [u8]) {
    let whole = u16::try_from(block.len()).unwrap_or(u16::MAX);
    block[..NODE_ENTRIES_OFFSET].fill(0);
    put16(block, 4, whole);
}

/// Replaces the entries of the node. Returns false and changes nothing if `entries` is empty or
/// does not fit.
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
    for (index, entry) in entries.iter().enumerate() {
        entry.put(block, at + index * ENTRY_BYTES);
    }
    put16(block, at, limit_field);
    put16(block, at + 2, count_field);
    true
}

/// Inserts `entry` at the position `index`, which must be at least 1, into a node with `count`
/// entries. Returns false and changes nothing if the node is full.
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
    entry.put(block, at);
    put16(block, start + 2, count_field);
    true
}

/// Sets the checksum of a node. `seed` must be the seed of the directory.
pub fn set_checksum(block: &mut [u8], kind: DxKind, seed: Crc32c) -> Result<(), Damage> {
    let node = DxNode::parse(block, kind, true)?;
    let (checksum, _) = node
        .checksum(seed)
        .ok_or("node of the hash tree has no checksum")?;
    let at = node.checksum_offset();
    put32(block, at, checksum);
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
            let node = DxNode::parse(&block, kind, has_tail).unwrap();
            assert!(node.is_sorted() && node.count() == 11);
            assert_eq!(node.block(node.search(50)), 99);
            assert_eq!(entries(&node)[4], all[3]);
        }
    }

    #[test]
    fn full_node_refuses_an_entry() {
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
