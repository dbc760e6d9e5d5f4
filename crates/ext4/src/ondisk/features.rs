//! Feature bits of the superblock, and their names in the output of mke2fs and dumpe2fs.
//!
//! Any program may ignore an unknown *compatible* feature, and a reader may ignore an unknown
//! *read-only compatible* feature. An image with an unknown *incompatible* feature is rejected with
//! an error that names the feature.

use crate::{Error, Result};
use bitflags::{Flags, bitflags};

bitflags! {
    /// Features that readers and writers may ignore.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Compat: u32 {
        /// Blocks are preallocated for directories.
        const DIR_PREALLOC = 0x1;
        /// Inodes of the AFS server.
        const IMAGIC_INODES = 0x2;
        /// The file system has a journal.
        const HAS_JOURNAL = 0x4;
        /// Extended attributes.
        const EXT_ATTR = 0x8;
        /// Blocks are reserved for a larger descriptor table.
        const RESIZE_INODE = 0x10;
        /// Directories may be indexed by hash.
        const DIR_INDEX = 0x20;
        /// Block groups that were never written (historic).
        const LAZY_BG = 0x40;
        /// Inode of the exclude bitmap (historic).
        const EXCLUDE_INODE = 0x80;
        /// Exclude bitmap for snapshots (historic).
        const EXCLUDE_BITMAP = 0x100;
        /// Two backups of the superblock, in groups that the superblock names.
        const SPARSE_SUPER2 = 0x200;
        /// The journal has an area of fast commits.
        const FAST_COMMIT = 0x400;
        /// Inode numbers never change.
        const STABLE_INODES = 0x800;
        /// Orphans are listed in a file.
        const ORPHAN_FILE = 0x1000;
    }
}

bitflags! {
    /// Features that a reader must know.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Incompat: u32 {
        /// Compressed files.
        const COMPRESSION = 0x1;
        /// Directory entries carry the file type.
        const FILETYPE = 0x2;
        /// The journal must be replayed.
        const RECOVER = 0x4;
        /// The device contains the journal of another file system.
        const JOURNAL_DEV = 0x8;
        /// Descriptors are stored in the groups that they describe.
        const META_BG = 0x10;
        /// Files may be mapped by extents.
        const EXTENTS = 0x40;
        /// Block numbers of 64 bits.
        const BIT64 = 0x80;
        /// A block protects against multiple mounts.
        const MMP = 0x100;
        /// Bitmaps and inode tables may be stored in other groups.
        const FLEX_BG = 0x200;
        /// Large attributes are stored in their own inodes.
        const EA_INODE = 0x400;
        /// Directory entries carry data.
        const DIRDATA = 0x1000;
        /// The checksum seed is stored, not derived from the UUID.
        const CSUM_SEED = 0x2000;
        /// Directories over 2 GiB, or with an index of three levels.
        const LARGE_DIR = 0x4000;
        /// Small files and directories may be stored in the inode.
        const INLINE_DATA = 0x8000;
        /// Encrypted inodes.
        const ENCRYPT = 0x1_0000;
        /// Directories that ignore case.
        const CASEFOLD = 0x2_0000;
    }
}

bitflags! {
    /// Features that a writer must know and a reader may ignore.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct RoCompat: u32 {
        /// Backups of the superblock in some groups only.
        const SPARSE_SUPER = 0x1;
        /// Files over 2 GiB.
        const LARGE_FILE = 0x2;
        /// Directories as B-trees (historic).
        const BTREE_DIR = 0x4;
        /// Files of more than 2^32 sectors.
        const HUGE_FILE = 0x8;
        /// Descriptors have a CRC-16, and groups may be uninitialized.
        const GDT_CSUM = 0x10;
        /// Directories with more subdirectories than a link count can hold.
        const DIR_NLINK = 0x20;
        /// Inodes have more than 128 bytes of fixed fields.
        const EXTRA_ISIZE = 0x40;
        /// A snapshot (historic).
        const HAS_SNAPSHOT = 0x80;
        /// Quota is stored in hidden inodes.
        const QUOTA = 0x100;
        /// Space is allocated in clusters of blocks.
        const BIGALLOC = 0x200;
        /// All metadata has a CRC-32C.
        const METADATA_CSUM = 0x400;
        /// Replicas (historic).
        const REPLICA = 0x800;
        /// The file system must not be written to.
        const READONLY = 0x1000;
        /// Project identifiers and quota.
        const PROJECT = 0x2000;
        /// Files may share blocks, so the file system must not be written to.
        const SHARED_BLOCKS = 0x4000;
        /// Files with a Merkle tree after their content.
        const VERITY = 0x8000;
        /// The orphan file may contain orphans.
        const ORPHAN_PRESENT = 0x1_0000;
    }
}

