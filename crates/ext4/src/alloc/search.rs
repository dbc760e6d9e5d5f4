//! The search for a run of free clusters.
//!
//! # Policy
//! The search takes these steps in order, until one of them finds clusters:
//!
//! 1. The clusters at the goal. A file that grows uses the free clusters there, even if they are
//!    fewer than wanted.
//! 2. The goal's group: the first run at or after the goal that is long enough, or else the first
//!    such run before the goal. Many small allocations with the same goal (the files of a
//!    directory) are therefore packed.
//! 3. The first run that is long enough. The search examines the goal's flexible group, then
//!    [`GROUPS_NEAR`] groups, of which the goal's group is the first, and then all groups. The search
//!    of all groups starts at the group where the last such search succeeded, and wraps at the end of
//!    the file system. This step ends early after [`SEARCHES_MAX`] unsuccessful searches of groups.
//!    It also ends after [`GROUPS_COMPARED`] examined groups, unless they have no free cluster.
//! 4. The longest run in one of the examined groups: the group with the largest upper bound on the
//!    length of its runs, according to its summary or descriptor.
//! 5. The longest run in the first group that has a free cluster.
//!
//! If no cluster is free, the clusters that are preallocated for files are released. If `fstrim`
//! is discarding a free run, the search waits until that run is free again. Then all steps are
//! repeated.
//!
//! In steps 2 and 3, an allocation of a multiple of [`ALIGNED_FROM`] clusters is aligned to a power of
//! two, if the free run is long enough.
//!
//! # Cost
//! A search of a group whose map is loaded takes a microsecond. A group whose descriptor has too
//! few free clusters is not searched.

use super::bits::Bits;
use super::run::Run;
use super::space::{GroupState, Map};
use crate::{Filesystem, GroupNo, attempt};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The number of groups that are examined after the goal's flexible group, and before the search of all
/// groups. The first of them is the goal's group.
const GROUPS_NEAR: usize = 256;

/// The number of groups that are searched without success before a shorter run is accepted.
const SEARCHES_MAX: u32 = 64;

/// The number of groups that are examined before a shorter run is accepted. To examine a group is to
/// read its summary or descriptor, and to search the group only if its longest run may be long enough.
const GROUPS_COMPARED: usize = 4096;

/// The smallest power of two, in clusters, that runs are aligned to.
const ALIGNED_FROM: u32 = 256;

/// The binary logarithm of the largest power of two, in clusters, that runs are aligned to.
const UNIT_LOG2_MAX: u32 = 11;

/// The goal and size of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The cluster at which the search starts.
    pub(super) goal: u64,
    /// The maximum number of clusters to find.
    pub(super) clusters: u32,
    /// Whether a run at the goal is better than a run elsewhere, even if it is shorter.
    pub(super) continues: bool,
}

impl Filesystem {
    /// Finds a run of free clusters and holds it ([`super::space`]). Returns `None` if no cluster
    /// is free.
    pub(super) fn find_clusters(&self, wanted: Wanted) -> Option<Run> {
        let space = self.allocator();
        if let Some(run) = self.search(wanted) {
            return Some(run);
        }
        if attempt::gives_way() {
            return None;
        }
        let preallocated = space.windows.lock().remove_all();
        for run in preallocated {
            space.release(run);
        }
        // Clusters that are being discarded are free again once the lock is available.
        if attempt::is_attempt() {
            // An attempt must not wait for the lock.
            return attempt::require_no_discards().then(|| self.search(wanted))?;
        }
        let _no_trim = space.trimming.lock();
        self.search(wanted)
    }

