//! Writes content into the page cache.
//!
//! Model: `ext4_da_write_begin` and `ext4_da_write_end`. Space for unmapped blocks is reserved
//! first, so that write-back cannot run out of space. Each page is then locked, changed in place,
//! and marked as dirty. The whole pages of a large write bypass the page cache.
//!
//! # Invariants
//! 1. The bytes of a cached page past the end of the file are zero.
//! 2. Every dirty block is in a cached page.
//!
//! # Locking
//! [`Writer::write`] locks `rw` exclusively. The callers of the other functions must hold `rw`
//! exclusively. No caller may hold `writeback`: these functions lock it to wait for a write-back,
//! and to write back all files if no page is free.

use super::Writer;
use super::names::check_flags;
use super::writing::Writing;
use crate::live::{Live, key};
use crate::read::check_content;
use crate::write_back::retry::retry_after_commit;
use crate::{Ino, Result};
use larder_cache::page::{Entry, Lock, LockedPage, NewPage, StillBusy};
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::{Error, Inode, MappingKind, MemoryOnly};
use std::ops::{Deref, DerefMut, Range};

/// The whole pages of a write bypass the page cache if they have at least this number of bytes, and
/// content is not journaled. A device write of about this size is efficient.
const LARGE_BYTES: u64 = 256 << 10;

/// The maximum number of times that a writer writes back all files to obtain one free page.
const ROUNDS: u32 = 4;

/// A page to which this thread has exclusive access.
enum OwnPage<'r> {
    Locked(LockedPage<'r>),
    New(NewPage),
}

/// A change of a part of a page.
struct Change {
    /// The bytes of the file that change, within one page.
    bytes: Range<u64>,
    /// The minimum size of the file after the change.
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

impl Writer {
    /// Writes the remaining bytes of `writing` into the regular file `ino`. If space runs out,
    /// retries as [`retry_after_commit`] does. The file stays locked between the tries. Therefore an
    /// append of which a part was written can be continued: the part is still at the end of the file.
    ///
    /// # Errors
    /// An error can occur after a part was written. `writing` records how many bytes were written.
    pub(crate) fn write(&self, ino: Ino, writing: &mut Writing<'_>) -> Result<()> {
        let live = self.inodes.live(ino)?;
        let exclusive = live.lock()?;
        let balance = self.write_back.begin_balance()?;
        let is_replaced = live.state().is_replaced;
        if is_replaced {
            MemoryOnly::check_may_wait()?;
        }
        let written = retry_after_commit(self.fs(), || {
            self.write_locked(&live, writing)?;
            if is_replaced {
                self.write_back.write_file(&live)?;
            }
            Ok(())
        });
        drop(exclusive);
        self.write_back.balance_dirty(balance);
        written
    }

    /// Writes the remaining bytes of `writing` into the file. The caller must hold `rw`
    /// exclusively.
    fn write_locked(&self, live: &Live<'_>, writing: &mut Writing<'_>) -> Result<()> {
        let inode = live.peek()?;
        self.check_changeable(&inode, InodeFlags::IMMUTABLE)?;
        writing.begin(inode.size_bytes());
        let (left, start_bytes) = (writing.left(u64::MAX), writing.at());
        if left.is_empty() {
            return Ok(());
        }
        let end_bytes = start_bytes.checked_add(left.len() as u64);
        let end_bytes = end_bytes
            .filter(|end| *end <= self.fs().max_file_bytes(&inode))
            .ok_or(Error::FileTooLarge(live.ino()))?;
        let (part, privilege) = ((left, start_bytes), writing.privilege());
        if inode.has_inline_data() && self.write_inline(live, part, privilege)? {
            writing.advance_to(end_bytes);
            return Ok(());
        }
        if start_bytes > inode.size_bytes() {
            self.zero_tail(live, inode.size_bytes())?;
        }
        let written = self.write_blocks(live, writing, end_bytes);
        if MemoryOnly::has_missed() {
            return written;
        }
        live.record_write(self.clock.now());
        written
    }

    /// Checks that the content of the file can be changed: the inode is a regular file with none of
    /// the flags `fixed`, and the volume has not become read-only after an error.
    pub(super) fn check_changeable(&self, inode: &Inode, fixed: InodeFlags) -> Result<()> {
        check_content(inode)?;
        if !self.fs().is_writable() {
            return Err(Error::ReadOnly(self.fs().failure()).into());
        }
        check_flags(inode, fixed)
    }

