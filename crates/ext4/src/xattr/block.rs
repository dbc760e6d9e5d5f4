//! Attribute blocks and their users: one is found that has the same contents, or the inode's own is
//! changed, or a new one is made.
//!
//! # Model
//! `ext4_xattr_block_set` and `ext4_xattr_release_block`. Equal attributes make equal blocks here:
//! entries sorted, values in their order from the end. What the kernel wrote may have its values in
//! the order in which they were set; then it is not found, and stays as it is.
//!
//! # Cost
//! The contents are made, hashed and sealed before the handle is opened, where the caller can. In the
//! handle a share costs a comparison and 16 bytes of each block whose users are counted.

use super::places::{AttributeBlock, Attributes};
use super::share::{Candidate, Store};
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::xattr::{
    BlockHeader, StoredXattr, UserCount, fill_block, has_same_contents, set_block_checksum,
};
use crate::{Error, Filesystem, FsBlock, Ino, Inode, Result};
use std::iter::repeat_n;
use std::sync::Arc;

/// A block has at most this many users, as in Linux: so its loss is the loss of that many files.
const MAX_USERS: u32 = 1024;

/// What an attribute block is to hold, for one user.
#[derive(Debug)]
pub(super) struct Contents {
    bytes: Arc<[u8]>,
    /// What it is found and offered by, if it is to be shared.
    hash: Option<u32>,
    /// The block whose checksum it has.
    sealed_for: Option<FsBlock>,
}

impl Filesystem {
    /// What a block of `attributes`, which it sorts, is to hold in place of the block `old`; `None` if
    /// there are none.
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
            sealed_for: None,
        };
        // It is likely to be changed in place.
        if let Some(own) = old.filter(|old| old.references == 1) {
            self.seal(&mut contents, own.block);
        }
        Ok(Some(contents))
    }

    fn seal(&self, contents: &mut Contents, block: FsBlock) {
        if contents.sealed_for == Some(block) {
            return;
        }
        if self.superblock().has_metadata_checksums() {
            let seed = self.attribute_block_seed(block);
            set_block_checksum(Arc::make_mut(&mut contents.bytes), seed);
        }
        contents.sealed_for = Some(block);
    }

    /// The checksum of attribute blocks starts here.
    pub(super) fn attribute_block_seed(&self, block: FsBlock) -> Crc32c {
        self.superblock()
            .checksum_seed
            .bytes(&block.0.to_le_bytes())
    }

    /// Gives `inode`, whose attributes were `before`, a block with `contents` in place of the one that
    /// it has. Returns whether the values in inodes that it leads to are its own to count: those of
    /// the block before, and those of the block now.
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
            self.leave_block(handle, inode, old.zip(header))?;
            return Ok(counted);
        };
        if let Some(block) = self.share_block(handle, inode, &contents, old)? {
            self.leave_block(handle, inode, old.zip(header))?;
            self.enter_block(inode, block);
            counted.now = false;
            return Ok(counted);
        }
        let own = old.zip(header).filter(|_| is_alone);
        let block = if let Some((block, header)) = own {
            self.withdraw_block(handle, block, header);
            block
        } else {
            self.leave_block(handle, inode, old.zip(header))?;
            let block = self.allocate_block(handle, self.home_goal(inode))?;
            self.enter_block(inode, block);
            block
        };
        self.seal(&mut contents, block);
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
                place.corrupt("attribute block has no users")
            })
    }

    /// Counts one user more of a block that has `contents` and is not `old`, if one is found.
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

    /// How many users `block` has, if it has `contents`. One that cannot be read has not, nor has one
    /// that is free: whatever led there, it is not shared.
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

    /// Makes `inode`, which has the attributes of `old`, one that has no block of them. The
    /// block is freed with its last user.
    fn leave_block(
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

    fn enter_block(&self, inode: &mut Inode, block: FsBlock) {
        inode.set_file_acl(Some(block));
        self.count_attribute_block(inode, 1);
    }

    /// `block` is about to be freed, or to be changed in place.
    fn withdraw_block(&self, handle: &mut Handle<'_>, block: FsBlock, header: BlockHeader) {
        let changes = &mut handle.sharing;
        self.sharing
            .withdraw(changes, Store::Blocks, header.hash, block.0);
    }

    /// Tells of `block`, which is read with the lock of an inode that has it, so that others find it.
    pub(super) fn offer_block(&self, block: FsBlock, bytes: &[u8]) {
        if let Some(hash) = shareable_hash(bytes) {
            self.sharing.offer(Store::Blocks, hash, block.0);
        }
    }

    /// Counts `by` attribute blocks, each of which takes a cluster, as space of `inode`.
    fn count_attribute_block(&self, inode: &mut Inode, by: i64) {
        self.count_attribute_space(inode, by << self.superblock().cluster_blocks_log2);
    }
}

/// Whether an inode's share in the values that its block leads to changes with that block: the values
/// are counted once for a block, not for each of its users. Where it does not, others have the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// It was the block's only user.
    pub before: bool,
    /// The block holds what it does since now.
    pub now: bool,
}

impl Contents {
    /// The same, for one user for as long as it is there.
    pub(super) fn unshared(self) -> Self {
        Self { hash: None, ..self }
    }
}

/// The hash in the header of `block`, unless it says that the block is not to be shared.
fn shareable_hash(block: &[u8]) -> Option<u32> {
    let header = BlockHeader::of(block)?;
    (header.hash != 0).then_some(header.hash)
}
