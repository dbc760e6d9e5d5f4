//! Replay of fast commits onto the image. It uses the same operations as ordinary changes.
//!
//! # Model
//! The kernel's replay of fast commits bypasses the journal and is idempotent. Here, the whole
//! replay is one handle of one transaction, which follows the transactions in the log. Until this
//! transaction is committed, the fast commits remain in the journal and can be replayed again.
//! Afterwards, the fast commits are invalid, because their transaction number has been used.
//!
//! The replay uses the blocks and inode numbers that the fast commits recorded, even if the bitmaps
//! already mark them as used. An interrupted replay of the kernel may have marked them.
//!
//! The replay also allocates blocks of its own, for mappings and for directories. Before that, it
//! marks the recorded blocks of files as used, if they are inside the file system. At the end, it
//! marks them again, in case it freed one of them meanwhile.
//!
//! These logged changes cannot be applied as they are:
//!
//! | change | treatment |
//! |---|---|
//! | mapping of a range to blocks outside the file system | added to the file's mapping; reading the range fails |
//! | change of an inode that does not exist, or of the names in a directory that does not exist | ignored with a warning |
//! | any other change that is not supported, such as a change of a file's type | the whole replay is refused, and changes nothing |
//!
//! The replay is also refused if its changes do not fit into the log.
//!
//! e2fsck can apply changes that Larder refuses, because it rebuilds bitmaps and counts.
//!
//! # Directories
//! Fast commits log the changed names of a directory, but not its blocks. Therefore the replay
//! ignores the logged mapping of a directory, and allocates the blocks that the names need.

use super::fast_commit::{is_directory, mode};
use super::{Overlay, OverlayEntry, Tid};
use crate::ondisk::dir::FileTypeByte;
use crate::ondisk::inode::InodeFlags;
use crate::{Error, FileBlock, Filesystem, FsBlock, Handle, Ino, Inode, Result};
use std::collections::BTreeSet;

impl Filesystem {
    /// Applies `overlay` in one transaction, and returns the number of the transaction.
    pub(super) fn apply_overlay(&self, overlay: &Overlay, credits: u32) -> Result<Tid> {
        let mut apply = Apply {
            fs: self,
            handle: self.start(credits)?,
            overlay,
        };
        let mut changed = overlay.changed();
        changed.retain(|ino| apply.exists(*ino));
        for ino in overlay.deleted() {
            apply.delete(ino)?;
        }
        for &ino in changed.iter().filter(|ino| overlay.is_obsolete(**ino)) {
            apply.free_number(ino)?;
        }
        apply.mark_ranges_used(&changed)?;
        for ino in &changed {
            apply.change(*ino)?;
        }
        for parent in overlay.parents() {
            apply.apply_names(parent)?;
        }
        apply.mark_ranges_used(&changed)?;
        Ok(apply.handle.stop())
    }
}

struct Apply<'f> {
    fs: &'f Filesystem,
    handle: Handle<'f>,
    overlay: &'f Overlay,
}

