//! The encoding of fast commits: tags with lengths and values, in the last blocks of the journal.
//!
//! The layout is little-endian, unlike that of all other blocks of the journal. A tag consists of a
//! header of four bytes, `fc_tag` and `fc_len` (16 bits each), and `fc_len` bytes of value. No tag
//! crosses the end of a block. A `PAD` tag covers unused space at the end of a block, unless the
//! space is shorter than the header of a tag.
//!
//! | tag | name | value |
//! |---|---|---|
//! | 1 | `ADD_RANGE` | inode (4), `ext4_extent` (12) |
//! | 2 | `DEL_RANGE` | inode (4), first file block (4), blocks (4) |
//! | 3 | `CREAT` | parent (4), inode (4), name |
//! | 4 | `LINK` | as `CREAT` |
//! | 5 | `UNLINK` | as `CREAT` |
//! | 6 | `INODE` | inode (4), the start of the on-disk inode |
//! | 7 | `PAD` | ignored |
//! | 8 | `TAIL` | transaction (4), CRC-32C (4), the rest of the block |
//! | 9 | `HEAD` | features (4), transaction (4) |

use super::fields::{le16, le32};
use crate::{FileBlock, FsBlock, Ino};

/// The length of a tag's header, in bytes.
const HEADER_BYTES: usize = 4;

/// The maximum length of a written extent. An unwritten extent stores its length plus this number.
const MAX_WRITTEN_BLOCKS: u16 = 0x8000;

/// The maximum length in bytes of a name.
const MAX_NAME_BYTES: usize = 255;

/// The code of the tag that must be the first of the fast-commit area.
const HEAD: u16 = 9;

/// A change that a fast commit logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag<'a> {
    /// The first tag of the area, before the first fast commit.
    Head {
        /// The feature bits. No features are defined.
        features: u32,
        /// The number of the transaction that was running: the first one that is not in the log.
        tid: u32,
    },
    /// Blocks were added to a file.
    AddRange {
        /// The inode number of the file.
        ino: Ino,
        /// The first file block of the range.
        start: FileBlock,
        /// The number of blocks.
        blocks: u32,
        /// The first block in the image.
        physical: FsBlock,
        /// Whether the blocks are unwritten. Unwritten blocks are read as zeros.
        unwritten: bool,
    },
    /// Blocks were removed from a file.
    DelRange {
        /// The inode number of the file.
        ino: Ino,
        /// The first file block of the range.
        start: FileBlock,
        /// The number of blocks.
        blocks: u32,
    },
    /// A file was created with this name.
    Create(Entry<'a>),
    /// A name was added for an existing file.
    Link(Entry<'a>),
    /// A name was removed.
    Unlink(Entry<'a>),
    /// The fields of an inode were changed.
    Inode {
        /// The inode number.
        ino: Ino,
        /// The start of the on-disk inode, at least 128 bytes.
        raw: &'a [u8],
    },
    /// Padding up to the end of the block.
    Pad,
    /// The end of a fast commit.
    Tail {
        /// The number of the transaction that was running, as in the head.
        tid: u32,
        /// The checksum of all tags of the fast commit, up to and including this `tid`.
        checksum: u32,
    },
}

/// A directory entry in a fast commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The directory.
    pub parent: Ino,
    /// The inode that the entry refers to.
    pub ino: Ino,
    /// The name.
    pub name: &'a [u8],
}

/// A tag, decoded, and its bytes in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed<'a> {
    /// The decoded tag, or `None` if the code is unknown or the length is wrong. Inode and block
    /// numbers are not validated.
    pub tag: Option<Tag<'a>>,
    /// The header and the value of the tag; only up to the end of the block if the value does not
    /// fit.
    pub bytes: &'a [u8],
}

impl Placed<'_> {
    /// Returns the bytes of the tag that the checksum of the fast commit covers: all bytes or, for
    /// a tail, only the bytes before the checksum.
    #[must_use]
    pub fn checked_bytes(&self) -> &[u8] {
        match self.tag {
            Some(Tag::Tail { .. }) => &self.bytes[..HEADER_BYTES + 4],
            _ => self.bytes,
        }
    }

    /// Returns whether the tag has the code of a head, even if its length is wrong.
    #[must_use]
    pub fn is_head(&self) -> bool {
        le16(self.bytes, 0) == Some(HEAD)
    }
}

/// Iterates over the tags of one block of the fast-commit area. Ends at the end of the block, or
/// after a tag whose value does not fit into the block. The decoded form of such a tag is `None`.
pub fn tags(block: &[u8]) -> impl Iterator<Item = Placed<'_>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let (code, len) = (le16(rest, 0)?, le16(rest, 2)?);
        let Some((bytes, later)) = rest.split_at_checked(HEADER_BYTES + usize::from(len)) else {
            let bytes = std::mem::take(&mut rest);
            return Some(Placed { tag: None, bytes });
        };
        rest = later;
        let tag = parse(code, &bytes[HEADER_BYTES..]);
        Some(Placed { tag, bytes })
    })
}

