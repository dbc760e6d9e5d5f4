//! Reading the attributes of an inode to change them, and writing them back.
//!
//! # Model
//! `ext4_xattr_block_set` and `ext4_xattr_ibody_set`. A block of attributes that other inodes
//! have too is left to them and copied. The inodes that hold values are counted for each place
//! that an entry leads to them from: an inode's body, or a block, however many share that.

use super::places::{AttributeBlock, Attributes};
use super::visit_all;
use crate::error::Place;
use crate::journal::Handle;
use crate::ondisk::checksum::Crc32c;
use crate::ondisk::features::{Compat, RoCompat};
use crate::ondisk::inode::BASE_INODE_BYTES;
use crate::ondisk::xattr::{
    StoredXattr, XattrEntries, block_references, fill_block, fill_inode, set_block_checksum,
    set_block_references,
};
use crate::{Error, Filesystem, FsBlock, Ino, Inode, Result};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// How many entries more, or fewer, lead to each inode that holds a value.
#[derive(Debug, Default)]
struct References(BTreeMap<Ino, i64>);

impl References {
    fn add(&mut self, attributes: &[StoredXattr], by: i64) {
        for (ino, _) in attributes.iter().filter_map(StoredXattr::value_inode) {
            *self.0.entry(ino).or_default() += by;
        }
    }
}

