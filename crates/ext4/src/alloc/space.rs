//! The space in memory: for each group that somebody has asked for, which clusters can be
//! claimed.
//!
//! # Model
//! ext4's buddy bitmaps. A linear look at 4 KiB of bits takes less than a microsecond, so
//! there are no buddies, only two numbers that say which groups are worth a look.
//!
//! # Invariants
//! 1. A bit of a group's map is set if its cluster is used by the bitmap on the image, claimed,
//!    set aside, or freed by a transaction that is not committed.
//! 2. `held` counts the clusters of a group whose bit must not be made from the image: claimed,
//!    set aside, taken or freed by an open handle, freed and not committed. Without any, the map may be
//!    dropped, and is made again from the image.
//! 3. While a handle changes a group's bitmap, the group is held.
//!
//! # Locking
//! `trimming` before `groups` before a group's `state`; `pending` and `counts` are never held with another lock.
//!
//! # Cost
//! A bit a cluster of the groups with a map, at most [`MAPS_MAX_BYTES`] or what is held; some
//! 100 bytes a group that was ever looked at.

use super::bits::Bits;
use super::counts::Counts;
use super::run::Run;
use super::window::Windows;
use crate::error::Corrupt;
use crate::ondisk::superblock::Superblock;
use crate::{FsBlock, GroupNo, Ino, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of maps beyond which those that are not held are dropped.
const MAPS_MAX_BYTES: u32 = 16 << 20;

/// Places where streams of content go on.
const STREAMS: usize = 4;

/// Where clusters lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) first_data_block: u64,
    pub(super) blocks_count: u64,
    pub(super) cluster_blocks_log2: u8,
    pub(super) clusters_per_group: u32,
}

impl Geometry {
    fn new(sb: &Superblock) -> Self {
        Self {
            first_data_block: u64::from(sb.first_data_block),
            blocks_count: sb.blocks_count,
            cluster_blocks_log2: sb.cluster_blocks_log2,
            clusters_per_group: (sb.blocks_per_group >> sb.cluster_blocks_log2).max(1),
        }
    }

    /// The cluster of `block`, which lies behind the first data block.
    pub(super) fn cluster_of(&self, block: FsBlock) -> u64 {
        block.0.saturating_sub(self.first_data_block) >> self.cluster_blocks_log2
    }

    /// All clusters, one cut off at the end included.
    pub(super) fn clusters_count(&self) -> u64 {
        let blocks = self.blocks_count - self.first_data_block;
        blocks.div_ceil(1 << self.cluster_blocks_log2)
    }

    /// The clusters of `group`.
    pub(super) fn clusters_in(&self, group: GroupNo) -> u32 {
        let left = self
            .clusters_count()
            .saturating_sub(self.first_cluster(group));
        u32::try_from(left).map_or(self.clusters_per_group, |left| {
            left.min(self.clusters_per_group)
        })
    }

    /// The first cluster of `group`.
    pub(super) fn first_cluster(&self, group: GroupNo) -> u64 {
        u64::from(group.0) * u64::from(self.clusters_per_group)
    }

    /// The group of `cluster`, and its bit in there; of the last one if it lies behind
    /// all groups.
    pub(super) fn place(&self, cluster: u64) -> (GroupNo, u32) {
        let cluster = cluster.min(self.clusters_count() - 1);
        let per_group = u64::from(self.clusters_per_group);
        let group = u32::try_from(cluster / per_group).unwrap_or(u32::MAX);
        let bit = u32::try_from(cluster % per_group).unwrap_or(0);
        (GroupNo(group), bit)
    }

    /// The clusters of `bits` of `group`.
    pub(super) fn run(&self, group: GroupNo, bits: &Range<u32>) -> Run {
        Run {
            start: self.first_cluster(group) + u64::from(bits.start),
            len: bits.end - bits.start,
        }
    }

    /// The group of `run`, and its bits in there.
    pub(super) fn bits(&self, run: Run) -> (GroupNo, Range<u32>) {
        let (group, bit) = self.place(run.start);
        (group, bit..bit + run.len)
    }
}

