//! The free space in memory: for each group in which space was searched, the clusters that can be
//! claimed.
//!
//! # Model
//! ext4's buddy bitmaps. Each group has a *map*: one bit in memory for each cluster, which is set if the
//! cluster cannot be claimed. A summary of two numbers shows whether a search of the map can succeed. Buddies
//! are not needed, because a linear scan of 4 KiB of bits takes less than a microsecond.
//!
//! Below, the *bitmap* of a group is its block bitmap as the buffer cache returns it. It contains the
//! changes of all handles, also of an open one, and of transactions that are not committed. A bitmap that is
//! not initialized counts as one that marks only the metadata of the file system as used.
//!
//! # Invariants
//! 1. A bit of a group's map is set if and only if the bitmap marks the cluster as used or the cluster is
//!    held.
//! 2. A cluster is *held* while its bit must be set, whatever the bitmap says:
//!    - while the cluster is claimed;
//!    - while it is preallocated for a file that grows ([`super::window`]);
//!    - while it is being discarded;
//!    - after an open handle allocated or freed it;
//!    - after a transaction freed it, until the transaction is committed.
//! 3. `held` is the number of held clusters of a group. If it is 0, the map may be dropped; it is loaded
//!    again from the bitmap when it is needed.
//! 4. While a handle changes a group's bitmap, `held` of the group is not 0. Therefore no map is loaded from
//!    a bitmap with changes that may be undone.
//!
//! # Locking
//! `trimming` and `counting` are locked before a handle is opened. `trimming` is locked before `groups`,
//! `groups` before the `state` of a group, and `sums` before `counts`. No lock is acquired while `pending`,
//! `windows` or `counts` is held. A thread with an open handle may lock `groups`, the `state` of a group,
//! `sums`, `counts`, `pending` and `windows`. Therefore a thread that holds one of these must not wait for
//! the device.
//!
//! # Cost
//! The maps take one bit for each cluster: at most [`MAPS_MAX_BYTES`] in total, unless groups with held
//! clusters need more. The state of a group, without its map, stays in memory from its first use on.

use super::bits::Bits;
use super::counts::Counts;
use super::run::Run;
use super::sums::Sums;
use super::window::Windows;
use crate::error::Corrupt;
use crate::ondisk::superblock::Superblock;
use crate::{FsBlock, GroupNo, Ino, Tid};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The maximum total size of all maps, in bytes. If they are larger, the maps of groups without held clusters
/// are dropped.
const MAPS_MAX_BYTES: u32 = 16 << 20;

/// The number of streams. A stream is an area in which the contents of large files are allocated, one file
/// after another and apart from small files. (In other modules, a stream is the state of readahead.)
const STREAMS: usize = 4;

/// The conversion between blocks, clusters and groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) first_data_block: u64,
    pub(super) blocks_count: u64,
    pub(super) cluster_blocks_log2: u8,
    pub(super) clusters_per_group: u32,
    inodes_per_group: u32,
}

impl Geometry {
    fn new(sb: &Superblock) -> Self {
        Self {
            first_data_block: u64::from(sb.first_data_block),
            blocks_count: sb.blocks_count,
            cluster_blocks_log2: sb.cluster_blocks_log2,
            clusters_per_group: (sb.blocks_per_group >> sb.cluster_blocks_log2).max(1),
            inodes_per_group: sb.inodes_per_group.max(1),
        }
    }

    /// Returns the cluster that contains `block`, which must not be before the first data block.
    pub(super) fn cluster_of(&self, block: FsBlock) -> u64 {
        block.0.saturating_sub(self.first_data_block) >> self.cluster_blocks_log2
    }

