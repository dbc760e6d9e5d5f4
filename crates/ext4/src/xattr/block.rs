//! Attribute blocks and the inodes that use them. When the attributes of an inode change, the inode
//! shares a block with the same contents, changes its own block, or gets a new block.
//!
//! # Model
//! `ext4_xattr_block_set` and `ext4_xattr_release_block`. Here, equal attributes result in equal
//! blocks: entries are sorted, and values are stored in the same order from the end. The kernel may
//! store values in the order in which they were set. Such a block differs from the block that
//! Larder builds, so it is not shared.
//!
//! # Cost
//! If the caller plans the change before it opens the handle, the contents are built, hashed and
//! checksummed before the handle is open. While the handle is open, sharing costs one comparison,
//! and the change of 16 bytes of each block whose reference count changes.

use super::places::{AttributeBlock, Attributes};
use super::share::{Candidate, Store};
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::features::RoCompat;
use crate::ondisk::xattr::{
    BlockHeader, StoredXattr, UserCount, fill_block, has_same_contents, set_block_checksum,
};
use crate::{Error, Filesystem, FsBlock, Ino, Inode, Result};
use std::iter::repeat_n;
use std::sync::Arc;

/// The maximum number of inodes that share a block, as in Linux. It limits the number of files that
/// are affected if a block is lost.
const MAX_USERS: u32 = 1024;

/// The new contents of an attribute block, for one user.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    bytes: Arc<[u8]>,
    /// The key in the cache with which the block is searched for and offered; `None` if the block
    /// must not be shared.
    hash: Option<u32>,
    /// The block number for which the checksum was computed, because the checksum depends on it.
    checksum_block: Option<FsBlock>,
}

impl Filesystem {
    /// Sorts `attributes`, and builds the contents of the block that replaces the block `old`.
    /// Returns `None` if there are no attributes.
    pub(super) fn contents(
        &self,
        ino: Ino,
        attributes: &mut [StoredXattr],
        old: Option<AttributeBlock>,
    ) -> Result<Option<Contents>> {
        if attributes.is_empty() {
            return Ok(None);
        }
        let mut bytes: Arc<[u8]> = repeat_n(0, self.buffers().block_size_bytes()).collect();
        if !Arc::get_mut(&mut bytes).is_some_and(|bytes| fill_block(bytes, attributes)) {
            return Err(Error::AttributeTooLarge(ino));
        }
        let mut contents = Contents {
            hash: shareable_hash(&bytes),
            bytes,
            checksum_block: None,
        };
        // The checksum is computed for the old location, because the block will probably be changed
        // in place.
        if let Some(own) = old.filter(|old| old.references == 1) {
            self.set_checksum(&mut contents, own.block);
        }
        Ok(Some(contents))
    }

    fn set_checksum(&self, contents: &mut Contents, block: FsBlock) {
        if contents.checksum_block == Some(block) {
            return;
        }
        if self.superblock().has_metadata_checksums() {
            let seed = self.attribute_block_seed(block);
            set_block_checksum(Arc::make_mut(&mut contents.bytes), seed);
        }
        contents.checksum_block = Some(block);
    }

    /// Replaces the attribute block of `inode`, which contained `before`, with a block that has
    /// `contents`. Returns which references to value inodes the caller must count: see [`Counted`].
    pub(super) fn store_in_block(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        before: &Attributes,
        contents: Option<Contents>,
    ) -> Result<Counted> {
        let old = before.block.map(|block| block.block);
        let header = old
            .map(|block| self.block_header(block, inode))
            .transpose()?;
        let is_alone = header.is_some_and(|header| header.references == 1);
        let mut counted = Counted {
            before: is_alone,
            now: contents.is_some(),
        };
        let Some(mut contents) = contents else {
            self.detach_block(handle, inode, old.zip(header))?;
            return Ok(counted);
        };
        if let Some(block) = self.share_block(handle, inode, &contents, old)? {
            self.detach_block(handle, inode, old.zip(header))?;
            self.attach_block(inode, block);
            counted.now = false;
            return Ok(counted);
        }
        let own = old.zip(header).filter(|_| is_alone);
        let block = if let Some((block, header)) = own {
            self.withdraw_block(handle, block, header);
            block
        } else {
            self.detach_block(handle, inode, old.zip(header))?;
            let block = self.allocate_block(handle, self.home_goal(inode))?;
            self.attach_block(inode, block);
            block
        };
        self.set_checksum(&mut contents, block);
        if let Some(hash) = contents.hash {
            handle.sharing.offer(Store::Blocks, hash, block.0);
        }
        handle.replace(block, inode.ino(), contents.bytes)?;
        Ok(counted)
    }

    fn block_header(&self, block: FsBlock, inode: &Inode) -> Result<BlockHeader> {
        let buffer = self.xattr_block(inode, block)?;
        BlockHeader::of(&buffer)
            .filter(|header| header.references > 0)
            .ok_or_else(|| {
                let place = Place::Block(block, inode.ino());
                place.corrupt("reference count of the attribute block is 0")
            })
    }

