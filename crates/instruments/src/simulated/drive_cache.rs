//! The two caches of a disk drive: the bytes that were read, and the bytes that wait to be written.
//!
//! Model: Ruemmler and Wilkes 1994. The read cache consists of segments. It contains the bytes that were read
//! for commands, the bytes that the idle drive read after them, and the bytes that passed under the head
//! before the requested ones. A write is reported as done when it is in the write cache.
//!
//! Differences from the model: segments have no fixed length; a segment is as long as the contiguous range
//! that was read, up to a quarter of the cache. The rules of real firmware are not published.

use std::collections::BTreeMap;

/// The read cache: segments of contiguous bytes. The least recently used segment is evicted first.
///
/// Invariants: `segments` are in order of offset, and there is a gap between any two. `cached_bytes` is their
/// total length. `changed` contains all bytes that were inserted or evicted since [`Self::forget_changes`],
/// and possibly others.
#[derive(Debug)]
pub(super) struct ReadCache {
    segments: Vec<Segment>,
    changed: Vec<(u64, u64)>,
    cached_bytes: u64,
    max_bytes: u64,
    max_segments: usize,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start_bytes: u64,
    end_bytes: u64,
    used: u64,
}

impl Segment {
    fn len_bytes(&self) -> u64 {
        self.end_bytes - self.start_bytes
    }
}

impl ReadCache {
    pub fn new(max_bytes: u64, max_segments: usize) -> Self {
        Self {
            segments: Vec::with_capacity(max_segments),
            changed: Vec::new(),
            cached_bytes: 0,
            max_bytes,
            max_segments: max_segments.max(1),
            uses: 0,
        }
    }

    /// Returns the end of the segment that contains the byte at `start_bytes`, or `start_bytes` if that
    /// byte is not cached.
    pub fn cached_end(&self, start_bytes: u64) -> u64 {
        self.index_of(start_bytes)
            .map_or(start_bytes, |index| self.segments[index].end_bytes)
    }

    /// Returns the index of the segment that contains a byte.
    fn index_of(&self, byte: u64) -> Option<usize> {
        let index = self
            .segments
            .partition_point(|segment| segment.start_bytes <= byte)
            .checked_sub(1)?;
        (byte < self.segments[index].end_bytes).then_some(index)
    }

    /// Marks the segment that contains `byte`, if there is one, as the most recently used.
    pub fn touch(&mut self, byte: u64) {
        if let Some(index) = self.index_of(byte) {
            self.uses += 1;
            self.segments[index].used = self.uses;
        }
    }

    /// Inserts bytes that were read, and joins them with adjacent and overlapping segments.
    pub fn insert(&mut self, start_bytes: u64, end_bytes: u64) {
        if start_bytes >= end_bytes {
            return;
        }
        self.uses += 1;
        let mut whole = Segment {
            start_bytes,
            end_bytes,
            used: self.uses,
        };
        let first = self
            .segments
            .partition_point(|segment| segment.end_bytes < start_bytes);
        let met = self.segments[first..]
            .iter()
            .take_while(|segment| segment.start_bytes <= end_bytes)
            .count();
        for segment in &self.segments[first..first + met] {
            whole.start_bytes = whole.start_bytes.min(segment.start_bytes);
            whole.end_bytes = whole.end_bytes.max(segment.end_bytes);
            self.cached_bytes -= segment.len_bytes();
        }
        self.changed.push((whole.start_bytes, whole.end_bytes));
        let excess_bytes =
            (whole.end_bytes - whole.start_bytes).saturating_sub(self.max_bytes.div_ceil(4));
        // If the segment is too long, remove the excess at the end that is farther from the inserted bytes.
        if end_bytes - whole.start_bytes > whole.end_bytes - start_bytes {
            whole.start_bytes += excess_bytes;
        } else {
            whole.end_bytes -= excess_bytes;
        }
        self.cached_bytes += whole.len_bytes();
        if met == 0 {
            self.segments.insert(first, whole);
        } else {
            self.segments[first] = whole;
            self.segments.drain(first + 1..first + met);
        }
        self.shrink();
    }

    /// Returns whether any of these bytes may have been inserted or evicted since
    /// [`Self::forget_changes`].
    pub fn may_have_changed(&self, start_bytes: u64, end_bytes: u64) -> bool {
        let mut changed = self.changed.iter();
        changed.any(|&(start, end)| start < end_bytes && start_bytes < end)
    }

    /// Clears the record of changes. The caller must first have updated everything that depends on the
    /// content.
    pub fn forget_changes(&mut self) {
        self.changed.clear();
    }

    fn shrink(&mut self) {
        while self.cached_bytes > self.max_bytes || self.segments.len() > self.max_segments {
            let oldest = (0..self.segments.len()).min_by_key(|&index| self.segments[index].used);
            match oldest {
                Some(index) => {
                    let segment = self.segments.remove(index);
                    self.cached_bytes -= segment.len_bytes();
                    self.changed.push((segment.start_bytes, segment.end_bytes));
                }
                None => return,
            }
        }
    }
}

/// The write cache: the bytes that wait to be written to the platters, as runs of contiguous bytes. There is
/// a gap between any two runs.
#[derive(Debug)]
pub(super) struct WriteCache {
    runs: BTreeMap<u64, u64>,
    cached_bytes: u64,
    max_bytes: u64,
}

