//! The free space in memory: for each group that was used, the clusters that can be claimed.
//!
//! # Model
//! ext4's buddy bitmaps. A linear scan of 4 KiB of bits takes less than a microsecond, so there are
//! no buddies, only two numbers that show which groups are worth a search.
//!
//! # Invariants
//! 1. A bit of a group's map is set if its cluster is used in the bitmap on the image, claimed, set
//!    aside, or freed by a transaction that is not committed.
//! 2. `held` counts the clusters of a group whose bits cannot be restored from the image: claimed,
//!    set aside, taken or freed by an open handle, or freed and not committed. If it is 0, the map
//!    may be dropped, and is loaded again from the image.
//! 3. While a handle changes a group's bitmap, the group is held.
//!
//! # Locking
//! `trimming` before `groups` before a group's `state`; `pending` and `counts` are never held with
//! another lock.
//!
//! # Cost
//! One bit for each cluster of the groups with a map, up to [`MAPS_MAX_BYTES`] or the maps that are
//! held; some 100 bytes for each group that was ever used.

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

/// The size in bytes of all maps above which maps that are not held are dropped.
const MAPS_MAX_BYTES: u32 = 16 << 20;

/// The number of goals for streams of content.
const STREAMS: usize = 4;

/// The location of clusters in the file system.
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

    /// Returns the cluster of `block`, which must not be before the first data block.
    pub(super) fn cluster_of(&self, block: FsBlock) -> u64 {
        block.0.saturating_sub(self.first_data_block) >> self.cluster_blocks_log2
    }

    /// Returns the number of clusters, including a truncated one at the end.
    pub(super) fn clusters_count(&self) -> u64 {
        let blocks = self.blocks_count - self.first_data_block;
        blocks.div_ceil(1 << self.cluster_blocks_log2)
    }

    /// Returns the number of clusters of `group`.
    pub(super) fn clusters_in(&self, group: GroupNo) -> u32 {
        let left = self
            .clusters_count()
            .saturating_sub(self.first_cluster(group));
        u32::try_from(left).map_or(self.clusters_per_group, |left| {
            left.min(self.clusters_per_group)
        })
    }

    /// Returns the first cluster of `group`.
    pub(super) fn first_cluster(&self, group: GroupNo) -> u64 {
        u64::from(group.0) * u64::from(self.clusters_per_group)
    }

    /// Returns the group of `cluster`, and its bit in that group. A cluster past the end is treated
    /// as the last one.
    pub(super) fn place(&self, cluster: u64) -> (GroupNo, u32) {
        let cluster = cluster.min(self.clusters_count() - 1);
        let per_group = u64::from(self.clusters_per_group);
        let group = u32::try_from(cluster / per_group).unwrap_or(u32::MAX);
        let bit = u32::try_from(cluster % per_group).unwrap_or(0);
        (GroupNo(group), bit)
    }

    /// Returns the clusters of `bits` of `group`.
    pub(super) fn run(&self, group: GroupNo, bits: &Range<u32>) -> Run {
        Run {
            start: self.first_cluster(group) + u64::from(bits.start),
            len: bits.end - bits.start,
        }
    }

    /// Returns the group of `run`, and its bits in that group.
    pub(super) fn bits(&self, run: Run) -> (GroupNo, Range<u32>) {
        let (group, bit) = self.place(run.start);
        (group, bit..bit + run.len)
    }
}

/// The clusters of a group that can be claimed.
#[derive(Debug)]
pub(super) struct Map {
    /// The clusters that cannot be claimed.
    pub(super) busy: Bits,
    /// The clusters that metadata of the file system itself uses.
    pub(super) system: Vec<Range<u32>>,
}

#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// `None` before it is needed, and after it was dropped.
    pub(super) map: Option<Map>,
    pub(super) held: u32,
    /// The number of clear bits, and an upper bound of the longest run of them. `None` before the
    /// map was first loaded.
    pub(super) summary: Option<Summary>,
    /// Corruption that was found: nothing is claimed or freed in the group.
    pub(super) damage: Option<Corrupt>,
    /// The clusters that metadata uses, set when content is first written in the group. Empty if
    /// the group's descriptor is damaged.
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

    /// Holds `bits`, which must be clear.
    pub(super) fn hold(&mut self, bits: Range<u32>) {
        self.held += bits.end - bits.start;
        self.fill(bits, true);
    }
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) state: Mutex<GroupState>,
}

