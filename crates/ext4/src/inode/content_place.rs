//! Where the content of an inode is stored: in blocks, or in the inode.

use crate::ondisk::features::Incompat;
use crate::ondisk::inode::InodeFlags;
use crate::{FileKind, Filesystem, Inode};

impl Filesystem {
    /// Returns whether the content of `inode`, if there is any, is stored in blocks instead of in
    /// the inode.
    #[must_use]
    pub fn has_blocks(&self, inode: &Inode) -> bool {
        inode.kind().has_blocks()
            && !inode.has_inline_data()
            && (inode.kind() != FileKind::Symlink || !self.is_fast_symlink(inode))
    }

    /// Returns whether the target of the symbolic link `inode` is stored in `i_block`: the target must
    /// fit there, and the link must have no extents and use no block except for its attribute block. If
    /// the file system may have value inodes, the used space is not considered, because it includes the
    /// space of value inodes.
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
