//! Value inodes for new values: found by the hash of the value, or created.

use super::share::{Candidate, Store};
use super::value_inode::{low_half, references, set_references};
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::inode::InodeFlags;
use crate::ondisk::time::Timestamp;
use crate::{FileBlock, FileKind, Filesystem, FsBlock, Ino, Inode, NewInode, Result};

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