    /// Returns the group of an inode.
    pub(super) fn group_of_inode(&self, ino: Ino) -> GroupNo {
        GroupNo(ino.0.saturating_sub(1) / self.inodes_per_group)
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

    /// Returns the group of `cluster`, and the bit of the cluster in the group's map. A cluster
    /// past the end of the file system is treated as the last cluster.
    pub(super) fn place(&self, cluster: u64) -> (GroupNo, u32) {
        let cluster = cluster.min(self.clusters_count() - 1);
        let per_group = u64::from(self.clusters_per_group);
        let group = u32::try_from(cluster / per_group).unwrap_or(u32::MAX);
        let bit = u32::try_from(cluster % per_group).unwrap_or(0);
        (GroupNo(group), bit)
    }

    /// Returns the clusters that `bits` of the map of `group` represent.
    pub(super) fn run(&self, group: GroupNo, bits: &Range<u32>) -> Run {
        Run {
            start: self.first_cluster(group) + u64::from(bits.start),
            len: bits.end - bits.start,
        }
    }

    /// Returns the group of `run`, and the bits of the run in the group's map.
    pub(super) fn bits(&self, run: Run) -> (GroupNo, Range<u32>) {
        let (group, bit) = self.place(run.start);
        (group, bit..bit + run.len)
    }
}

/// The map of a group, which shows the clusters that can be claimed.
#[derive(Debug)]
pub(super) struct Map {
    /// The clusters that cannot be claimed.
    pub(super) busy: Bits,
    /// The clusters that contain superblocks, descriptors, bitmaps, inode tables, the journal or the block of
    /// multiple-mount protection.
    pub(super) system: Vec<Range<u32>>,
}

/// What is known about a group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// The map; `None` before it is needed, and after it was dropped.
    pub(super) map: Option<Map>,
    /// The number of held clusters.
    pub(super) held: u32,
    /// The summary of the map, which stays valid when the map is dropped. `None` before the map was
    /// first loaded.
    pub(super) summary: Option<Summary>,
    /// The corruption that was found in the group, if any. Nothing is claimed or freed in a damaged
    /// group.
    pub(super) damage: Option<Corrupt>,
    /// The same clusters as in [`Map::system`]. They are kept when the map is dropped. Set when
    /// content is first written in the group. Empty if the clusters cannot be determined, for example because
    /// the group's descriptor is damaged.
    pub(super) system: Option<Arc<[Range<u32>]>>,
}

/// What is known about the free space of a group without its map: the number of free clusters, and
/// an upper bound on the length of the longest free run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    pub(super) free: u32,
    pub(super) longest_max: u32,
}

impl GroupState {
    /// Sets or clears `bits` in the map, if the map is loaded, and updates the summary. Before the call, all
    /// these bits must have the opposite value.
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

    /// Holds the clusters of `bits`, which must be clear, and sets the bits.
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
    /// The runs that uncommitted transactions freed, by transaction, oldest first.
    pending: Mutex<VecDeque<(Tid, Vec<Run>)>>,
    /// The number of transactions whose freed blocks have become claimable since the file system
    /// was opened.
    releases: AtomicU64,
    /// The clusters that are preallocated for files that grow.
    pub(super) windows: Mutex<Windows>,
    /// Locked while a free run is held because it is being discarded. An allocation that finds no space
    /// locks this mutex: it waits until the run is free again, and prevents further discards.
    pub(crate) trimming: Mutex<()>,
    /// Locked while a thread sums up the group descriptors.
    pub(super) counting: Mutex<()>,
    /// The sums over the descriptors that were read so far, while `counting` is locked.
    pub(super) sums: Mutex<Sums>,
    /// The blocks of the journal, which are determined on first use.
    pub(super) journal: OnceLock<Vec<Range<u64>>>,
    /// The number of loaded maps.
    maps: AtomicU32,
    /// The maximum number of loaded maps: [`MAPS_MAX_BYTES`] divided by the size of a map.
    maps_max: u32,
    /// For each stream, the cluster at which the search for the first blocks of its next file starts; 0
    /// before the first allocation. The inode number of a file determines its stream.
    streams: [AtomicU64; STREAMS],
    /// The group of the last allocation that was not near its goal.
    pub(super) last_group: AtomicU32,
    /// The group of the last inode that was allocated.
    pub(super) last_inode_group: AtomicU32,
}

