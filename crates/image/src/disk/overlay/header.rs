//! The header of an overlay, and the offsets of its tables.
//!
//! The first cluster contains the header of qcow2, its extensions, and the name of the base. One extension is Larder's own.
//! It consists of flags (8 bytes, big-endian) and the version of the base (UTF-8).

use super::base::Base;
use super::error::OverlayError;
use crate::disk::qcow2::{EXTENDED, HEAD_BYTES, Header, extension, header, name_of_backing_file};
use larder_block::{BlockDevice, Error as DeviceError, Result as DeviceResult};
use std::io::ErrorKind;
use zerocopy::IntoBytes;

pub(super) const CLUSTER_BITS: u32 = 17;
/// The size of a cluster in bytes.
pub(super) const CLUSTER_BYTES: u64 = 1 << CLUSTER_BITS;
/// The number of subclusters of a cluster.
pub(super) const SUBCLUSTERS: u64 = 32;
/// The size of a subcluster in bytes.
pub(super) const SUBCLUSTER_BYTES: u64 = CLUSTER_BYTES / SUBCLUSTERS;
/// The size of an entry of an L2 table in bytes.
pub(super) const ENTRY_LEN: usize = 16;
/// The number of entries of an L2 table.
pub(super) const TABLE_ENTRIES: u64 = CLUSTER_BYTES / ENTRY_LEN as u64;
/// The number of bytes of the disk that an L2 table maps.
pub(super) const TABLE_SPAN_BYTES: u64 = TABLE_ENTRIES * CLUSTER_BYTES;
/// The offset of the table of the refcount blocks.
const REFCOUNT_TABLE_OFFSET: u64 = CLUSTER_BYTES;
/// The offset of the L1 table.
pub(super) const L1_OFFSET: u64 = 2 * CLUSTER_BYTES;
/// The size of a reference count in bytes.
pub(super) const REFCOUNT_BYTES: u64 = 2;
/// The binary logarithm of the size of a reference count in bits.
const REFCOUNT_ORDER: u32 = 4;
/// The number of reference counts in a refcount block.
const REFCOUNTS: u64 = CLUSTER_BYTES / REFCOUNT_BYTES;
/// The maximum size of the disk, in bytes. One cluster suffices for the table of its refcount blocks.
const MAX_DISK_BYTES: u64 = 64 << 40;

const MAGIC: [u8; 4] = *b"QFI\xfb";
const VERSION: u32 = 3;
/// The length of the header: a multiple of 8.
const HEADER_BYTES: usize = size_of::<Header>().next_multiple_of(8);
/// The autoclear feature that indicates that only Larder has written to the overlay.
const ONLY_LARDER: u64 = 1 << 63;
/// Types of extensions: the end, the format of the backing file, and Larder's own.
const END: u32 = 0;
const BACKING_FORMAT: u32 = 0xE279_2ACA;
const RECORD: u32 = 0x4C41_5244;
/// Flags in the record: a commit has begun, a commit is complete, and checksums were recorded before the commit began. In
/// earlier versions of Larder, bit 2 indicated that checksums were recorded for a part of the changes.
const COMMITTING: u64 = 1 << 0;
const COMMITTED: u64 = 1 << 1;
const CHECKED: u64 = 1 << 3;
/// The length of a sector in bytes. A device writes each sector completely or not at all, even if power is lost.
pub(super) const SECTOR_LEN: usize = 512;
/// The length of the checksum of a sector in bytes.
pub(super) const CHECKSUM_LEN: usize = size_of::<u32>();
/// The longest name of a backing file that qemu accepts, in bytes. A longer name is shortened. The format and the version have
/// the same limit.
const MAX_NAME_BYTES: usize = 1023;

/// The offsets and sizes of the tables in the overlay file. They follow from the size of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// The size of the disk in bytes.
    pub(super) size_bytes: u64,
    /// The number of entries of the L1 table.
    pub(super) l1_entries: u64,
    l1_clusters: u64,
    refcount_blocks: u64,
    /// The maximum number of clusters in the file.
    pub(super) clusters: u64,
}

impl Geometry {
    pub(super) fn new(size_bytes: u64) -> Result<Self, OverlayError> {
        if size_bytes > MAX_DISK_BYTES {
            return Err(OverlayError::TooLarge("its disk has more than 64 TiB"));
        }
        let l1_entries = size_bytes.div_ceil(TABLE_SPAN_BYTES);
        let l1_clusters = (l1_entries * 8).div_ceil(CLUSTER_BYTES).max(1);
        let others = 2 + l1_clusters + l1_entries + size_bytes.div_ceil(CLUSTER_BYTES);
        // A refcount block also counts the references to itself.
        let refcount_blocks = others.div_ceil(REFCOUNTS - 1);
        Ok(Self {
            size_bytes,
            l1_entries,
            l1_clusters,
            refcount_blocks,
            clusters: others + refcount_blocks,
        })
    }

    /// Returns the offset of the first refcount block. The refcount blocks are contiguous.
    pub(super) fn refcounts_offset(&self) -> u64 {
        L1_OFFSET + self.l1_clusters * CLUSTER_BYTES
    }

