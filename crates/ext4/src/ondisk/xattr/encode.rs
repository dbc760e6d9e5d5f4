//! Encoding of the attributes of a region (a block, or the end of an inode): entries, values,
//! hashes, and the header of a block.
//!
//! The hash of an entry covers its name and its value. In an inode it is zero, unless the value has
//! its own inode. The hash of a block covers the hashes of its entries. Entries of a block are
//! sorted by name index, length of the name, and name.

use super::entry::{
    ENTRY_BYTES, HEADER_BYTES, MAGIC, MAGIC_BYTES, NameIndex, RawEntry, ValuePlace, XattrEntry,
};
use super::header::{BLOCKS_AT, HASH_AT, REFERENCES_AT};
use crate::Ino;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::fields::put32;
use zerocopy::IntoBytes;

/// The length in bytes of the zeros that end the entries.
const END_BYTES: usize = 4;

/// An attribute in its stored form, without its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredXattr {
    /// The class of the name, which represents the prefix.
    pub index: NameIndex,
    /// The name without the prefix, at most 255 bytes.
    pub name: Vec<u8>,
    /// The value.
    pub value: StoredValue,
}

/// A value in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// The value is in the same region as the entry.
    Inline(Vec<u8>),
    /// The value is the content of a separate inode.
    Inode {
        /// The inode.
        ino: Ino,
        /// The length of the value.
        size_bytes: u32,
        /// The hash of the entry; see [`inode_value_hash`].
        entry_hash: u32,
    },
}

impl StoredXattr {
    /// Copies `entry`.
    #[must_use]
    pub fn from_entry(entry: &XattrEntry<'_>) -> Self {
        Self {
            index: entry.index,
            name: entry.name.to_vec(),
            value: match entry.value {
                ValuePlace::Inline(value) => StoredValue::Inline(value.to_vec()),
                ValuePlace::Inode { ino, size_bytes } => StoredValue::Inode {
                    ino,
                    size_bytes,
                    entry_hash: entry.hash,
                },
            },
        }
    }

    /// Returns the inode that holds the value, if any, and the length of the value.
    pub(crate) fn value_inode(&self) -> Option<(Ino, u32)> {
        match self.value {
            StoredValue::Inline(_) => None,
            StoredValue::Inode {
                ino, size_bytes, ..
            } => Some((ino, size_bytes)),
        }
    }

    /// Returns the number of bytes that the attribute takes in a region.
    #[must_use]
    pub fn space_bytes(&self) -> usize {
        let value = match &self.value {
            StoredValue::Inline(value) => value.len(),
            StoredValue::Inode { .. } => 0,
        };
        space_bytes(self.name.len(), value)
    }

    /// Returns the key by which entries of a block are sorted.
    fn key(&self) -> (u8, usize, &[u8]) {
        (self.index.0, self.name.len(), &self.name)
    }

    /// Returns the hash of the attribute in a block.
    fn hash(&self) -> u32 {
        match &self.value {
            StoredValue::Inline(value) => hash_words(hash_name(&self.name), value),
            StoredValue::Inode { entry_hash, .. } => *entry_hash,
        }
    }
}

/// Returns the number of bytes that an attribute with a name and a value of these lengths takes in
/// a region.
#[must_use]
pub fn space_bytes(name_bytes: usize, value_bytes: usize) -> usize {
    (ENTRY_BYTES + name_bytes).next_multiple_of(4) + value_bytes.next_multiple_of(4)
}

/// Returns the hash of the entry `name` whose value is in an inode and has the checksum `value`.
pub(crate) fn inode_value_hash(name: &[u8], value: Crc32c) -> u32 {
    hash_words(hash_name(name), &value.0.to_le_bytes())
}

fn hash_name(name: &[u8]) -> u32 {
    name.iter()
        .fold(0_u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte))
}

/// Continues `hash` with the words of `value`, padded with zeros.
fn hash_words(hash: u32, value: &[u8]) -> u32 {
    value.chunks(4).fold(hash, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}

/// Returns the number of bytes for attributes in an inode with `rest_bytes` bytes after its fixed
/// fields.
pub(crate) fn inode_room_bytes(rest_bytes: usize) -> usize {
    rest_bytes.saturating_sub(MAGIC_BYTES + END_BYTES)
}

/// Returns the number of bytes for attributes in a block of `block_bytes` bytes.
pub(crate) fn block_room_bytes(block_bytes: usize) -> usize {
    block_bytes.saturating_sub(HEADER_BYTES + END_BYTES)
}

/// Returns the number of bytes that `attributes` take in a region.
#[must_use]
pub fn total_bytes<'a>(attributes: impl IntoIterator<Item = &'a StoredXattr>) -> usize {
    attributes.into_iter().map(StoredXattr::space_bytes).sum()
}

/// Replaces all attributes in an inode with `attributes`. `rest` is the part of the inode after its
/// fixed fields. Returns false and changes nothing if they do not fit.
pub(crate) fn fill_inode(rest: &mut [u8], attributes: &[StoredXattr]) -> bool {
    if total_bytes(attributes) > inode_room_bytes(rest.len()) {
        return false;
    }
    rest.fill(0);
    if attributes.is_empty() {
        return true;
    }
    let (magic, region) = rest.split_at_mut(MAGIC_BYTES);
    magic.copy_from_slice(&MAGIC.to_le_bytes());
    let mut at = 0;
    let mut end = region.len();
    for attribute in attributes {
        let hash = match attribute.value {
            StoredValue::Inline(_) => 0,
            StoredValue::Inode { .. } => attribute.hash(),
        };
        put_attribute(region, &mut at, &mut end, attribute, hash);
    }
    true
}

