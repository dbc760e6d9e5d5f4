//! The dirty blocks of a file, and their reservations. The content of a dirty block is not on the
//! device yet.
//!
//! Model: `PG_dirty` and the delayed extents of ext4's extent status tree. Unlike `PG_dirty`, and
//! like these extents, the state is recorded for each block, not for each page. If a page has several
//! blocks, some can be dirty and others clean. Write-back does not allocate the clean ones.
//!
//! Cost: about 50 bytes for each run in each set of blocks.

use larder_ext4::{Ino, MappingReservation, Reservation};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of blocks, stored as runs. Adjacent runs are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSet {
    runs: BTreeMap<u64, u64>,
    blocks: u64,
}

impl BlockSet {
    /// Returns the number of blocks in the set.
    pub(crate) fn len(&self) -> u64 {
        self.blocks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks == 0
    }

    /// Returns the block after the last one, or 0 if the set is empty.
    pub(crate) fn end(&self) -> u64 {
        self.runs.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// Returns the run that contains `block`. If there is none, returns the next run after `block`.
    pub(crate) fn run_from(&self, block: u64) -> Option<Range<u64>> {
        if let Some((&start, &end)) = self.runs.range(..=block).next_back()
            && end > block
        {
            return Some(start..end);
        }
        let (&start, &end) = self.runs.range(block..).next()?;
        Some(start..end)
    }

    /// Returns the parts of the runs that are in `range`.
    pub(crate) fn runs_in(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let run = self.run_from(at)?;
            let clipped = run.start.max(range.start)..run.end.min(range.end);
            at = run.end;
            (clipped.start < clipped.end).then_some(clipped)
        })
    }

    /// Returns whether the set contains any block of `range`.
    pub(crate) fn intersects(&self, range: Range<u64>) -> bool {
        self.runs_in(range).next().is_some()
    }

    pub(crate) fn contains(&self, block: u64) -> bool {
        self.run_from(block).is_some_and(|run| run.contains(&block))
    }

    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut joined = range;
        while let Some((&start, &end)) = self.runs.range(..=joined.end).next_back()
            && end >= joined.start
        {
            self.runs.remove(&start);
            self.blocks -= end - start;
            joined = joined.start.min(start)..joined.end.max(end);
        }
        self.blocks += joined.end - joined.start;
        self.runs.insert(joined.start, joined.end);
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.runs.range(..range.end).next_back()
            && end > range.start
        {
            self.runs.remove(&start);
            self.blocks -= end - start;
            for rest in [start..range.start.max(start), range.end.min(end)..end] {
                if !rest.is_empty() {
                    self.blocks += rest.end - rest.start;
                    self.runs.insert(rest.start, rest.end);
                }
            }
        }
    }
}

/// The dirty blocks of a file, and the space that is reserved for them.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    /// The dirty blocks: their content in the page cache is newer than on the device.
    pub(crate) blocks: BlockSet,
    /// The dirty blocks that are not mapped.
    pub(crate) delayed: BlockSet,
    /// The unmapped blocks that a writer is about to make dirty. They then become delayed.
    pub(crate) expected: BlockSet,
    /// The blocks mapped as unwritten that are dirty or about to become dirty. Write-back converts
    /// them to written.
    pub(crate) converting: BlockSet,
    /// The space for the content of the delayed and expected blocks.
    pub(crate) reservation: Option<Reservation>,
    /// The space that the mapping of the delayed, expected and converting blocks needs in the worst
    /// case.
    pub(crate) for_mapping: Option<MappingReservation>,
    /// The blocks that write-back is writing now. A thread that is about to change them must wait
    /// until the write-back ends. Waiting until the pages are unpinned is not enough, because
    /// write-back may unpin them before it ends.
    pub(crate) writing: Option<Range<u64>>,
}

impl Dirty {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the sets of blocks that have reservations.
    pub(crate) fn reserved_sets(&self) -> [&BlockSet; 3] {
        [&self.delayed, &self.expected, &self.converting]
    }

