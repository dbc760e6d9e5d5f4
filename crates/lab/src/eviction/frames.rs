//! The clock of Larder's frames, for one thread: the hand, the free list and the batches of reclaim.
//!
//! # Model
//! The policy follows `crates/cache/src/page/pool.rs`, `crates/cache/src/table/arena.rs` and
//! `crates/cache/src/shrink.rs`. The differences from [CLOCK](super::clock):
//!
//! - The hand passes over frames, and a new page uses the frame that was freed last. So the order of the pages in the
//!   frames is not exactly the order of their insertion.
//! - A reclaim frees several frames: 1/64 of all, at most 16. The cache is therefore not always full.
//! - A reclaim makes several passes, each over at most all frames. A pass visits the frames in parts, and each part
//!   from its end.
//!
//! As in CLOCK, the use for which a page was read does not set its bit
//! ([`NewPage::set_wanted`](larder_cache::page::NewPage::set_wanted)). The policy assumes that no page is pinned,
//! busy or dirty, and that no frame is lent. A test compares the policy with the page cache itself.

use super::access::{Access, Object, Policy};

/// The frame number of an object that is not cached.
const ABSENT: u32 = u32::MAX;

/// The page in a frame.
#[derive(Clone, Copy, Debug)]
struct Page {
    object: Object,
    is_referenced: bool,
}

/// A cache that evicts as the pool of frames does.
#[derive(Debug)]
pub(super) struct FramesClock {
    /// The pages in the frames that were used at least once; `None` for a free frame.
    frames: Vec<Option<Page>>,
    /// The frame of each object.
    frame_of: Vec<u32>,
    /// The free frames; the last one is used first.
    free: Vec<u32>,
    capacity: u32,
    cached: usize,
    hand: u64,
}

impl FramesClock {
    pub fn new(capacity: usize, objects: usize) -> Self {
        Self {
            frames: Vec::new(),
            frame_of: vec![ABSENT; objects],
            free: Vec::new(),
            capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
            cached: 0,
            hand: 0,
        }
    }

    fn touched(&self) -> u32 {
        u32::try_from(self.frames.len()).unwrap_or(u32::MAX)
    }

    /// Returns a free frame: `Frames::allocate`.
    fn allocate(&mut self) -> Option<u32> {
        let want = (u64::from(self.capacity) / 64).clamp(1, 16);
        loop {
            if let Some(frame) = self.take_free() {
                return Some(frame);
            }
            if self.reclaim(want) == 0 {
                return None;
            }
        }
    }

    /// Returns a frame that is free or was never used: `Arena::take_free`.
    fn take_free(&mut self) -> Option<u32> {
        if let Some(frame) = self.free.pop() {
            return Some(frame);
        }
        // New frames are used in ascending order, one after the other.
        let next = self.touched();
        (next < self.capacity).then(|| {
            self.frames.push(None);
            next
        })
    }

    /// Frees `want` frames or more: `reclaim`. Returns the number of freed frames.
    fn reclaim(&mut self, want: u64) -> u64 {
        let mut freed = 0;
        for priority in (0..=12).rev().chain([0]) {
            let mut left = u64::from(self.touched()) >> priority;
            while left > 0 && freed < want {
                let batch = left.min(want - freed);
                freed += self.scan(batch);
                left -= batch;
            }
            if freed >= want {
                break;
            }
        }
        freed
    }

    /// Moves the hand over `count` frames: `Arena::scan`. Returns the number of freed frames.
    fn scan(&mut self, count: u64) -> u64 {
        let (from, touched) = (self.hand, u64::from(self.touched()));
        self.hand += count;
        let mut freed = 0;
        for at in (from..from + count).rev() {
            let frame = usize::try_from(at % touched).unwrap_or(0);
            match &mut self.frames[frame] {
                Some(page) if page.is_referenced => page.is_referenced = false,
                Some(page) => {
                    let object = page.object;
                    self.remove(object);
                    freed += 1;
                }
                None => {}
            }
        }
        freed
    }

    fn page(&mut self, object: Object) -> Option<&mut Page> {
        let frame = self.frame_of[object as usize];
        let page = self.frames.get_mut(frame as usize);
        page.and_then(Option::as_mut)
    }
}

impl Policy for FramesClock {
    fn access(&mut self, Access { object, .. }: Access) -> bool {
        if let Some(page) = self.page(object) {
            page.is_referenced = true;
            return true;
        }
        if let Some(frame) = self.allocate() {
            self.frames[frame as usize] = Some(Page {
                object,
                is_referenced: false,
            });
            self.frame_of[object as usize] = frame;
            self.cached += 1;
        }
        false
    }

    fn remove(&mut self, object: Object) {
        let frame = std::mem::replace(&mut self.frame_of[object as usize], ABSENT);
        if frame != ABSENT {
            self.frames[frame as usize] = None;
            self.free.push(frame);
            self.cached -= 1;
        }
    }

    fn cached(&self) -> usize {
        self.cached
    }
}