/// The incompatible features that Larder supports.
const READABLE: Incompat = Incompat::FILETYPE
    .union(Incompat::RECOVER)
    .union(Incompat::META_BG)
    .union(Incompat::EXTENTS)
    .union(Incompat::BIT64)
    .union(Incompat::MMP)
    .union(Incompat::FLEX_BG)
    .union(Incompat::EA_INODE)
    .union(Incompat::CSUM_SEED)
    .union(Incompat::LARGE_DIR)
    .union(Incompat::INLINE_DATA)
    .union(Incompat::ENCRYPT)
    .union(Incompat::CASEFOLD);

/// Returns the name of `flag` in e2fsprogs, which is usually the name here in lower case. Returns
/// `None` if e2fsprogs has no name for the flag.
fn name_of(flag: &str) -> Option<String> {
    Some(match flag {
        "EXCLUDE_BITMAP" => "snapshot_bitmap".to_owned(),
        "RECOVER" => "needs_recovery".to_owned(),
        "EXTENTS" => "extent".to_owned(),
        "BIT64" => "64bit".to_owned(),
        "CSUM_SEED" => "metadata_csum_seed".to_owned(),
        "GDT_CSUM" => "uninit_bg".to_owned(),
        "HAS_SNAPSHOT" => "snapshot".to_owned(),
        "READONLY" => "read-only".to_owned(),
        "EXCLUDE_INODE" | "BTREE_DIR" => return None,
        _ => flag.to_lowercase(),
    })
}

/// Returns the names of the set bits. As in dumpe2fs, the name of an unnamed bit is `FEATURE_`, the
/// letter of its word and the number of the bit.
fn names<F: Flags<Bits = u32>>(features: F, letter: char) -> impl Iterator<Item = String> {
    let bits = (0..u32::BITS).filter(move |bit| features.bits() & (1 << bit) != 0);
    bits.map(move |bit| {
        let flag = F::FLAGS.iter().find(|flag| flag.value().bits() == 1 << bit);
        flag.and_then(|flag| name_of(flag.name()))
            .unwrap_or_else(|| format!("FEATURE_{letter}{bit}"))
    })
}

impl Compat {
    /// Returns the names of the features in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = String> {
        names(self, 'C')
    }
}

impl Incompat {
    /// Returns the names of the features in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = String> {
        names(self, 'I')
    }

    /// Returns an error if there are features that Larder does not support, because Larder would
    /// misread the image.
    ///
    /// # Errors
    /// [`Error::UnsupportedFeature`] with the names of all such features.
    pub(crate) fn check_readable(self) -> Result<()> {
        if self.contains(Self::JOURNAL_DEV) {
            return Err(Error::UnsupportedFeature(
                "journal_dev (this is the external journal of another file system)".to_owned(),
            ));
        }
        let unknown = self.difference(READABLE);
        if unknown.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = unknown.names().collect();
        Err(Error::UnsupportedFeature(names.join(", ")))
    }
}

impl RoCompat {
    /// Returns the names of the features in the order of their bits.
    pub fn names(self) -> impl Iterator<Item = String> {
        names(self, 'R')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incompat_unknown_bits_are_refused_by_name() {
        let features = Incompat::EXTENTS
            | Incompat::DIRDATA
            | Incompat::COMPRESSION
            | Incompat::from_bits_retain(1 << 30);
        let error = features.check_readable().unwrap_err().to_string();
        assert_eq!(
            error,
            "unsupported feature: compression, dirdata, FEATURE_I30"
        );
    }

    #[test]
    fn incompat_journal_device_is_refused_as_external_journal() {
        let error = Incompat::JOURNAL_DEV.check_readable().unwrap_err();
        assert!(error.to_string().contains("external journal"));
    }

    #[test]
    fn incompat_every_readable_feature_is_accepted() {
        READABLE.check_readable().unwrap();
    }
}
