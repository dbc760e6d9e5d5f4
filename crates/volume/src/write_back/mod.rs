//! Write-back of dirty pages to the device.
//!
//! Model: `ext4_writepages`. Dirty pages are written back in batches. A batch can contain pages of
//! several files, in the order of the inode numbers. Files that were created together often have
//! adjacent inode numbers and adjacent blocks. Pages that are contiguous on the device are written
//! with one device write, even if they belong to different files. The device reads the bytes from
//! the pages; they are not copied first.
//!
//! A batch is written in these steps:
//!
//! 1. Claim free blocks for the dirty blocks that are not mapped. This does not change the bitmap.
//! 2. Pin the pages of the dirty blocks. A pinned page cannot change.
//! 3. Write the content to the device. With `data=journal`, step 4 writes it to the journal instead.
//! 4. Map the claims, convert unwritten extents to written ones, and set the sizes of the files. One
//!    handle can do this for many files.
//! 5. Mark the blocks as clean.
//!
//! A claim is a run of free blocks that is assigned to one file, in memory only. The bitmap changes
//! when a handle maps the claim. A piece is a run of a file's blocks that is contiguous on the
//! device. The blocks of a piece are of one of three kinds: mapped as written, mapped as unwritten,
//! or claimed. Only blocks that are mapped as written are overwritten in place, and so need no step 4.
//!
//! # Locking
//! Write-back holds the `writeback` lock of each of its files from start to end. It locks the files
//! in the order of their inode numbers. A thread that truncates a file or changes its mapping also
//! holds `writeback`. Therefore write-back can read the mapping without the `map` lock, and never
//! writes a page that a truncation removes. Write-back holds `map` exclusively while a handle
//! changes the mapping.

pub(crate) mod flusher;
pub(crate) mod place;
pub(crate) mod retry;
mod wakeup;

use crate::dirty::{BlockSet, DirtyLimits};
use crate::live::{Inodes, Live, key};
use crate::{Error, Result};
use larder_block::BlockDevice;
use larder_cache::page::{Entry, OwnedPage, Page, PageParts};
use larder_ext4::{Ino, MemoryOnly, Reservation};
use place::{Piece, Written, map_written, place};
use retry::retry_after_commit;
use std::collections::{BTreeMap, VecDeque, btree_map};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use wakeup::{FlusherSignal, FlusherWakeup};

/// The maximum number of pages in one batch. The limit is lower if the page cache is small.
const BATCH_PAGES: u32 = 1024;

/// The maximum number of files that are locked and written back together. All pages of a batch belong
/// to these files.
const BATCH_FILES: usize = 64;

/// Contiguous pieces are joined up to this number of bytes. One piece alone may be longer.
const WRITE_BYTES: usize = 4 << 20;

/// Writes back dirty pages, and limits the number of dirty blocks. Write-back changes no page
/// content, and does not depend on `crate::write`, whose operations change content.
#[derive(Debug)]
pub(crate) struct WriteBack {
    inodes: Arc<Inodes>,
    /// The device that contains the image.
    device: Arc<dyn BlockDevice>,
    limits: DirtyLimits,
    wakeup: FlusherWakeup,
}

/// Whether write-back writes an inode in which only the times changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// The times are written.
    Written,
    /// The times may be written later, as for fdatasync.
    Deferred,
}

/// How a writer limits the number of dirty blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Balance {
    /// The writer performs the write-back.
    Write,
    /// The writer must not wait, so it only wakes the flusher. If the flusher is too slow,
    /// [`WriteBack::begin_balance`] fails for later writers that must not wait. A thread that may wait must
    /// then repeat the write.
    Wake,
}

/// A file, and the range of its blocks to write back. Only the dirty blocks in the range are
/// written.
type Part<'r> = (&'r Live<'r>, Range<u64>);

/// The file ranges that a batch has started to write back. Dropping the guard ends the write-back
/// of these files, even if the thread panics.
struct BatchGuard<'b, 'r>(&'b mut Vec<Part<'r>>);

