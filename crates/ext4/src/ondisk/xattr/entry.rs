//! The entries of a region of attributes (a block, or the end of an inode), and their names.

use crate::Ino;
use crate::ondisk::Damage;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The magic number at the start of a region.
pub(super) const MAGIC: u32 = 0xea02_0000;
pub(super) const MAGIC_BYTES: usize = 4;
pub(super) const ENTRY_BYTES: usize = size_of::<RawEntry>();
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const CHECKSUM_OFFSET: usize = 16;

/// An entry without its name.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct RawEntry {
    pub e_name_len: u8,
    pub e_name_index: u8,
    pub e_value_offs: U16,
    pub e_value_inum: U32,
    pub e_value_size: U32,
    pub e_hash: U32,
}

/// A class of attribute names, stored as a number instead of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameIndex(pub u8);

impl NameIndex {
    /// The access control list of a file.
    pub const ACL_ACCESS: Self = Self(2);
    /// The default access control list of a directory, which new files in it inherit.
    pub const ACL_DEFAULT: Self = Self(3);
    /// Attributes that only the file system uses, such as inline data.
    pub const SYSTEM: Self = Self(7);

    /// The numbers of the classes that programs can use, and their prefixes.
    const PREFIXES: [(Self, &'static [u8]); 6] = [
        (Self(1), b"user."),
        (Self::ACL_ACCESS, b"system.posix_acl_access"),
        (Self::ACL_DEFAULT, b"system.posix_acl_default"),
        (Self(4), b"trusted."),
        (Self(6), b"security."),
        // For GNU Hurd.
        (Self(10), b"gnu."),
    ];

    /// Returns the prefix of names of this class, or `None` if programs cannot use the class.
    #[must_use]
    pub fn prefix(self) -> Option<&'static [u8]> {
        let (_, prefix) = Self::PREFIXES.iter().find(|(index, _)| *index == self)?;
        Some(prefix)
    }

    /// Returns whether the prefix is the whole name.
    pub(crate) fn is_whole_name(self) -> bool {
        self.prefix().is_some_and(|prefix| !prefix.ends_with(b"."))
    }

    /// Splits a name with a prefix into the class of the prefix and the part of the name that is
    /// stored. This part is empty if the name consists of the prefix alone. Returns `None` if the
    /// name has no prefix that programs can use.
    #[must_use]
    pub fn split(full_name: &[u8]) -> Option<(Self, &[u8])> {
        Self::PREFIXES.iter().find_map(|&(index, prefix)| {
            let name = full_name.strip_prefix(prefix)?;
            (name.is_empty() || !index.is_whole_name()).then_some((index, name))
        })
    }
}

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePlace<'a> {
    /// The value is in the same region as the entry.
    Inline(&'a [u8]),
    /// The value is the content of a separate inode.
    Inode {
        /// The inode number, not yet checked against the size of the file system.
        ino: Ino,
        /// The expected length of the value.
        size_bytes: u32,
    },
}

/// An attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrEntry<'a> {
    /// The class of the name, which represents the prefix.
    pub index: NameIndex,
    /// The name without the prefix.
    pub name: &'a [u8],
    /// The value.
    pub value: ValuePlace<'a>,
    /// The hash of the name and the value, or 0 if there is none.
    pub hash: u32,
}

/// An iterator over the attributes of one region, in stored order.
///
/// It ends after an error.
#[derive(Clone, Debug)]
pub struct XattrEntries<'a> {
    region: &'a [u8],
    /// The offset of the next entry.
    at: usize,
    /// The bytes to which offsets of values are relative.
    values: &'a [u8],
    is_over: bool,
}

impl<'a> XattrEntries<'a> {
    /// Iterates over the attributes of an inode. `rest` must be the bytes after the fixed fields.
    /// If they do not start with the magic number, there are no attributes.
    #[must_use]
    pub fn in_inode(rest: &'a [u8]) -> Self {
        let (has_magic, region) = match rest.split_first_chunk::<MAGIC_BYTES>() {
            Some((magic, region)) => (u32::from_le_bytes(*magic) == MAGIC, region),
            None => (false, rest),
        };
        Self {
            region,
            at: 0,
            values: region,
            is_over: !has_magic,
        }
    }

    /// Iterates over the attributes of a block.
    pub fn in_block(block: &'a [u8]) -> Result<Self, Damage> {
        if block.first_chunk() != Some(&MAGIC.to_le_bytes()) {
            return Err("attribute block has no magic number");
        }
        if block.get(8..12) != Some(&[1, 0, 0, 0]) {
            return Err("attribute block has a block count other than 1");
        }
        let region = block.get(HEADER_BYTES..).unwrap_or_default();
        Ok(Self {
            region,
            at: 0,
            values: block,
            is_over: false,
        })
    }

    fn entry(&self) -> Result<Option<(usize, XattrEntry<'a>)>, Damage> {
        const PAST_END: &str = "attribute entries reach past the end of their region";
        let rest = self.region.get(self.at..).ok_or(PAST_END)?;
        match rest.first_chunk() {
            None => return Err(PAST_END),
            Some([0, 0, 0, 0]) => return Ok(None),
            // If this entry were written back, it would be read as the end of the entries.
            Some([0, 0, ..]) => return Err("attribute entry has no name"),
            Some(_) => {}
        }
        let (raw, names) = RawEntry::ref_from_prefix(rest).map_err(|_| PAST_END)?;
        let name = names.get(..usize::from(raw.e_name_len)).ok_or(PAST_END)?;
        let size_bytes = raw.e_value_size.get();
        let value = match Ino::stored(raw.e_value_inum.get()) {
            None => ValuePlace::Inline(self.value(raw.e_value_offs.get().into(), size_bytes)?),
            Some(ino) => ValuePlace::Inode { ino, size_bytes },
        };
        let next = self.at + (ENTRY_BYTES + name.len()).next_multiple_of(4);
        let entry = XattrEntry {
            index: NameIndex(raw.e_name_index),
            name,
            value,
            hash: raw.e_hash.get(),
        };
        Ok(Some((next, entry)))
    }

