//! The buffer cache: metadata blocks, found by device and block number.
//!
//! # Model
//! `sb_bread` over the block device's own page cache. A frame holds as many
//! neighbouring blocks as fit, and is read at once; a bit for each block says
//! that it was verified (its checksum, say), since a frame's blocks belong to
//! different structures. The bits lie in the slot, so they go with the frame.
//!
//! # Bad blocks
//! If reading a frame fails, the block that was asked for is read alone, past
//! the cache: a bad sector does not take its neighbours along.
//!
//! # Writing
//! Blocks are changed in memory only ([`BufferCache::set_dirty`], [`BufferCache::edit_dirty`]),
//! by a journal's handles, one at a time. Who writes them to the device, and when, is for the
//! journal to say; once written, [`BufferCache::clean`] lets the frames have them again.
//!
//! # The end of the device
//! may fall inside a frame. What follows it reads as zeros in the frame, but is
//! never handed out: a block that does not lie on the device in full is the
//! device's error.
//!
//! # Cost
//! A hit is a lookup that pins, and no lock; for the rest see [`crate::page`].

mod dirty;

use crate::page::{Entry, Frames, FramesConfig, NewPage, Page, PageCache, PageKey};
use crate::stats::CacheStats;
use crate::table::histogram::Report;
use dirty::DirtyBuffers;
use larder_block::BlockDevice;
use std::io::IoSliceMut;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The only device so far.
const DEVICE: u64 = 0;

/// Frames of a [`BufferCache::small`].
const SMALL_FRAMES: u32 = 64;

/// Most bytes that [`BufferCache::prefetch`] reads for one call.
const PREFETCH_MAX_BYTES: usize = 1 << 20;

/// The buffer cache of a device.
#[derive(Debug)]
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    block_size_bytes: usize,
    pages: PageCache,
    dirty: DirtyBuffers,
}

/// A block's contents, held in place while this lives. Exactly one file-system
/// block long.
#[derive(Debug)]
pub struct Buffer<'a> {
    contents: Contents<'a>,
    block: Range<usize>,
}

