//! Value inodes, which hold the values of attributes (feature `ea_inode`).
//!
//! The content of a value inode is the value. Its access-time field stores the checksum of the
//! content. The number of references from attribute entries is stored in the version field, with
//! the high half in the change-time field. The content is metadata and is written through the
//! journal.
//!
//! # Model
//! `ext4_xattr_inode_lookup_create` and `ext4_xattr_inode_dec_ref`. Unlike in the kernel, no thread
//! waits for a value inode: a thread needs the open handle to search for a value inode, to count
//! its references, or to delete it.

use super::share::Store;
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::extent::FILE_BLOCKS;
use crate::ondisk::inode::InodeFlags;
use crate::ondisk::time::Timestamp;
use crate::{Error, FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind, Result};

/// The maximum length in bytes of a value: the limit of Linux's system calls.
pub const MAX_VALUE_BYTES: u32 = 1 << 16;

impl Filesystem {
    /// Returns the checksum of `value`, which is also the key in the cache of value inodes.
    pub(super) fn value_checksum(&self, value: &[u8]) -> Crc32c {
        self.superblock().checksum_seed.bytes(value)
    }

    /// Offers a value inode for sharing. The caller must hold the lock of an inode that uses the
    /// value, and must have read the value under that lock.
    pub(super) fn offer_value(&self, inode: &Inode) {
        let hash = low_half(inode.atime().seconds);
        let ino = u64::from(inode.ino().0);
        self.sharing.offer(Store::Inodes, hash, ino);
    }

    /// Returns the number of clusters of a value inode whose value has `size_bytes` bytes.
    pub(super) fn value_clusters(&self, size_bytes: u64) -> i64 {
        let clusters = size_bytes.div_ceil(self.superblock().cluster_size_bytes());
        i64::try_from(clusters).unwrap_or(i64::MAX)
    }

    /// Returns the first `size_bytes` bytes of the content of `inode`. The caller must check that
    /// `size_bytes` is at most [`MAX_VALUE_BYTES`].
    pub(super) fn small_content(&self, inode: &Inode, size_bytes: u32) -> Result<Vec<u8>> {
        let block_size_bytes = self.superblock().block_size_bytes();
        let mut content = Vec::new();
        for index in 0..size_bytes.div_ceil(block_size_bytes) {
            let left = usize::try_from(size_bytes - index * block_size_bytes).unwrap_or(0);
            let MappingKind::Written(block) = self.map(inode, FileBlock(index), 1)?.kind else {
                return Err(inode.place().corrupt("value inode has a hole"));
            };
            let block = self.metadata_block(block, inode.ino(), |_| Ok(()))?;
            content.extend_from_slice(&block[..left.min(block.len())]);
        }
        Ok(content)
    }

    /// Adds `by`, which may be negative, to the number of references to the value inode `ino`.
    /// `owner` is an inode whose attributes refer to the value inode. Deletes the value inode if no
    /// reference is left.
    pub(super) fn count_value_references(
        &self,
        handle: &mut Handle<'_>,
        owner: &Inode,
        ino: Ino,
        by: i64,
    ) -> Result<()> {
        if by == 0 {
            return Ok(());
        }
        let place = Place::Inode(ino);
        if !self.has_value_inodes() {
            return Err(place.corrupt("value inode on an image without the feature ea_inode"));
        }
        let mut inode = self.value_inode(ino)?;
        let before = references(&inode);
        let references = before
            .checked_add_signed(by)
            .ok_or_else(|| place.corrupt("reference count of the value inode is too small"))?;
        // All references except the first save the space of the value.
        let more = by - i64::from(before == 0) + i64::from(references == 0);
        handle
            .sharing
            .count_saved(more * self.value_clusters(inode.size_bytes()));
        if references == 0 {
            return self.delete_value_inode(handle, &mut inode, owner.ctime());
        }
        set_references(&mut inode, references);
        self.write_inode(handle, &inode)
    }

    /// Returns the value inode `ino`.
    pub(super) fn value_inode(&self, ino: Ino) -> Result<Inode> {
        let place = Place::Inode(ino);
        if ino < self.superblock().first_ino {
            return Err(place.corrupt("attribute value is in a reserved inode"));
        }
        let inode = self.inode(ino)?;
        place.ensure(
            inode.flags().contains(InodeFlags::EA_INODE)
                && !inode.has_inline_data()
                && inode.kind() == FileKind::Regular,
            "inode of an attribute value lacks the flag EA_INODE",
        )?;
        if inode.size_bytes() > u64::from(MAX_VALUE_BYTES) {
            return Err(place.corrupt("attribute value is too long"));
        }
        Ok(inode)
    }

    fn delete_value_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        now: Timestamp,
    ) -> Result<()> {
        let hash = low_half(inode.atime().seconds);
        let ino = u64::from(inode.ino().0);
        self.sharing
            .withdraw(&mut handle.sharing, Store::Inodes, hash, ino);
        let block_bytes = u64::from(self.superblock().block_size_bytes());
        let blocks = inode.size_bytes().div_ceil(block_bytes);
        for index in 0..u32::try_from(blocks).unwrap_or(0) {
            if let MappingKind::Written(block) = self.map(inode, FileBlock(index), 1)?.kind {
                handle.forget(block);
            }
        }
        let left = self.unmap(handle, inode, 0..FILE_BLOCKS)?;
        if !left.is_empty() {
            return Err(Error::HandleTooLarge);
        }
        self.delete_inode(handle, inode, now)
    }
}

/// Returns the number of entries that refer to `inode`.
pub(super) fn references(inode: &Inode) -> u64 {
    let low = inode.version() & u64::from(u32::MAX);
    (u64::from(low_half(inode.ctime().seconds)) << 32) | low
}

/// Sets the number of entries that refer to `inode`.
pub(super) fn set_references(inode: &mut Inode, references: u64) {
    inode.set_version(references & u64::from(u32::MAX));
    inode.set_ctime(Timestamp {
        seconds: i64::try_from(references >> 32).unwrap_or(0),
        nanoseconds: 0,
    });
}

/// Returns the low 32 bits of `seconds`, which an inode stores in the main field of a time.
pub(super) fn low_half(seconds: i64) -> u32 {
    let [a, b, c, d, ..] = seconds.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