impl Drop for BatchGuard<'_, '_> {
    fn drop(&mut self) {
        for (live, _) in self.0.iter() {
            live.state().dirty.writing = None;
            // Blocks that were claimed but not mapped stay dirty, and need a new reservation.
            live.settle_reservation();
        }
    }
}

/// The part of a file that one batch writes.
struct FileBatch<'r> {
    live: &'r Live<'r>,
    pages: BTreeMap<u64, Arc<OwnedPage>>,
    pieces: VecDeque<Piece>,
    /// The size that the inode on the image gets when the batch is mapped, unless its size is already larger.
    size_bytes: u64,
}

/// A contiguous run of bytes on the device.
struct DeviceWrite {
    offset_bytes: u64,
    len_bytes: usize,
    parts: PageParts,
}

impl WriteBack {
    /// Creates the state of write-back for `inodes`. `has_flusher` specifies whether a flusher
    /// thread will run.
    pub(crate) fn new(
        inodes: &Arc<Inodes>,
        device: &Arc<dyn BlockDevice>,
        has_flusher: bool,
    ) -> Self {
        let frames = u64::from(inodes.caches.pages.frames().capacity());
        Self {
            inodes: Arc::clone(inodes),
            device: Arc::clone(device),
            limits: DirtyLimits::new(frames * inodes.blocks_per_page(), has_flusher),
            wakeup: FlusherWakeup::default(),
        }
    }

    /// Decides how a writer will limit the number of dirty blocks. The writer must call this before the
    /// write, and pass the result to [`WriteBack::balance_dirty`] after the write.
    ///
    /// # Errors
    /// [`WouldWait`](larder_ext4::Error::WouldWait) if this thread must not wait, but the number
    /// of dirty blocks is so high that writers must write back.
    pub(crate) fn begin_balance(&self) -> Result<Balance> {
        if !MemoryOnly::is_active() {
            return Ok(Balance::Write);
        }
        if self.inodes.dirty_files.blocks() > self.limits.writer_blocks {
            MemoryOnly::check_may_wait()?;
        }
        Ok(Balance::Wake)
    }

    /// If too many blocks are dirty, writes back or wakes the flusher. A writer calls this after a
    /// write, when it holds no locks.
    pub(crate) fn balance_dirty(&self, balance: Balance) {
        let dirty = self.inodes.dirty_files.blocks();
        if dirty > self.limits.writer_blocks && balance == Balance::Write {
            self.write_back_to_free_space();
        } else if dirty > self.limits.background_blocks {
            self.wakeup.send(FlusherSignal::WriteBack);
        }
    }

    /// Writes back all files. This reduces the number of dirty blocks, and releases space that was
    /// reserved for the worst case but not needed. Errors are logged and not returned. Content that
    /// could not be written stays dirty, and the next fsync of the file tries to write it again,
    /// and returns the error if that fails.
    pub(crate) fn write_back_to_free_space(&self) {
        if let Err(error) = self.write_all() {
            self.background_failed(&error);
        }
    }

    /// Calls `run`. If `run` fails for lack of blocks, writes back all files as
    /// [`WriteBack::write_back_to_free_space`] does, to release reserved space that is not needed. Then calls
    /// `run` again through [`retry_after_commit`]. The caller must not hold `writeback` of any file.
    pub(crate) fn retry_after_write_back<R>(
        &self,
        mut run: impl FnMut() -> Result<R>,
    ) -> Result<R> {
        match run() {
            Err(error) if error.is_no_space() => {
                MemoryOnly::check_may_wait()?;
                self.write_back_to_free_space();
                retry_after_commit(&self.inodes.fs, run)
            }
            done => done,
        }
    }

    /// Logs an error of background work. If the error reports corruption, also acts as `errors=`
    /// specifies.
    fn background_failed(&self, error: &Error) {
        tracing::error!(%error, "write-back failed");
        self.inodes.handle_damage(error);
    }

