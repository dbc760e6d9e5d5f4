//! The pool of frames: the memory that the page cache and the buffer cache share.
//!
//! The frames are equal parts of one memory mapping. Slot `i` of one arena describes frame `i`, so a slot
//! need not store a frame number. A frame contains a page of a file, or buffers. Pages and buffers have
//! separate indexes over the same arena. So a frame can change from one use to the other without a copy,
//! and a single clock hand evicts both pages and buffers.
//!
//! A frame can be *lent*, so that another cache can grow within the common budget. The other cache does not get the
//! frame itself: the memory of the frame is returned to the kernel, the slot of the frame is *retired*, and the other
//! cache may allocate the same amount of memory.
//!
//! # Invariants
//! 1. Every slot that was used at least once is in one of these states:
//!    - *free*: it is on a free list.
//!    - *vacant*: one thread owns it. The thread has allocated the slot ([`Vacant`]), or is evicting or
//!      removing the entry of the slot.
//!    - *busy*: it is in the index of pages or of buffers, and one thread fills or changes the frame.
//!    - *uptodate*: it is in an index, and the contents of the frame can be read.
//!    - *retired*: its frame is lent.
//! 2. The bytes of a frame that is in an index change only while the frame is busy.
//! 3. A dirty frame is uptodate, or it is busy because a thread changes it or fills it with new contents.

use super::index::{FrameIndex, PageIndex};
use super::key::PAGE_WORDS;
use super::memory::FrameMemory;
use crate::hash::Function;
use crate::shrink::{Shrinker, Shrinkers, reclaim};
use crate::table::{Arena, Charge, Growth, Hash64, State, Table, Vacant};
use crate::tables::TableHash;
use crate::tape::{CacheKind, Tape};
use crate::wait::WaitQueues;
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The cache that owns a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    Page,
    Buffer,
}

impl Holder {
    /// Returns the flags that mark a frame as owned by this cache.
    pub(super) fn flags(self) -> u64 {
        match self {
            Self::Page => 0,
            Self::Buffer => State::BUFFER,
        }
    }
}

/// The configuration of a pool of frames: its sizes, and the hash functions of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramesConfig {
    /// The size of a frame in bytes: a power of two, at least 4096.
    pub frame_bytes: usize,
    /// The number of frames, at least 1.
    pub frames: u32,
    /// The table of pages has 2^`page_bits` buckets.
    pub page_bits: u32,
    /// The table of buffers has 2^`buffer_bits` buckets.
    pub buffer_bits: u32,
    /// The hash function of the table of pages; `None` for the default, [`Hash64`].
    pub page_function: Option<Function>,
    /// The hash function of the table of buffers; `None` for the default, [`Hash64`].
    pub buffer_function: Option<Function>,
    /// The maximum number of frames that may be lent to other caches, and thus retired, at the same time.
    pub max_retired: u32,
}

impl FramesConfig {
    /// Returns the sizes of a pool that is used for pages only, with a table of 2^`page_bits` buckets
    /// and the default hash function.
    #[must_use]
    pub fn of_pages(frame_bytes: usize, frames: u32, page_bits: u32) -> Self {
        Self {
            frame_bytes,
            frames,
            page_bits,
            buffer_bits: 0,
            page_function: None,
            buffer_function: None,
            max_retired: 0,
        }
    }
}

/// The pool of frames, with the tables of the caches that use it.
#[derive(Debug)]
pub struct Frames {
    pub(super) arena: Arc<Arena<PAGE_WORDS>>,
    pub(super) memory: FrameMemory,
    pages: FrameIndex,
    buffers: FrameIndex,
    pub(super) waits: WaitQueues,
    /// The number of further frames that may be lent: `max_retired` minus the number of lent frames.
    retirable: AtomicU32,
    /// The number of frames that are lent.
    retired: AtomicU32,
    /// The other caches, which can return lent frames.
    others: OnceLock<Shrinkers>,
    /// See `ReadaheadCounts::pages_ahead`.
    pub(super) pages_ahead: AtomicU64,
    /// See `ReadaheadCounts::pages_used`.
    pub(super) pages_used: AtomicU64,
    /// See `ReadaheadCounts::pages_wasted`.
    pub(super) pages_wasted: AtomicU64,
}