    /// Returns the number of clusters at the start of the file that are used even if the overlay contains no changes.
    pub(super) fn fixed_clusters(&self) -> u64 {
        2 + self.l1_clusters + self.refcount_blocks
    }

    /// Returns the maximum size of the file in bytes: the size of all clusters and of the checksums of a commit.
    pub(super) fn file_bytes(&self) -> u64 {
        let sectors = self.size_bytes.div_ceil(SECTOR_LEN as u64);
        self.clusters * CLUSTER_BYTES + sectors * CHECKSUM_LEN as u64
    }

    /// Returns the table of the refcount blocks.
    fn refcount_table(&self) -> Vec<u8> {
        let start_bytes = self.refcounts_offset();
        let blocks = (0..self.refcount_blocks).map(|number| start_bytes + number * CLUSTER_BYTES);
        blocks.flat_map(u64::to_be_bytes).collect()
    }

    /// Returns the header, without the fields for the name of the base.
    fn header(&self) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION.into(),
            backing_name_offset: 0.into(),
            backing_name_len: 0.into(),
            cluster_bits: CLUSTER_BITS.into(),
            size: self.size_bytes.into(),
            encryption: 0.into(),
            l1_entries: u32::try_from(self.l1_entries).unwrap_or(u32::MAX).into(),
            l1_offset: L1_OFFSET.into(),
            refcount_table_offset: REFCOUNT_TABLE_OFFSET.into(),
            refcount_table_clusters: 1.into(),
            snapshots: 0.into(),
            snapshots_offset: 0.into(),
            incompatible: EXTENDED.into(),
            compatible: 0.into(),
            autoclear: ONLY_LARDER.into(),
            refcount_order: REFCOUNT_ORDER.into(),
            len: u32::try_from(HEADER_BYTES).unwrap_or(u32::MAX).into(),
            compression: 0,
        }
    }
}

/// The content of the first cluster of an overlay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) geometry: Geometry,
    pub(super) base: Base,
    pub(super) commit: CommitState,
}

/// How far a commit has written the changes of an overlay to its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitState {
    /// No commit has begun.
    None,
    /// A commit was interrupted. The base may contain a part of the changes.
    Begun {
        /// Whether checksums of the original content of the base are recorded. Earlier versions of Larder did not record
        /// them for all changes.
        has_checksums: bool,
    },
    /// The base contains all changes.
    Complete,
}

impl CommitState {
    fn flags(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Begun {
                has_checksums: false,
            } => COMMITTING,
            Self::Begun {
                has_checksums: true,
            } => COMMITTING | CHECKED,
            Self::Complete => COMMITTED,
        }
    }

    fn of_flags(flags: u64) -> Self {
        match flags {
            flags if flags & COMMITTED != 0 => Self::Complete,
            flags if flags & COMMITTING != 0 => Self::Begun {
                has_checksums: flags & CHECKED != 0,
            },
            _ => Self::None,
        }
    }
}

impl Head {
    /// Returns the bytes at the start of the file.
    fn to_bytes(&self) -> Result<Vec<u8>, OverlayError> {
        let Base {
            name,
            format,
            version,
        } = &self.base;
        if format.len().max(version.len()) > MAX_NAME_BYTES {
            return Err(OverlayError::TooLarge(
                "the version of its base is too long",
            ));
        }
        // Larder does not use the name. Without any name, other programs would read zeros instead of the base.
        let name = &name[..name.len().min(MAX_NAME_BYTES)];
        let mut extensions = Vec::new();
        let flags = self.commit.flags().to_be_bytes();
        let record = [&flags[..], version.as_bytes()].concat();
        for (kind, content) in [
            (BACKING_FORMAT, format.as_bytes()),
            (RECORD, &record[..]),
            (END, &[][..]),
        ] {
            let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
            extensions.extend(kind.to_be_bytes());
            extensions.extend(len.to_be_bytes());
            extensions.extend(content);
            extensions.resize(extensions.len().next_multiple_of(8), 0);
        }
        let mut header = self.geometry.header();
        header.backing_name_offset = ((HEADER_BYTES + extensions.len()) as u64).into();
        header.backing_name_len = u32::try_from(name.len()).unwrap_or(u32::MAX).into();
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend(extensions);
        bytes.extend(name);
        Ok(bytes)
    }

