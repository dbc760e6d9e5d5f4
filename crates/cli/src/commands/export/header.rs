//! The headers of the members of an archive.
//!
//! Format: ustar of POSIX.1-1988. What does not fit in such a header is in records of POSIX.1-2001 (pax), which precede it.
//! The bytes of names and attributes are stored as they are in the image, also if they are not UTF-8.

use super::records::{MAX_NUMBER, Records};
use crate::commands::tar_header::{
    self, CHECKSUM, GID, LINK, MAGIC, MAJOR, MINOR, MODE, MTIME, NAME, SIZE, TYPE, UID,
};
use larder::Metadata;
use std::io::{self, Read, Write};
use std::ops::Range;

/// The unit of an archive, in bytes.
pub(super) const BLOCK_BYTES: u64 = tar_header::BLOCK_BYTES as u64;

/// The largest owner and the largest number of a device that fit in a header: 7 octal digits.
const MAX_ID: u64 = (1 << 21) - 1;

/// The type of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file.
    Regular,
    /// A hard link to an earlier member.
    Link,
    /// A symbolic link.
    Symlink,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A directory.
    Directory,
    /// A FIFO.
    Fifo,
    /// The pax records of the next member.
    Records,
}

impl Kind {
    /// Returns the type flag of the header.
    const fn flag(self) -> u8 {
        match self {
            Self::Regular => b'0',
            Self::Link => b'1',
            Self::Symlink => b'2',
            Self::Char => b'3',
            Self::Block => b'4',
            Self::Directory => b'5',
            Self::Fifo => b'6',
            Self::Records => b'x',
        }
    }
}

/// The header of a member.
struct Header([u8; tar_header::BLOCK_BYTES]);

impl Header {
    /// Returns a header in which the numeric fields that every type needs are 0.
    fn new(kind: Kind) -> Self {
        let mut header = Self([0; tar_header::BLOCK_BYTES]);
        header.set(MAGIC, b"ustar\x0000");
        header.0[TYPE] = kind.flag();
        for field in [MODE, UID, GID, SIZE, MTIME, MAJOR, MINOR] {
            header.set_number(field, 0);
        }
        header
    }

    /// Copies as much of `bytes` to a field as fits.
    fn set(&mut self, field: Range<usize>, bytes: &[u8]) {
        let field = self.0.get_mut(field).unwrap_or_default();
        for (to, from) in field.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Sets a field to octal digits and a NUL. The number must fit in the field.
    fn set_number(&mut self, field: Range<usize>, number: u64) {
        let digits = field.len() - 1;
        self.set(field, format!("{number:0digits$o}\0").as_bytes());
    }

    /// Sets the checksum, and writes the header.
    fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        // The sum is that of a header with blanks in this field.
        self.set(CHECKSUM, &[b' '; 8]);
        let sum: u64 = self.0.iter().copied().map(u64::from).sum();
        self.set(CHECKSUM, format!("{sum:06o}\0 ").as_bytes());
        out.write_all(&self.0)
    }
}

/// A member of an archive, without its data.
#[derive(Debug)]
pub(super) struct Member<'a> {
    /// The type.
    pub kind: Kind,
    /// The name. That of a directory ends in a slash.
    pub name: &'a [u8],
    /// The target of a symbolic link, or the name of the member to which a hard link leads.
    pub link: &'a [u8],
    /// The attributes in the image.
    pub metadata: &'a Metadata,
    /// The size of the data that follow the header.
    pub data_bytes: u64,
    /// The size of a sparse file with its holes, or `None` if the data are the content.
    pub sparse_bytes: Option<u64>,
    /// The records of extended attributes.
    pub records: Records,
}

impl<'a> Member<'a> {
    /// Returns a member without data, link and records.
    pub(super) fn new(kind: Kind, name: &'a [u8], metadata: &'a Metadata) -> Self {
        Self {
            kind,
            name,
            link: &[],
            metadata,
            data_bytes: 0,
            sparse_bytes: None,
            records: Records::default(),
        }
    }

    /// Writes the header and the records before it.
    ///
    /// # Errors
    /// An error of `out`.
    pub(super) fn write(self, out: &mut impl Write) -> io::Result<()> {
        let Self {
            metadata,
            mut records,
            ..
        } = self;
        let mut header = Header::new(self.kind);
        header.set_number(MODE, metadata.permissions.into());
        header.set_number(UID, records.number("uid", metadata.uid.into(), MAX_ID));
        header.set_number(GID, records.number("gid", metadata.gid.into(), MAX_ID));
        header.set_number(SIZE, records.number("size", self.data_bytes, MAX_NUMBER));
        header.set_number(MTIME, records.modified(metadata.modified));
        let (major, minor) = (metadata.rdev_major.into(), metadata.rdev_minor.into());
        header.set_number(MAJOR, records.number("SCHILY.devmajor", major, MAX_ID));
        header.set_number(MINOR, records.number("SCHILY.devminor", minor, MAX_ID));
        if let Some(size_bytes) = self.sparse_bytes {
            records.add(b"GNU.sparse.major", b"1");
            records.add(b"GNU.sparse.minor", b"0");
            records.add(b"GNU.sparse.name", self.name);
            let size = size_bytes.to_string();
            records.add(b"GNU.sparse.realsize", size.as_bytes());
            // A program that does not know the format must not replace the file by its map and its data.
            let name = below(self.name, b"GNUSparseFile.0");
            header.set(NAME, &name);
        } else {
            records.text("path", self.name);
            header.set(NAME, self.name);
        }
        records.text("linkpath", self.link);
        header.set(LINK, self.link);
        write_records(out, self.name, &records)?;
        header.write(out)
    }
}