    /// Writes back all files and then commits, even if some files could not be written.
    ///
    /// # Errors
    /// Returns the first error.
    pub(crate) fn write_all_and_commit(&self) -> Result<()> {
        let written = self.write_all();
        let fs = &self.inodes.fs;
        let committed = fs.running_tid().and_then(|tid| fs.commit(tid));
        written.and(committed.map_err(Into::into))
    }

    /// Writes back the present content of all files, in the order of their inode numbers.
    ///
    /// # Errors
    /// Returns the first error. The other files are still written, unless the file system cannot be
    /// written any more.
    pub(crate) fn write_all(&self) -> Result<()> {
        let mut result = Ok(());
        for group in self.inodes.dirty_files.files().chunks(BATCH_FILES) {
            let mut lives = Vec::with_capacity(group.len());
            for ino in group {
                match self.inodes.live(*ino) {
                    Ok(live) => lives.push(live),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            result = result.and(self.write_files(&lives, Times::Written));
        }
        result
    }

    /// Writes back one file.
    pub(crate) fn write_file(&self, live: &Live<'_>) -> Result<()> {
        self.write_files(std::slice::from_ref(live), Times::Written)
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.inodes.block_bytes()
    }

    /// Writes content to the device, at `offset_bytes` of the device. A failed write aborts the
    /// journal, so that no metadata that refers to the unwritten content can be committed.
    pub(crate) fn write_to_device(&self, bytes: &[u8], offset_bytes: u64) -> Result<()> {
        let written = self.device.write_at(bytes, offset_bytes);
        written.map_err(|error| self.content_failed(error))
    }

    /// Writes content like [`WriteBack::write_to_device`], from several buffers.
    pub(crate) fn write_vectored_to_device(
        &self,
        bufs: &[IoSlice<'_>],
        offset_bytes: u64,
    ) -> Result<()> {
        let written = self.device.write_vectored_at(bufs, offset_bytes);
        written.map_err(|error| self.content_failed(error))
    }

    fn content_failed(&self, error: larder_block::Error) -> Error {
        let error = larder_ext4::Error::from(error);
        self.inodes.fs.abort(&error);
        error.into()
    }

    /// Writes back the files `lives`, which must be in the order of their inode numbers. Writes
    /// back each file up to the block that is its last dirty block at the start of the call.
    /// Without this limit, a program that continuously appends to one file could delay the
    /// write-back of the other files forever.
    ///
    /// # Errors
    /// Returns the first error. The other files are still written, unless the file system cannot
    /// be written any more. Content that could not be written stays dirty.
    pub(crate) fn write_files(&self, lives: &[Live<'_>], times: Times) -> Result<()> {
        if lives.iter().all(|live| !live.is_dirty()) && MemoryOnly::is_active() {
            return Ok(());
        }
        MemoryOnly::check_may_wait()?;
        let _exclusive: Vec<_> = lives.iter().map(|live| live.writeback.lock()).collect();
        let mut result = Ok(());
        // Skip clean inodes: they need no write-back, and may have been deleted before `writeback`
        // was locked.
        let dirty = lives.iter().filter(|live| live.is_dirty());
        let parts = dirty.map(|live| (live, 0..live.state().dirty.blocks.end()));
        let mut queue: VecDeque<Part<'_>> = parts.collect();
        while !queue.is_empty() {
            let mut begun = Vec::new();
            match self.write_next_batch(&mut queue, &mut begun, times) {
                Ok(Some(next)) => queue.push_front(next),
                Ok(None) => {}
                Err(error) if !self.inodes.fs.is_writable() => return result.and(Err(error)),
                // At least one file of this batch cannot be written. Write each file on its own, so
                // that the other files are written.
                Err(_) => {
                    for (live, blocks) in begun {
                        result = result.and(self.write_single_file(live, blocks, times));
                    }
                }
            }
        }
        result
    }

    /// Removes ranges from the front of `queue`, and writes them back as one batch. The batch can end inside a range:
    /// if it is full, or if a claim must be mapped before the next blocks are placed. The remaining part of this range
    /// is then returned. Appends the removed ranges to `begun`, even on an error.
    fn write_next_batch<'r>(
        &'r self,
        queue: &mut VecDeque<Part<'r>>,
        begun: &mut Vec<Part<'r>>,
        times: Times,
    ) -> Result<Option<Part<'r>>> {
        let begun = BatchGuard(begun);
        let cache_share = self.inodes.caches.pages.frames().capacity() / 8;
        let mut pages_left = cache_share.clamp(1, BATCH_PAGES) as usize;
        let mut rest = None;
        let mut batch = Vec::new();
        while pages_left > 0
            && rest.is_none()
            && let Some((live, blocks)) = queue.pop_front()
        {
            begun.0.push((live, blocks.clone()));
            let (file, next) = self.gather(live, blocks.clone(), pages_left)?;
            pages_left = pages_left.saturating_sub(file.pages.len());
            batch.push(file);
            rest = next.map(|next| (live, next..blocks.end));
        }
        self.write_batch(batch, times)?;
        Ok(rest)
    }

    /// Writes back `blocks` of one file. If space runs out, commits to make freed blocks available,
    /// and tries again.
    fn write_single_file(&self, live: &Live<'_>, blocks: Range<u64>, times: Times) -> Result<()> {
        let mut next = Some((live, blocks));
        while let Some(part) = next {
            next = retry_after_commit(&self.inodes.fs, || {
                let mut queue = VecDeque::from([part.clone()]);
                self.write_next_batch(&mut queue, &mut Vec::new(), times)
            })?;
        }
        Ok(())
    }

    /// Pins pages of the file that have dirty blocks in `blocks`, at most `max_pages` of them, and
    /// assigns device blocks to these dirty blocks. If dirty blocks in `blocks` remain, also returns
    /// the block at which the next batch must continue.
    fn gather<'r>(
        &'r self,
        live: &'r Live<'r>,
        blocks: Range<u64>,
        max_pages: usize,
    ) -> Result<(FileBatch<'r>, Option<u64>)> {
        let per_page = self.inodes.blocks_per_page();
        let (runs, next, present_bytes, is_last, mut reservation) = {
            let mut state = live.loaded()?;
            let present_bytes = live.present_in(&mut state)?.size_bytes();
            let is_dirty_after = state.dirty.blocks.run_from(blocks.end).is_some();
            let (runs, next) = first_pages(&state.dirty.blocks, blocks, max_pages as u64, per_page);
            // Only the batch that writes the last dirty blocks sets the inode on the image to the
            // present size of the file. Earlier batches do not extend it past the content that they write.
            let is_last = next.is_none() && !is_dirty_after;
            if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
                state.dirty.writing = Some(first.start..last.end);
            }
            let reservation = state.dirty.reservation.take();
            (runs, next, present_bytes, is_last, reservation)
        };
        let placed = self.place_runs(live, &runs, reservation.as_mut());
        if let Some(reservation) = reservation {
            live.state().dirty.add_reservation(reservation);
        }
        let (pieces, stopped_at) = placed?;
        let end = stopped_at.unwrap_or(u64::MAX);
        let mut pages = BTreeMap::new();
        for run in runs {
            let run = run.start..run.end.min(end);
            for index in run.start / per_page..run.end.div_ceil(per_page) {
                if let btree_map::Entry::Vacant(entry) = pages.entry(index) {
                    let page = self.pin_dirty(live.ino(), index)?;
                    let frames = self.inodes.caches.pages.frames();
                    entry.insert(Arc::new(page.into_owned(frames)));
                }
            }
        }
        let is_last = is_last && stopped_at.is_none();
        let written_to = pieces.back().map_or(0, |piece| piece.blocks.end);
        let file = FileBatch {
            live,
            pages,
            pieces,
            size_bytes: if is_last {
                present_bytes
            } else {
                present_bytes.min(written_to.saturating_mul(self.inodes.block_bytes()))
            },
        };
        Ok((file, stopped_at.or(next)))
    }

