//! Listings of directories.

use super::blocks::DirBlocks;
use super::entry::{COOKIE_DAMAGE, COOKIE_OVERLAY, DirEntry};
use super::listing::Listing;
use crate::error::Place;
use crate::{Filesystem, Inode, MemoryOnly, Result};
use std::ops::ControlFlow;

/// The order of a listing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// By hash if the file system is writable and the directory has, or may get, a hash tree;
    /// otherwise by position.
    ForUsers,
    /// By position, even if the directory is indexed.
    Blocks,
}

impl Filesystem {
    /// Emits the entries of `dir` from `cookie` on, until the end or until `emit` returns `Break`.
    /// The cookie 0 is the start.
    ///
    /// # Errors
    /// As for [`Filesystem::lookup`], except that directories that ignore case can be listed. An
    /// error of a block is returned at the end, after all readable entries. Another call with the
    /// cookie of the last entry returns the error again.
    pub fn read_dir(
        &self,
        dir: &Inode,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.list(dir, cookie, Order::ForUsers, emit)
    }

    /// Emits the entries of `dir` in the order `order`; otherwise equivalent to
    /// [`Filesystem::read_dir`].
    pub(super) fn list(
        &self,
        dir: &Inode,
        cookie: u64,
        order: Order,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_directory(dir)?;
        self.check_names(dir)?;
        let had_damage = cookie & COOKIE_DAMAGE != 0;
        let mut listing = Listing::new(self, dir.ino(), emit, had_damage);
        let at = cookie & !COOKIE_DAMAGE;
        let mut flow = ControlFlow::Continue(());
        let mut overlay_from = at & !COOKIE_OVERLAY;
        if at & COOKIE_OVERLAY == 0 {
            let by_hash = match order {
                Order::ForUsers => self.list_by_hash(dir, at, &mut listing)?,
                Order::Blocks => None,
            };
            flow = match by_hash {
                Some(flow) => flow,
                None if dir.has_inline_data() => self.list_inline(dir, at, &mut listing)?,
                None => self.list_blocks(dir, at, &mut listing),
            };
            overlay_from = 0;
        }
        if flow.is_continue() {
            flow = listing.offer_overlay(overlay_from);
        }
        if flow.is_break() {
            return Ok(());
        }
        match listing.into_damage() {
            Some(error) => Err(error),
            // An earlier call found damage, so this call searches for it, to return the error.
            None if had_damage => self.list(dir, 0, order, &mut |_| ControlFlow::Continue(())),
            None => Ok(()),
        }
    }

    fn list_blocks(&self, dir: &Inode, at: u64, listing: &mut Listing<'_>) -> ControlFlow<()> {
        let block_size_bytes = u64::from(self.superblock().block_size_bytes());
        let mut blocks = DirBlocks::new(self, *dir, at / block_size_bytes);
        while let Some((index, block)) = blocks.next() {
            let start = index * block_size_bytes;
            match block {
                Ok((fs_block, block)) => {
                    let place = Place::Block(fs_block, dir.ino());
                    listing.offer_part(&block, start, at, place)?;
                }
                Err(error) => listing.note_damage(error),
            }
            // The caller discards the listing, or needs only the entries that are in memory.
            if MemoryOnly::has_missed() {
                break;
            }
        }
        ControlFlow::Continue(())
    }
}