    /// Searches for a block other than `old` that has `contents`, and adds a user to the block.
    /// Returns the block, or `None` if there is none.
    fn share_block(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        contents: &Contents,
        old: Option<FsBlock>,
    ) -> Result<Option<FsBlock>> {
        let Some(hash) = contents.hash else {
            return Ok(None);
        };
        let found = self.sharing.find(Store::Blocks, hash, |block| {
            let block = FsBlock(block);
            let Some(users) = self.users_of_same(inode, block, contents) else {
                return Ok(Candidate::Different);
            };
            if Some(block) == old {
                return Ok(Candidate::Different);
            }
            if users >= MAX_USERS {
                return Ok(Candidate::Full);
            }
            self.set_users(handle, inode, block, users + 1)?;
            Ok(Candidate::Taken(block))
        })?;
        if found.is_some() {
            handle.sharing.count_share();
        }
        Ok(found)
    }

    /// Returns the number of users of `block`, which a cache returned. Returns `None` if the block
    /// must not be shared: it does not have `contents`, is free, or cannot be read.
    fn users_of_same(&self, inode: &Inode, block: FsBlock, contents: &Contents) -> Option<u32> {
        let buffer = self.xattr_block(inode, block).ok()?;
        let header = BlockHeader::of(&buffer).filter(|header| header.references > 0)?;
        let is_same = has_same_contents(&buffer, &contents.bytes) && self.is_used(block);
        is_same.then_some(header.references)
    }

    fn set_users(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        block: FsBlock,
        users: u32,
    ) -> Result<()> {
        handle.update_part(block, inode.ino(), UserCount::PART, |part| {
            self.sharing.users.set(part, users);
            Ok(())
        })
    }

    /// Detaches `inode` from its attribute block `old`. Frees the block if the inode was its last
    /// user.
    fn detach_block(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        old: Option<(FsBlock, BlockHeader)>,
    ) -> Result<()> {
        let Some((block, header)) = old else {
            return Ok(());
        };
        if header.references == 1 {
            self.withdraw_block(handle, block, header);
            handle.forget(block);
            let blocks = 1 << self.superblock().cluster_blocks_log2;
            self.free_blocks(handle, block, blocks, inode.ino())?;
        } else {
            let left = header.references - 1;
            self.set_users(handle, inode, block, left)?;
            if left == MAX_USERS - 1 && header.hash != 0 {
                self.sharing
                    .offer_again(Store::Blocks, header.hash, block.0);
            }
        }
        inode.set_file_acl(None);
        self.count_attribute_block(inode, -1);
        Ok(())
    }

    fn attach_block(&self, inode: &mut Inode, block: FsBlock) {
        inode.set_file_acl(Some(block));
        self.count_attribute_block(inode, 1);
    }

    /// Removes `block` from the caches. Must be called before the block is freed or changed in
    /// place.
    fn withdraw_block(&self, handle: &mut Handle<'_>, block: FsBlock, header: BlockHeader) {
        let changes = &mut handle.sharing;
        self.sharing
            .withdraw(changes, Store::Blocks, header.hash, block.0);
    }

    /// Offers `block` for sharing. The caller must hold the lock of an inode that uses the block,
    /// and must have read the block under that lock.
    pub(super) fn offer_block(&self, block: FsBlock, bytes: &[u8]) {
        if let Some(hash) = shareable_hash(bytes) {
            self.sharing.offer(Store::Blocks, hash, block.0);
        }
    }

    /// Adds `by` file-system blocks, which hold attributes, to the space that `inode` uses.
    pub(super) fn count_attribute_space(&self, inode: &mut Inode, by: i64) {
        let sb = self.superblock();
        let may_be_huge = sb.ro_compat.contains(RoCompat::HUGE_FILE);
        inode.add_blocks(by, sb.block_size_bytes(), may_be_huge);
    }

    /// Adds `by` attribute blocks, each of which uses a cluster, to the space that `inode` uses.
    fn count_attribute_block(&self, inode: &mut Inode, by: i64) {
        self.count_attribute_space(inode, by << self.superblock().cluster_blocks_log2);
    }
}

/// Whether a change must count the references of an attribute block to value inodes. The reference
/// count of a value inode includes the blocks that refer to it, but not the users of these blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Whether the references of the old block end, because the inode was its only user.
    pub before: bool,
    /// Whether the references of the new block begin, because no existing block had the same
    /// contents.
    pub now: bool,
}

impl Contents {
    /// Excludes these contents from sharing.
    pub(super) fn unshared(self) -> Self {
        Self { hash: None, ..self }
    }
}

/// Returns the hash in the header of the attribute block `block`, or `None` if the block must not
/// be shared.
fn shareable_hash(block: &[u8]) -> Option<u32> {
    let header = BlockHeader::of(block)?;
    (header.hash != 0).then_some(header.hash)
}
