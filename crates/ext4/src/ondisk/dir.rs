//! Directory entries, and the checksum at the end of a block of directory entries.
//!
//! A directory block is a chain of records. `rec_len` is the length of a record; the last record
//! extends to the end of the block. A record whose `inode` is 0 is free space. Hash tree nodes and
//! checksums have the form of free records, so that programs that do not support them skip them.
//!
//! ```text
//! byte  0     4         6          7           8
//!       inode rec_len   name_len   file_type   name, padded to a multiple of 4
//! ```

use super::Damage;
use crate::{FileKind, Ino};

/// The length of the smallest record: eight bytes and a name of one byte, padded to four.
const MIN_RECORD_BYTES: usize = 12;

/// The offset of the name in a record.
pub(super) const NAME_OFFSET: usize = 8;

/// The length of the tail, which is the last record of a block and contains its checksum.
pub(super) const TAIL_BYTES: usize = 12;

/// The file type that marks a tail.
pub(super) const TAIL_FILE_TYPE: u8 = 0xde;

/// The type byte of an entry. It is meaningful only with the feature `filetype`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTypeByte(pub u8);

impl FileTypeByte {
    /// The type byte of entries without a type.
    pub const UNKNOWN: Self = Self(0);

    /// The type byte of a directory.
    pub const DIRECTORY: Self = Self(2);

    /// The types in the order of their bytes, starting from 1.
    const KINDS: [FileKind; 7] = [
        FileKind::Regular,
        FileKind::Directory,
        FileKind::CharDevice,
        FileKind::BlockDevice,
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::Symlink,
    ];

    /// Returns the type byte of `kind`.
    #[must_use]
    pub fn of(kind: FileKind) -> Self {
        let byte = (1..).zip(Self::KINDS).find(|(_, other)| *other == kind);
        byte.map_or(Self::UNKNOWN, |(byte, _)| Self(byte))
    }

    /// Returns the type, or `None` if the byte is unknown.
    #[must_use]
    pub fn kind(self) -> Option<FileKind> {
        let index = usize::from(self.0).checked_sub(1)?;
        Self::KINDS.get(index).copied()
    }
}

/// An entry in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent<'a> {
    /// The offset of the record in the parsed bytes.
    pub offset: usize,
    /// The offset of the next record.
    pub end: usize,
    /// The inode number, not yet checked against the size of the file system. Never 0.
    pub ino: Ino,
    /// The name, of 1 to 255 bytes. It may contain bytes that are illegal in a path.
    pub name: &'a [u8],
    /// The type byte, meaningful only with the feature `filetype`.
    pub file_type: u8,
}

impl Dirent<'_> {
    /// Returns whether the name is legal. A `/` or a zero byte in it is corruption.
    #[must_use]
    pub fn has_legal_name(&self) -> bool {
        !self.name.iter().any(|&byte| byte == b'/' || byte == 0)
    }
}

/// A record, in use or free.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    /// The offset of the record in the parsed bytes.
    pub offset: usize,
    /// The offset of the next record.
    pub end: usize,
    /// The entry, or `None` if the record is free.
    pub dirent: Option<Dirent<'a>>,
}

impl Record<'_> {
    /// Returns the number of bytes that the record's entry needs.
    pub(super) fn used_bytes(&self) -> usize {
        self.dirent
            .map_or(0, |dirent| record_len_bytes(dirent.name.len()))
    }
}

/// Returns the length of the shortest record that can contain a name of `name_len` bytes.
pub(crate) fn record_len_bytes(name_len: usize) -> usize {
    (NAME_OFFSET + name_len).next_multiple_of(4)
}

/// An iterator over the records of a chain, in use or free. It ends after an error, because the
/// position of the next record is unknown.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn record(&self) -> Result<Record<'a>, Damage> {
        const PAST_END: Damage = "directory record reaches past the end of its block";
        let rest = &self.bytes[self.at..];
        let header = rest.first_chunk::<MIN_RECORD_BYTES>().ok_or(PAST_END)?;
        let [i0, i1, i2, i3, len0, len1, name_len, file_type, ..] = *header;
        let ino = Ino(u32::from_le_bytes([i0, i1, i2, i3]));
        let len_bytes = record_bytes(u16::from_le_bytes([len0, len1]), self.bytes.len());
        if len_bytes < MIN_RECORD_BYTES {
            return Err("directory record is too short");
        }
        if !len_bytes.is_multiple_of(4) {
            return Err("length of a directory record is not a multiple of 4");
        }
        let record = rest.get(..len_bytes).ok_or(PAST_END)?;
        let (offset, end) = (self.at, self.at + len_bytes);
        let mut dirent = None;
        if ino != Ino(0) {
            let name = record.get(NAME_OFFSET..NAME_OFFSET + usize::from(name_len));
            let name = name.ok_or("name is longer than its directory record")?;
            if name.is_empty() {
                return Err("directory record has an empty name");
            }
            dirent = Some(Dirent {
                offset,
                end,
                ino,
                name,
                file_type,
            });
        }
        Ok(Record {
            offset,
            end,
            dirent,
        })
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let record = self.record();
        self.at = record.map_or(self.bytes.len(), |record| record.end);
        Some(record)
    }
}

