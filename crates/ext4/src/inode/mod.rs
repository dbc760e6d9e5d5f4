//! An inode in memory: the fixed fields of the on-disk inode, which are decoded on access.
//!
//! Model: the kernel unpacks the on-disk inode into another structure. Here, the inode cache holds
//! the on-disk bytes, and fields are decoded when they are read. Some fields are not valid with the
//! features of the file system (the high halves of sizes and block numbers) or with the
//! `i_extra_isize` of the inode. They are set to zero once, when the inode is read. Decoding a
//! field therefore needs only the inode.
//!
//! Cost: an inode takes 164 bytes without heap memory, and is `Copy`. The inode cache stores the 20
//! words of [`Inode::words`].

mod change;
mod content_place;
pub(crate) mod create;
mod known_orphans;
mod orphan;
pub(crate) mod write;

pub(crate) use known_orphans::{OrphanChanges, Orphans};

use crate::error::Place;
use crate::ondisk::features::{Incompat, RoCompat};
use crate::ondisk::fields::{join16, join32, le32};
use crate::ondisk::inode::{BASE_INODE_BYTES, InodeFlags, RawInode};
use crate::ondisk::superblock::Superblock;
use crate::ondisk::time::Timestamp;
use crate::{Error, FsBlock, Ino, Result};
use zerocopy::{FromZeros, transmute, transmute_mut, transmute_ref};

/// The number of bytes of an on-disk inode that [`Inode`] keeps: up to and including `i_projid`.
pub const INODE_BYTES: usize = 160;

/// The number of words of an inode in the inode cache.
pub const INODE_WORDS: usize = INODE_BYTES / 8;

const _: () = assert!(size_of::<RawInode>() == INODE_BYTES);

/// The type of a file, as encoded in its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A FIFO.
    Fifo = 0o01,
    /// A character device.
    CharDevice = 0o02,
    /// A directory.
    Directory = 0o04,
    /// A block device.
    BlockDevice = 0o06,
    /// A regular file.
    Regular = 0o10,
    /// A symbolic link.
    Symlink = 0o12,
    /// A socket.
    Socket = 0o14,
}

impl FileKind {
    /// Returns the type in the upper four bits of `mode`.
    #[must_use]
    pub fn from_mode(mode: u16) -> Option<Self> {
        match mode >> 12 {
            0o01 => Some(Self::Fifo),
            0o02 => Some(Self::CharDevice),
            0o04 => Some(Self::Directory),
            0o06 => Some(Self::BlockDevice),
            0o10 => Some(Self::Regular),
            0o12 => Some(Self::Symlink),
            0o14 => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns the upper four bits of a mode of this type.
    pub(crate) fn mode_bits(self) -> u16 {
        (self as u16) << 12
    }

    /// Returns whether files of this type can store content in blocks.
    pub(crate) fn has_blocks(self) -> bool {
        matches!(self, Self::Regular | Self::Directory | Self::Symlink)
    }
}

/// The device number of a device special file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// The number of the driver.
    pub major: u32,
    /// The number of the device within the driver.
    pub minor: u32,
}

/// An inode: its number and the fixed fields of its on-disk form.
///
/// Fields for which the image's inodes are too small, or which `i_extra_isize` excludes, are zero.
/// Attributes and inline data after the fixed fields are read from the inode table when they are
/// needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    ino: Ino,
    raw: [u8; INODE_BYTES],
}

impl Inode {
    /// Decodes the inode `ino`, which must be in use, from its `bytes` in the inode table. `bytes`
    /// must have the superblock's inode size.
    ///
    /// # Errors
    /// [`Error::StaleInode`] if the inode is free, [`Error::Corrupt`] if a field contradicts
    /// another field or the superblock.
    pub fn decode(sb: &Superblock, ino: Ino, bytes: &[u8]) -> Result<Self> {
        const LINKS: std::ops::Range<usize> = 0x1A..0x1C;
        if bytes.get(LINKS) == Some(&[0; 2]) {
            return Err(Error::StaleInode(ino));
        }
        Self::decode_unlinked(sb, ino, bytes)
    }