/// Creates a table of 2^`bits` buckets over `arena`, with `function`, or with the default hash function
/// if `function` is `None`. The buckets are numbered from `first_bucket`: tables over the same arena must not
/// share bucket numbers.
fn table(
    arena: &Arc<Arena<PAGE_WORDS>>,
    bits: u32,
    first_bucket: u32,
    function: Option<Function>,
) -> io::Result<FrameIndex> {
    let hash = TableHash::new(function, Hash64);
    Table::new(Arc::clone(arena), bits, first_bucket, hash).map(FrameIndex::Table)
}

impl Frames {
    /// Creates a pool of frames. The kernel allocates memory when frames are used for the first time.
    ///
    /// # Errors
    /// Returns the kernel's error, most likely because there is not enough address space.
    ///
    /// # Panics
    /// If a size is not valid according to [`FramesConfig`].
    pub fn new(config: &FramesConfig) -> io::Result<Self> {
        Self::with_pages(config, |arena| {
            table(arena, config.page_bits, 0, config.page_function)
        })
    }

    /// Creates a pool of frames as [`Frames::new`] does, but with the index of pages that `index`
    /// creates.
    pub(crate) fn with_page_index(
        config: &FramesConfig,
        index: impl FnOnce(Arc<Arena<PAGE_WORDS>>) -> io::Result<Box<dyn PageIndex>>,
    ) -> io::Result<Self> {
        Self::with_pages(config, |arena| {
            index(Arc::clone(arena)).map(FrameIndex::Other)
        })
    }

    /// Creates a pool of frames with the index of pages that `pages` creates.
    fn with_pages(
        config: &FramesConfig,
        pages: impl FnOnce(&Arc<Arena<PAGE_WORDS>>) -> io::Result<FrameIndex>,
    ) -> io::Result<Self> {
        assert!(
            config.frame_bytes.is_power_of_two() && config.frame_bytes >= 4096 && config.frames > 0,
            "invalid sizes: {config:?}"
        );
        let arena = Arc::new(Arena::new(config.frames, Growth::Prepaid)?);
        let pages = pages(&arena)?;
        let first_bucket = 1 << config.page_bits;
        let buffers = table(
            &arena,
            config.buffer_bits,
            first_bucket,
            config.buffer_function,
        )?;
        Ok(Self {
            memory: FrameMemory::new(config.frames, config.frame_bytes)?,
            arena,
            pages,
            buffers,
            waits: WaitQueues::new(),
            retirable: AtomicU32::new(config.max_retired),
            retired: AtomicU32::new(0),
            others: OnceLock::new(),
            pages_ahead: AtomicU64::new(0),
            pages_used: AtomicU64::new(0),
            pages_wasted: AtomicU64::new(0),
        })
    }

    /// Returns the size of a frame in bytes.
    #[must_use]
    #[inline]
    pub fn frame_bytes(&self) -> usize {
        self.memory.frame_bytes()
    }