    /// Assigns device blocks to `runs`. If a run begins in a cluster in which the preceding piece ends,
    /// and that piece is not overwritten in place, the piece must be mapped first. This function then
    /// stops before the run, and also returns the first file block of the run.
    fn place_runs(
        &self,
        live: &Live<'_>,
        runs: &[Range<u64>],
        mut reservation: Option<&mut Reservation>,
    ) -> Result<(VecDeque<Piece>, Option<u64>)> {
        let cluster_log2 = self.inodes.fs.superblock().cluster_blocks_log2;
        let inode = live.inode()?;
        let mut pieces: VecDeque<Piece> = VecDeque::new();
        for run in runs {
            let shares_cluster = |last: &Piece| {
                !last.is_overwrite()
                    && (last.blocks.end - 1) >> cluster_log2 == run.start >> cluster_log2
            };
            if cluster_log2 > 0 && pieces.back().is_some_and(shares_cluster) {
                return Ok((pieces, Some(run.start)));
            }
            let reservation = reservation.as_deref_mut();
            pieces.extend(place(&self.inodes, &inode, run.clone(), reservation)?);
        }
        Ok((pieces, None))
    }

    /// Pins and returns the dirty page `index`. A pinned page cannot change.
    pub(crate) fn pin_dirty(&self, ino: Ino, index: u64) -> Result<Page<'_>> {
        let page = loop {
            match self.inodes.caches.pages.get_or_insert(key(ino, index)) {
                Entry::Uptodate(page) => break page,
                Entry::Busy(wait) => {
                    // A writer has locked the page to change it. While it holds this
                    // lock, the writer does not wait for the device, so no timeout is needed here.
                    if let Ok(Some(page)) = wait.wait(None) {
                        break page;
                    }
                }
                Entry::New(_) | Entry::Full => {
                    return Err(self
                        .inodes
                        .fs
                        .broken("a dirty page is not in the page cache")
                        .into());
                }
            }
        };
        let what = "a page with dirty blocks is not marked dirty";
        self.inodes.fs.ensure(page.is_dirty(), what)?;
        Ok(page)
    }

    /// Writes the content of a batch to the device or, with data=journal, through the journal. Maps
    /// the blocks, and marks them as clean.
    fn write_batch(&self, mut batch: Vec<FileBatch<'_>>, times: Times) -> Result<()> {
        let journals_content = self.inodes.fs.journals_content();
        if !journals_content {
            let writes = self.device_writes(&batch)?.into_iter();
            let writes = writes.map(|write| (write.offset_bytes, write.parts));
            larder_block::write_all(&*self.device, writes)
                .map_err(|error| self.content_failed(error))?;
        }
        let mut to_map = VecDeque::new();
        let mut locks = Vec::new();
        for file in &mut batch {
            let live = file.live;
            if !journals_content {
                // The pages need no pins any more: before a thread changes one of them, it waits
                // for the end of the write-back.
                file.pages.clear();
                // Blocks that were overwritten in place need no new mapping, so they can be marked
                // as clean now.
                for piece in file.pieces.iter().filter(|piece| piece.is_overwrite()) {
                    live.mark_written_back(piece.blocks.clone())?;
                }
                file.pieces.retain(|piece| !piece.is_overwrite());
            }
            let is_longer = live.inode()?.size_bytes() < file.size_bytes;
            let has_times = times == Times::Written && live.has_times();
            if !file.pieces.is_empty() || is_longer || has_times {
                locks.push(live.change_mapping()?);
                to_map.push_back(Written {
                    live,
                    pieces: std::mem::take(&mut file.pieces),
                    size_bytes: file.size_bytes,
                    content: journals_content.then_some(&file.pages),
                });
            }
        }
        let mut marked = Ok(());
        map_written(&self.inodes, to_map, |live, mapped| {
            for blocks in mapped {
                let clean = live.mark_written_back(blocks.clone());
                marked = std::mem::replace(&mut marked, Ok(())).and(clean);
            }
        })?;
        marked
    }

    /// Returns the device writes for the pieces of `batch`, in the order of their device offsets.
    /// Pieces that are contiguous on the device are joined, up to `WRITE_BYTES`.
    fn device_writes(&self, batch: &[FileBatch<'_>]) -> Result<Vec<DeviceWrite>> {
        let block_bytes = self.inodes.block_bytes();
        let mut writes: Vec<DeviceWrite> = Vec::new();
        for file in batch {
            for piece in &file.pieces {
                let parts = self.parts(file, &piece.blocks);
                let write = DeviceWrite {
                    offset_bytes: piece.start().0 * block_bytes,
                    len_bytes: parts.len_bytes(),
                    parts,
                };
                let blocks = piece.blocks.end - piece.blocks.start;
                let what = "the bytes to write do not match the blocks to map";
                let is_whole = write.len_bytes as u64 == blocks * block_bytes;
                self.inodes.fs.ensure(is_whole, what)?;
                writes.push(write);
            }
        }
        writes.sort_by_key(|write| write.offset_bytes);
        let mut merged: Vec<DeviceWrite> = Vec::with_capacity(writes.len());
        for mut write in writes {
            match merged.last_mut() {
                Some(last)
                    if last.offset_bytes + last.len_bytes as u64 == write.offset_bytes
                        && last.len_bytes + write.len_bytes <= WRITE_BYTES =>
                {
                    last.len_bytes += write.len_bytes;
                    last.parts.append(&mut write.parts);
                }
                _ => merged.push(write),
            }
        }
        Ok(merged)
    }

    /// Returns the content of `blocks`, as parts of the pages of `file`.
    fn parts(&self, file: &FileBatch<'_>, blocks: &Range<u64>) -> PageParts {
        let (block_bytes, page_bytes) = (self.inodes.block_bytes(), self.inodes.page_bytes());
        let bytes = blocks.start * block_bytes..blocks.end * block_bytes;
        let indexes = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        let mut parts = PageParts::default();
        for (index, page) in file.pages.range(indexes) {
            let start = index * page_bytes;
            let in_page = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(0);
            let end = in_page(bytes.end).min(page.len());
            parts.push(page, in_page(bytes.start)..end);
        }
        parts
    }
}

