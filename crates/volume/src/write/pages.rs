//! Writing into the page cache.
//!
//! Model: `ext4_da_write_begin` and `ext4_da_write_end`. Each page is changed in place while nobody
//! looks at it, and its blocks are dirty from then on; for those that are mapped to nothing space
//! is reserved before, so that write-back cannot lack it.
//!
//! # Invariants
//! 1. What of a cached page lies behind the end of the file is zero.
//! 2. A dirty block's page is cached.
//!
//! # Locking
//! `rw` is held exclusively by the callers, and `writeback` is not: where no page is free, all is
//! written back.

use super::names::IS_FIXED;
use crate::live::Live;
use crate::read::{Reader, check_content, key};
use crate::{Ino, Result};
use larder_cache::page::{Entry, Lock, LockedPage, NewPage};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, Inode, MappingKind};
use std::ops::{Deref, DerefMut, Range};

/// Writes of so many bytes and more go past the page cache: about what one device write should
/// have at least.
const LARGE_BYTES: usize = 256 << 10;

/// Write-backs of everything that may fail to make room for one page.
const ROUNDS: u32 = 4;

/// A page that nobody else looks at.
enum OwnPage<'r> {
    Locked(LockedPage<'r>),
    New(NewPage),
}

/// A change of a part of a page.
struct Change {
    /// What of the file changes: within one page.
    bytes: Range<u64>,
    /// How long the file is at least, afterwards.
    size_bytes: u64,
}

impl OwnPage<'_> {
    fn set_dirty(&mut self) {
        match self {
            Self::Locked(page) => page.set_dirty(),
            Self::New(page) => page.set_dirty(),
        }
    }

    fn unlock(self) {
        match self {
            Self::Locked(page) => drop(page),
            Self::New(page) => page.complete(),
        }
    }
}

impl Deref for OwnPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Locked(page) => page,
            Self::New(page) => page,
        }
    }
}

impl DerefMut for OwnPage<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Locked(page) => page,
            Self::New(page) => page,
        }
    }
}