    /// Writes the remaining bytes of `writing`, up to the file offset `end_bytes`. The content of
    /// the file must not be stored in the inode.
    fn write_blocks(
        &self,
        live: &Live<'_>,
        writing: &mut Writing<'_>,
        end_bytes: u64,
    ) -> Result<()> {
        let page_bytes = self.inodes.page_bytes();
        let pages = writing.at() / page_bytes..end_bytes.div_ceil(page_bytes);
        if self.is_writing(live, pages) {
            // After its first change, this thread would wait for the write-back of the other pages.
            MemoryOnly::check_may_wait()?;
        }
        let whole = writing.at().next_multiple_of(page_bytes)..end_bytes / page_bytes * page_bytes;
        let large = whole.end.saturating_sub(whole.start);
        if large >= LARGE_BYTES && !self.fs().journals_content() {
            MemoryOnly::check_may_wait()?;
            self.write_pages(live, writing, whole.start)?;
            match self.write_past_cache(live, writing, whole.end, whole.end) {
                // Continue below: `write_pages` writes as many of the blocks as there is space for.
                Err(error) if error.is_no_space() => {}
                written => written?,
            }
        }
        self.write_pages(live, writing, end_bytes)
    }

    /// Writes the remaining bytes of `writing`, up to the file offset `until`, into pages.
    fn write_pages(&self, live: &Live<'_>, writing: &mut Writing<'_>, until: u64) -> Result<()> {
        while writing.at() < until {
            let blocks = self.inodes.blocks_touched(&(writing.at()..until));
            // If space runs out, `reserve_first_holes` writes back all files. This also releases
            // space that earlier iterations reserved for the worst case, but do not need.
            let end = self.reserve_first_holes(live, blocks.clone(), writing.privilege())?;
            let written =
                self.change_pages(live, writing, until.min(end * self.inodes.block_bytes()));
            live.end_expecting(blocks.start..end);
            written?;
        }
        Ok(())
    }

    /// Writes the remaining bytes of `writing`, up to the file offset `until`, into pages. The
    /// caller must have reserved space for the blocks that are unmapped or mapped as unwritten.
    fn change_pages(&self, live: &Live<'_>, writing: &mut Writing<'_>, until: u64) -> Result<()> {
        let page_bytes = self.inodes.page_bytes();
        while writing.at() < until {
            let start = writing.at();
            let end = until.min((start / page_bytes + 1) * page_bytes);
            let part = writing.left(end);
            let change = Change {
                size_bytes: end,
                bytes: start..end,
            };
            self.change_page(live, change, &mut |page| page.copy_from_slice(part))?;
            writing.advance_to(end);
        }
        Ok(())
    }

    /// Calls `edit` to change the bytes `change.bytes` in their cached page, and marks their blocks
    /// as dirty. If no page is free, writes the changed blocks to the device instead.
    fn change_page(
        &self,
        live: &Live<'_>,
        change: Change,
        edit: &mut dyn FnMut(&mut [u8]),
    ) -> Result<()> {
        let Change { bytes, size_bytes } = change;
        let page_bytes = self.inodes.page_bytes();
        let index = bytes.start / page_bytes;
        let start = index * page_bytes;
        let blocks = self.inodes.blocks_touched(&bytes);
        let in_page = |at: u64| usize::try_from(at - start).unwrap_or(0);
        let is_whole = bytes.end - bytes.start == page_bytes;
        if let Some(mut page) = self.own_page(live, index, is_whole)? {
            MemoryOnly::begin_change()?;
            edit(&mut page[in_page(bytes.start)..in_page(bytes.end)]);
            page.set_dirty();
            live.mark_dirty(blocks, size_bytes);
            page.unlock();
            return Ok(());
        }
        if self.fs().journals_content() {
            // With `data=journal`, content must not be written directly to the device.
            return Err(Error::HandleTooLarge.into());
        }
        // No page is free, even after write-back. Read the blocks into a buffer, change them there,
        // and write them to the device.
        let block_bytes = self.inodes.block_bytes();
        let around = blocks.start * block_bytes..blocks.end * block_bytes;
        let mut buf = vec![0; usize::try_from(around.end - around.start).unwrap_or(0)];
        live.with_mapping(|inode| self.filler.fill(inode, around.start, &mut [&mut buf[..]]))?;
        let at = |byte: u64| usize::try_from(byte - around.start).unwrap_or(0);
        edit(&mut buf[at(bytes.start)..at(bytes.end)]);
        let mut writing = Writing::new(&buf, around.start);
        self.write_past_cache(live, &mut writing, around.end, size_bytes)
    }