fn parse(code: u16, value: &[u8]) -> Option<Tag<'_>> {
    let fixed_bytes = match code {
        1 => Some(16),
        2 => Some(12),
        HEAD => Some(8),
        _ => None,
    };
    if fixed_bytes.is_some_and(|bytes| bytes != value.len()) {
        return None;
    }
    Some(match code {
        1 => {
            let length = le16(value, 8)?;
            let unwritten = length > MAX_WRITTEN_BLOCKS;
            let blocks = length - if unwritten { MAX_WRITTEN_BLOCKS } else { 0 };
            let physical = u64::from(le16(value, 10)?) << 32 | u64::from(le32(value, 12)?);
            Tag::AddRange {
                ino: ino(value, 0)?,
                start: FileBlock(le32(value, 4)?),
                blocks: blocks.into(),
                physical: FsBlock(physical),
                unwritten,
            }
        }
        2 => Tag::DelRange {
            ino: ino(value, 0)?,
            start: FileBlock(le32(value, 4)?),
            blocks: le32(value, 8)?,
        },
        3 => Tag::Create(entry(value)?),
        4 => Tag::Link(entry(value)?),
        5 => Tag::Unlink(entry(value)?),
        6 => Tag::Inode {
            ino: ino(value, 0)?,
            raw: value.get(4..).filter(|raw| raw.len() >= GOOD_OLD_BYTES)?,
        },
        7 => Tag::Pad,
        8 => Tag::Tail {
            tid: le32(value, 0)?,
            checksum: le32(value, 4)?,
        },
        HEAD => Tag::Head {
            features: le32(value, 0)?,
            tid: le32(value, 4)?,
        },
        _ => return None,
    })
}

fn entry(value: &[u8]) -> Option<Entry<'_>> {
    let name = value.get(8..)?;
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len());
    is_name.then_some(Entry {
        parent: ino(value, 0)?,
        ino: ino(value, 4)?,
        name,
    })
}

fn ino(value: &[u8], at: usize) -> Option<Ino> {
    le32(value, at).map(Ino)
}

// The minimum length in bytes of a logged inode, and the offsets of the fields that replay uses.
const GOOD_OLD_BYTES: usize = 128;
const I_MODE: usize = 0x0;
const I_LINKS_COUNT: usize = 0x1a;
const I_FLAGS: usize = 0x20;
const I_BLOCK: std::ops::Range<usize> = 0x28..0x64;
const EXTENTS_FL: u32 = 0x8_0000;
/// The root of an extent tree without extents and with space for four.
const EMPTY_EXTENT_ROOT: [u8; 12] = [0x0a, 0xf3, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];

/// Returns `i_mode` of an on-disk inode, or 0 if the inode is too short.
pub(crate) fn inode_mode(raw: &[u8]) -> u16 {
    le16(raw, I_MODE).unwrap_or(0)
}

/// Returns `i_links_count` of an on-disk inode, or 0 if the inode is too short.
pub(crate) fn inode_links(raw: &[u8]) -> u16 {
    le16(raw, I_LINKS_COUNT).unwrap_or(0)
}

/// Adds `more` to `i_links_count` of an on-disk directory, unless the count is 1, which means that
/// the directory has too many subdirectories to count.
pub fn add_directory_links(raw: &mut [u8], more: i32) {
    let links = inode_links(raw);
    let field = raw.get_mut(I_LINKS_COUNT..I_LINKS_COUNT + 2);
    if let Some(field) = field.filter(|_| links > 1) {
        let sum = i32::from(links).saturating_add(more).max(2);
        field.copy_from_slice(&u16::try_from(sum).unwrap_or(1).to_le_bytes());
    }
}