/// The free space of a file system that is open for writing: claims, freed blocks, and counts.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) geometry: Geometry,
    groups: RwLock<HashMap<GroupNo, Arc<Group>>>,
    counts: Mutex<Counts>,
    /// The runs that uncommitted transactions freed, the oldest first.
    pending: Mutex<VecDeque<(Tid, Vec<Run>)>>,
    /// The number of transactions whose freed blocks became claimable.
    releases: AtomicU64,
    pub(super) windows: Mutex<Windows>,
    /// Locked while a run that counts as free is held because it is being discarded.
    pub(super) trimming: Mutex<()>,
    /// The blocks of the journal, after the first use.
    pub(super) journal: OnceLock<Vec<Range<u64>>>,
    maps: AtomicU32,
    maps_max: u32,
    /// The next cluster of each stream; 0 before its first. Inodes are distributed over the
    /// streams.
    streams: [AtomicU64; STREAMS],
    /// The group of the last allocation that was not near its goal.
    pub(super) last_group: AtomicU32,
    /// The group of the last inode that was allocated.
    pub(super) last_inode_group: AtomicU32,
}

impl Space {
    /// Creates the free space of the file system of `sb`, as it was before it was marked as in use.
    /// The counts are trusted if it was left clean and there was nothing to recover.
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

    /// Returns the number of blocks of the file system.
    pub(crate) fn blocks_count(&self) -> u64 {
        self.geometry.blocks_count
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    /// Returns the state of `group`.
    pub(super) fn group(&self, group: GroupNo) -> Arc<Group> {
        if let Some(found) = self.groups.read().get(&group) {
            return Arc::clone(found);
        }
        Arc::clone(self.groups.write().entry(group).or_default())
    }

    /// Returns the summary of `group`, if it is known. A damaged group has no free clusters.
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

    /// Returns the blocks of `run`, truncated at the end of the file system.
    pub(super) fn blocks_of(&self, run: Run) -> (FsBlock, u32) {
        let log2 = self.geometry.cluster_blocks_log2;
        let start = self.geometry.first_data_block + (run.start << log2);
        let blocks = u64::from(run.len) << log2;
        let blocks = blocks.min(self.geometry.blocks_count.saturating_sub(start));
        (FsBlock(start), u32::try_from(blocks).unwrap_or(u32::MAX))
    }

    /// Ends the hold of `run`, which is free now.
    pub(super) fn release(&self, run: Run) {
        let (group, bits) = self.geometry.bits(run);
        let group = self.group(group);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
        state.fill(bits, false);
    }

    /// Ends the hold of `run`, which stays marked as used, as on the image.
    pub(super) fn end_hold(&self, run: Run) {
        let group = self.group(self.geometry.bits(run).0);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
    }

    /// Makes `runs`, which are held, claimable once `tid` is committed.
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

    /// Records that `tid` and all earlier transactions are committed. Only one call may be active
    /// at a time.
    ///
    /// Released runs stay pending until they are claimable and [`Space::releases`] has increased. A
    /// thread that finds nothing pending therefore finds a higher count.
    pub(crate) fn committed(&self, tid: Tid) {
        // Numbers wrap around: the sign of the difference shows which is older.
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

    /// Returns the number of transactions whose freed blocks became claimable.
    pub(super) fn releases(&self) -> u64 {
        self.releases.load(Ordering::Acquire)
    }

    /// Sets aside the clusters of `found` past the first `want` for `ino`, and returns the first
    /// `want`. Releases the run that this replaces, if any. Without an inode, `found` must not be
    /// longer than `want`.
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

    /// Releases the clusters that are set aside for `ino`.
    pub(super) fn release_window(&self, ino: Ino) {
        let released = self.windows.lock().remove(ino);
        if let Some(run) = released {
            self.release(run);
        }
    }

    /// Returns the cluster where the stream of `ino` continues.
    pub(super) fn stream_goal(&self, ino: Ino) -> Option<u64> {
        let goal = self.streams[stream_of(ino)].load(Ordering::Relaxed);
        (goal != 0).then_some(goal)
    }

    /// Records that the stream of `ino` continues at `cluster`.
    pub(super) fn set_stream_goal(&self, ino: Ino, cluster: u64) {
        self.streams[stream_of(ino)].store(cluster, Ordering::Relaxed);
    }

    /// Returns whether a commit would make blocks claimable.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.lock().is_empty()
    }

    /// Counts one more map. If there are too many, drops those that are not held.
    pub(super) fn count_map(&self) {
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