    /// Returns page `index` with exclusive access. If the page is not cached, inserts a new page
    /// and fills it, unless `is_whole` specifies that the caller will change all of its bytes.
    /// Returns `None` if no page is free.
    fn own_page(&self, live: &Live<'_>, index: u64, is_whole: bool) -> Result<Option<OwnPage<'_>>> {
        let pages = &self.inodes.caches.pages;
        let key = key(live.ino(), index);
        let mut rounds = 0;
        let end = self.filler.device.deadline();
        loop {
            self.wait_written(live, index)?;
            match pages.lock(key, || self.is_writing(live, index..index + 1)) {
                // A write-back of the page may have begun after `wait_written` returned. It may already have removed
                // its pin, which is why this thread could lock the page. Before the write-back ends, it marks the
                // blocks as clean. A change that this thread made now would then be lost.
                Lock::Locked(page) if self.is_writing(live, index..index + 1) => {
                    drop(page);
                    continue;
                }
                Lock::Locked(page) => return Ok(Some(OwnPage::Locked(page))),
                Lock::Pinned => continue,
                Lock::Busy(wait) => {
                    MemoryOnly::check_may_wait()?;
                    let waited = wait.wait(end);
                    waited.map_err(|StillBusy| self.inodes.caches.buffers.timed_out())?;
                    continue;
                }
                Lock::Absent => {}
            }
            match pages.get_or_insert(key) {
                Entry::Uptodate(_) => {}
                Entry::Busy(wait) => {
                    MemoryOnly::check_may_wait()?;
                    let waited = wait.wait(end);
                    waited.map_err(|StillBusy| self.inodes.caches.buffers.timed_out())?;
                }
                Entry::New(mut page) => {
                    if !is_whole {
                        let start_bytes = index * self.inodes.page_bytes();
                        if start_bytes < live.peek()?.size_bytes() {
                            MemoryOnly::check_may_wait()?;
                        }
                        let single = std::slice::from_mut(&mut page);
                        live.with_mapping(|inode| self.filler.fill(inode, start_bytes, single))?;
                    }
                    return Ok(Some(OwnPage::New(page)));
                }
                Entry::Full if rounds < ROUNDS => {
                    MemoryOnly::check_may_wait()?;
                    rounds += 1;
                    self.write_back.write_back_to_free_space();
                }
                Entry::Full => return Ok(None),
            }
        }
    }

    /// If page `index` is being written back, waits until the write-back has ended.
    fn wait_written(&self, live: &Live<'_>, index: u64) -> Result<()> {
        if self.is_writing(live, index..index + 1) {
            drop(live.lock_write_back()?);
        }
        Ok(())
    }

    /// Returns whether one of `pages` is being written back.
    fn is_writing(&self, live: &Live<'_>, pages: Range<u64>) -> bool {
        let per_page = self.inodes.blocks_per_page();
        let blocks = pages.start * per_page..pages.end.saturating_mul(per_page);
        let state = live.state();
        let writing = state.dirty.writing.as_ref();
        writing.is_some_and(|writing| writing.start < blocks.end && blocks.start < writing.end)
    }

    /// Sets `bytes` of the file to zero in the page cache, if their block is dirty or mapped as
    /// written. A read of any other block already returns zeros. `bytes` must be within one
    /// block.
    pub(crate) fn zero_in_block(&self, live: &Live<'_>, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let block = bytes.start / self.inodes.block_bytes();
        let is_content = {
            let _shared = live.lock_mapping()?;
            let mapping = self.inodes.mapping(&live.inode()?, block..block + 1)?;
            matches!(mapping.kind, MappingKind::Written(_))
        };
        if is_content || live.state().dirty.blocks.contains(block) {
            let change = Change {
                bytes,
                // Zero means that the file keeps its size.
                size_bytes: 0,
            };
            self.change_page(live, change, &mut |page| page.fill(0))?;
        }
        Ok(())
    }

    /// Sets the bytes of the last block past `size_bytes`, the end of the file, to zero. Without
    /// this, old content would appear in the file when the file grows. Must be called before the
    /// other changes of an operation.
    ///
    /// # Errors
    /// [`WouldWait`](Error::WouldWait) if there are such bytes. The change of the page cannot be undone,
    /// but the operation may have to wait later.
    pub(crate) fn zero_tail(&self, live: &Live<'_>, size_bytes: u64) -> Result<()> {
        let end = size_bytes.next_multiple_of(self.inodes.block_bytes());
        if end > size_bytes {
            MemoryOnly::check_may_wait()?;
        }
        self.zero_in_block(live, size_bytes..end)
    }
}