    /// Reads the head of `file`.
    pub(super) fn read(file: &dyn BlockDevice) -> Result<Self, OverlayError> {
        let head_len = usize::try_from(file.size_bytes().min(HEAD_BYTES)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; head_len];
        match file.read_at(&mut bytes, 0) {
            Ok(()) => Self::parse(&bytes),
            // A growing file can be shorter than its device. The file of an overlay is longer than this head.
            Err(DeviceError::Io { source, .. }) if source.kind() == ErrorKind::UnexpectedEof => {
                Err(OverlayError::NotOverlay)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Parses the start of the file.
    fn parse(bytes: &[u8]) -> Result<Self, OverlayError> {
        let header = header(bytes).map_err(|_| OverlayError::NotOverlay)?;
        let record = extension(&header, bytes, RECORD);
        let Some((flags, version)) = record.split_first_chunk().filter(|_| header.magic == MAGIC)
        else {
            return Err(OverlayError::NotOverlay);
        };
        if header.autoclear.get() & ONLY_LARDER == 0 {
            return Err(OverlayError::Foreign);
        }
        let geometry = Geometry::new(header.size.get())?;
        let mut expected = geometry.header();
        expected.backing_name_offset = header.backing_name_offset;
        expected.backing_name_len = header.backing_name_len;
        if expected.as_bytes() != header.as_bytes() {
            return Err(OverlayError::Damaged("its header is invalid"));
        }
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec());
            text.map_err(|_| OverlayError::Damaged("the record of its base is invalid"))
        };
        Ok(Self {
            geometry,
            base: Base {
                name: name_of_backing_file(&header, bytes).to_vec(),
                format: text(extension(&header, bytes, BACKING_FORMAT))?,
                version: text(version)?,
            },
            commit: CommitState::of_flags(u64::from_be_bytes(*flags)),
        })
    }

    /// Writes the head to `file`.
    pub(super) fn write(&self, file: &dyn BlockDevice) -> Result<(), OverlayError> {
        let bytes = self.to_bytes()?;
        file.write_at(&bytes, 0)?;
        Ok(file.flush()?)
    }

    /// Writes to `file` an overlay that contains no changes. `file` must contain only zeros. The head is written last.
    pub(super) fn create(&self, file: &dyn BlockDevice) -> Result<(), OverlayError> {
        // Fails if the record is too long, before anything is written.
        self.to_bytes()?;
        self.create_tables(file)?;
        self.write(file)
    }

    fn create_tables(&self, file: &dyn BlockDevice) -> DeviceResult<()> {
        let geometry = &self.geometry;
        let fixed = geometry.fixed_clusters();
        file.write_at(&geometry.refcount_table(), REFCOUNT_TABLE_OFFSET)?;
        // The tables can be read as a whole if the file extends to their end.
        let end_bytes = fixed * CLUSTER_BYTES - SECTOR_LEN as u64;
        file.write_at(&[0; SECTOR_LEN], end_bytes)?;
        let counts: Vec<u8> = (0..fixed).flat_map(|_| 1_u16.to_be_bytes()).collect();
        file.write_at(&counts, geometry.refcounts_offset())?;
        file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            geometry: Geometry::new(5 << 30).unwrap(),
            base: Base {
                name: b"/images/base.img".to_vec(),
                format: "raw".to_owned(),
                version: "10 bytes, modified 7.5".to_owned(),
            },
            commit: CommitState::None,
        }
    }

    #[test]
    fn head_that_was_written_is_read_back() {
        let begun = [false, true].map(|has_checksums| CommitState::Begun { has_checksums });
        for commit in [CommitState::None, begun[0], begun[1], CommitState::Complete] {
            let head = Head { commit, ..head() };
            assert_eq!(Head::parse(&head.to_bytes().unwrap()).unwrap(), head);
        }
    }

    #[test]
    fn long_name_is_shortened() {
        let mut long = head();
        long.base.name = vec![b'n'; 5000];
        let mut expected = long.clone();
        expected.base.name.truncate(MAX_NAME_BYTES);
        assert_eq!(Head::parse(&long.to_bytes().unwrap()).unwrap(), expected);
        long.base.version = "v".repeat(5000);
        assert!(matches!(long.to_bytes(), Err(OverlayError::TooLarge(_))));
    }

    #[test]
    fn header_that_another_program_changed_is_refused() {
        let bytes = head().to_bytes().unwrap();
        // The first bit of the autoclear features, a refcount order, a number of snapshots.
        let foreign = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            Head::parse(&bytes).unwrap_err()
        };
        assert!(matches!(foreign(88, 0), OverlayError::Foreign));
        assert!(matches!(foreign(99, 5), OverlayError::Damaged(_)));
        assert!(matches!(foreign(63, 1), OverlayError::Damaged(_)));
        assert!(matches!(foreign(0, 0), OverlayError::NotOverlay));
        assert!(matches!(Head::parse(&[]), Err(OverlayError::NotOverlay)));
    }

    #[test]
    fn refcount_blocks_count_all_clusters() {
        for size_bytes in [0, 1, CLUSTER_BYTES, 8 << 30, 1 << 40, MAX_DISK_BYTES] {
            let geometry = Geometry::new(size_bytes).unwrap();
            assert!(geometry.refcount_blocks * REFCOUNTS >= geometry.clusters);
            assert!(geometry.refcount_table().len() as u64 <= CLUSTER_BYTES);
            let left = geometry.clusters - geometry.fixed_clusters();
            let data = size_bytes.div_ceil(CLUSTER_BYTES);
            assert_eq!(left, data + geometry.l1_entries);
        }
        assert!(Geometry::new(MAX_DISK_BYTES + 1).is_err());
    }
}