/// Writes the records of the member `name` as a member of their own. If there are no records, writes nothing.
fn write_records(out: &mut impl Write, name: &[u8], records: &Records) -> io::Result<()> {
    let bytes = records.bytes();
    if bytes.is_empty() {
        return Ok(());
    }
    let len_bytes = bytes.len() as u64;
    let mut header = Header::new(Kind::Records);
    header.set(NAME, &below(name, b"PaxHeaders"));
    header.set_number(MODE, 0o644);
    header.set_number(SIZE, len_bytes);
    header.write(out)?;
    out.write_all(bytes)?;
    pad(out, len_bytes)
}

/// Writes the zeros that follow data of `len_bytes`, up to the next block.
///
/// # Errors
/// An error of `out`.
pub(super) fn pad(out: &mut impl Write, len_bytes: u64) -> io::Result<()> {
    let missing_bytes = len_bytes.next_multiple_of(BLOCK_BYTES) - len_bytes;
    io::copy(&mut io::repeat(0).take(missing_bytes), out).map(drop)
}

/// Returns `name` with `directory` before its last component.
fn below(name: &[u8], directory: &[u8]) -> Vec<u8> {
    let name = name.strip_suffix(b"/").unwrap_or(name);
    let at = name.iter().rposition(|&byte| byte == b'/');
    let (parent, last) = name.split_at(at.map_or(0, |at| at + 1));
    [parent, directory, b"/", last].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::{FileKind, Ino};

    fn written(name: &[u8], change: impl FnOnce(&mut Metadata)) -> Vec<u8> {
        let mut metadata = Metadata::new(Ino::ROOT, FileKind::Regular);
        change(&mut metadata);
        let mut out = Vec::new();
        let member = Member::new(Kind::Regular, name, &metadata);
        member.write(&mut out).unwrap();
        out
    }

    #[test]
    fn only_what_does_not_fit_in_the_header_becomes_a_record() {
        let long = [b'n'; 101];
        assert_eq!(written(b"etc/file", |_| ()).len(), 512);
        assert_eq!(
            written(&long[..100], |metadata| metadata.uid = 0o7_777_777).len(),
            512
        );
        for (bytes, record) in [
            (written(&long, |_| ()), "path=nnn"),
            (written("\u{e9}".as_bytes(), |_| ()), "11 path=\u{e9}\n"),
            (
                written(b"f", |metadata| metadata.gid = 1 << 21),
                "15 gid=2097152\n",
            ),
            (
                written(b"f", |metadata| metadata.modified.nanoseconds = 7),
                " mtime=0.000000007\n",
            ),
            (
                written(b"f", |metadata| metadata.modified.seconds = 1 << 33),
                " mtime=8589934592\n",
            ),
        ] {
            assert_eq!(bytes.len(), 3 * 512, "{record}");
            let text = String::from_utf8_lossy(&bytes[512..1024]);
            assert!(text.contains(record), "{record} is not in {text}");
        }
    }

    #[test]
    fn size_over_8_gib_is_a_record() {
        let metadata = Metadata::new(Ino::ROOT, FileKind::Regular);
        for (data_bytes, blocks, in_header) in [
            ((8 << 30) - 1, 1, b"77777777777\0"),
            (8 << 30, 3, b"00000000000\0"),
        ] {
            let mut out = Vec::new();
            let mut member = Member::new(Kind::Regular, b"f", &metadata);
            member.data_bytes = data_bytes;
            member.write(&mut out).unwrap();
            assert_eq!(out.len(), blocks * 512);
            let header = &out[out.len() - 512..];
            assert_eq!(&header[SIZE], in_header);
            let text = String::from_utf8_lossy(&out);
            assert_eq!(text.contains("19 size=8589934592\n"), blocks == 3);
        }
    }

    #[test]
    fn header_has_the_fields_and_the_checksum_of_ustar() {
        let bytes = written(b"etc/file", |metadata| {
            metadata.permissions = 0o644;
            metadata.uid = 1000;
            metadata.modified.seconds = 8;
        });
        assert!(bytes.starts_with(b"etc/file\0"));
        assert_eq!(&bytes[100..124], b"0000644\x000001750\x000000000\0");
        assert_eq!(&bytes[124..148], b"00000000000\x0000000000010\0");
        assert_eq!(&bytes[156..158], b"0\0");
        assert_eq!(&bytes[257..265], b"ustar\x0000");
        assert_eq!(&bytes[329..345], b"0000000\x000000000\0");
        let sum: u64 = bytes.iter().copied().map(u64::from).sum();
        let own: u64 = bytes[148..156].iter().copied().map(u64::from).sum();
        let expected = format!("{:06o}\0 ", sum - own + 8 * 32);
        assert_eq!(&bytes[148..156], expected.as_bytes());
    }
}