impl Apply<'_> {
    /// Makes the deleted file `ino` an orphan, so that its blocks are freed when orphans are
    /// deleted.
    fn delete(&mut self, ino: Ino) -> Result<()> {
        let Some(mut inode) = self.inode_in_use(ino)? else {
            // Fast commits created the file and deleted it again.
            return Ok(());
        };
        inode.set_links(0);
        self.fs.add_orphan(&mut self.handle, &mut inode)?;
        self.fs.write_inode(&mut self.handle, &inode)
    }

    /// Returns the inode `ino` of the image, or `None` if its number is not in use.
    fn inode_in_use(&self, ino: Ino) -> Result<Option<Inode>> {
        match self.fs.inode(ino) {
            Ok(inode) => Ok(Some(inode)),
            Err(Error::StaleInode(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the inode `ino` exists on the image or was logged. Logs a warning if not.
    fn exists(&self, ino: Ino) -> bool {
        let is_stale = matches!(self.fs.inode(ino), Err(Error::StaleInode(_)));
        let exists = self.overlay.has_inode(ino) || !is_stale;
        if !exists {
            tracing::warn!(%ino, "ignored a range in a fast commit: its inode is not in use");
        }
        exists
    }

    fn is_directory(&self, ino: Ino) -> bool {
        is_directory(mode(self.fs, self.overlay, ino))
    }

    /// Marks the blocks of the logged ranges as used, except those of directories, for which new
    /// blocks are allocated.
    fn mark_ranges_used(&mut self, changed: &BTreeSet<Ino>) -> Result<()> {
        for &ino in changed {
            if self.is_directory(ino) {
                continue;
            }
            for (_, blocks, kind) in self.overlay.ranges(ino) {
                if let Some((start, _)) = kind.block()
                    && self.is_inside(start, blocks)
                {
                    self.fs.use_blocks(&mut self.handle, start, blocks)?;
                }
            }
        }
        Ok(())
    }

    fn is_inside(&self, start: FsBlock, blocks: u32) -> bool {
        self.fs.superblock().contains_blocks(start, blocks.into())
    }

    /// Writes the inode `ino` with its logged fields and its logged mapping.
    fn change(&mut self, ino: Ino) -> Result<()> {
        let is_stale = matches!(self.fs.inode(ino), Err(Error::StaleInode(_)));
        let is_new = is_stale || self.overlay.is_obsolete(ino);
        let mut inode = if is_new {
            self.make(ino)?
        } else {
            self.patched(ino)?
        };
        if inode.is_directory() {
            if is_new {
                let up = self.overlay.entry(ino, b"..").flatten();
                let parent = up
                    .ok_or_else(|| refused(ino, "new directory without a parent"))?
                    .ino;
                self.fs
                    .init_directory(&mut self.handle, &mut inode, parent)?;
            }
        } else {
            self.change_ranges(&mut inode)?;
        }
        self.fs.write_inode(&mut self.handle, &inode)
    }

    /// Creates the logged inode `ino`, without blocks.
    fn make(&mut self, ino: Ino) -> Result<Inode> {
        let sb = self.fs.superblock();
        let mut bytes = vec![0; usize::from(sb.inode_size_bytes)];
        self.overlay.patch_inode(ino, &mut bytes);
        let mut inode = Inode::decode(sb, ino, &bytes)?;
        if inode.file_acl().is_some() {
            return Err(refused(ino, "extended attributes in a block"));
        }
        let is_directory = inode.is_directory();
        // Changes nothing if the number is already marked as used, which an interrupted replay of
        // the kernel may have done.
        let handle = &mut self.handle;
        self.fs.allocate_inode_number(handle, ino, is_directory)?;
        // All bytes are stored now, because `write_inode` will store only the fixed fields. The
        // bytes after these fields contain attributes and inline content.
        self.fs.edit_inode(&mut self.handle, ino, |fs, place| {
            place.copy_from_slice(&bytes);
            fs.set_inode_checksum(ino, place);
        })?;
        if is_directory {
            inode.set_size_bytes(0);
            inode.set_flags(inode.flags() - InodeFlags::INDEX);
        }
        if has_extents(&inode) {
            self.set_blocks(&mut inode, 0);
        }
        Ok(inode)
    }

    /// Frees the inode number `ino` and the blocks of its old file, if the number is in use on the
    /// image.
    fn free_number(&mut self, ino: Ino) -> Result<()> {
        let Some(mut old) = self.inode_in_use(ino)? else {
            return Ok(());
        };
        if old.file_acl().is_some() {
            return Err(refused(ino, "extended attributes in a block"));
        }
        self.unmap(&mut old, 0, u32::MAX)?;
        self.fs
            .free_inode(&mut self.handle, ino, old.is_directory())
    }

    /// Applies the logged fields to the inode `ino`, which exists on the image, and returns the
    /// inode. Its blocks do not change.
    fn patched(&mut self, ino: Ino) -> Result<Inode> {
        let sb = self.fs.superblock();
        let old = self.fs.inode(ino)?;
        let mut bytes = self.fs.inode_bytes(ino)?.to_vec();
        self.overlay.patch_inode(ino, &mut bytes);
        let mut inode = Inode::decode(sb, ino, &bytes)?;
        let is_same_kind = inode.kind() == old.kind() && has_extents(&inode) == has_extents(&old);
        if !is_same_kind || inode.file_acl() != old.file_acl() {
            return Err(refused(
                ino,
                "change of the file type, the mapping type or the attribute block",
            ));
        }
        if inode.is_directory() {
            let mut flags = inode.flags();
            flags.set(InodeFlags::INDEX, old.flags().contains(InodeFlags::INDEX));
            inode.set_flags(flags);
            inode.set_size_bytes(old.size_bytes());
            inode.set_i_block(old.i_block());
        }
        if has_extents(&inode) || inode.is_directory() {
            inode.set_i_block(old.i_block());
            self.set_blocks(&mut inode, old.blocks_512(sb.block_size_bytes()));
        }
        self.fs.edit_inode(&mut self.handle, ino, |fs, place| {
            place.copy_from_slice(&bytes);
            fs.set_inode_checksum(ino, place);
        })?;
        Ok(inode)
    }

    /// Sets the space used by `inode` to `blocks_512` units of 512 bytes.
    fn set_blocks(&self, inode: &mut Inode, blocks_512: u64) {
        let block_size_bytes = self.fs.superblock().block_size_bytes();
        let blocks = |sectors: u64| {
            let blocks = sectors / u64::from(block_size_bytes / 512);
            i64::try_from(blocks).unwrap_or(i64::MAX)
        };
        let more = blocks(blocks_512) - blocks(inode.blocks_512(block_size_bytes));
        inode.add_blocks(more, block_size_bytes, true);
    }

    fn change_ranges(&mut self, inode: &mut Inode) -> Result<()> {
        let overlay = self.overlay;
        let mut outside = Vec::new();
        for (start, blocks, kind) in overlay.ranges(inode.ino()) {
            if !has_extents(inode) {
                return Err(refused(inode.ino(), "blocks of a file without extents"));
            }
            let end = start.0.saturating_add(blocks);
            let Some((physical, is_written)) = kind.block() else {
                self.unmap(inode, start.0, end)?;
                continue;
            };
            if self.is_inside(physical, blocks) {
                self.map(inode, start.0, end, physical, is_written)?;
            } else {
                self.unmap(inode, start.0, end)?;
                outside.push((start, (physical, blocks), is_written));
            }
        }
        // Once a mapping contains a range outside the file system, the only possible change of the
        // mapping is to add another such range. Therefore these ranges are added after all others.
        for (start, run, is_written) in outside {
            let handle = &mut self.handle;
            self.fs.map_used(handle, inode, start, run, is_written)?;
        }
        Ok(())
    }

    fn unmap(&mut self, inode: &mut Inode, start: u32, end: u32) -> Result<()> {
        let mut left = u64::from(start)..u64::from(end);
        while !left.is_empty() {
            let rest = self.fs.unmap(&mut self.handle, inode, left.clone())?;
            if rest == left {
                return Err(refused(inode.ino(), "too many blocks removed"));
            }
            left = rest;
        }
        Ok(())
    }

    /// Maps the file blocks from `start` up to `end` to the blocks from `physical` on. If a file
    /// block is already mapped to the right block, changes only whether it is written. Other mappings
    /// are replaced.
    fn map(
        &mut self,
        inode: &mut Inode,
        start: u32,
        end: u32,
        physical: FsBlock,
        is_written: bool,
    ) -> Result<()> {
        let mut at = start;
        while at < end {
            let wanted = FsBlock(physical.0.saturating_add(u64::from(at - start)));
            let now = self.fs.map(inode, FileBlock(at), end - at)?;
            let run = now.blocks.clamp(1, end - at);
            let run = match now.kind.block() {
                None => {
                    let (handle, at) = (&mut self.handle, FileBlock(at));
                    let to = (wanted, run);
                    self.fs.map_used(handle, inode, at, to, is_written)?;
                    run
                }
                Some((block, _)) if block != wanted => {
                    self.unmap(inode, at, at + run)?;
                    0
                }
                Some((_, was_written)) => {
                    let blocks = u64::from(at)..u64::from(at + run);
                    if was_written != is_written {
                        let handle = &mut self.handle;
                        let left = self.fs.set_written(handle, inode, blocks, is_written)?;
                        if !left.is_empty() {
                            return Err(refused(inode.ino(), "too many blocks written"));
                        }
                    }
                    run
                }
            };
            at += run;
        }
        Ok(())
    }

    /// Applies the logged changes of names in the directory `parent`.
    fn apply_names(&mut self, parent: Ino) -> Result<()> {
        let dir = self.inode_in_use(parent)?.filter(Inode::is_directory);
        let Some(mut dir) = dir else {
            tracing::warn!(ino = %parent, "ignored names in a fast commit: the directory does not exist");
            return Ok(());
        };
        for (name, entry) in self.overlay.logged_names(parent) {
            if matches!(name, b"." | b"..") && self.overlay.is_obsolete(parent) {
                continue;
            }
            let now = self.fs.lookup(&dir, name)?.map(|(ino, _)| ino);
            let (fs, handle) = (self.fs, &mut self.handle);
            match (entry, now) {
                (Some(entry), None) => fs.add_entry(handle, &mut dir, name, target(entry))?,
                (Some(entry), Some(now)) if now != entry.ino => {
                    fs.set_entry(handle, &mut dir, name, target(entry))?;
                }
                (None, Some(_)) => fs.remove_entry(handle, &mut dir, name)?,
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
        self.fs.write_inode(&mut self.handle, &dir)
    }
}

fn target(entry: OverlayEntry) -> (Ino, FileTypeByte) {
    (entry.ino, FileTypeByte(entry.file_type))
}

fn has_extents(inode: &Inode) -> bool {
    inode.flags().contains(InodeFlags::EXTENTS)
}

/// Returns the error for a logged change of `ino` that does not fit the image or is not supported.
fn refused(ino: Ino, why: &'static str) -> Error {
    Error::NotSupported(ino, why)
}