/// Returns the dirty runs in `blocks`, limited to the first `max_pages` pages that contain dirty blocks.
/// If runs remain, also returns the block at which to continue.
fn first_pages(
    dirty: &BlockSet,
    blocks: Range<u64>,
    max_pages: u64,
    per_page: u64,
) -> (Vec<Range<u64>>, Option<u64>) {
    let mut runs: Vec<Range<u64>> = Vec::new();
    let mut left = max_pages;
    // The first page that is not counted yet. Two runs can share a page, which must be counted only once.
    let mut counted = 0;
    for run in dirty.runs_in(blocks) {
        let first = (run.start / per_page).max(counted);
        let last = run.end.div_ceil(per_page);
        let pages = last.saturating_sub(first);
        if pages > left {
            let end = (first + left) * per_page;
            if end > run.start {
                runs.push(run.start..end);
            }
            return (runs, Some(end.max(run.start)));
        }
        left -= pages;
        counted = last;
        runs.push(run);
    }
    (runs, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NewFile, OpenOptions, Volume};
    use larder_block::MemoryDevice;
    use larder_testkit::crash::LAYOUTS;
    use larder_testkit::{Requirement, skip};

    const BLOCK: usize = 4096;
    const NEW: NewFile = NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };

    /// Creates a durable file and a dirty file. Passes the dirty file to `violate`, which violates
    /// an invariant. Asserts that the error contains `what`, that all writing stops, and that the
    /// durable content is preserved.
    fn assert_stops_writing(what: &str, violate: impl Fn(&WriteBack, &Live<'_>) -> Result<()>) {
        if skip(&["mke2fs"].map(Requirement::Tool)) {
            return;
        }
        let base = LAYOUTS[0].base().unwrap().to_vec();
        let device = Arc::new(MemoryDevice::new(base));
        let options = OpenOptions {
            read_write: true,
            background: false,
            ..OpenOptions::default()
        };
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let kept = volume.create(Ino::ROOT, b"kept", &NEW).unwrap().ino;
        volume.write_at(kept, &[7; BLOCK], 0).unwrap();
        volume.sync().unwrap();
        let ino = volume.create(Ino::ROOT, b"dirty", &NEW).unwrap().ino;
        volume.write_at(ino, &[8; 4 * BLOCK], 0).unwrap();
        {
            let live = volume.live(ino).unwrap();
            let error = violate(volume.writer.write_back(), &live).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
        let error = volume.write_at(kept, &[9; BLOCK], 0).unwrap_err();
        assert_eq!(error.errno(), rustix::io::Errno::ROFS, "{error}");
        let error = volume.sync_file(kept, false).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert!(volume.close().is_err());
        drop(volume);
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(&mut bytes, 0).unwrap();
        let again = Arc::new(MemoryDevice::new(bytes));
        let volume = Volume::open_device(again, &options).unwrap();
        let mut block = [0; BLOCK];
        assert_eq!(volume.read_at(kept, &mut block, 0).unwrap(), BLOCK);
        assert_eq!(block, [7; BLOCK]);
    }

    #[test]
    fn dirty_page_missing_from_the_cache_stops_writing() {
        assert_stops_writing(
            "a dirty page is not in the page cache",
            |write_back, live| {
                live.discard_pages(0..1);
                write_back.write_file(live)
            },
        );
    }

    #[test]
    fn page_with_dirty_blocks_not_marked_dirty_stops_writing() {
        assert_stops_writing("is not marked dirty", |write_back, live| {
            write_back.inodes.caches.pages.set_clean(key(live.ino(), 1));
            write_back.write_file(live)
        });
    }

    #[test]
    fn marking_an_unwritten_block_clean_stops_writing() {
        assert_stops_writing("that it did not write", |_, live| {
            live.mark_written_back(0..1)
        });
    }

    /// Claims the first two blocks of the file, applies `change` to the pieces, and maps them with
    /// the file size `size_bytes`.
    fn map(
        write_back: &WriteBack,
        live: &Live<'_>,
        size_bytes: u64,
        change: impl Fn(&mut Piece),
    ) -> Result<()> {
        let _exclusive = live.writeback.lock();
        let mut pieces = place(&write_back.inodes, &live.inode()?, 0..2, None)?;
        pieces.iter_mut().for_each(change);
        let _map = live.map.write();
        let written = Written {
            live,
            pieces: pieces.into(),
            size_bytes,
            content: None,
        };
        map_written(&write_back.inodes, [written].into(), |_, _| {})
    }

    #[test]
    fn mapping_of_more_than_was_written_stops_writing() {
        assert_stops_writing(
            "do not match the blocks that were written",
            |write_back, live| map(write_back, live, 0, |piece| piece.blocks.end -= 1),
        );
    }

    #[test]
    fn mapped_size_past_file_size_stops_writing() {
        assert_stops_writing("exceeds the size of the file", |write_back, live| {
            map(write_back, live, 100 * BLOCK as u64, |_| {})
        });
    }

    #[test]
    fn device_write_of_less_than_will_be_mapped_stops_writing() {
        assert_stops_writing("the bytes to write do not match", |write_back, live| {
            let _exclusive = live.writeback.lock();
            let (mut file, _) = write_back.gather(live, 0..4, 4)?;
            file.pages.pop_last();
            write_back.write_batch(vec![file], Times::Written)
        });
    }
}