impl Reader {
    pub(crate) fn block_size_log2(&self) -> u8 {
        self.fs.superblock().block_size_log2
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.fs.superblock().block_size_bytes())
    }

    /// The blocks that `bytes` touch.
    pub(crate) fn blocks_touched(&self, bytes: &Range<u64>) -> Range<u64> {
        let block_bytes = self.block_bytes();
        bytes.start / block_bytes..bytes.end.div_ceil(block_bytes)
    }

    /// Writes all of `buf` at `offset_bytes` of the regular file `ino`.
    pub(crate) fn write_at(&self, ino: Ino, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let live = self.live(ino)?;
        let alone = live.rw.write();
        let written = self.write_alone(&live, buf, offset_bytes);
        let is_replaced = live.state().is_replaced;
        let written = match written {
            Ok(()) if is_replaced => self.write_back_one(&live),
            written => written,
        };
        drop(alone);
        self.balance_dirty();
        written
    }

    /// As [`Reader::write_at`], with `rw` held exclusively.
    fn write_alone(&self, live: &Live<'_>, buf: &[u8], offset_bytes: u64) -> Result<()> {
        let inode = live.peek()?;
        self.check_changeable(&inode, InodeFlags::IMMUTABLE)?;
        if buf.is_empty() {
            return Ok(());
        }
        let end_bytes = offset_bytes.checked_add(buf.len() as u64);
        let end_bytes = end_bytes
            .filter(|end| *end <= self.fs.max_file_bytes(&inode))
            .ok_or(Error::FileTooLarge(live.ino()))?;
        if inode.has_inline_data() && self.write_inline(live, buf, offset_bytes)? {
            return Ok(());
        }
        if offset_bytes > inode.size_bytes() {
            self.zero_tail(live, inode.size_bytes())?;
        }
        let written = self.write_blocks(live, buf, offset_bytes..end_bytes);
        live.wrote(self.clock.now());
        written
    }

    /// That this is content that can be changed: of a file with none of the flags `fixed`, on a
    /// volume that was not turned read-only by an error.
    pub(super) fn check_changeable(&self, inode: &Inode, fixed: InodeFlags) -> Result<()> {
        check_content(inode)?;
        if !self.fs.is_writable() {
            return Err(Error::ReadOnly(self.fs.failure()).into());
        }
        if inode.flags().intersects(fixed) {
            return Err(crate::Error::NotPermitted(inode.ino(), IS_FIXED));
        }
        Ok(())
    }

    /// Writes `buf`, which is to be `bytes` of a file with blocks.
    fn write_blocks(&self, live: &Live<'_>, buf: &[u8], bytes: Range<u64>) -> Result<()> {
        let page_bytes = self.page_bytes();
        let whole = bytes.start.next_multiple_of(page_bytes)..bytes.end / page_bytes * page_bytes;
        let large = usize::try_from(whole.end.saturating_sub(whole.start)).unwrap_or(0);
        if large < LARGE_BYTES || self.journals_content {
            return self.write_pages(live, buf, bytes);
        }
        let head = usize::try_from(whole.start - bytes.start).unwrap_or(0);
        let (before, rest) = buf.split_at(head);
        let (middle, behind) = rest.split_at(large);
        self.write_pages(live, before, bytes.start..whole.start)?;
        self.write_past_cache(live, middle, whole.clone())?;
        self.write_pages(live, behind, whole.end..bytes.end)
    }

    /// Writes `buf`, which is to be `bytes` of the file, into its pages.
    fn write_pages(&self, live: &Live<'_>, buf: &[u8], bytes: Range<u64>) -> Result<()> {
        if buf.is_empty() {
            return Ok(());
        }
        let blocks = self.blocks_touched(&bytes);
        self.reserve_holes(live, blocks.clone())?;
        let written = self.change_pages(live, buf, bytes);
        live.end_expecting(blocks);
        written
    }

    /// As [`Reader::write_pages`], with space for what is mapped to nothing.
    fn change_pages(&self, live: &Live<'_>, buf: &[u8], bytes: Range<u64>) -> Result<()> {
        let page_bytes = self.page_bytes();
        let mut rest = buf;
        for index in bytes.start / page_bytes..bytes.end.div_ceil(page_bytes) {
            let start = index * page_bytes;
            let part = bytes.start.max(start)..bytes.end.min(start + page_bytes);
            let (now, behind) = rest.split_at(usize::try_from(part.end - part.start).unwrap_or(0));
            rest = behind;
            let change = Change {
                size_bytes: part.end,
                bytes: part,
            };
            self.change_page(live, change, &mut |page| page.copy_from_slice(now))?;
        }
        Ok(())
    }

    /// Changes a part of a page by `edit`.
    fn change_page(
        &self,
        live: &Live<'_>,
        change: Change,
        edit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<()> {
        let Change { bytes, size_bytes } = change;
        let page_bytes = self.page_bytes();
        let index = bytes.start / page_bytes;
        let start = index * page_bytes;
        let blocks = self.blocks_touched(&bytes);
        let in_page = |at: u64| usize::try_from(at - start).unwrap_or(0);
        let is_whole = bytes.end - bytes.start == page_bytes;
        if let Some(mut page) = self.own_page(live, index, is_whole)? {
            edit(&mut page[in_page(bytes.start)..in_page(bytes.end)]);
            page.set_dirty();
            live.mark_dirty(blocks, size_bytes);
            page.unlock();
            return Ok(());
        }
        if self.journals_content {
            // Nothing may pass the journal.
            return Err(Error::HandleTooLarge.into());
        }
        // No room in the cache, even now that nothing is dirty: its blocks alone, past it.
        let block_bytes = self.block_bytes();
        let around = blocks.start * block_bytes..blocks.end * block_bytes;
        let mut buf = vec![0; usize::try_from(around.end - around.start).unwrap_or(0)];
        live.with_mapping(|inode| self.fill(inode, around.start, &mut [&mut buf[..]]))?;
        let at = |byte: u64| usize::try_from(byte - around.start).unwrap_or(0);
        edit(&mut buf[at(bytes.start)..at(bytes.end)]);
        self.write_past_cache_until(live, &buf, around, size_bytes)
    }

    /// Page `index` to change: as it is cached, or filled, unless `is_whole` says that all of it will
    /// be changed. `None` if there is no room for it.
    fn own_page(&self, live: &Live<'_>, index: u64, is_whole: bool) -> Result<Option<OwnPage<'_>>> {
        let pages = &self.caches.pages;
        let key = key(live.ino(), index);
        let mut rounds = 0;
        loop {
            self.wait_written(live, index);
            match pages.lock(key) {
                // Perhaps its write-back has begun since, and even let go of it.
                Lock::Locked(page) if self.is_writing(live, index) => {
                    drop(page);
                    continue;
                }
                Lock::Locked(page) => return Ok(Some(OwnPage::Locked(page))),
                Lock::Busy(wait) => {
                    drop(wait.wait());
                    continue;
                }
                Lock::Absent => {}
            }
            match pages.get_or_insert(key) {
                Entry::Uptodate(_) => {}
                Entry::Busy(wait) => drop(wait.wait()),
                Entry::New(mut page) => {
                    if !is_whole {
                        let start_bytes = index * self.page_bytes();
                        let alone = std::slice::from_mut(&mut page);
                        live.with_mapping(|inode| self.fill(inode, start_bytes, alone))?;
                    }
                    return Ok(Some(OwnPage::New(page)));
                }
                Entry::Full if rounds < ROUNDS => {
                    rounds += 1;
                    self.write_back_for_room();
                }
                Entry::Full => return Ok(None),
            }
        }
    }

    /// Waits while page `index` is on its way to the device.
    fn wait_written(&self, live: &Live<'_>, index: u64) {
        if self.is_writing(live, index) {
            drop(live.writeback.lock());
        }
    }

    fn is_writing(&self, live: &Live<'_>, index: u64) -> bool {
        let per_page = (self.page_bytes() / self.block_bytes()).max(1);
        let blocks = index * per_page..(index + 1) * per_page;
        let state = live.state();
        let writing = state.dirty.writing.as_ref();
        writing.is_some_and(|writing| writing.start < blocks.end && blocks.start < writing.end)
    }

    /// Makes zeros of `bytes` of the file, as far as anything but zeros is there: of pages, and of
    /// what is mapped. `bytes` lie in one block.
    pub(crate) fn zero_in_block(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let block = bytes.start / self.block_bytes();
        let is_content = {
            let _stays = live.map.read();
            let mapping = self.mapping(&live.inode()?, block..block + 1)?;
            matches!(mapping.kind, MappingKind::Written(_))
        };
        if is_content || live.state().dirty.blocks.contains(block) {
            let change = Change {
                bytes,
                // What lies behind the end stays there.
                size_bytes: 0,
            };
            self.change_page(live, change, &mut |page| page.fill(0))?;
        }
        Ok(())
    }

    /// Makes zeros of what the block at the end of a file of `size_bytes` has behind that, so that
    /// it is not seen when the file grows.
    pub(crate) fn zero_tail(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let end = size_bytes.next_multiple_of(self.block_bytes());
        self.zero_in_block(live, size_bytes..end)
    }
}