impl Space {
    /// Creates the free space of a file system. `sb` is the superblock as it was before the file system was
    /// marked as in use. `was_clean` is true if there was nothing to recover. The counts of `sb` are trusted
    /// if `was_clean` is true, `sb` is marked as valid and without errors, and at least an eighth of all
    /// clusters is available ([`Counts::is_known`]).
    pub(crate) fn new(sb: &Superblock, was_clean: bool) -> Self {
        let geometry = Geometry::new(sb);
        Self {
            groups: RwLock::default(),
            counts: Mutex::new(Counts::new(sb, was_clean)),
            pending: Mutex::default(),
            releases: AtomicU64::new(0),
            windows: Mutex::default(),
            trimming: Mutex::default(),
            counting: Mutex::default(),
            sums: Mutex::default(),
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

    /// Makes the held `run` free: ends the hold, and clears the bits of `run`.
    pub(super) fn release(&self, run: Run) {
        let (group, bits) = self.geometry.bits(run);
        let group = self.group(group);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
        state.fill(bits, false);
    }

    /// Ends the hold of `run`. Its bits in the map stay set, because the bitmap marks its clusters as used.
    pub(super) fn end_hold(&self, run: Run) {
        let group = self.group(self.geometry.bits(run).0);
        let mut state = group.state.lock();
        state.held = state.held.saturating_sub(run.len);
    }

    /// Records that `runs`, which are held, can be claimed when transaction `tid` is committed.
    pub(super) fn hold_until_commit(&self, tid: Tid, runs: Vec<Run>) {
        if runs.is_empty() {
            return;
        }
        let mut pending = self.pending.lock();
        match pending.back_mut() {
            Some((last, freed)) if *last == tid => freed.extend(runs),
            _ => pending.push_back((tid, runs)),
        }
    }

    /// Records that transaction `tid` and all earlier transactions are committed, and makes the
    /// runs that they freed claimable. Only one call may be active at a time.
    ///
    /// The entry of a transaction stays in `pending` until its runs are claimable and
    /// [`Space::releases`] has increased. A thread that finds `pending` empty after a commit
    /// therefore sees the higher count.
    pub(crate) fn committed(&self, tid: Tid) {
        // Transaction numbers wrap around: the sign of the difference shows which one is older.
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

    /// Returns the first `want` clusters of the held run `found`, and preallocates the others for `ino`. If
    /// clusters were preallocated for `ino` before, releases these. Otherwise, if clusters are now preallocated
    /// for too many files, releases the clusters that were preallocated first ([`Windows::set`]). If `ino` is 0,
    /// `found` must not be longer than `want`.
    pub(super) fn preallocate_rest(&self, ino: Ino, found: Run, want: u32) -> Run {
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

    /// Releases the clusters that are preallocated for `ino`.
    pub(super) fn release_window(&self, ino: Ino) {
        let released = self.windows.lock().remove(ino);
        if let Some(run) = released {
            self.release(run);
        }
    }

    /// Returns the cluster at which the search for the first blocks of `ino` starts, if the file belongs to a
    /// stream. Returns `None` before the first allocation in the stream.
    pub(super) fn stream_goal(&self, ino: Ino) -> Option<u64> {
        let goal = self.streams[stream_of(ino)].load(Ordering::Relaxed);
        (goal != 0).then_some(goal)
    }

    /// Records that the search for the next file in the stream of `ino` starts at `cluster`.
    pub(super) fn set_stream_goal(&self, ino: Ino, cluster: u64) {
        self.streams[stream_of(ino)].store(cluster, Ordering::Relaxed);
    }

    /// Returns whether there are freed blocks that a commit would make claimable.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.lock().is_empty()
    }

    /// Counts one more loaded map. If there are too many, drops the maps of groups without held clusters,
    /// except groups that another thread has locked.
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