    /// Adds `more` to the space for the delayed and expected blocks.
    pub(crate) fn add_reservation(&mut self, more: Reservation) {
        match &mut self.reservation {
            Some(reservation) => reservation.add(more),
            None => self.reservation = Some(more),
        }
    }

    /// Returns the pages that overlap `blocks` and have no dirty blocks, as runs of page indexes. A
    /// page contains `per_page` blocks.
    pub(crate) fn pages_left(&self, blocks: Range<u64>, per_page: u64) -> Vec<Range<u64>> {
        let touched = blocks.start / per_page..blocks.end.div_ceil(per_page);
        let mut left = Vec::new();
        let mut at = touched.start;
        let whole_pages = touched.start * per_page..touched.end.saturating_mul(per_page);
        for run in self.blocks.runs_in(whole_pages) {
            left.push(at..run.start / per_page);
            at = run.end.div_ceil(per_page);
        }
        left.push(at..touched.end);
        left.retain(|run| run.start < run.end);
        left
    }
}

/// The files with dirty state (content, size or times), and the total number of their dirty blocks.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    files: Mutex<BTreeSet<Ino>>,
    blocks: AtomicU64,
}

impl DirtyFiles {
    /// Records that `ino` is dirty, with `blocks` more dirty blocks than before. `was_clean`
    /// specifies whether the file was clean before.
    pub(crate) fn add(&self, ino: Ino, blocks: u64, was_clean: bool) {
        self.blocks.fetch_add(blocks, Relaxed);
        if was_clean {
            self.files.lock().insert(ino);
        }
    }

    /// Records that `ino` has `blocks` fewer dirty blocks than before. `is_clean` specifies whether
    /// the file is clean now.
    pub(crate) fn remove(&self, ino: Ino, blocks: u64, is_clean: bool) {
        self.blocks.fetch_sub(blocks, Relaxed);
        if is_clean {
            self.files.lock().remove(&ino);
        }
    }

    /// Returns the number of dirty blocks of all files.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Relaxed)
    }

    /// Returns the dirty files in the order of their inode numbers, because inodes with adjacent
    /// numbers are often close to each other on the device.
    pub(crate) fn files(&self) -> Vec<Ino> {
        self.files.lock().iter().copied().collect()
    }
}

/// The limits for the number of dirty blocks of all files.
#[derive(Debug)]
pub(crate) struct DirtyLimits {
    /// The limit above which the flusher starts write-back.
    pub(crate) background_blocks: u64,
    /// The limit above which a writer writes back in its own thread.
    pub(crate) writer_blocks: u64,
}

impl DirtyLimits {
    /// Returns the limits for a page cache with a capacity of `blocks`. Without a flusher, writers
    /// write back at the lower limit.
    pub(crate) fn new(blocks: u64, has_flusher: bool) -> Self {
        let background_blocks = blocks / 4;
        Self {
            background_blocks,
            writer_blocks: if has_flusher {
                blocks / 2
            } else {
                background_blocks
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

        #[test]
        fn block_set_equals_model_after_random_changes(
            changes in proptest::collection::vec((any::<bool>(), 0u64..40, 0u64..12), 0..40)
        ) {
            let (mut set, mut model) = (BlockSet::default(), BTreeSet::new());
            for (inserts, start, len) in changes {
                let range = start..start + len;
                if inserts {
                    set.insert(range.clone());
                    model.extend(range);
                } else {
                    set.remove(range.clone());
                    model.retain(|block| !range.contains(block));
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                let blocks: Vec<u64> = set.runs_in(0..100).flatten().collect();
                prop_assert_eq!(&blocks, &model.iter().copied().collect::<Vec<_>>());
                let inside: Vec<u64> = set.runs_in(5..17).flatten().collect();
                let want: Vec<u64> = model.range(5..17).copied().collect();
                prop_assert_eq!(inside, want);
                let end = model.last().map_or(0, |last| last + 1);
                prop_assert_eq!(set.end(), end);
                prop_assert_eq!(set.contains(9), model.contains(&9));
                let touching = set.runs.iter().zip(set.runs.iter().skip(1));
                for ((_, end), (start, _)) in touching {
                    prop_assert!(end < start, "runs touch");
                }
            }
        }
    }
}
