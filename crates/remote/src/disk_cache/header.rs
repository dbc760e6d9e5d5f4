//! The header of a cache file. [`super`] describes the file.

use super::identity::{Digest, hexadecimal};
use super::units::UNIT_BYTES;
use twox_hash::XxHash3_128;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of a header: one sector, so that it is rarely torn.
pub(super) const HEADER_BYTES: usize = 512;

const MAGIC: [u8; 8] = *b"larderdc";

/// The version of the format. It changes whenever files of the previous version must not be used.
const VERSION: u32 = 1;

const LABEL_BYTES: usize = 434;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: U32,
    unit_bytes: U64,
    size_bytes: U64,
    digest: Digest,
    label_bytes: U16,
    label: [u8; LABEL_BYTES],
    checksum: U128,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);

/// The fields of a valid header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) digest: Digest,
    pub(super) size_bytes: u64,
    label: String,
}

impl Header {
    /// Creates the header of an object. Control characters in `label` are replaced, and a long label is cut.
    pub(super) fn new(digest: Digest, size_bytes: u64, label: &str) -> Self {
        let mut label = label.replace(char::is_control, "\u{fffd}");
        label.truncate(label.floor_char_boundary(LABEL_BYTES));
        Self {
            digest,
            size_bytes,
            label,
        }
    }

    /// Parses a header. Returns `None` if it is not a valid header of this version.
    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let raw = RawHeader::read_from_bytes(bytes).ok()?;
        let label = raw.label.get(..raw.label_bytes.get().into())?;
        let label = std::str::from_utf8(label).ok()?;
        let is_valid = raw.magic == MAGIC
            && raw.version == VERSION
            && raw.unit_bytes == UNIT_BYTES as u64
            && raw.checksum == raw.computed_checksum()
            && !label.contains(char::is_control);
        is_valid.then(|| Self {
            digest: raw.digest,
            size_bytes: raw.size_bytes.get(),
            label: label.to_owned(),
        })
    }

    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RawHeader {
            magic: MAGIC,
            version: VERSION.into(),
            unit_bytes: (UNIT_BYTES as u64).into(),
            size_bytes: self.size_bytes.into(),
            digest: self.digest,
            label_bytes: 0.into(),
            label: [0; LABEL_BYTES],
            checksum: 0.into(),
        };
        for (byte, place) in self.label.bytes().zip(&mut raw.label) {
            *place = byte;
            raw.label_bytes += 1;
        }
        raw.checksum = raw.computed_checksum();
        zerocopy::transmute!(raw)
    }

    /// Returns true if a file with this header contains the object of `other`.
    pub(super) fn is_for(&self, other: &Self) -> bool {
        (self.digest, self.size_bytes) == (other.digest, other.size_bytes)
    }

    pub(super) fn into_label(self) -> String {
        self.label
    }

    /// Returns the name of the cache file.
    pub(super) fn file_name(&self) -> String {
        hexadecimal(&self.digest)
    }
}

impl RawHeader {
    fn computed_checksum(&self) -> U128 {
        let mut unsigned = *self;
        unsigned.checksum = 0.into();
        XxHash3_128::oneshot(unsigned.as_bytes()).into()
    }
}

/// Returns true if `name` has the form of [`Header::file_name`].
pub(super) fn is_file_name(name: &[u8]) -> bool {
    name.len() == 2 * size_of::<Digest>()
        && name
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if `name` is that of a file in which earlier versions of Larder stored the last version of an object.
pub(super) fn is_obsolete_file_name(name: &[u8]) -> bool {
    name.strip_suffix(b".version").is_some_and(is_file_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(label: &str) -> Header {
        Header::new([7; 32], 1 << 40, label)
    }

    #[test]
    fn header_is_read_back_as_written() {
        for label in ["", "s3://bucket/disk.img", &"ü".repeat(LABEL_BYTES / 2)] {
            let header = header(label);
            assert_eq!(header.label, label);
            assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        }
    }

    #[test]
    fn label_is_cut_at_a_character_and_has_no_control_characters() {
        let long = header(&format!("x{}", "ü".repeat(LABEL_BYTES)));
        assert_eq!(long.label.len(), LABEL_BYTES - 1);
        assert_eq!(header("a\u{1b}[31m\nb").label, "a\u{fffd}[31m\u{fffd}b");
    }

    #[test]
    fn header_with_any_flipped_bit_is_refused() {
        let bytes = header("label").to_bytes();
        for bit in 0..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&flipped), None, "bit {bit}");
        }
    }

    /// Fields that a valid checksum does not make valid.
    #[test]
    fn header_with_impossible_fields_is_refused() {
        let parse = |change: fn(&mut RawHeader)| {
            let mut raw = RawHeader::read_from_bytes(&header("label").to_bytes()).unwrap();
            change(&mut raw);
            raw.checksum = raw.computed_checksum();
            Header::parse(&zerocopy::transmute!(raw))
        };
        assert!(parse(|_| ()).is_some());
        assert_eq!(parse(|raw| raw.magic[0] += 1), None);
        assert_eq!(parse(|raw| raw.version += 1), None);
        assert_eq!(parse(|raw| raw.unit_bytes += 1), None);
        assert_eq!(parse(|raw| raw.label_bytes = 435.into()), None);
        assert_eq!(parse(|raw| raw.label[0] = 0xff), None);
        assert_eq!(parse(|raw| raw.label[0] = 0x1b), None);
    }
}
