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

use super::share::{Candidate, Store};
use super::{MAX_VALUE_BYTES, low_half};
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::extent::FILE_BLOCKS;
use crate::ondisk::inode::InodeFlags;
use crate::ondisk::time::Timestamp;
use crate::{
    Error, FileBlock, FileKind, Filesystem, FsBlock, Ino, Inode, MappingKind, NewInode, Result,
};

impl Filesystem {
    /// Returns a value inode that holds `value`, and the checksum of the value. If no existing
    /// inode holds the value, creates a value inode for `owner`. The new inode has no references yet.
    pub(super) fn provide_value_inode(
        &self,
        handle: &mut Handle<'_>,
        owner: &Inode,
        value: &[u8],
    ) -> Result<(Ino, Crc32c)> {
        let checksum = self.value_checksum(value);
        let found = self.sharing.find(Store::Inodes, checksum.0, |ino| {
            let ino = u32::try_from(ino).ok().map(Ino);
            let same = ino.filter(|&ino| self.has_value(ino, value, checksum));
            Ok(same.map_or(Candidate::Different, Candidate::Taken))
        })?;
        if let Some(ino) = found {
            handle.sharing.count_share();
            return Ok((ino, checksum));
        }
        let ino = self.create_value_inode(handle, owner, value, checksum)?;
        Ok((ino, checksum))
    }

    /// Returns the checksum of `value`, which is also the key in the cache of value inodes.
    pub(super) fn value_checksum(&self, value: &[u8]) -> Crc32c {
        self.superblock().checksum_seed.bytes(value)
    }

    /// Returns whether the inode `ino` is in use and holds `value`, whose checksum is `checksum`.
    /// Returns false if the inode cannot be read.
    fn has_value(&self, ino: Ino, value: &[u8], checksum: Crc32c) -> bool {
        self.value_inode(ino).is_ok_and(|inode| {
            references(&inode) > 0
                && inode.links() > 0
                && low_half(inode.atime().seconds) == checksum.0
                && inode.size_bytes() == value.len() as u64
                && u32::try_from(value.len())
                    .is_ok_and(|len| self.small_content(&inode, len).is_ok_and(|is| is == value))
        })
    }

    /// Offers a value inode for sharing. The caller must hold the lock of an inode that uses the
    /// value, and must have read the value under that lock.
    pub(super) fn offer_value(&self, inode: &Inode) {
        let hash = low_half(inode.atime().seconds);
        let ino = u64::from(inode.ino().0);
        self.sharing.offer(Store::Inodes, hash, ino);
    }

    fn create_value_inode(
        &self,
        handle: &mut Handle<'_>,
        owner: &Inode,
        value: &[u8],
        checksum: Crc32c,
    ) -> Result<Ino> {
        let new = NewInode {
            kind: FileKind::Regular,
            permissions: 0o600,
            uid: owner.uid(),
            gid: owner.gid(),
            device: None,
            now: owner.ctime(),
        };
        let mut inode = self.create_inode(handle, owner, &new)?;
        if inode.has_inline_data() {
            self.remove_inline_data(handle, &mut inode)?;
        }
        inode.set_flags((inode.flags() & InodeFlags::EXTENTS) | InodeFlags::EA_INODE);
        self.write_value(handle, &mut inode, value)?;
        set_checksum(&mut inode, checksum);
        set_references(&mut inode, 0);
        self.write_inode(handle, &inode)?;
        let ino = u64::from(inode.ino().0);
        handle.sharing.offer(Store::Inodes, checksum.0, ino);
        Ok(inode.ino())
    }

    /// Makes `value` the content of `inode`, which must be empty.
    fn write_value(&self, handle: &mut Handle<'_>, inode: &mut Inode, value: &[u8]) -> Result<()> {
        let block_bytes = self.buffers().block_size_bytes();
        let mut parts = value.chunks(block_bytes);
        let mut next = 0;
        while parts.len() > 0 {
            let want = u32::try_from(parts.len()).unwrap_or(u32::MAX);
            let start = FileBlock(next);
            let claim = self.claim_for(inode, start, want, None)?;
            let (first, blocks) = (claim.start(), claim.blocks());
            for (block, part) in (first.0..).zip(parts.by_ref().take(blocks as usize)) {
                handle.create(FsBlock(block), inode.ino(), |bytes| {
                    bytes[..part.len()].copy_from_slice(part);
                    Ok(())
                })?;
            }
            self.map_claim(handle, inode, start, claim, true)?;
            next = next.saturating_add(blocks);
        }
        inode.set_size_bytes(value.len() as u64);
        Ok(())
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

/// Stores the checksum of the value in the access-time field of `inode`.
fn set_checksum(inode: &mut Inode, checksum: Crc32c) {
    let time = |seconds| Timestamp {
        seconds,
        nanoseconds: 0,
    };
    inode.set_atime(time(checksum.0.into()));
    if low_half(inode.atime().seconds) != checksum.0 {
        // In an inode of 128 bytes, a checksum with the highest bit set is read as a time before
        // 1970.
        inode.set_atime(time(checksum.0.cast_signed().into()));
    }
}

/// Returns the number of entries that refer to `inode`.
fn references(inode: &Inode) -> u64 {
    let low = inode.version() & u64::from(u32::MAX);
    (u64::from(low_half(inode.ctime().seconds)) << 32) | low
}

fn set_references(inode: &mut Inode, references: u64) {
    inode.set_version(references & u64::from(u32::MAX));
    inode.set_ctime(Timestamp {
        seconds: i64::try_from(references >> 32).unwrap_or(0),
        nanoseconds: 0,
    });
}