/// What can be claimed in a group.
#[derive(Debug)]
pub(super) struct Map {
    /// What cannot.
    pub(super) busy: Bits,
    /// The clusters that metadata of the file system itself takes.
    pub(super) system: Vec<Range<u32>>,
}

#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// `None` before it is needed, and once it was dropped.
    pub(super) map: Option<Map>,
    pub(super) held: u32,
    /// Clear bits, and no fewer than the longest run of them has: once the map was there.
    pub(super) summary: Option<Summary>,
    /// What was wrong with it: nothing is claimed or freed in it.
    pub(super) damage: Option<Corrupt>,
    /// The clusters that metadata takes, once content was written in the group; none if its
    /// descriptor is damaged.
    pub(super) system: Option<Arc<[Range<u32>]>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) free: u32,
    pub(super) longest_max: u32,
}

impl GroupState {
    /// Sets or clears the bits of a run, if there is a map.
    fn fill(&mut self, bits: Range<u32>, is_busy: bool) {
        let len = bits.end - bits.start;
        if let Some(map) = &mut self.map {
            map.busy.fill(bits, is_busy);
        }
        if let Some(summary) = &mut self.summary {
            if is_busy {
                summary.free -= len;
                summary.longest_max = summary.longest_max.min(summary.free);
            } else {
                summary.free += len;
                summary.longest_max = summary.free;
            }
        }
    }

    /// Keeps `bits`, which are clear, from others.
    pub(super) fn hold(&mut self, bits: Range<u32>) {
        self.held += bits.end - bits.start;
        self.fill(bits, true);
    }
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) state: Mutex<GroupState>,
}

/// The free space of a file system that is written to: what is claimed, freed, counted.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) geometry: Geometry,
    groups: RwLock<HashMap<GroupNo, Arc<Group>>>,
    counts: Mutex<Counts>,
    /// What transactions freed that are not committed, the oldest first.
    pending: Mutex<VecDeque<(Tid, Vec<Run>)>>,
    /// How many transactions' freed blocks have become claimable.
    releases: AtomicU64,
    pub(super) windows: Mutex<Windows>,
    /// Held while a run is held that is being discarded, and counts as free.
    pub(super) trimming: Mutex<()>,
    /// The blocks of the journal, once they were asked for.
    pub(super) journal: OnceLock<Vec<Range<u64>>>,
    maps: AtomicU32,
    maps_max: u32,
    /// Where the streams go on, one in so many inodes each; 0 before the first.
    streams: [AtomicU64; STREAMS],
    /// The group where something was found last that was not near its goal.
    pub(super) last_group: AtomicU32,
    /// The group where an inode was found last.
    pub(super) last_inode_group: AtomicU32,
}

impl Space {
    /// For the file system of `sb`, as it was before it was marked as in use: if it
    /// was left clean, and there was nothing to recover, its counts are trusted.
    pub(crate) fn new(sb: &Superblock, was_clean: bool) -> Self {
        let geometry = Geometry::new(sb);
        Self {
            groups: RwLock::default(),
            counts: Mutex::new(Counts::new(sb, was_clean)),
            pending: Mutex::default(),
            releases: AtomicU64::new(0),
            windows: Mutex::default(),
            trimming: Mutex::default(),
            streams: Default::default(),
            journal: OnceLock::new(),
            maps: AtomicU32::new(0),
            maps_max: MAPS_MAX_BYTES / geometry.clusters_per_group.div_ceil(8),
            last_group: AtomicU32::new(0),
            last_inode_group: AtomicU32::new(0),
            geometry,
        }
    }

