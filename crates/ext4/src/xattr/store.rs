//! Reading the attributes of an inode in order to change them, and writing them back.
//!
//! # Model
//! `ext4_xattr_set_handle` and `ext4_xattr_ibody_set`. The reference count of a value inode is the
//! number of inode bodies and attribute blocks with an entry that refers to the value inode. A
//! block counts once, regardless of its number of users.

use super::block::Contents;
use super::places::{AttributeBlock, Attributes};
use super::stored::visit_all;
use crate::error::{DamageAt, Place};
use crate::journal::Handle;
use crate::ondisk::features::Compat;
use crate::ondisk::inode::BASE_INODE_BYTES;
use crate::ondisk::xattr::{BlockHeader, StoredXattr, XattrEntries, fill_inode};
use crate::{Error, FileKind, Filesystem, Ino, Inode, Result};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The attributes of an inode before and after a change, and the new contents of the block.
#[derive(Clone, Debug)]
pub(super) struct Change {
    before: Attributes,
    after: Attributes,
    contents: Option<Contents>,
}

/// The changes of the reference counts of value inodes, by inode.
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
    /// Reads all attributes of `inode`.
    pub(super) fn attributes(&self, inode: &Inode) -> Result<Attributes> {
        let sb = self.superblock();
        let rest_bytes = match inode.extra_isize() {
            0 => 0,
            extra => usize::from(sb.inode_size_bytes)
                .saturating_sub(BASE_INODE_BYTES + usize::from(extra)),
        };
        let mut all = Attributes::none(rest_bytes, self.buffers().block_size_bytes());
        all.is_fast_symlink = inode.kind() == FileKind::Symlink && !self.has_blocks(inode);
        let keep_going = |fits: bool, place: Place| {
            place.ensure(fits, "attributes exceed their region")?;
            Ok(ControlFlow::Continue(()))
        };
        let _ = self.for_each_xattr_in_inode(inode, &mut |entry, place| {
            all.in_inode.push(StoredXattr::from_entry(&entry));
            keep_going(all.fit(), place)
        })?;
        let Some(block) = inode.file_acl() else {
            return Ok(all);
        };
        let place = Place::Block(block, inode.ino());
        let buffer = self.xattr_block(inode, block)?;
        let header = BlockHeader::of(&buffer).filter(|header| header.references > 0);
        all.block = Some(AttributeBlock {
            block,
            references: header
                .ok_or_else(|| place.corrupt("reference count of the attribute block is 0"))?
                .references,
        });
        let entries = XattrEntries::in_block(&buffer).at(place)?;
        let _ = visit_all(entries, place, &mut |entry, place| {
            all.in_block.push(StoredXattr::from_entry(&entry));
            keep_going(all.fit(), place)
        })?;
        Ok(all)
    }

    /// Prepares the change of the attributes of inode `ino` from `before` to `after`.
    pub(super) fn change_of(
        &self,
        ino: Ino,
        before: Attributes,
        mut after: Attributes,
    ) -> Result<Change> {
        after.keep_block();
        self.change_to(ino, before, after)
    }

    /// Prepares a change like [`Filesystem::change_of`], but does not move the entries of value
    /// inodes in `after`.
    fn change_to(&self, ino: Ino, before: Attributes, mut after: Attributes) -> Result<Change> {
        let contents = if before.in_block == after.in_block {
            None
        } else {
            self.contents(ino, &mut after.in_block, before.block)?
        };
        Ok(Change {
            before,
            after,
            contents,
        })
    }

    /// Prepares a change like [`Filesystem::change_of`], for an inode that is about to lose all attributes.
    /// The new block is not offered for sharing, because it will soon be changed again or freed. It is not
    /// replaced by an equal block of other inodes either: this would change the reference counts of all value
    /// inodes of the old block at once, and the handle may have credits for only one of them.
    pub(super) fn final_change_of(
        &self,
        ino: Ino,
        before: Attributes,
        after: Attributes,
    ) -> Result<Change> {
        let change = self.change_to(ino, before, after)?;
        Ok(Change {
            contents: change.contents.map(Contents::unshared),
            ..change
        })
    }

    /// Applies `change`, and writes the inode.
    pub(super) fn store_attributes(
        &self,
        handle: &mut Handle<'_>,
        inode: &mut Inode,
        change: Change,
    ) -> Result<()> {
        let Change {
            before,
            after,
            contents,
        } = change;
        let mut references = References::default();
        let more = self.clusters_of_values(&after.in_inode)
            + self.clusters_of_values(&after.in_block)
            - self.clusters_of_values(&before.in_inode)
            - self.clusters_of_values(&before.in_block);
        self.count_attribute_space(inode, more << self.superblock().cluster_blocks_log2);
        if before.in_inode != after.in_inode {
            references.add(&before.in_inode, -1);
            references.add(&after.in_inode, 1);
            self.store_in_inode(handle, inode, &after.in_inode)?;
        }
        if before.in_block != after.in_block {
            let counted = self.store_in_block(handle, inode, &before, contents)?;
            if counted.before {
                references.add(&before.in_block, -1);
            } else {
                let clusters = self.clusters_of_block(&before.in_block);
                handle.sharing.count_saved(-clusters);
            }
            if counted.now {
                references.add(&after.in_block, 1);
            } else {
                let clusters = self.clusters_of_block(&after.in_block);
                handle.sharing.count_saved(clusters);
            }
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
        let too_large = Error::AttributeTooLarge(inode.ino());
        fits.then_some(()).ok_or(too_large)
    }

    /// Returns the number of clusters of a block with `attributes` and of the value inodes to which
    /// it refers. Each further user of the block saves this many clusters.
    fn clusters_of_block(&self, attributes: &[StoredXattr]) -> i64 {
        i64::from(!attributes.is_empty()) + self.clusters_of_values(attributes)
    }

    /// Returns the number of clusters of the value inodes to which `attributes` refer. These
    /// clusters count as used space of every user of the value.
    fn clusters_of_values(&self, attributes: &[StoredXattr]) -> i64 {
        let values = attributes.iter().filter_map(StoredXattr::value_inode);
        values
            .map(|(_, size_bytes)| self.value_clusters(size_bytes.into()))
            .sum()
    }
}
