//! The buffer cache: metadata blocks, found by device and block number.
//!
//! # Model
//! `sb_bread` over the page cache of the block device. A frame, the memory of one page, contains as many
//! neighbouring blocks as fit. These blocks are read together. Since the blocks of a frame belong to
//! different structures, each block has a bit that records that its contents were verified, for example by a
//! checksum. The bits are stored in the slot, so they are discarded with the frame.
//!
//! # Bad blocks
//! If the read of a frame fails, the requested block is read alone, bypassing the cache. So a bad sector
//! does not make its neighbours unreadable.
//!
//! # Timeouts
//! A thread that waits for the device, or for another thread that reads the same frame, gives up after
//! [`BlockDevice::timeout`].
//!
//! # Writing
//! [`BufferCache::set_dirty`] and [`BufferCache::edit_dirty`] change blocks in memory only. Only one journal
//! handle at a time calls them. The journal decides when the blocks are written to the device. After the
//! write, the journal calls [`BufferCache::clean`], and readers find the blocks in frames again.
//!
//! # Reading without waiting
//! [`BufferCache::read_in_memory`] does not wait for the device, nor for another thread that reads the same
//! frame. A thread that must not wait calls this function. When it may wait again, it calls
//! [`BufferCache::hold`] to read the missing blocks. Held blocks stay in memory, however small the cache is.
//!
//! # The end of the device
//! The device may end inside a frame. The bytes of the frame after the end are zeros, but are never returned.
//! A read of a block that is not completely on the device returns the device's error.
//!
//! # Cost
//! A hit pins the frame. It takes no lock while no block is dirty. Otherwise it first searches the dirty
//! blocks, and locks one of 64 parts of them for this search. [`crate::page`] describes the cost of frames.

mod dirty;
mod held;

use crate::page::{
    Entry, Frames, FramesConfig, NewPage, Page, PageCache, PageKey, PagesToRead, StillBusy,
};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use dirty::DirtyBuffers;
use held::HeldBuffers;
use larder_block::{BlockDevice, Priority, Request};
use std::io::IoSliceMut;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

/// The number that stands for the device in keys. A cache has only one device.
const DEVICE: u64 = 0;

/// The number of frames of [`BufferCache::small`].
const SMALL_FRAMES: u32 = 64;

/// The largest number of bytes that one call of [`BufferCache::prefetch`] reads.
const PREFETCH_MAX_BYTES: usize = 1 << 20;

/// At most 1/`PREFETCH_BUDGET_DIVISOR` of the cache may be read ahead at once.
const PREFETCH_BUDGET_DIVISOR: usize = 8;

/// The buffer cache of a device.
#[derive(Debug)]
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    block_size_bytes: usize,
    pages: PageCache,
    dirty: DirtyBuffers,
    held: HeldBuffers,
}

/// The contents of a block. They do not change while this value exists, and have the length of a
/// file-system block.
#[derive(Debug)]
pub struct Buffer<'a> {
    contents: Contents<'a>,
    block: Range<usize>,
}

#[derive(Debug)]
enum Contents<'a> {
    /// The frame of the block, pinned.
    Cached(Page<'a>),
    /// Contents that were read from the device without the cache.
    Own(Box<[u8]>),
    /// A version of the contents of a dirty or held block.
    Shared(Arc<[u8]>),
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.contents {
            Contents::Cached(frame) => &frame[self.block.clone()],
            Contents::Own(bytes) => bytes,
            Contents::Shared(bytes) => bytes,
        }
    }
}

impl BufferCache {
    /// Creates a separate cache of a few blocks of `device`, with which the journal is read before the caches
    /// of the volume are created.
    ///
    /// # Panics
    /// If the block size is invalid for [`BufferCache::new`], or if there is not enough memory.
    #[must_use]
    pub fn small(device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        let config = FramesConfig {
            buffer_bits: SMALL_FRAMES.ilog2(),
            ..FramesConfig::of_pages(block_size_bytes.max(4096), SMALL_FRAMES, 0)
        };
        let frames = Frames::new(&config).expect("memory for a few blocks");
        Self::new(Arc::new(frames), device, block_size_bytes)
    }