    /// Blocks of the file system.
    pub(crate) fn blocks_count(&self) -> u64 {
        self.geometry.blocks_count
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    /// The state of `group`.
    pub(super) fn group(&self, group: GroupNo) -> Arc<Group> {
        if let Some(found) = self.groups.read().get(&group) {
            return Arc::clone(found);
        }
        Arc::clone(self.groups.write().entry(group).or_default())
    }

    /// What is known of `group`: what is wrong with it, or what it has.
    pub(super) fn known(&self, group: GroupNo) -> Option<Summary> {
        let entry = Arc::clone(self.groups.read().get(&group)?);
        let state = entry.state.lock();
        match state.damage {
            Some(_) => Some(Summary {
                free: 0,
                longest_max: 0,
            }),
            None => state.summary,
        }
    }

    /// The blocks of `run`: fewer than its clusters have at the end of the file system.
    pub(super) fn blocks_of(&self, run: Run) -> (FsBlock, u32) {
        let log2 = self.geometry.cluster_blocks_log2;
        let start = self.geometry.first_data_block + (run.start << log2);
        let blocks = u64::from(run.len) << log2;
        let blocks = blocks.min(self.geometry.blocks_count.saturating_sub(start));
        (FsBlock(start), u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    /// What was held is free.
    pub(super) fn release(&self, run: Run) {
        let (group, bits) = self.geometry.bits(run);
        let group = self.group(group);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
        state.fill(bits, false);
    }

    /// What was held is as the image says: used.
    pub(super) fn settle(&self, run: Run) {
        let group = self.group(self.geometry.bits(run).0);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
    }

    /// `runs`, which are held, can be claimed once `tid` is committed.
    pub(super) fn wait_for_commit(&self, tid: Tid, runs: Vec<Run>) {
        if runs.is_empty() {
            return;
        }
        let mut pending = self.pending.lock();
        match pending.back_mut() {
            Some((last, freed)) if *last == tid => freed.extend(runs),
            _ => pending.push_back((tid, runs)),
        }
    }

    /// `tid` is committed, and with it all before. One at a time.
    ///
    /// What is released stays pending until it is claimable and [`Space::releases`] tells of it:
    /// who finds nothing pending finds one of both.
    pub(crate) fn committed(&self, tid: Tid) {
        // Numbers wrap around: the difference says which is the older.
        let is_older = |freed: Tid| freed.0.wrapping_sub(tid.0).cast_signed() <= 0;
        loop {
            let runs = match self.pending.lock().front_mut() {
                Some((freed, runs)) if is_older(*freed) => std::mem::take(runs),
                _ => return,
            };
            for run in runs {
                self.release(run);
            }
            self.releases.fetch_add(1, Ordering::AcqRel);
            self.pending.lock().pop_front();
        }
    }

    /// How many transactions' freed blocks have become claimable.
    pub(super) fn releases(&self) -> u64 {
        self.releases.load(Ordering::Acquire)
    }

    /// Sets what of `found` is more than `want` aside for `ino`; returns the rest. Nothing is
    /// set aside for nobody: it is free again.
    pub(super) fn set_rest_aside(&self, ino: Ino, found: Run, want: u32) -> Run {
        if found.len <= want {
            return found;
        }
        let rest = Run {
            start: found.start + u64::from(want),
            len: found.len - want,
        };
        let released = self.windows.lock().set(ino, rest);
        if let Some(run) = released {
            self.release(run);
        }
        Run { len: want, ..found }
    }

    /// Gives up what is set aside for `ino`.
    pub(super) fn give_up_window(&self, ino: Ino) {
        let released = self.windows.lock().remove(ino);
        if let Some(run) = released {
            self.release(run);
        }
    }

    /// Where the stream of `ino` goes on.
    pub(super) fn stream_goal(&self, ino: Ino) -> Option<u64> {
        let goal = self.streams[stream_of(ino)].load(Ordering::Relaxed);
        (goal != 0).then_some(goal)
    }

    /// The stream of `ino` goes on at `cluster`.
    pub(super) fn set_stream_goal(&self, ino: Ino, cluster: u64) {
        self.streams[stream_of(ino)].store(cluster, Ordering::Relaxed);
    }

    /// Whether a commit would free something.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.lock().is_empty()
    }

    /// Counts one more map; drops those that are not held if there are too many.
    pub(super) fn map_was_made(&self) {
        if self.maps.fetch_add(1, Ordering::Relaxed) < self.maps_max {
            return;
        }
        for group in self.groups.read().values() {
            if let Some(mut state) = group.state.try_lock()
                && state.held == 0
                && state.map.take().is_some()
            {
                self.maps.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

fn stream_of(ino: Ino) -> usize {
    usize::try_from(ino.0).unwrap_or(0) % STREAMS
}