#[derive(Debug)]
enum Contents<'a> {
    Cached(Page<'a>),
    /// Read past the cache.
    Own(Box<[u8]>),
    /// As it was changed.
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
    /// A cache of its own for `device`, as large as a handful of blocks: what
    /// reading the journal needs before the real caches exist.
    ///
    /// # Panics
    /// As [`BufferCache::new`], or if there is no memory.
    #[must_use]
    pub fn small(device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        let config = FramesConfig {
            buffer_bits: SMALL_FRAMES.ilog2(),
            ..FramesConfig::of_pages(block_size_bytes.max(4096), SMALL_FRAMES, 0)
        };
        let frames = Frames::new(&config).expect("memory for a handful of blocks");
        Self::new(Arc::new(frames), device, block_size_bytes)
    }

    /// The buffer cache of `device` on `frames`.
    ///
    /// # Panics
    /// If the block size is not a power of two, at least 128 bytes, and at most
    /// the size of a frame.
    #[must_use]
    pub fn new(frames: Arc<Frames>, device: Arc<dyn BlockDevice>, block_size_bytes: usize) -> Self {
        let frame_bytes = frames.frame_bytes();
        assert!(
            block_size_bytes.is_power_of_two()
                && block_size_bytes <= frame_bytes
                && frame_bytes / block_size_bytes <= 32,
            "blocks of {block_size_bytes} bytes in frames of {frame_bytes}"
        );
        Self {
            device,
            block_size_bytes,
            pages: PageCache::of_buffers(frames),
            dirty: DirtyBuffers::new(),
        }
    }

    /// Size of a block in bytes.
    #[must_use]
    #[inline]
    pub fn block_size_bytes(&self) -> usize {
        self.block_size_bytes
    }

    /// Size of the device in bytes.
    #[must_use]
    pub fn device_size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    /// The contents of `block`, read from the device if not cached.
    ///
    /// `verify` checks the contents (a checksum, say) and runs until it has
    /// once succeeded for this block since it was read; a block that failed
    /// is checked again, and so fails again, at each later call. A dirty block
    /// is as we made it, and not checked.
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
            // The end of the device may cut the frame, and so the block.
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

    /// Whether `block` is cached or being read, without counting as a lookup.
    #[must_use]
    pub fn contains(&self, block: u64) -> bool {
        let frame = self.place(block).frame;
        self.pages.contains(frame_key(frame))
    }

    /// Hints that `count` blocks from `block` on will be read soon: they are
    /// read from the device together if they are not cached. Errors are left
    /// for [`BufferCache::read`] to find. Long ranges are cut.
    pub fn prefetch(&self, block: u64, count: u32) {
        let frame_bytes = self.pages.page_bytes();
        let Some(last) = u64::from(count)
            .checked_sub(1)
            .and_then(|more| block.checked_add(more))
        else {
            return;
        };
        // Not so much that it pushes itself out.
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

    /// The contents of `block` if it is dirty.
    #[must_use]
    pub fn dirty(&self, block: u64) -> Option<Arc<[u8]>> {
        self.dirty.get(block)
    }

    /// How many blocks are dirty.
    #[must_use]
    pub fn dirty_count(&self) -> u64 {
        self.dirty.len()
    }

    /// Makes `contents`, a block's size of bytes, those of `block`, which is dirty
    /// from now on. Returns its contents before if it was dirty.
    ///
    /// # Panics
    /// If `contents` are not as long as a block.
    pub fn set_dirty(&self, block: u64, contents: Arc<[u8]>) -> Option<Arc<[u8]>> {
        assert_eq!(contents.len(), self.block_size_bytes, "a block's contents");
        self.dirty.set(block, contents)
    }

    /// Changes `block` if it is dirty, `None` if not. Versions of it that others
    /// hold stay as they are.
    pub fn edit_dirty<R>(&self, block: u64, edit: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.dirty.edit(block, edit)
    }

    /// The device holds `written` as the contents of `block`: unless it was changed
    /// since, it is clean. False, with nothing done, if it was, or if somebody just
    /// looks at its frame, which holds what it was before.
    pub fn clean(&self, block: u64, written: &Arc<[u8]>) -> bool {
        self.dirty.remove(block, |contents| {
            let may_leave = Arc::ptr_eq(contents, written) && self.drop_frame(block);
            if may_leave {
                self.keep(block, contents);
            }
            may_leave
        })
    }

    /// Caches `contents` of `block`, which the device has too, so that they need not be read again; if there
    /// is room, and the frame has no other blocks.
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

    /// Forgets what `block` was changed to: by a handle that failed, where the device
    /// holds what it was before; or because it was freed, and nobody reads it again.
    /// True if it was dirty.
    pub fn forget_dirty(&self, block: u64) -> bool {
        self.dirty.remove(block, |_| true)
    }

    /// Drops the frame of `block`, so that it is read from the device anew; false if
    /// somebody holds it.
    fn drop_frame(&self, block: u64) -> bool {
        let key = frame_key(self.place(block).frame);
        self.pages.remove(key) || !self.pages.contains(key)
    }

    /// The table's size and what lookups cost. Looks at no bucket.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.pages.stats()
    }

    /// The histogram of chain lengths. Looks at every bucket.
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

    /// Reads one block past the cache.
    fn read_alone(&self, block: u64) -> larder_block::Result<Buffer<'_>> {
        let mut bytes = vec![0; self.block_size_bytes].into_boxed_slice();
        // An offset that cannot be is beyond every device: its error to give.
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

    /// Fills neighbouring frames with one device read. On failure they are
    /// dropped, and so taken back.
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

    /// Where frame number `frame` starts on the device, or beyond every device.
    fn offset_bytes(&self, frame: u64) -> u64 {
        frame.saturating_mul(self.pages.page_bytes() as u64)
    }

    /// How much of frame number `frame` lies on the device.
    fn frame_len_bytes(&self, frame: u64) -> usize {
        let left = self
            .device
            .size_bytes()
            .saturating_sub(self.offset_bytes(frame));
        usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(self.pages.page_bytes())
    }

    /// Whether all of `block` lies on the device.
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

/// Where a block lies.
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
