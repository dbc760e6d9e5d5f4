//! The record of a cache file: which version of an object it has, and when a server last confirmed this version.
//! [`super`] describes the file.

use super::header::HEADER_BYTES;
use super::identity::{Digest, Identity};
use super::units::ALIGN_BYTES;
use twox_hash::XxHash3_128;
use zerocopy::little_endian::{U16, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The offset of the record: after the header.
pub(super) const RECORD_OFFSET_BYTES: u64 = HEADER_BYTES as u64;

/// The size of a record: up to the map.
pub(super) const RECORD_BYTES: usize = ALIGN_BYTES - HEADER_BYTES;

/// The maximum length of the text of a version.
const VERSION_BYTES: usize = RECORD_BYTES - 90;

#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    place: Digest,
    confirmed_ns: U64,
    /// The SHA-256 of the content, zeros if it is not known, or [`BEING_CHECKED`].
    content: Digest,
    version_bytes: U16,
    version: [u8; VERSION_BYTES],
    checksum: U128,
}

const _: () = assert!(size_of::<RawRecord>() == RECORD_BYTES);

/// The digest that a record has while the content is being checked. No content has this SHA-256.
const BEING_CHECKED: Digest = [0xff; size_of::<Digest>()];

/// What is known about the content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing.
    Unknown,
    /// A check has begun.
    BeingChecked,
    /// The SHA-256.
    Checked(Digest),
}

/// What is known about the object of a cache file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The digest of the location and the credentials.
    place: Digest,
    version: String,
    /// When a server last said that this is the current version, in nanoseconds since 1970.
    pub(super) confirmed_ns: u64,
    pub(super) content: Content,
}

impl Record {
    /// Creates the record of an object that no server has confirmed yet. Returns `None` if its version is too
    /// long.
    pub(super) fn new(identity: &Identity<'_>) -> Option<Self> {
        (identity.version.len() <= VERSION_BYTES).then(|| Self {
            place: place(identity),
            version: identity.version.to_owned(),
            confirmed_ns: 0,
            content: Content::Unknown,
        })
    }

    /// Parses a record. Returns `None` if it is damaged or was never written.
    pub(super) fn parse(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let raw = RawRecord::read_from_bytes(bytes).ok()?;
        if raw.checksum != raw.computed_checksum() {
            return None;
        }
        let version = raw.version.get(..raw.version_bytes.get().into())?;
        Some(Self {
            place: raw.place,
            version: std::str::from_utf8(version).ok()?.to_owned(),
            confirmed_ns: raw.confirmed_ns.get(),
            content: Content::of(raw.content),
        })
    }

    pub(super) fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut raw = RawRecord {
            place: self.place,
            confirmed_ns: self.confirmed_ns.into(),
            content: self.content.to_digest(),
            version_bytes: 0.into(),
            version: [0; VERSION_BYTES],
            checksum: 0.into(),
        };
        for (byte, place) in self.version.bytes().zip(&mut raw.version) {
            *place = byte;
            raw.version_bytes += 1;
        }
        raw.checksum = raw.computed_checksum();
        zerocopy::transmute!(raw)
    }

    /// Returns the recorded version, if the record belongs to the object of `identity` and to the file of an object
    /// of `size_bytes` with `digest`. Ignores the version in `identity`.
    pub(super) fn version_at(
        &self,
        identity: &Identity<'_>,
        size_bytes: u64,
        digest: &Digest,
    ) -> Option<&str> {
        let own = Identity {
            version: &self.version,
            ..*identity
        };
        (self.place == place(identity) && own.digest(size_bytes) == *digest)
            .then_some(self.version.as_str())
    }

    /// Returns whether this is the record of `identity`.
    pub(super) fn is_for(&self, identity: &Identity<'_>) -> bool {
        self.place == place(identity) && self.version == identity.version
    }
}

impl Content {
    fn of(digest: Digest) -> Self {
        match digest {
            BEING_CHECKED => Self::BeingChecked,
            digest if digest == Digest::default() => Self::Unknown,
            digest => Self::Checked(digest),
        }
    }

    fn to_digest(self) -> Digest {
        match self {
            Self::Unknown => Digest::default(),
            Self::BeingChecked => BEING_CHECKED,
            Self::Checked(digest) => digest,
        }
    }
}

/// Returns the digest that all versions of an object have in common.
fn place(identity: &Identity<'_>) -> Digest {
    let any = Identity {
        version: "",
        ..*identity
    };
    any.digest(0)
}

impl RawRecord {
    fn computed_checksum(&self) -> U128 {
        let mut unsigned = *self;
        unsigned.checksum = 0.into();
        // The seed distinguishes a record from zeros.
        XxHash3_128::oneshot_with_seed(1, unsigned.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity<'static> = Identity {
        location: "https://host/disk.img",
        version: "\"one\"\n0\n7",
        credentials: "user",
    };

    #[test]
    fn record_is_read_back_unless_it_is_damaged() {
        let mut record = Record::new(&IDENTITY).unwrap();
        record.confirmed_ns = u64::MAX;
        for content in [
            Content::Unknown,
            Content::BeingChecked,
            Content::Checked([7; 32]),
        ] {
            record.content = content;
            let bytes = record.to_bytes();
            assert_eq!(Record::parse(&bytes).as_ref(), Some(&record));
            for at in 0..RECORD_BYTES {
                let mut damaged = bytes;
                damaged[at] ^= 1;
                assert_eq!(Record::parse(&damaged), None, "byte {at}");
            }
        }
        assert_eq!(Record::parse(&[0; RECORD_BYTES]), None);
    }

    #[test]
    fn record_belongs_to_one_file() {
        let record = Record::new(&IDENTITY).unwrap();
        let any = Identity {
            version: "",
            ..IDENTITY
        };
        let digest = IDENTITY.digest(7);
        assert_eq!(record.version_at(&any, 7, &digest), Some(IDENTITY.version));
        assert_eq!(record.version_at(&any, 8, &digest), None);
        assert_eq!(record.version_at(&any, 7, &any.digest(7)), None);
        let other = Identity {
            credentials: "other",
            ..any
        };
        assert_eq!(record.version_at(&other, 7, &digest), None);
        assert!(record.is_for(&IDENTITY) && !record.is_for(&any));
    }

    #[test]
    fn version_that_is_too_long_has_no_record() {
        let of_len = |len| {
            let version = "x".repeat(len);
            let identity = Identity {
                version: &version,
                ..IDENTITY
            };
            Record::new(&identity).map(|record| Record::parse(&record.to_bytes()) == Some(record))
        };
        assert_eq!(of_len(VERSION_BYTES), Some(true));
        assert_eq!(of_len(VERSION_BYTES + 1), None);
    }
}