/// Sorts `attributes` and writes them to `block`, with a reference count of one. Returns false and
/// does not change the block if they do not fit. The caller must set the checksum with
/// [`set_block_checksum`](super::set_block_checksum).
#[must_use]
pub fn fill_block(block: &mut [u8], attributes: &mut [StoredXattr]) -> bool {
    if total_bytes(&*attributes) > block_room_bytes(block.len()) {
        return false;
    }
    attributes.sort_by(|a, b| a.key().cmp(&b.key()));
    block.fill(0);
    let mut at = HEADER_BYTES;
    let mut end = block.len();
    // If the hash of an entry is 0, the hash of the block is 0, which means that the block must not
    // be shared.
    let mut hash_of_all = Some(0_u32);
    for attribute in &*attributes {
        let hash = attribute.hash();
        let so_far = hash_of_all.filter(|_| hash != 0);
        hash_of_all = so_far.map(|so_far| so_far.rotate_left(16) ^ hash);
        put_attribute(block, &mut at, &mut end, attribute, hash);
    }
    put32(block, 0, MAGIC);
    put32(block, REFERENCES_AT, 1);
    put32(block, BLOCKS_AT, 1);
    put32(block, HASH_AT, hash_of_all.unwrap_or(0));
    true
}

/// Writes the entry of `attribute` at `at`, and its value before `end`. Moves `at` after the entry,
/// and `end` to the start of the value.
fn put_attribute(
    region: &mut [u8],
    at: &mut usize,
    end: &mut usize,
    attribute: &StoredXattr,
    hash: u32,
) {
    let (offset, ino, size_bytes) = match &attribute.value {
        StoredValue::Inline(value) if value.is_empty() => (0, Ino(0), 0),
        StoredValue::Inline(value) => {
            *end -= value.len().next_multiple_of(4);
            region[*end..*end + value.len()].copy_from_slice(value);
            (*end, Ino(0), u32::try_from(value.len()).unwrap_or(u32::MAX))
        }
        &StoredValue::Inode {
            ino, size_bytes, ..
        } => (0, ino, size_bytes),
    };
    let name = attribute.name.as_slice();
    let entry = RawEntry {
        e_name_len: u8::try_from(name.len()).unwrap_or(u8::MAX),
        e_name_index: attribute.index.0,
        e_value_offs: u16::try_from(offset).unwrap_or(u16::MAX).into(),
        e_value_inum: ino.0.into(),
        e_value_size: size_bytes.into(),
        e_hash: hash.into(),
    };
    let (place, names) = region[*at..].split_at_mut(ENTRY_BYTES);
    place.copy_from_slice(entry.as_bytes());
    names[..name.len()].copy_from_slice(name);
    *at += (ENTRY_BYTES + name.len()).next_multiple_of(4);
}

#[cfg(test)]
mod tests {
    use super::super::{BlockHeader, XattrEntries};
    use super::*;
    use proptest::prelude::*;

    fn attribute() -> impl Strategy<Value = StoredXattr> {
        let value = prop_oneof![
            3 => prop::collection::vec(any::<u8>(), 0..40).prop_map(StoredValue::Inline),
            1 => (1..u32::MAX, any::<u32>(), any::<u32>()).prop_map(|(ino, size_bytes, hash)| {
                StoredValue::Inode { ino: Ino(ino), size_bytes, entry_hash: hash }
            }),
        ];
        (1..8_u8, prop::collection::vec(1..=255_u8, 1..30), value).prop_map(
            |(index, name, value)| StoredXattr {
                index: NameIndex(index),
                name,
                value,
            },
        )
    }

    /// Reads the entries. The hashes of entries with values in the same region are not kept.
    fn read(entries: XattrEntries<'_>) -> Vec<StoredXattr> {
        let entries = entries.map(|entry| StoredXattr::from_entry(&entry.expect("entry")));
        entries.collect()
    }

    #[test]
    fn block_of_64_kib_filled_to_its_end_keeps_its_values() {
        let value = vec![7; block_room_bytes(1 << 16) - 20];
        let stored = StoredXattr {
            index: NameIndex(1),
            name: b"full".to_vec(),
            value: StoredValue::Inline(value),
        };
        let mut block = vec![1; 1 << 16];
        let mut all = [stored];
        assert!(fill_block(&mut block, &mut all));
        assert_eq!(read(XattrEntries::in_block(&block).unwrap()), all);
        let [stored] = all;
        let one_more = StoredXattr {
            value: StoredValue::Inline(vec![7; block_room_bytes(1 << 16) - 19]),
            ..stored
        };
        assert!(!fill_block(&mut block, &mut [one_more]));
    }

    proptest! {
        #[test]
        fn attributes_written_are_read_back(
            mut attributes in prop::collection::vec(attribute(), 0..20),
            len_bytes in 0..800_usize,
        ) {
            let mut rest = vec![0xAA; len_bytes.next_multiple_of(4)];
            if fill_inode(&mut rest, &attributes) {
                prop_assert_eq!(read(XattrEntries::in_inode(&rest)), attributes.clone());
            } else {
                prop_assert!(total_bytes(&attributes) > inode_room_bytes(rest.len()));
                prop_assert!(rest.iter().all(|&byte| byte == 0xAA));
            }
            let mut block = vec![0xAA; 1024];
            if fill_block(&mut block, &mut attributes) {
                prop_assert_eq!(read(XattrEntries::in_block(&block).unwrap()), attributes.clone());
                prop_assert!(attributes.is_sorted_by(|a, b| a.key() <= b.key()));
                prop_assert_eq!(BlockHeader::of(&block).unwrap().references, 1);
            }
        }
    }
}