    /// Returns the number of frames, without those that are lent to other caches.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.arena
            .capacity()
            .saturating_sub(self.retired.load(Relaxed))
    }

    /// Connects `tape`. From then on, the caches of pages and buffers report their events to it.
    pub fn set_tape(&self, tape: &Arc<dyn Tape>) {
        self.pages.set_tape(Arc::clone(tape), CacheKind::Page);
        self.buffers.set_tape(Arc::clone(tape), CacheKind::Buffer);
    }

    /// Sets the other caches, which shrink when no frame is free. Only the first call has an effect.
    pub(crate) fn set_others(&self, others: Shrinkers) {
        // There is only one caller.
        let _ = self.others.set(others);
    }

    /// Returns the index of the frames that `holder` owns.
    #[inline]
    pub(super) fn index(&self, holder: Holder) -> &FrameIndex {
        match holder {
            Holder::Page => &self.pages,
            Holder::Buffer => &self.buffers,
        }
    }

    /// Allocates a frame. If none is free, evicts pages and buffers, and shrinks the other caches.
    /// Returns `None` if that frees no frame, or if other threads repeatedly take all frames that it
    /// frees.
    pub(super) fn allocate(&self) -> Option<Vacant<'_, PAGE_WORDS>> {
        /// The number of attempts. An attempt fails if other threads take the frames that it freed.
        const ATTEMPTS: u32 = 16;
        /// The largest number of frames that an attempt tries to free: one for this caller, and more for
        /// the next callers.
        const BATCH: u64 = 16;
        let want = (u64::from(self.capacity()) / 64).clamp(1, BATCH);
        for _ in 0..ATTEMPTS {
            if let Some(vacant) = self.arena.take_free() {
                return Some(vacant);
            }
            if reclaim(self, self.others.get(), want) == 0 {
                // Another thread may have freed the last evictable frames meanwhile.
                return self.arena.take_free();
            }
        }
        None
    }

    /// Removes frame `frame` from the index of its cache, after the clock hand has claimed the
    /// frame. `state` must be the state of the frame before the claim.
    fn unlink(&self, frame: u32, state: State) {
        let holder = if state.has(State::BUFFER) {
            Holder::Buffer
        } else {
            Holder::Page
        };
        self.index(holder).unlink(frame);
        self.note_removal(state);
    }

    /// Counts the removed page as wasted if it was read ahead and not used. `before` is the state of the
    /// page before its removal.
    pub(super) fn note_removal(&self, before: State) {
        if before.has(State::READAHEAD) {
            self.pages_wasted.fetch_add(1, Relaxed);
        }
    }

    /// Marks the busy frame `frame` as uptodate, after its contents were filled in. Adds `pins` pins, which
    /// belong to the caller, and wakes the threads that wait for the frame.
    pub(super) fn finish_fill(&self, frame: u32, pins: u32) {
        if self.arena.slot(frame).fill(pins) {
            self.waits.wake(frame);
        }
    }

    /// Removes the busy frame `frame` from its cache, because it was not filled or is discarded, and wakes
    /// the threads that wait for it.
    pub(super) fn abandon(&self, holder: Holder, frame: u32) {
        if self.index(holder).abandon(frame) {
            self.waits.wake(frame);
        }
    }

    /// Checks the invariants. No other thread may use the pool meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_invariants(&self) {
        self.pages.check_invariants();
        self.buffers.check_invariants();
        let used = self.pages.objects() + self.buffers.objects();
        let accounted = used + u64::from(self.retired.load(Relaxed) + self.arena.count_free());
        assert_eq!(
            accounted,
            u64::from(self.arena.touched()),
            "number of used, retired and free frames"
        );
        for index in 0..self.arena.touched() {
            let state = self.arena.slot(index).state();
            let is_uptodate = state.has(State::LIVE) && !state.has(State::BUSY);
            let is_consistent = is_uptodate || !state.has(State::DIRTY);
            assert!(is_consistent, "frame {index} is dirty but not uptodate");
        }
    }
}

impl Shrinker for Frames {
    fn count_objects(&self) -> u64 {
        // Each slot counts as one object, because the clock hand visits every slot. A scan of all objects is a
        // full turn.
        u64::from(self.arena.touched())
    }

    fn scan_objects(&self, count: u64) -> u64 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        u64::from(
            self.arena
                .scan(count, |index, state| self.unlink(index, state)),
        )
    }
}

impl Charge for Frames {
    /// Lends a frame to another cache: returns the memory of the frame to the kernel, and retires its
    /// slot. Returns false if the maximum number of frames is lent, or if no frame can be allocated.
    fn charge(&self) -> bool {
        let spare = self
            .retirable
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if spare.is_err() {
            return false;
        }
        let Some(vacant) = self.allocate() else {
            self.retirable.fetch_add(1, Relaxed);
            return false;
        };
        self.memory.discard(vacant.index());
        self.retired.fetch_add(1, Relaxed);
        vacant.retire();
        true
    }

    /// Makes a lent frame usable again.
    fn uncharge(&self) {
        if self.arena.reinstate() {
            self.retired.fetch_sub(1, Relaxed);
            self.retirable.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PageKey;
    use crate::table::HashFunction;

    /// There are as many pages as buckets. With a random hash, a hit would take 1.5 links (compared
    /// entries) on average.
    #[test]
    fn hits_take_fewer_links_than_with_a_random_hash_on_average() {
        const BITS: u32 = 16;
        let (mut worst, mut sum, mut patterns) = (0, 0, 0);
        for pages in [1, 2, 3, 5, 7, 10, 16, 100, 1000, 100_000] {
            for step in [1, 2, 16, 8192] {
                let mut lengths = vec![0u64; 1 << BITS];
                let mut links = 0;
                for i in 0..1u64 << BITS {
                    let key = PageKey {
                        ino: 12 + i / pages * step,
                        index: i % pages,
                    };
                    let length = &mut lengths[Hash64.bucket(key, BITS) as usize];
                    *length += 1;
                    links += *length;
                }
                let per_mille = (links * 1000) >> BITS;
                worst = per_mille.max(worst);
                sum += per_mille;
                patterns += 1;
            }
        }
        assert!(worst < 2000, "{worst} links in 1000 hits at worst");
        assert!(sum / patterns < 1450, "{} on average", sum / patterns);
    }
}