/// An iterator over the entries in use of one block, or of one part of an inline directory.
///
/// It ends after an error.
#[derive(Clone, Debug)]
pub struct Dirents<'a>(Records<'a>);

impl<'a> Dirents<'a> {
    /// Iterates over the entries of `bytes`, which consist of a chain of records.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(Records::new(bytes))
    }
}

impl<'a> Iterator for Dirents<'a> {
    type Item = Result<Dirent<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut in_use = self.0.by_ref().map(|record| Ok(record?.dirent));
        in_use.find_map(Result::transpose)
    }
}

impl std::iter::FusedIterator for Dirents<'_> {}

/// Decodes `rec_len` into the length of the record in bytes. Because 16 bits cannot represent 65,536, the
/// values 0 and 65,535 both mean 65,536 in a block of 64 KiB.
fn record_bytes(rec_len: u16, block_size_bytes: usize) -> usize {
    if block_size_bytes == 1 << 16 && matches!(rec_len, 0 | u16::MAX) {
        block_size_bytes
    } else {
        usize::from(rec_len)
    }
}

/// Splits a block into the bytes that its checksum covers, and the checksum. Returns `None` if the
/// block has no tail.
#[must_use]
pub fn split_tail(block: &[u8]) -> Option<(&[u8], u32)> {
    let (covered, tail) = block.split_last_chunk::<TAIL_BYTES>()?;
    let [0, 0, 0, 0, 12, 0, 0, TAIL_FILE_TYPE, c0, c1, c2, c3] = *tail else {
        return None;
    };
    Some((covered, u32::from_le_bytes([c0, c1, c2, c3])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(ino: u32, rec_len: u16, name: &[u8]) -> Vec<u8> {
        let mut bytes = ino.to_le_bytes().to_vec();
        bytes.extend(rec_len.to_le_bytes());
        bytes.push(u8::try_from(name.len()).unwrap());
        bytes.push(1);
        bytes.extend(name);
        bytes.resize(usize::from(rec_len).max(bytes.len()), 0);
        bytes
    }

    fn names(bytes: &[u8]) -> Vec<Result<&[u8], &'static str>> {
        Dirents::new(bytes)
            .map(|dirent| dirent.map(|dirent| dirent.name))
            .collect()
    }

    #[test]
    fn chain_returns_all_records() {
        let block = [
            record(11, 16, b"first"),
            record(0, 32, b"deleted"),
            record(12, 980 - 4, b"x"),
        ]
        .concat();
        assert_eq!(names(&block), [Ok(&b"first"[..]), Ok(b"x")]);
        let first = Dirents::new(&block).next().unwrap().unwrap();
        assert_eq!((first.offset, first.end, first.ino), (0, 16, Ino(11)));
    }

    #[test]
    fn damaged_record_ends_the_block_with_an_error() {
        let bad = [
            ([record(1, 8, b"").as_slice(), &[0; 8]].concat(), "short"),
            (record(1, 0, b"abcd"), "short"),
            (record(1, 13, b"a"), "multiple of 4"),
            (record(1, 24, b"a")[..20].to_vec(), "past the end"),
            (record(1, 12, b"abcdef")[..12].to_vec(), "longer than"),
            (record(1, 12, b""), "empty name"),
        ];
        for (bytes, what) in bad {
            let block = [record(5, 12, b"ok"), bytes].concat();
            let found = names(&block);
            assert_eq!(found.len(), 2, "{what}");
            assert!(found[1].unwrap_err().contains(what), "{what}: {found:?}");
        }
    }

    #[test]
    fn record_length_of_64_kib_is_valid_only_in_a_block_of_64_kib() {
        for rec_len in [0, u16::MAX] {
            let mut block = record(7, 12, b"whole");
            block.resize(1 << 16, 0);
            block[4..6].copy_from_slice(&rec_len.to_le_bytes());
            assert_eq!(names(&block), [Ok(&b"whole"[..])]);
            block.truncate(1 << 15);
            assert!(names(&block)[0].is_err());
        }
    }

    #[test]
    fn tail_is_split_off_only_if_present() {
        let mut block = record(0, 12, b"");
        block.extend([0, 0, 0, 0, 12, 0, 0, 0xde, 1, 2, 3, 4]);
        assert_eq!(split_tail(&block), Some((&block[..12], 0x0403_0201)));
        block[19] = 0;
        assert_eq!(split_tail(&block), None);
        assert_eq!(split_tail(&block[..4]), None);
    }

    proptest! {
        #[test]
        fn records_of_any_bytes_stay_in_their_block(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut end = 0;
            for dirent in Dirents::new(&bytes).flatten() {
                prop_assert!(dirent.offset >= end && dirent.end <= bytes.len());
                end = dirent.end;
            }
            let _ = split_tail(&bytes);
        }

        #[test]
        fn records_with_small_fields_stay_in_their_block(
            fields in prop::collection::vec((0_u32..3, 0_u16..40, 0_u8..20), 0..30),
        ) {
            let bytes: Vec<u8> = fields.iter().flat_map(|&(ino, rec_len, name_len)| {
                let mut bytes = record(ino, rec_len.max(12), b"abcd");
                bytes[6] = name_len;
                bytes
            }).collect();
            let found = Dirents::new(&bytes).flatten().count();
            prop_assert!(found <= fields.len());
        }
    }
}