/// Applies `logged`, the first bytes of an inode from a fast commit, to `raw`, the inode in the
/// inode table.
///
/// If `logged` is mapped by extents, the file keeps the extents from the table, because fast
/// commits log changes of extents as ranges. In two cases, the file has no extents at first: if
/// `fresh` is true (the inode in the table belonged to another file), or if the inode in the table
/// is not mapped by extents. If `logged` is not mapped by extents, the file gets the mapping of
/// `logged`.
pub fn patch_inode(raw: &mut [u8], logged: &[u8], fresh: bool) {
    let len = logged.len().min(raw.len());
    let mapped_by_extents = le32(logged, I_FLAGS).is_some_and(|flags| flags & EXTENTS_FL != 0);
    let kept: Option<[u8; I_BLOCK.end - I_BLOCK.start]> = raw
        .get(I_BLOCK)
        .and_then(|bytes| bytes.try_into().ok())
        .filter(|bytes: &[u8; _]| !fresh && bytes[..2] == EMPTY_EXTENT_ROOT[..2]);
    raw[..len].copy_from_slice(&logged[..len]);
    if fresh {
        raw[len..].fill(0);
    }
    if let Some(target) = raw.get_mut(I_BLOCK).filter(|_| mapped_by_extents) {
        let mut empty = [0; I_BLOCK.end - I_BLOCK.start];
        empty[..EMPTY_EXTENT_ROOT.len()].copy_from_slice(&EMPTY_EXTENT_ROOT);
        target.copy_from_slice(&kept.unwrap_or(empty));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inode(flags: u32, i_block: [u8; 60], filler: u8, len: usize) -> Vec<u8> {
        let mut raw = vec![filler; len];
        raw[I_FLAGS..I_FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
        raw[I_BLOCK].copy_from_slice(&i_block);
        raw
    }

    fn extents(marker: u8) -> [u8; 60] {
        let mut bytes = [marker; 60];
        bytes[..12].copy_from_slice(&EMPTY_EXTENT_ROOT);
        bytes
    }

    #[test]
    fn extents_of_table_are_kept() {
        let mut raw = inode(0, extents(1), 2, 256);
        patch_inode(&mut raw, &inode(EXTENTS_FL, extents(3), 4, 160), false);
        assert_eq!(raw[I_BLOCK], extents(1));
        assert_eq!((raw[0], raw[159], raw[160]), (4, 4, 2));
    }

    #[test]
    fn fresh_inode_ignores_the_table() {
        for (table, fresh) in [(extents(1), true), ([1; 60], false)] {
            let mut raw = inode(0, table, 2, 256);
            patch_inode(&mut raw, &inode(EXTENTS_FL, extents(3), 4, 160), fresh);
            let mut empty = [0; 60];
            empty[..12].copy_from_slice(&EMPTY_EXTENT_ROOT);
            assert_eq!(raw[I_BLOCK], empty);
            assert_eq!(raw[160], if fresh { 0 } else { 2 });
        }
    }

    #[test]
    fn inode_without_extents_is_as_logged() {
        let mut raw = inode(EXTENTS_FL, extents(1), 2, 128);
        patch_inode(&mut raw, &inode(0, [5; 60], 4, 160), false);
        assert_eq!(raw, inode(0, [5; 60], 4, 128));
    }

    #[test]
    fn link_count_of_1_is_not_changed() {
        for (links, more, expected) in
            [(2, 1, 3), (3, -1, 2), (2, -5, 2), (1, 3, 1), (65_535, 1, 1)]
        {
            let mut raw = vec![0; 128];
            raw[I_LINKS_COUNT..I_LINKS_COUNT + 2].copy_from_slice(&u16::to_le_bytes(links));
            add_directory_links(&mut raw, more);
            assert_eq!(inode_links(&raw), expected, "{links} and {more}");
        }
    }

    #[test]
    fn range_of_each_kind_parses() {
        let bytes = |length: u16| {
            let mut bytes = vec![1, 0, 16, 0, 12, 0, 0, 0, 7, 0, 0, 0];
            bytes.extend(length.to_le_bytes());
            bytes.extend([1, 0, 9, 0, 0, 0]);
            bytes
        };
        let range = |blocks, unwritten| {
            Some(Tag::AddRange {
                ino: Ino(12),
                start: FileBlock(7),
                blocks,
                physical: FsBlock(0x1_0000_0009),
                unwritten,
            })
        };
        let cases = [
            (0, range(0, false)),
            (3, range(3, false)),
            (0x8000, range(0x8000, false)),
            (0x8003, range(3, true)),
        ];
        for (length, expected) in cases {
            let bytes = bytes(length);
            let placed = tags(&bytes).next().unwrap();
            assert_eq!((placed.tag, placed.bytes.len()), (expected, 20));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_block_yields_tags_inside_it(
            mut block in prop::collection::vec(any::<u8>(), 0..600),
            codes in prop::collection::vec((0_usize..600, 0_u8..10), 0..20),
        ) {
            for (at, code) in codes {
                if let Some(header) = block.get_mut(at..at + 4) {
                    header.copy_from_slice(&[code, 0, 24, 0]);
                }
            }
            let total: usize = tags(&block)
                .map(|placed| placed.bytes.len().max(placed.checked_bytes().len()))
                .sum();
            prop_assert!(total <= block.len());
            let mut raw = vec![0; 256];
            patch_inode(&mut raw, &block, false);
            patch_inode(&mut block.clone(), &raw, true);
        }
    }
}
