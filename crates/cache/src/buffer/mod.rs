//! The buffer cache: metadata blocks, found by device and block number.
//!
//! # Model
//! `sb_bread` over the block device's own page cache. A frame contains as many neighbouring blocks as fit,
//! and is read at once. A bit for each block records that it was verified (its checksum, for example), since
//! the blocks of a frame belong to different structures. The bits are stored in the slot, so they are
//! discarded with the frame.
//!
//! # Bad blocks
//! If the read of a frame fails, the requested block is read alone, bypassing the cache. So a bad sector
//! does not make its neighbours unreadable.
//!
//! # Writing
//! Blocks are changed in memory only ([`BufferCache::set_dirty`], [`BufferCache::edit_dirty`]), by one
//! journal handle at a time. The journal decides when they are written to the device. After that,
//! [`BufferCache::clean`] makes the frames usable again.
//!
//! # The end of the device
//! The end of the device may be inside a frame. The bytes after it read as zeros in the frame, but are never
//! returned: a read of a block that is not completely on the device returns the device's error.
//!
//! # Cost
//! A hit is a lookup with a pin, without a lock; for the rest see [`crate::page`].

mod dirty;

use crate::page::{Entry, Frames, FramesConfig, NewPage, Page, PageCache, PageKey};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use dirty::DirtyBuffers;
use larder_block::BlockDevice;
use std::io::IoSliceMut;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The only device at present.
const DEVICE: u64 = 0;

/// Frames of [`BufferCache::small`].
const SMALL_FRAMES: u32 = 64;

/// The largest number of bytes that one call of [`BufferCache::prefetch`] reads.
const PREFETCH_MAX_BYTES: usize = 1 << 20;

/// The buffer cache of a device.
#[derive(Debug)]
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    block_size_bytes: usize,
    pages: PageCache,
    dirty: DirtyBuffers,
}

/// A pinned block. Its contents are exactly one file-system block long.
#[derive(Debug)]
pub struct Buffer<'a> {
    contents: Contents<'a>,
    block: Range<usize>,
}

#[derive(Debug)]
enum Contents<'a> {
    Cached(Page<'a>),
    /// Read from the device, bypassing the cache.
    Own(Box<[u8]>),
    /// The dirty contents.
    Dirty(Arc<[u8]>),
}

impl Deref for Buffer<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.contents {
            Contents::Cached(frame) => &frame[self.block.clone()],
            Contents::Own(bytes) => bytes,
            Contents::Dirty(bytes) => bytes,
        }
    }
}

impl BufferCache {
    /// Creates a separate cache of a few blocks for `device`, for reading the journal before the real caches
    /// exist.
    ///
    /// # Panics
    /// As [`BufferCache::new`], or if there is no memory.
    #[must_use]
    pub fn small(device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        let config = FramesConfig {
            buffer_bits: SMALL_FRAMES.ilog2(),
            ..FramesConfig::of_pages(block_size_bytes.max(4096), SMALL_FRAMES, 0)
        };
        let frames = Frames::new(&config).expect("memory for a few blocks");
        Self::new(Arc::new(frames), device, block_size_bytes)
    }

    /// Creates the buffer cache of `device` on `frames`.
    ///
    /// # Panics
    /// If the block size is not a power of two, at least 128 bytes, and at most the size of a frame.
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

    /// Returns the contents of `block`, read from the device if not cached.
    ///
    /// `verify` checks the contents (a checksum, for example). It runs at each call until it has succeeded
    /// once for this block since the block was read, so a damaged block fails at each call. A dirty block
    /// was made by Larder and is not checked.
    ///
    /// # Errors
    /// The device's error, or `verify`'s.
    #[inline]
    pub fn read<E: From<larder_block::Error>>(
        &self,
        block: u64,
        verify: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Buffer<'_>, E> {
        let place = self.place(block);
        let key = frame_key(place.frame);
        if let Some(bytes) = self.dirty.get(block) {
            return Ok(Buffer {
                contents: Contents::Dirty(bytes),
                block: 0..self.block_size_bytes,
            });
        }
        let buffer = match self.pages.get(key) {
            // The end of the device may be inside the frame, and so inside the block.
            Some(frame) if self.is_inside(block) => place.buffer(frame),
            _ => self.read_slow(block, &place)?,
        };
        let verified = match &buffer.contents {
            Contents::Cached(frame) => frame.has_aux_bits(place.bit),
            Contents::Own(_) | Contents::Dirty(_) => false,
        };
        if !verified {
            verify(&buffer)?;
            if let Contents::Cached(frame) = &buffer.contents {
                frame.set_aux_bits(place.bit);
            }
        }
        Ok(buffer)
    }