    fn value(&self, offset: usize, size_bytes: u32) -> Result<&'a [u8], Damage> {
        if size_bytes == 0 {
            return Ok(&[]);
        }
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        let value = self.values.get(offset..).and_then(|rest| rest.get(..size));
        value.ok_or("attribute value reaches past the end of its region")
    }
}

impl<'a> Iterator for XattrEntries<'a> {
    type Item = Result<XattrEntry<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match self.entry().transpose()? {
            Ok((next, entry)) => {
                self.at = next;
                Some(Ok(entry))
            }
            Err(what) => {
                self.is_over = true;
                Some(Err(what))
            }
        }
    }
}

impl std::iter::FusedIterator for XattrEntries<'_> {}

/// Splits an attribute block around its checksum. Returns the bytes before it, the checksum, and
/// the bytes after it. The checksum covers both parts, with four zero bytes between them. Returns
/// `None` if the block is too short.
#[must_use]
pub fn split_checksum(block: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (before, rest) = block.split_at_checked(CHECKSUM_OFFSET)?;
    let (checksum, after) = rest.split_first_chunk()?;
    Some((before, u32::from_le_bytes(*checksum), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(index: u8, name: &[u8], offset: u16, ino: u32, size_bytes: u32) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(name.len()).unwrap(), index];
        bytes.extend(offset.to_le_bytes());
        bytes.extend(ino.to_le_bytes());
        bytes.extend(size_bytes.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn inode_region(entries: &[Vec<u8>], len_bytes: usize) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend(entries.concat());
        bytes.resize(4 + len_bytes, 0);
        bytes
    }

    #[test]
    fn entries_in_an_inode_find_their_values() {
        let mut bytes = inode_region(
            &[
                entry(1, b"small", 90, 0, 3),
                entry(6, b"empty", 0, 0, 0),
                entry(4, b"apart", 0, 77, 5000),
            ],
            96,
        );
        bytes[4 + 90..4 + 93].copy_from_slice(b"abc");
        let found: Vec<_> = XattrEntries::in_inode(&bytes).map(Result::unwrap).collect();
        let apart = ValuePlace::Inode {
            ino: Ino(77),
            size_bytes: 5000,
        };
        assert_eq!(
            found
                .iter()
                .map(|e| (e.index.0, e.name, e.value))
                .collect::<Vec<_>>(),
            [
                (1, &b"small"[..], ValuePlace::Inline(b"abc")),
                (6, b"empty", ValuePlace::Inline(b"")),
                (4, b"apart", apart),
            ]
        );
    }

    #[test]
    fn entries_without_magic_are_none() {
        assert_eq!(XattrEntries::in_inode(&[0; 96]).count(), 0);
        assert_eq!(XattrEntries::in_inode(&[]).count(), 0);
        assert!(XattrEntries::in_block(&[0; 1024]).is_err());
    }

    #[test]
    fn entry_that_is_damaged_is_an_error() {
        let bad = [
            (
                inode_region(&[entry(1, b"name", 95, 0, 2)], 96),
                "value reaches past",
            ),
            (
                inode_region(&[entry(1, b"name", 0, 0, u32::MAX)], 96),
                "value reaches past",
            ),
            (
                inode_region(&[entry(1, b"name", 0, 0, 0)], 20),
                "entries reach past",
            ),
            (
                inode_region(&[entry(1, b"a-long-name", 0, 0, 0)[..24].to_vec()], 24),
                "entries reach past",
            ),
            (inode_region(&[], 0), "entries reach past"),
            (inode_region(&[entry(0, b"", 8, 77, 5)], 32), "has no name"),
        ];
        for (bytes, what) in bad {
            let found: Result<Vec<_>, _> = XattrEntries::in_inode(&bytes).collect();
            assert!(found.unwrap_err().contains(what), "{what}");
        }
    }

    #[test]
    fn name_split_and_joined_is_the_same() {
        for (full, index, name) in [
            (&b"user.a"[..], 1, &b"a"[..]),
            (b"system.posix_acl_access", 2, b""),
            (b"system.posix_acl_default", 3, b""),
            (b"trusted.x.y", 4, b"x.y"),
            (b"security.capability", 6, b"capability"),
            (b"gnu.translator", 10, b"translator"),
            (b"user.", 1, b""),
        ] {
            assert_eq!(NameIndex::split(full), Some((NameIndex(index), name)));
            assert_eq!([NameIndex(index).prefix().unwrap(), name].concat(), full);
        }
    }

    #[test]
    fn name_without_a_known_prefix_has_no_class() {
        for name in [
            &b"user"[..],
            b"other.x",
            b"",
            b"system.data",
            b"system.richacl",
            b"system.posix_acl_accessX",
        ] {
            assert_eq!(NameIndex::split(name), None, "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn entries_of_any_bytes_are_bounded(
            tail in prop::collection::vec(prop_oneof![3 => 0_u8..4, 1 => any::<u8>()], 0..300),
        ) {
            let inode = [&MAGIC.to_le_bytes()[..], &tail].concat();
            prop_assert!(XattrEntries::in_inode(&inode).count() <= tail.len() / 16 + 1);
            let mut block = inode;
            block.splice(4..4, [1, 0, 0, 0, 1, 0, 0, 0]);
            if let Ok(entries) = XattrEntries::in_block(&block) {
                prop_assert!(entries.count() <= tail.len() / 16 + 1);
            }
            let _ = split_checksum(&tail);
        }
    }
}