impl WriteCache {
    pub fn new(max_bytes: u64) -> Self {
        Self {
            runs: BTreeMap::new(),
            cached_bytes: 0,
            max_bytes,
        }
    }

    /// Returns whether `len_bytes` further bytes fit. An empty cache accepts any number of bytes.
    pub fn has_room(&self, len_bytes: u64) -> bool {
        self.cached_bytes == 0 || self.cached_bytes + len_bytes <= self.max_bytes
    }

    /// Returns whether no bytes wait to be written.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Inserts bytes to be written, and joins them with adjacent and overlapping runs.
    pub fn insert(&mut self, mut start_bytes: u64, mut end_bytes: u64) {
        while let Some((&start, &end)) = self.runs.range(..=end_bytes).next_back()
            && end >= start_bytes
        {
            self.runs.remove(&start);
            self.cached_bytes -= end - start;
            start_bytes = start_bytes.min(start);
            end_bytes = end_bytes.max(end);
        }
        self.runs.insert(start_bytes, end_bytes);
        self.cached_bytes += end_bytes - start_bytes;
    }

    /// Returns the starts of up to 16 runs at or after `byte`, and of up to 16 runs before it.
    pub fn near(&self, byte: u64) -> impl Iterator<Item = u64> {
        const EACH_SIDE: usize = 16;
        let after = self.runs.range(byte..).take(EACH_SIDE);
        let before = self.runs.range(..byte).rev().take(EACH_SIDE);
        after.chain(before).map(|(&start, _)| start)
    }

    /// Removes at most `max_bytes` from the start of the run at `start_bytes`, and returns the end of the
    /// removed bytes. Returns `None` if no run starts there. The removed bytes count against the size of the
    /// cache until [`Self::release`].
    pub fn take(&mut self, start_bytes: u64, max_bytes: u64) -> Option<u64> {
        let end_bytes = self.runs.remove(&start_bytes)?;
        let cut_bytes = end_bytes.min(start_bytes + max_bytes);
        if cut_bytes < end_bytes {
            self.runs.insert(cut_bytes, end_bytes);
        }
        Some(cut_bytes)
    }

    /// Frees the room of bytes that [`Self::take`] removed and that have been written.
    pub fn release(&mut self, len_bytes: u64) {
        self.cached_bytes -= len_bytes;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use larder_testkit::proptest_config;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn read_cache_segments_that_meet_become_one() {
        let mut cache = ReadCache::new(1000, 8);
        cache.insert(100, 120);
        cache.insert(140, 160);
        assert_eq!(cache.cached_end(100), 120);
        cache.insert(120, 140);
        assert_eq!(cache.cached_end(100), 160);
        assert_eq!(cache.cached_end(99), 99);
        assert_eq!(cache.segments.len(), 1);
    }

    #[test]
    fn read_cache_segment_that_is_too_long_drops_its_far_end() {
        let mut cache = ReadCache::new(400, 8);
        cache.insert(500, 600);
        cache.insert(600, 630);
        assert_eq!((cache.cached_end(500), cache.cached_end(530)), (500, 630));
        cache.insert(510, 530);
        assert_eq!((cache.cached_end(510), cache.cached_end(609)), (610, 610));
    }

    #[test]
    fn read_cache_when_full_drops_the_least_recently_used() {
        let mut cache = ReadCache::new(1000, 2);
        cache.insert(0, 10);
        cache.insert(100, 110);
        cache.touch(5);
        cache.insert(200, 210);
        assert_eq!(cache.cached_end(0), 10);
        assert_eq!(cache.cached_end(100), 100);
    }

    proptest! {
        #![proptest_config(proptest_config!(0))]

        #[test]
        fn read_cache_contains_only_bytes_that_were_read_within_its_size(
            reads in vec((0_u64..300, 1_u64..60), 1..60),
        ) {
            let mut cache = ReadCache::new(100, 4);
            let mut read = BTreeSet::new();
            for (start, len) in reads {
                cache.insert(start, start + len);
                read.extend(start..start + len);
                let held: u64 = cache.segments.iter().map(|s| s.end_bytes - s.start_bytes).sum();
                prop_assert_eq!(held, cache.cached_bytes);
                prop_assert!(held <= 100 && cache.segments.len() <= 4);
                prop_assert!(
                    cache.segments.windows(2).all(|pair| pair[0].end_bytes < pair[1].start_bytes)
                );
                for segment in &cache.segments {
                    prop_assert!((segment.start_bytes..segment.end_bytes).all(|b| read.contains(&b)));
                }
            }
        }

        #[test]
        fn write_cache_holds_each_byte_once_until_it_is_taken(
            writes in vec((0_u64..300, 1_u64..60, any::<bool>()), 1..60),
        ) {
            let mut cache = WriteCache::new(u64::MAX);
            let mut model = BTreeSet::new();
            for (start, len, takes) in writes {
                cache.insert(start, start + len);
                model.extend(start..start + len);
                if takes {
                    let first = cache.near(start).next();
                    if let Some(end) = first.and_then(|first| cache.take(first, 20)) {
                        let first = first.expect("a run was removed");
                        prop_assert!((first..end).all(|byte| model.remove(&byte)));
                        cache.release(end - first);
                    }
                }
                let held: Vec<u64> =
                    cache.runs.iter().flat_map(|(&start, &end)| start..end).collect();
                prop_assert!(held.iter().eq(&model));
                prop_assert_eq!(cache.cached_bytes, held.len() as u64);
            }
        }
    }
}