impl Filesystem {
    /// All attributes of `inode`.
    pub(super) fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        let sb = self.superblock();
        let rest_bytes = match inode.extra_isize() {
            0 => 0,
            extra => usize::from(sb.inode_size_bytes)
                .saturating_sub(BASE_INODE_BYTES + usize::from(extra)),
        };
        let mut all = Attributes::none(rest_bytes, self.buffers().block_size_bytes());
        let overlap = |place| Error::corrupt(place, "attributes take more than their region has");
        let _ = self.for_each_xattr_in_inode(inode, &mut |entry, place| {
            all.in_inode.push(StoredXattr::from_entry(&entry));
            all.fit()
                .then_some(ControlFlow::Continue(()))
                .ok_or_else(|| overlap(place))
        })?;
        let Some(block) = inode.file_acl() else {
            return Ok(all);
        };
        let place = Place::Block(block, inode.ino());
        let corrupt = |what| Error::corrupt(place, what);
        let buffer = self.xattr_block(inode, block)?;
        let references = block_references(&buffer).filter(|&references| references > 0);
        all.block = Some(AttributeBlock {
            block,
            references: references.ok_or_else(|| corrupt("attribute block has no users"))?,
        });
        let entries = XattrEntries::in_block(&buffer).map_err(corrupt)?;
        let _ = visit_all(entries, place, &mut |entry, place| {
            all.in_block.push(StoredXattr::from_entry(&entry));
            all.fit()
                .then_some(ControlFlow::Continue(()))
                .ok_or_else(|| overlap(place))
        })?;
        Ok(all)
    }

    /// Makes `after` the attributes of `inode`, which were `before`, and writes it.
    pub(super) fn store_attributes(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        before: &Attributes,
        after: Attributes,
    ) -> Result<()> {
        let mut references = References::default();
        let more = self.value_blocks(&after) - self.value_blocks(before);
        self.count_attribute_space(inode, more);
        if before.in_inode != after.in_inode {
            references.add(&before.in_inode, -1);
            references.add(&after.in_inode, 1);
            self.store_in_inode(handle, inode, &after.in_inode)?;
        }
        if before.in_block != after.in_block {
            self.store_in_block(handle, inode, before, after.in_block, &mut references)?;
        }
        self.write_inode(handle, inode)?;
        for (ino, by) in references.0 {
            self.count_value_references(handle, inode, ino, by)?;
        }
        if !self.superblock().compat.contains(Compat::EXT_ATTR) {
            self.update_superblock(handle, |superblock| {
                superblock.set_compat(Compat::EXT_ATTR);
            })?;
        }
        Ok(())
    }

    fn store_in_inode(
        &self,
        handle: &mut Handle<'_>,
        inode: &Inode,
        attributes: &[StoredXattr],
    ) -> Result<()> {
        let start = BASE_INODE_BYTES + usize::from(inode.extra_isize());
        let fits = self.edit_inode(handle, inode.ino(), |_, bytes| {
            fill_inode(bytes.get_mut(start..).unwrap_or_default(), attributes)
        })?;
        fits.then_some(())
            .ok_or(Error::AttributeTooLarge(inode.ino()))
    }

    fn store_in_block(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        before: &Attributes,
        mut attributes: Vec<StoredXattr>,
        references: &mut References,
    ) -> Result<()> {
        let own = before.block.filter(|block| block.references == 1);
        if own.is_some() || before.block.is_none() {
            references.add(&before.in_block, -1);
        }
        references.add(&attributes, 1);
        if attributes.is_empty() {
            return self.leave_block(handle, inode, before.block);
        }
        let ino = inode.ino();
        if let Some(AttributeBlock { block, .. }) = own {
            return handle.update(block, ino, |bytes| {
                self.fill_attribute_block(bytes, block, ino, &mut attributes)
            });
        }
        self.leave_block(handle, inode, before.block)?;
        let block = self.allocate_block(handle, self.home_goal(inode), ino)?;
        handle.create(block, ino, |bytes| {
            self.fill_attribute_block(bytes, block, ino, &mut attributes)
        })?;
        inode.set_file_acl(Some(block));
        self.count_attribute_block(inode, 1);
        Ok(())
    }

    fn fill_attribute_block(
        &self,
        bytes: &mut [u8],
        block: FsBlock,
        ino: Ino,
        attributes: &mut [StoredXattr],
    ) -> Result<()> {
        if !fill_block(bytes, attributes) {
            return Err(Error::AttributeTooLarge(ino));
        }
        self.seal_attribute_block(bytes, block);
        Ok(())
    }

    /// The checksum of attribute blocks starts here.
    pub(super) fn attribute_block_seed(&self, block: FsBlock) -> Crc32c {
        self.superblock()
            .checksum_seed
            .bytes(&block.0.to_le_bytes())
    }

    fn seal_attribute_block(&self, bytes: &mut [u8], block: FsBlock) {
        if self.superblock().has_metadata_checksums() {
            set_block_checksum(bytes, self.attribute_block_seed(block));
        }
    }

    /// Makes `inode`, which has the attributes of `block`, one that has no block of them. The
    /// block is freed with its last user.
    fn leave_block(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        block: Option<AttributeBlock>,
    ) -> Result<()> {
        let Some(AttributeBlock { block, references }) = block else {
            return Ok(());
        };
        if references == 1 {
            handle.forget(block);
            let blocks = 1 << self.superblock().cluster_blocks_log2;
            self.free_blocks(handle, block, blocks, inode.ino())?;
        } else {
            handle.update(block, inode.ino(), |bytes| {
                set_block_references(bytes, references - 1);
                self.seal_attribute_block(bytes, block);
                Ok(())
            })?;
        }
        inode.set_file_acl(None);
        self.count_attribute_block(inode, -1);
        Ok(())
    }

    /// Counts `by` attribute blocks, each of which takes a cluster, as space of `inode`.
    fn count_attribute_block(&self, inode: &mut Inode, by: i64) {
        self.count_attribute_space(inode, by << self.superblock().cluster_blocks_log2);
    }

    fn count_attribute_space(&self, inode: &mut Inode, by: i64) {
        let sb = self.superblock();
        let may_be_huge = sb.ro_compat.contains(RoCompat::HUGE_FILE);
        inode.add_blocks(by, sb.block_size_bytes(), may_be_huge);
    }

    /// Blocks of values in inodes, in whole clusters: space of all who have the value.
    fn value_blocks(&self, attributes: &Attributes) -> i64 {
        let sb = self.superblock();
        let all = attributes.in_inode.iter().chain(&attributes.in_block);
        let clusters: u64 = all
            .filter_map(StoredXattr::value_inode)
            .map(|(_, size_bytes)| u64::from(size_bytes).div_ceil(sb.cluster_size_bytes()))
            .sum();
        i64::try_from(clusters << sb.cluster_blocks_log2).unwrap_or(i64::MAX)
    }
}