    /// Creates the buffer cache of `device`, which stores blocks in `frames`.
    ///
    /// # Panics
    /// If the block size is not a power of two, or a frame does not consist of 1 to 32 blocks.
    #[must_use]
    pub fn new(frames: Arc<Frames>, device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        let frame_bytes = frames.frame_bytes();
        assert!(
            block_size_bytes.is_power_of_two()
                && block_size_bytes <= frame_bytes
                && frame_bytes / block_size_bytes <= 32,
            "blocks of {block_size_bytes} bytes do not fit frames of {frame_bytes} bytes"
        );
        Self {
            device,
            block_size_bytes,
            pages: PageCache::of_buffers(frames),
            dirty: DirtyBuffers::new(),
            held: HeldBuffers::new(),
        }
    }

    /// Returns the size of a block in bytes.
    #[must_use]
    #[inline]
    pub fn block_size_bytes(&self) -> usize {
        self.block_size_bytes
    }

    /// Returns the size of the device in bytes.
    #[must_use]
    pub fn device_size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    /// Returns the time after which a thread stops waiting for the device, or `None` if there is no limit.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.device.timeout()
    }

    /// Returns the contents of `block`. Reads the block from the device if it is not cached.
    ///
    /// `verify` checks the contents, for example a checksum. It is called unless an earlier call has
    /// succeeded for the same cached contents. So each read of a damaged block fails. A dirty block is not
    /// checked, since Larder wrote its contents.
    ///
    /// # Errors
    /// Returns the error of the device or of `verify`.
    #[inline]
    pub fn read<E: From<larder_block::Error>>(
        &self,
        block: u64,
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Buffer<'_>, E> {
        let place = self.place(block);
        let key = frame_key(place.frame);
        if let Some(bytes) = self.dirty.get(block) {
            return Ok(self.shared(bytes));
        }
        let buffer = match self.pages.get(key) {
            // If the device ends inside the frame, the block may not be completely on the device.
            Some(frame) if self.is_inside(block) => place.buffer(frame),
            _ => self.read_slow(block, &place)?,
        };
        verified(buffer, &place, verify)
    }

    /// Returns the contents of `block` as [`BufferCache::read`] does, if they are in memory: dirty, cached,
    /// or held. Returns `None` instead of waiting for the device or for another thread's read.
    ///
    /// # Errors
    /// Returns the error of `verify`.
    pub fn read_in_memory<E>(
        &self,
        block: u64,
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Option<Buffer<'_>>, E> {
        let place = self.place(block);
        if let Some(bytes) = self.dirty.get(block) {
            return Ok(Some(self.shared(bytes)));
        }
        let buffer = match self.pages.get(frame_key(place.frame)) {
            Some(frame) if self.is_inside(block) => place.buffer(frame),
            _ => match self.held.get(block) {
                Some(bytes) => self.shared(bytes),
                None => return Ok(None),
            },
        };
        verified(buffer, &place, verify).map(Some)
    }

    /// Reads `block` from the device if it is not in memory, and keeps its contents in memory until
    /// [`BufferCache::release`], whatever the cache evicts and whichever blocks are written meanwhile.
    ///
    /// # Errors
    /// Returns the device's error. The block is then not held.
    pub fn hold(&self, block: u64) -> larder_block::Result<()> {
        self.held.add(block);
        match self.read(block, |_| Ok::<(), larder_block::Error>(())) {
            Ok(buffer) => {
                // For a dirty block, `clean` sets the held contents.
                if !matches!(buffer.contents, Contents::Shared(_)) {
                    self.held.set_read(block, || Arc::from(&*buffer));
                }
                Ok(())
            }
            Err(error) => {
                self.held.remove(block);
                Err(error)
            }
        }
    }

    /// Ends a hold of `block`.
    pub fn release(&self, block: u64) {
        self.held.remove(block);
    }

    fn shared(&self, bytes: Arc<[u8]>) -> Buffer<'_> {
        Buffer {
            contents: Contents::Shared(bytes),
            block: 0..self.block_size_bytes,
        }
    }

    /// Returns true if the frame of `block` is cached or being read. This does not count as a lookup.
    #[must_use]
    pub fn contains(&self, block: u64) -> bool {
        let frame = self.place(block).frame;
        self.pages.contains(frame_key(frame))
    }

    /// Reads `count` blocks, starting with `block`, before they are needed. Skips cached blocks, and
    /// combines neighbouring blocks in one device read. Long ranges are truncated. Errors are ignored,
    /// since [`BufferCache::read`] will report them.
    pub fn prefetch(&self, block: u64, count: u32) {
        // The limit prevents a prefetch from evicting frames that it has read.
        let mut most = (PREFETCH_MAX_BYTES / self.pages.page_bytes())
            .min(self.pages.frames().capacity() as usize / 4)
            .max(1);
        let range = block..block.saturating_add(count.into());
        for (first, run) in self.insert_absent(&range, &mut most) {
            self.fill(run, first);
        }
    }

    /// Returns the number of frames that may be read ahead at once: an eighth of the cache.
    #[must_use]
    pub fn prefetch_budget(&self) -> usize {
        self.pages.frames().capacity() as usize / PREFETCH_BUDGET_DIVISOR
    }

    /// Submits requests that read the blocks of `ranges`, before they are needed. Skips cached blocks. All
    /// requests are in flight at once. A request that fails has no effect, since [`BufferCache::read`] will
    /// report the error.
    ///
    /// Reads at most `budget` frames, and subtracts their number from `budget`. If no frame is free, stops and
    /// sets `budget` to 0.
    pub fn start_prefetch(&self, ranges: &[Range<u64>], priority: Priority, budget: &mut usize) {
        let most_in_run = PREFETCH_MAX_BYTES / self.pages.page_bytes();
        let mut requests = Vec::new();
        for range in ranges {
            for (mut first, mut run) in self.insert_absent(range, budget) {
                while !run.is_empty() {
                    let rest = run.split_off(run.len().min(most_in_run));
                    let next = first + run.len() as u64;
                    requests.push(self.request(run, first).with_priority(priority));
                    (first, run) = (next, rest);
                }
            }
        }
        if !requests.is_empty() {
            self.device.submit(requests);
        }
    }

    /// Inserts the frames of the blocks in `range` that are not cached. Examines at most the first `budget`
    /// frames of the range, and subtracts the number of inserted frames from `budget`. If no frame is free,
    /// sets `budget` to 0. Returns runs of neighbouring frames, each with the number of its first frame.
    fn insert_absent(&self, range: &Range<u64>, budget: &mut usize) -> Vec<(u64, Vec<NewPage>)> {
        let mut runs: Vec<(u64, Vec<NewPage>)> = Vec::new();
        if range.is_empty() {
            return runs;
        }
        let frames = self.place(range.start).frame..=self.place(range.end - 1).frame;
        for frame in frames.take(*budget) {
            if self.offset_bytes(frame) >= self.device.size_bytes() {
                break;
            }
            let Some(new) = self.pages.insert_absent(frame_key(frame)) else {
                if self.pages.contains(frame_key(frame)) {
                    continue;
                }
                *budget = 0;
                break;
            };
            *budget -= 1;
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u64 == frame => run.push(new),
                _ => runs.push((frame, vec![new])),
            }
        }
        runs
    }

    /// Returns a request that reads the frames of `run`, the first of which has the number `first`. If the
    /// request fails, the frames are dropped.
    fn request(&self, mut run: Vec<NewPage>, first: u64) -> Request {
        let mut len_bytes = 0;
        for (frame, new) in (first..).zip(&mut run) {
            let inside = self.frame_len_bytes(frame);
            new[inside..].fill(0);
            len_bytes += inside;
        }
        let read = PagesToRead::new(run, 0..len_bytes);
        Request::read(read, self.offset_bytes(first), |read, result| {
            if result.is_ok() {
                read.into_pages().into_iter().for_each(NewPage::complete);
            }
        })
    }

    /// Returns the contents of `block` if it is dirty.
    #[must_use]
    pub fn dirty(&self, block: u64) -> Option<Arc<[u8]>> {
        self.dirty.get(block)
    }

    /// Returns the number of dirty blocks.
    #[must_use]
    pub fn dirty_count(&self) -> u64 {
        self.dirty.len()
    }

    /// Sets the contents of `block`, which becomes dirty. Returns its previous dirty contents.
    ///
    /// # Panics
    /// If `contents` are not as long as a block.
    pub fn set_dirty(&self, block: u64, contents: Arc<[u8]>) -> Option<Arc<[u8]>> {
        assert_eq!(contents.len(), self.block_size_bytes, "length of a block");
        self.dirty.set(block, contents)
    }

    /// Changes `block` with `edit` if it is dirty. Returns the result of `edit`, or `None` if the block is not
    /// dirty. Earlier versions of the contents that other threads use do not change.
    pub fn edit_dirty<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.dirty.edit(block, edit)
    }

    /// Makes `block` clean after `written` was written to the device. Returns false and has no effect if the
    /// block no longer has the contents `written`, or if a reader has pinned the frame of the block, which
    /// has older contents.
    pub fn clean(&self, block: u64, written: &Arc<[u8]>) -> bool {
        self.dirty.remove(block, |contents| {
            let is_clean = Arc::ptr_eq(contents, written) && self.drop_frame(block);
            if is_clean {
                self.held.set_cleaned(block, contents);
                self.cache_clean(block, contents);
            }
            is_clean
        })
    }

    /// Caches the `contents` of the clean `block`, to avoid a later read. Has no effect if no frame is
    /// available, or if a frame contains several blocks.
    fn cache_clean(&self, block: u64, contents: &[u8]) {
        if self.block_size_bytes != self.pages.page_bytes() {
            return;
        }
        let place = self.place(block);
        let key = frame_key(place.frame);
        if let Some(mut new) = self.pages.insert_absent(key) {
            new.copy_from_slice(contents);
            new.set_aux_bits(place.bit);
            new.complete();
        }
    }

    /// Drops the dirty contents of `block`. Returns true if the block was dirty. This is valid in two cases:
    /// the block was freed and will not be read again, or only a failed handle has changed the block. In the
    /// second case, the contents on the device are still valid.
    pub fn forget_dirty(&self, block: u64) -> bool {
        self.dirty.remove(block, |_| true)
    }

    /// Drops the frame of `block`, so that the next read of the block gets its contents from the device.
    /// Returns false if the frame is in use and stays cached.
    fn drop_frame(&self, block: u64) -> bool {
        let key = frame_key(self.place(block).frame);
        self.pages.remove(key) || !self.pages.contains(key)
    }

    /// Returns the size of the table, and the counts of lookups. Examines no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.pages.stats()
    }

    /// Returns the histogram of chain lengths. Examines every bucket.
    #[must_use]
    pub fn report(&self) -> Report {
        self.pages.report()
    }

    #[cold]
    fn read_slow<E: From<larder_block::Error>>(
        &self,
        block: u64,
        place: &Place,
    ) -> Result<Buffer<'_>, E> {
        if !self.is_inside(block) {
            return Ok(self.read_alone(block)?);
        }
        let end = self.device.deadline();
        loop {
            match self.pages.get_or_insert(frame_key(place.frame)) {
                Entry::Uptodate(frame) => return Ok(place.buffer(frame)),
                Entry::Busy(wait) => {
                    let len_bytes = self.frame_len_bytes(place.frame) as u64;
                    let offset_bytes = self.offset_bytes(place.frame);
                    self.device.expedite(offset_bytes, len_bytes);
                    let frame = wait.wait(end).map_err(|StillBusy| self.timed_out())?;
                    if let Some(frame) = frame {
                        return Ok(place.buffer(frame));
                    }
                }
                Entry::Full => return Ok(self.read_alone(block)?),
                Entry::New(mut new) => {
                    match self.read_frame(&mut new, place.frame) {
                        Ok(()) => return Ok(place.buffer(self.pages.complete(new))),
                        // Another read could wait until the timeout again.
                        Err(error @ larder_block::Error::Deadline(_)) => return Err(error.into()),
                        Err(_) => {
                            drop(new);
                            return Ok(self.read_alone(block)?);
                        }
                    }
                }
            }
        }
    }

    /// Returns the error for a thread that has waited for the device until the timeout.
    #[must_use]
    pub fn timed_out(&self) -> larder_block::Error {
        larder_block::Error::Deadline(self.timeout().unwrap_or_default())
    }

    /// Reads one block from the device without the cache.
    fn read_alone(&self, block: u64) -> larder_block::Result<Buffer<'_>> {
        let mut bytes = vec![0; self.block_size_bytes].into_boxed_slice();
        // An offset that overflows is past the end of every device, which then returns the error.
        let offset_bytes = block.saturating_mul(self.block_size_bytes as u64);
        self.device.read_at(&mut bytes, offset_bytes)?;
        Ok(Buffer {
            contents: Contents::Own(bytes),
            block: 0..self.block_size_bytes,
        })
    }

    fn read_frame(&self, bytes: &mut [u8], frame: u64) -> larder_block::Result<()> {
        let on_device = self.frame_len_bytes(frame);
        let (inside, beyond) = bytes.split_at_mut(on_device);
        beyond.fill(0);
        self.device.read_at(inside, self.offset_bytes(frame))
    }

    /// Fills the neighbouring frames `run`, the first of which has the number `first`, with one device read.
    /// If the read fails, the frames are removed from the cache.
    fn fill(&self, mut run: Vec<NewPage>, first: u64) {
        let mut parts: Vec<IoSliceMut<'_>> = Vec::with_capacity(run.len());
        for (frame, new) in (first..).zip(&mut run) {
            let (inside, beyond) = new.split_at_mut(self.frame_len_bytes(frame));
            beyond.fill(0);
            parts.push(IoSliceMut::new(inside));
        }
        let read = self
            .device
            .read_vectored_at(&mut parts, self.offset_bytes(first));
        if read.is_ok() {
            run.into_iter().for_each(NewPage::complete);
        }
    }

    /// Returns the offset of frame number `frame` on the device. If the offset is too large for 64 bits,
    /// returns `u64::MAX`, which is past the end of every device.
    fn offset_bytes(&self, frame: u64) -> u64 {
        frame.saturating_mul(self.pages.page_bytes() as u64)
    }

    /// Returns the number of bytes of frame number `frame` that are on the device.
    fn frame_len_bytes(&self, frame: u64) -> usize {
        let left = self
            .device
            .size_bytes()
            .saturating_sub(self.offset_bytes(frame));
        usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(self.pages.page_bytes())
    }

    /// Returns true if all of `block` is on the device.
    #[inline]
    fn is_inside(&self, block: u64) -> bool {
        block < self.device.size_bytes() / self.block_size_bytes as u64
    }

    #[inline]
    fn place(&self, block: u64) -> Place {
        let block_bytes = self.block_size_bytes;
        // The sizes of frames and blocks are powers of two.
        let shift = (self.pages.page_bytes() / block_bytes).trailing_zeros();
        let within = block & ((1 << shift) - 1);
        let start = usize::try_from(within).unwrap_or_default() * block_bytes;
        Place {
            frame: block >> shift,
            block: start..start + block_bytes,
            bit: 1 << within,
        }
    }
}

/// The location of a block in the frames.
struct Place {
    /// The position of the block's frame on the device, in frames.
    frame: u64,
    /// The byte range of the block in the frame.
    block: Range<usize>,
    /// The bit in the slot that records that the block was verified.
    bit: u32,
}

impl Place {
    #[inline]
    fn buffer<'a>(&self, frame: Page<'a>) -> Buffer<'a> {
        Buffer {
            contents: Contents::Cached(frame),
            block: self.block.clone(),
        }
    }
}

/// Verifies `buffer`, unless it was verified after its frame was read.
#[inline]
fn verified<'a, E>(
    buffer: Buffer<'a>,
    place: &Place,
    verify: impl FnOnce(&[u8]) -> Result<(), E>,
) -> Result<Buffer<'a>, E> {
    match &buffer.contents {
        Contents::Cached(frame) if frame.has_aux_bits(place.bit) => {}
        Contents::Cached(frame) => {
            verify(&buffer)?;
            frame.set_aux_bits(place.bit);
        }
        Contents::Own(_) | Contents::Shared(_) => verify(&buffer)?,
    }
    Ok(buffer)
}

#[inline]
fn frame_key(index: u64) -> PageKey {
    PageKey { ino: DEVICE, index }
}
