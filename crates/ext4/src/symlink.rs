//! Targets of symbolic links.
//!
//! Model: a short target is stored in `i_block`, and a longer target in the only block of the link. The size
//! alone does not show which case applies, because some links store a short target in a block.

use crate::journal::Handle;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, FileKind, Filesystem, Inode, MappingKind, Result};

/// The maximum length of a target, in bytes.
const PATH_MAX_BYTES: u64 = 4096;

impl Filesystem {
    /// Returns the target of the symbolic link `inode`.
    ///
    /// # Errors
    /// [`Error::NotSymlink`], [`Error::Encrypted`], [`Error::Corrupt`] if the target does not have
    /// the inode's size, or the device's error.
    pub fn read_link(&self, inode: &Inode) -> Result<Vec<u8>> {
        if inode.kind() != FileKind::Symlink {
            return Err(Error::NotSymlink(inode.ino()));
        }
        if self.is_encrypted(inode) {
            return Err(Error::Encrypted(inode.ino()));
        }
        let place = inode.place();
        let size_bytes = inode.size_bytes();
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        // Both limits fit in a `usize`.
        let size = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        if size == 0 || size_bytes > block_size_bytes.min(PATH_MAX_BYTES) {
            return Err(place.corrupt("length of the symbolic link's target is wrong"));
        }
        let target = if inode.has_inline_data() {
            self.inline_data(inode)?
        } else if self.is_fast_symlink(inode) {
            inode.i_block()[..size].to_vec()
        } else {
            let MappingKind::Written(block) = self.map(inode, FileBlock(0), 1)?.kind else {
                return Err(place.corrupt("symbolic link has no target"));
            };
            let block = self.metadata_block(block, inode.ino(), |_| Ok(()))?;
            block.get(..size).unwrap_or_default().to_vec()
        };
        if target.len() != size || target.contains(&0) {
            return Err(place.corrupt("length of the symbolic link's target is wrong"));
        }
        Ok(target)
    }

    /// Stores `target` as the target of the new symbolic link `inode`. `target` must be shorter
    /// than a block and contain no zero byte. The caller must write the inode with the same handle.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or corruption of the image.
    pub fn write_link(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        target: &[u8],
    ) -> Result<()> {
        if target.len() < inode.i_block().len() {
            let mut i_block = [0; 60];
            i_block[..target.len()].copy_from_slice(target);
            inode.set_i_block(&i_block);
            inode.set_flags(inode.flags() - InodeFlags::EXTENTS);
            inode.set_size_bytes(target.len() as u64);
            return Ok(());
        }
        // As in the kernel, a target is never stored as inline data, because e2fsck does not expect
        // that such a link has an attribute block.
        let claim = self.claim_for(inode, FileBlock(0), 1, None)?;
        let block = claim.start();
        self.map_claim(handle, inode, FileBlock(0), claim, true)?;
        inode.set_size_bytes(target.len() as u64);
        handle.create(block, inode.ino(), |bytes| {
            let place = bytes.get_mut(..target.len());
            let place = place.ok_or(Error::NameTooLong(inode.ino()))?;
            place.copy_from_slice(target);
            Ok(())
        })
    }
}