    /// Decodes like [`Inode::decode`], but accepts an inode without links, such as that of an
    /// orphan.
    pub(crate) fn decode_unlinked(sb: &Superblock, ino: Ino, bytes: &[u8]) -> Result<Self> {
        let place = Place::Inode(ino);
        place.ensure(bytes.len() >= BASE_INODE_BYTES, "inode is truncated")?;
        let mut raw = [0; INODE_BYTES];
        let kept = INODE_BYTES.min(bytes.len());
        raw[..kept].copy_from_slice(&bytes[..kept]);
        let mut inode = Self { ino, raw };
        let extra_bytes = usize::from(inode.extra_isize());
        if bytes.len() == BASE_INODE_BYTES {
            inode.raw[BASE_INODE_BYTES..].fill(0);
        } else if extra_bytes > bytes.len() - BASE_INODE_BYTES || extra_bytes % 4 != 0 {
            return Err(place.corrupt("size of the extra inode fields is wrong"));
        } else if extra_bytes < INODE_BYTES - BASE_INODE_BYTES {
            // The field `i_extra_isize` stays valid even if its value is 0.
            let known = (BASE_INODE_BYTES + extra_bytes).max(BASE_INODE_BYTES + 2);
            inode.raw[known..].fill(0);
        }
        inode.mask_by_features(sb);
        if FileKind::from_mode(inode.mode()).is_none() {
            return Err(place.corrupt("mode has an unknown file type"));
        }
        if i64::try_from(inode.size_bytes()).is_err() {
            return Err(place.corrupt("size is negative"));
        }
        Ok(inode)
    }

    /// Sets fields to zero that are valid only with features that the file system does not have.
    fn mask_by_features(&mut self, sb: &Superblock) {
        let kind = FileKind::from_mode(self.mode());
        let raw: &mut RawInode = transmute_mut!(&mut self.raw);
        let has_large_dir = sb.incompat.contains(Incompat::LARGE_DIR);
        if kind != Some(FileKind::Regular) && !has_large_dir {
            raw.i_size_high.zero();
        }
        if !sb.ro_compat.contains(RoCompat::HUGE_FILE) {
            raw.i_blocks_high.zero();
            raw.i_flags &= !InodeFlags::HUGE_FILE.bits();
        }
        if !sb.incompat.contains(Incompat::BIT64) {
            raw.i_file_acl_high.zero();
        }
    }

    /// Returns the words of the inode that the inode cache stores.
    #[must_use]
    pub fn words(&self) -> [u64; INODE_WORDS] {
        transmute!(self.raw)
    }

    /// Returns the inode whose [`Inode::words`] are `words`.
    #[must_use]
    pub fn from_words(ino: Ino, words: [u64; INODE_WORDS]) -> Self {
        Self {
            ino,
            raw: transmute!(words),
        }
    }

    fn raw(&self) -> &RawInode {
        transmute_ref!(&self.raw)
    }

    /// Returns the inode's number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the place for errors about this inode.
    pub(crate) fn place(&self) -> Place {
        Place::Inode(self.ino)
    }