    fn search(&self, wanted: Wanted) -> Option<Run> {
        let space = self.allocator();
        let (home, bit) = space.geometry.place(wanted.goal);
        let want = wanted
            .clusters
            .min(space.geometry.clusters_per_group)
            .max(1);
        let at_goal = self.hold_in(home, |bits| at_goal(bits, bit, want, wanted.continues));
        if at_goal.is_some() {
            return at_goal;
        }
        let last = GroupNo(space.last_group.load(Ordering::Relaxed));
        let near = std::iter::once(home)
            .chain(self.flex_groups(home))
            .chain(self.groups_from(home).take(GROUPS_NEAR));
        let mut longest = (0, home);
        let mut searches = 0;
        for (step, group) in near.chain(self.groups_from(last)).enumerate() {
            if attempt::gives_way() {
                // Blocks of the previous group are not in memory. The search stops here, so that these
                // blocks are read before it requests those of less suitable groups.
                return None;
            }
            let len = self.longest_in(group);
            if len < want {
                longest = longest.max((len, group));
                if step >= GROUPS_COMPARED && longest.0 > 0 {
                    break;
                }
                continue;
            }
            let from = if group == home { bit } else { 0 };
            let found = self.hold_in(group, |bits| first_of(bits, from, want));
            if found.is_some() {
                if step > GROUPS_NEAR {
                    space.last_group.store(group.0, Ordering::Relaxed);
                }
                return found;
            }
            longest = longest.max((self.longest_in(group), group));
            searches += 1;
            if searches == SEARCHES_MAX {
                break;
            }
        }
        for group in std::iter::once(longest.1).chain(self.groups_from(last)) {
            if attempt::gives_way() {
                return None;
            }
            if self.longest_in(group) > 0 {
                let found = self.hold_in(group, |bits| longest_of(bits, want));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Returns all groups, starting at `first` and wrapping after the last group.
    pub(super) fn groups_from(&self, first: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        let count = self.superblock().groups_count;
        (first.0..count).chain(0..first.0.min(count)).map(GroupNo)
    }

    /// Returns an upper bound on the length of the longest run of free clusters in `group`; 0 if
    /// the group is damaged.
    fn longest_in(&self, group: GroupNo) -> u32 {
        let known = self.allocator().known(group);
        match known {
            Some(summary) => summary.longest_max,
            None => self.group(group).map_or(0, |desc| desc.free_clusters),
        }
    }

    /// Holds and returns the run that `pick` selects in the map of `group`. Returns `None` if
    /// `pick` selects no run, or the map cannot be loaded.
    fn hold_in(&self, group: GroupNo, pick: impl FnOnce(&Bits) -> SearchResult) -> Option<Run> {
        let found = self.with_map(group, |state| {
            let GroupState {
                map: Some(Map { busy, .. }),
                summary: Some(summary),
                ..
            } = state
            else {
                return None;
            };
            match pick(busy) {
                SearchResult::Run(bits) => Some(bits),
                SearchResult::NoneLongerThan(longest) => {
                    summary.longest_max = longest;
                    None
                }
                SearchResult::None => None,
            }
            .filter(|bits| !bits.is_empty())
            .inspect(|bits| state.hold(bits.clone()))
        });
        let bits = found.ok().flatten()?;
        Some(self.allocator().geometry.run(group, &bits))
    }
}

/// The result of the search of a group.
enum SearchResult {
    Run(Range<u32>),
    /// The whole group was searched, and its longest run, which has this length, is too short.
    NoneLongerThan(u32),
    None,
}

/// Returns the run that starts at `bit`, if it is long enough or `any_length` is true.
fn at_goal(bits: &Bits, bit: u32, want: u32, any_length: bool) -> SearchResult {
    let run = bits.run_at(bit);
    let len = run.end - run.start;
    if len >= want || (any_length && len > 0) {
        return SearchResult::Run(bit..bit + len.min(want));
    }
    SearchResult::None
}

/// Returns the first run of `want` clusters at or after `from`. If all such runs start before `from`,
/// returns the first of them.
fn first_of(bits: &Bits, from: u32, want: u32) -> SearchResult {
    let mut longest = 0;
    // The second pass searches the whole group, because the first pass truncates a run that
    // contains `from`.
    for range in [from..bits.len(), 0..bits.len()] {
        longest = 0;
        for run in bits.runs(range) {
            let len = run.end - run.start;
            if len >= want {
                return SearchResult::Run(aligned(run, want));
            }
            longest = longest.max(len);
        }
    }
    SearchResult::NoneLongerThan(longest)
}

/// Returns the longest run, truncated to `want` clusters.
fn longest_of(bits: &Bits, want: u32) -> SearchResult {
    let mut best = 0..0;
    for run in bits.runs(0..bits.len()) {
        if run.end - run.start > best.end - best.start {
            best = run;
            if best.end - best.start >= want {
                break;
            }
        }
    }
    if best.is_empty() {
        return SearchResult::NoneLongerThan(0);
    }
    let len = (best.end - best.start).min(want);
    SearchResult::Run(best.start..best.start + len)
}

/// Returns `want` clusters of `run`, which must have at least `want`. If `want` is a multiple of a
/// large power of two, the clusters are aligned to that power if possible.
fn aligned(run: Range<u32>, want: u32) -> Range<u32> {
    let unit = 1 << want.trailing_zeros().min(UNIT_LOG2_MAX);
    let start = run.start.next_multiple_of(unit);
    if unit >= ALIGNED_FROM && start.saturating_add(want) <= run.end {
        return start..start + want;
    }
    run.start..run.start + want
}