    /// Returns true if `block` is cached or being read. This does not count as a lookup.
    #[must_use]
    pub fn contains(&self, block: u64) -> bool {
        let frame = self.place(block).frame;
        self.pages.contains(frame_key(frame))
    }

    /// Hints that `count` blocks from `block` on will be read soon. Those that are not cached are read from
    /// the device together. Errors are left for [`BufferCache::read`] to report. Long ranges are truncated.
    pub fn prefetch(&self, block: u64, count: u32) {
        let frame_bytes = self.pages.page_bytes();
        let Some(last) = u64::from(count)
            .checked_sub(1)
            .and_then(|more| block.checked_add(more))
        else {
            return;
        };
        // The limit keeps a prefetch from evicting its own frames.
        let most = (PREFETCH_MAX_BYTES / frame_bytes)
            .min(self.pages.frames().capacity() as usize / 4)
            .max(1);
        let first = self.place(block).frame;
        let frames = first..=self.place(last).frame;
        let mut run: Vec<NewPage> = Vec::new();
        let mut run_start = first;
        for frame in frames.take(most) {
            if self.offset_bytes(frame) >= self.device.size_bytes() {
                break;
            }
            match self.pages.insert_absent(frame_key(frame)) {
                Some(new) => {
                    if run.is_empty() {
                        run_start = frame;
                    }
                    run.push(new);
                }
                None => self.fill(std::mem::take(&mut run), run_start),
            }
        }
        self.fill(run, run_start);
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

    /// Changes `block` if it is dirty; returns `None` if not. Versions of it that others hold do not change.
    pub fn edit_dirty<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.dirty.edit(block, edit)
    }

    /// Makes `block` clean after `written` was written to the device. Returns false and does nothing if the
    /// block was changed since, or if a reader holds its frame, which has the previous contents.
    pub fn clean(&self, block: u64, written: &Arc<[u8]>) -> bool {
        self.dirty.remove(block, |contents| {
            let may_leave = Arc::ptr_eq(contents, written) && self.drop_frame(block);
            if may_leave {
                self.keep(block, contents);
            }
            may_leave
        })
    }

    /// Caches `contents` of `block`, which equal the device's, to avoid a read. Does nothing if there is no
    /// room, or if the frame has other blocks.
    fn keep(&self, block: u64, contents: &[u8]) {
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

    /// Drops the dirty contents of `block`. Either the handle that changed it failed and the device has the
    /// previous contents, or the block was freed and will not be read again. Returns true if the block was
    /// dirty.
    pub fn forget_dirty(&self, block: u64) -> bool {
        self.dirty.remove(block, |_| true)
    }

    /// Drops the frame of `block`, so that it is read from the device again. Returns false if the frame is
    /// held.
    fn drop_frame(&self, block: u64) -> bool {
        let key = frame_key(self.place(block).frame);
        self.pages.remove(key) || !self.pages.contains(key)
    }

    /// Returns the table's size and the cost of lookups. Examines no bucket.
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
        loop {
            match self.pages.get_or_insert(frame_key(place.frame)) {
                Entry::Uptodate(frame) => return Ok(place.buffer(frame)),
                Entry::Busy(wait) => {
                    if let Some(frame) = wait.wait() {
                        return Ok(place.buffer(frame));
                    }
                }
                Entry::Full => return Ok(self.read_alone(block)?),
                Entry::New(mut new) => {
                    if self.read_frame(&mut new, place.frame).is_ok() {
                        return Ok(place.buffer(self.pages.complete(new)));
                    }
                    drop(new);
                    return Ok(self.read_alone(block)?);
                }
            }
        }
    }

    /// Reads one block, bypassing the cache.
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

    /// Fills neighbouring frames with one device read. If that fails, the frames are dropped and so removed.
    fn fill(&self, mut run: Vec<NewPage>, first: u64) {
        if run.is_empty() {
            return;
        }
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

    /// Returns the offset of frame number `frame` on the device, or an offset past the end of every device.
    fn offset_bytes(&self, frame: u64) -> u64 {
        frame.saturating_mul(self.pages.page_bytes() as u64)
    }

    /// Returns how many bytes of frame number `frame` are on the device.
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
        // Both are powers of two.
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

/// The location of a block.
struct Place {
    /// The frame's number on the device.
    frame: u64,
    /// Its bytes in the frame.
    block: Range<usize>,
    /// Its bit among the frame's blocks.
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

#[inline]
fn frame_key(index: u64) -> PageKey {
    PageKey { ino: DEVICE, index }
}