    /// Returns the file's type. [`Inode::decode`] rejects unknown types.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        FileKind::from_mode(self.mode()).unwrap_or(FileKind::Regular)
    }

    /// Returns whether the file is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    /// Returns the type and the permissions, as in `st_mode`.
    #[must_use]
    pub fn mode(&self) -> u16 {
        self.raw().i_mode.get()
    }

    /// Returns the owner.
    #[must_use]
    pub fn uid(&self) -> u32 {
        join16(self.raw().i_uid, self.raw().i_uid_high)
    }

    /// Returns the owning group.
    #[must_use]
    pub fn gid(&self) -> u32 {
        join16(self.raw().i_gid, self.raw().i_gid_high)
    }

    /// Returns the size of the content in bytes, at most `i64::MAX`.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        join32(self.raw().i_size_lo, self.raw().i_size_high)
    }

    /// Returns the number of hard links; 1 for a directory with more subdirectories than the field
    /// can count.
    #[must_use]
    pub fn links(&self) -> u16 {
        self.raw().i_links_count.get()
    }

    /// Returns the used space in units of 512 bytes, as in `st_blocks`. As in the kernel, the
    /// result includes the content of a regular file that is stored in the inode, so that the file
    /// does not appear to be sparse.
    #[must_use]
    pub fn blocks_512(&self, block_size_bytes: u32) -> u64 {
        let blocks = join32(self.raw().i_blocks_lo, self.raw().i_blocks_high);
        if self.flags().contains(InodeFlags::HUGE_FILE) {
            return blocks * u64::from(block_size_bytes / 512);
        }
        if self.has_inline_data() && self.kind() == FileKind::Regular {
            return blocks + self.size_bytes().div_ceil(512);
        }
        blocks
    }

    /// Returns the time of the last access.
    #[must_use]
    pub fn atime(&self) -> Timestamp {
        Timestamp::from_inode(self.raw().i_atime.get(), self.raw().i_atime_extra.get())
    }

    /// Returns the time of the last change of the content.
    #[must_use]
    pub fn mtime(&self) -> Timestamp {
        Timestamp::from_inode(self.raw().i_mtime.get(), self.raw().i_mtime_extra.get())
    }

    /// Returns the time of the last change of the inode.
    #[must_use]
    pub fn ctime(&self) -> Timestamp {
        Timestamp::from_inode(self.raw().i_ctime.get(), self.raw().i_ctime_extra.get())
    }

    /// Returns the time of creation, or `None` if the inode is too small to store it.
    #[must_use]
    pub fn crtime(&self) -> Option<Timestamp> {
        const CRTIME_END: u16 = 0x94 - 0x80;
        (self.extra_isize() >= CRTIME_END).then(|| {
            Timestamp::from_inode(self.raw().i_crtime.get(), self.raw().i_crtime_extra.get())
        })
    }

    /// Returns the generation, which distinguishes the files that have had this inode's number.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.raw().i_generation.get()
    }

    /// Returns the flags.
    #[must_use]
    pub fn flags(&self) -> InodeFlags {
        InodeFlags::from_bits_retain(self.raw().i_flags.get())
    }

    /// Returns whether the content is stored in the inode instead of in blocks.
    #[must_use]
    pub fn has_inline_data(&self) -> bool {
        self.flags().contains(InodeFlags::INLINE_DATA)
    }

    /// Returns the count of changes of the file. For an inode that holds an attribute's value, the
    /// lower 32 bits are its reference count.
    #[must_use]
    pub fn version(&self) -> u64 {
        join32(self.raw().i_version, self.raw().i_version_hi)
    }

    /// Returns the project, which quotas use.
    #[must_use]
    pub fn project_id(&self) -> u32 {
        self.raw().i_projid.get()
    }

    /// Returns the device of a device special file; `None` for other types.
    #[must_use]
    pub fn device(&self) -> Option<DeviceNumber> {
        if !matches!(self.kind(), FileKind::CharDevice | FileKind::BlockDevice) {
            return None;
        }
        let number = |at: usize| le32(self.i_block(), at).unwrap_or(0);
        let old = number(0);
        if old != 0 {
            return Some(DeviceNumber {
                major: (old >> 8) & 0xFF,
                minor: old & 0xFF,
            });
        }
        let new = number(4);
        Some(DeviceNumber {
            major: (new >> 8) & 0xFFF,
            minor: (new & 0xFF) | ((new >> 12) & 0xF_FF00),
        })
    }

    /// Returns the 60 bytes that hold block numbers, an extent tree's root, a short link target,
    /// inline data or a device number.
    #[must_use]
    pub fn i_block(&self) -> &[u8; 60] {
        &self.raw().i_block
    }

    /// Returns the block of extended attributes.
    #[must_use]
    pub fn file_acl(&self) -> Option<FsBlock> {
        let block = join32(self.raw().i_file_acl_lo, self.raw().i_file_acl_high);
        (block != 0).then_some(FsBlock(block))
    }

    /// Returns the size in bytes of the fixed fields after the first 128 bytes, which is at most
    /// the inode size minus 128. Attributes in the inode start after these fields.
    #[must_use]
    pub fn extra_isize(&self) -> u16 {
        self.raw().i_extra_isize.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    /// Returns a superblock of revision 1 with inodes of 256 bytes and these features.
    fn superblock(incompat: Incompat, ro_compat: RoCompat) -> Superblock {
        let mut bytes = [0; 1024];
        for (at, value) in [
            (0x00, 64_u32),
            (0x04, 8192),
            (0x14, 1),
            (0x20, 8192),
            (0x28, 64),
            (0x38, 0xEF53),
            (0x4C, 1),
            (0x58, 256),
            (0x60, incompat.bits()),
            (0x64, ro_compat.bits()),
            (0xFC, 64 << 16),
        ] {
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Superblock::parse(&bytes).unwrap()
    }

    /// Returns the bytes of an inode in use with this `mode` and `i_extra_isize`; all other bits
    /// are set.
    fn full(mode: u16, extra: u8) -> [u8; 256] {
        let mut bytes = [0xFF; 256];
        bytes[..2].copy_from_slice(&mode.to_le_bytes());
        bytes[0x6F] = 0x7F; // size_high: not negative
        bytes[0x80..0x82].copy_from_slice(&[extra, 0]);
        bytes
    }

    #[test]
    fn inode_fields_without_their_feature_read_as_zero() {
        let plain = superblock(Incompat::empty(), RoCompat::empty());
        let rich = superblock(Incompat::LARGE_DIR | Incompat::BIT64, RoCompat::HUGE_FILE);
        let directory = full(0o040_755, 32);
        let on_plain = Inode::decode(&plain, Ino(12), &directory).unwrap();
        let on_rich = Inode::decode(&rich, Ino(12), &directory).unwrap();
        assert_eq!(on_plain.size_bytes(), 0xFFFF_FFFF);
        assert_eq!(on_rich.size_bytes(), 0x7FFF_FFFF_FFFF_FFFF);
        assert_eq!(on_plain.file_acl(), Some(FsBlock(0xFFFF_FFFF)));
        assert_eq!(on_rich.file_acl(), Some(FsBlock(0xFFFF_FFFF_FFFF)));
        assert_eq!(on_plain.blocks_512(1024), 0xFFFF_FFFF);
        assert_eq!(on_rich.blocks_512(1024), 0xFFFF_FFFF_FFFF * 2);
    }

    #[test]
    fn inode_fields_past_the_extra_size_read_as_zero() {
        let sb = superblock(Incompat::empty(), RoCompat::empty());
        let inode = Inode::decode(&sb, Ino(12), &full(0o100_644, 8)).unwrap();
        assert_eq!(inode.extra_isize(), 8);
        assert_eq!(inode.ctime().nanoseconds, 999_999_999);
        assert_eq!(inode.mtime().nanoseconds, 0);
        assert_eq!(inode.crtime(), None);
        assert_eq!(inode.project_id(), 0);
        let all = Inode::decode(&sb, Ino(12), &full(0o100_644, 32)).unwrap();
        assert!(all.crtime().is_some());
        assert_eq!(all.project_id(), u32::MAX);
        let small = Inode::decode(&sb, Ino(12), &full(0o100_644, 32)[..128]).unwrap();
        assert_eq!((small.extra_isize(), small.project_id()), (0, 0));
    }

    #[test]
    fn inconsistent_inode_is_refused() {
        let sb = superblock(Incompat::empty(), RoCompat::empty());
        let decode = |bytes: &[u8]| Inode::decode(&sb, Ino(12), bytes);
        assert!(matches!(
            decode(&full(0o030_644, 32)),
            Err(Error::Corrupt(_))
        ));
        assert!(matches!(
            decode(&full(0o100_644, 132)),
            Err(Error::Corrupt(_))
        ));
        assert!(matches!(
            decode(&full(0o100_644, 30)),
            Err(Error::Corrupt(_))
        ));
        assert!(matches!(decode(&[1; 100]), Err(Error::Corrupt(_))));
        let mut negative = full(0o100_644, 32);
        negative[0x6F] = 0x80;
        assert!(matches!(decode(&negative), Err(Error::Corrupt(_))));
        let mut free = full(0o100_644, 32);
        free[0x1A..0x1C].fill(0);
        assert!(matches!(decode(&free), Err(Error::StaleInode(Ino(12)))));
    }

    #[test]
    fn inode_device_numbers_of_both_encodings_are_decoded() {
        let sb = superblock(Incompat::empty(), RoCompat::empty());
        let device = |old: u32, new: u32| {
            let mut bytes = full(0o020_600, 32);
            bytes[0x28..0x2C].copy_from_slice(&old.to_le_bytes());
            bytes[0x2C..0x30].copy_from_slice(&new.to_le_bytes());
            let inode = Inode::decode(&sb, Ino(12), &bytes).unwrap();
            inode.device().map(|device| (device.major, device.minor))
        };
        assert_eq!(device(0x0103, 0), Some((1, 3)));
        assert_eq!(device(0, 0x1234_5678), Some((0x456, 0x1_2378)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(0),
            ..ProptestConfig::default()
        })]

        #[test]
        fn inode_of_arbitrary_bytes_does_not_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            words in any::<[u64; INODE_WORDS]>(),
        ) {
            let sb = superblock(Incompat::empty(), RoCompat::HUGE_FILE);
            for inode in Inode::decode(&sb, Ino(12), &bytes)
                .into_iter()
                .chain([Inode::from_words(Ino(12), words)])
            {
                let _ = (inode.kind(), inode.device(), inode.crtime(), inode.flags());
                let _ = (inode.blocks_512(65536), inode.version(), inode.file_acl());
                let again = Inode::from_words(inode.ino(), inode.words());
                prop_assert_eq!(inode, again);
            }
        }
    }
}
