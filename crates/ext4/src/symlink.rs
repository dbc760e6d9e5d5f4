//! Targets of symbolic links.
//!
//! Model: a short target lies in `i_block` itself, a longer one in the link's
//! only block. The size alone does not tell them apart: there are links whose
//! short target was given a block.

use crate::journal::Handle;
use crate::ondisk::features::Incompat;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, FileKind, Filesystem, Inode, MappingKind, Result};

/// The longest target, with a zero byte that only programs see.
const PATH_MAX_BYTES: u64 = 4096;

impl Filesystem {
    /// The target of the symbolic link `inode`.
    ///
    /// # Errors
    /// [`Error::NotSymlink`], [`Error::Encrypted`], [`Error::Corrupt`] if there is
    /// no target of the size that the inode says, or the device's error.
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
            return Err(place.corrupt("length of the link's target is wrong"));
        }
        let target = if inode.has_inline_data() {
            self.inline_data(inode)?
        } else if self.is_fast_symlink(inode) {
            inode.i_block()[..size].to_vec()
        } else {
            let MappingKind::Written(block) = self.map(inode, FileBlock(0), 1)?.kind else {
                return Err(place.corrupt("link has no target"));
            };
            let block = self.metadata_block(block, inode.ino(), |_| Ok(()))?;
            block.get(..size).unwrap_or_default().to_vec()
        };
        if target.len() != size || target.contains(&0) {
            return Err(place.corrupt("length of the link's target is wrong"));
        }
        Ok(target)
    }

    /// Makes `target`, which is shorter than a block and has no zero byte, that of the new
    /// symbolic link `inode`. The caller writes the inode in the same handle.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or what is wrong with the image.
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
        // Never as inline data, as in the kernel: e2fsck does not look for a block of attributes there.
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

    /// Whether the content of `inode` lies in blocks, or would: not in the inode, as a short
    /// target does.
    #[must_use]
    pub fn has_blocks(&self, inode: &Inode) -> bool {
        inode.kind().has_blocks()
            && !inode.has_inline_data()
            && (inode.kind() != FileKind::Symlink || !self.is_fast_symlink(inode))
    }

    /// Whether the target lies in `i_block`: it must fit there, and the link must
    /// have no block of its own. The block of its attributes is none. Where
    /// attributes may lie in inodes, their space is counted too, so that the
    /// count says nothing.
    pub(crate) fn is_fast_symlink(&self, inode: &Inode) -> bool {
        let sb = self.superblock();
        if inode.size_bytes() >= inode.i_block().len() as u64
            || inode.flags().contains(InodeFlags::EXTENTS)
        {
            return false;
        }
        let attributes_512 = match inode.file_acl() {
            Some(_) => sb.cluster_size_bytes() / 512,
            None => 0,
        };
        sb.incompat.contains(Incompat::EA_INODE)
            || inode.blocks_512(sb.block_size_bytes()) <= attributes_512
    }
}
