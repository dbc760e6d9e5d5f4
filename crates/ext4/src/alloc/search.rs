//! Where to allocate: the search for a run of free clusters.
//!
//! # Policy
//! 1. The goal itself: a file that goes on takes what is free right behind it, however short.
//! 2. The goal's group: the first run from the goal on that is long enough, so that what is
//!    wanted in small pieces with one goal (the files of a directory) comes out packed.
//! 3. The goal's flexible group, [`GROUPS_NEAR`] groups behind it, then those from where
//!    something was found last, round the disk: the first run that is long enough.
//! 4. The longest that was seen, if [`LOOKS_MAX`] groups seemed to have one and had not, or
//!    [`GROUPS_COMPARED`] groups have none.
//! 5. Whatever is free anywhere; then what is set aside for others, or being discarded.
//!
//! A large run starts where the disk's own units do, if the free run is long enough for that.
//!
//! # Cost
//! A look at a group whose map is there is a microsecond; a group without enough free
//! clusters by its descriptor is not looked at.

use super::bits::Bits;
use super::run::Run;
use super::space::{GroupState, Map};
use crate::{Filesystem, GroupNo};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Groups behind the goal's that are near.
const GROUPS_NEAR: usize = 256;

/// Groups whose maps are searched in vain before less is taken.
const LOOKS_MAX: u32 = 64;

/// Groups that are compared before less is taken.
const GROUPS_COMPARED: usize = 4096;

/// Clusters from which on a run is aligned.
const ALIGNED_FROM: u32 = 256;

/// The largest boundary that runs are aligned to, in clusters, as a binary logarithm.
const UNIT_LOG2_MAX: u32 = 11;

/// What is searched for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The cluster to start from.
    pub(super) goal: u64,
    /// As many clusters as possible, up to these.
    pub(super) clusters: u32,
    /// Whether what is free at the goal is better than any longer run elsewhere.
    pub(super) goes_on: bool,
}

impl Filesystem {
    /// Finds free clusters and holds them. `None` if there are none.
    pub(super) fn find_clusters(&self, wanted: Wanted) -> Option<Run> {
        let space = self.allocator();
        if let Some(run) = self.search(wanted) {
            return Some(run);
        }
        let set_aside = space.windows.lock().remove_all();
        for run in set_aside {
            space.release(run);
        }
        // What is being discarded is free.
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
        let at_goal = self.hold_in(home, |bits| at_goal(bits, bit, want, wanted.goes_on));
        if at_goal.is_some() {
            return at_goal;
        }
        let last = GroupNo(space.last_group.load(Ordering::Relaxed));
        let near = std::iter::once(home)
            .chain(self.flex_groups(home))
            .chain(self.groups_from(home).take(GROUPS_NEAR));
        let mut longest = (0, home);
        let mut looks = 0;
        for (step, group) in near.chain(self.groups_from(last)).enumerate() {
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
            looks += 1;
            if looks == LOOKS_MAX {
                break;
            }
        }
        for group in std::iter::once(longest.1).chain(self.groups_from(last)) {
            if self.longest_in(group) > 0 {
                let found = self.hold_in(group, |bits| longest_of(bits, want));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// All groups, from `first` on round the disk.
    pub(super) fn groups_from(&self, first: GroupNo) -> impl Iterator<Item = GroupNo> + use<> {
        let count = self.superblock().groups_count;
        (first.0..count).chain(0..first.0.min(count)).map(GroupNo)
    }

    /// Free clusters of `group` that follow each other, at most. None in a damaged one.
    fn longest_in(&self, group: GroupNo) -> u32 {
        let known = self.allocator().known(group);
        match known {
            Some(summary) => summary.longest_max,
            None => self.group(group).map_or(0, |desc| desc.free_clusters),
        }
    }

    /// Holds what `pick` finds in the map of `group`. A group that cannot be read has nothing.
    fn hold_in(&self, group: GroupNo, pick: impl FnOnce(&Bits) -> Picked) -> Option<Run> {
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
                Picked::Run(bits) => Some(bits),
                Picked::NoneLongerThan(longest) => {
                    summary.longest_max = longest;
                    None
                }
                Picked::None => None,
            }
            .filter(|bits| !bits.is_empty())
            .inspect(|bits| state.hold(bits.clone()))
        });
        let bits = found.ok().flatten()?;
        Some(self.allocator().geometry.run(group, &bits))
    }
}

/// What was found in a group.
enum Picked {
    Run(Range<u32>),
    /// All was looked at.
    NoneLongerThan(u32),
    None,
}

/// The run that starts at `bit`, if it is long enough or `any_length` will do.
fn at_goal(bits: &Bits, bit: u32, want: u32, any_length: bool) -> Picked {
    let run = bits.run_at(bit);
    let len = run.end - run.start;
    if len >= want || (any_length && len > 0) {
        return Picked::Run(bit..bit + len.min(want));
    }
    Picked::None
}

/// The first run of `want` clusters from `from` on, then before it.
fn first_of(bits: &Bits, from: u32, want: u32) -> Picked {
    let mut longest = 0;
    // A run around `from` counts in full for the first part if it starts before it.
    for range in [from..bits.len(), 0..bits.len()] {
        longest = 0;
        for run in bits.runs(range) {
            let len = run.end - run.start;
            if len >= want {
                return Picked::Run(aligned(run, want));
            }
            longest = longest.max(len);
        }
    }
    Picked::NoneLongerThan(longest)
}

/// The longest run, at most `want` clusters of it.
fn longest_of(bits: &Bits, want: u32) -> Picked {
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
        return Picked::NoneLongerThan(0);
    }
    let len = (best.end - best.start).min(want);
    Picked::Run(best.start..best.start + len)
}

/// `want` clusters of `run`, which has as many: on the boundaries of so many clusters if
/// they are a large power of two, or several.
fn aligned(run: Range<u32>, want: u32) -> Range<u32> {
    let unit = 1 << want.trailing_zeros().min(UNIT_LOG2_MAX);
    let start = run.start.next_multiple_of(unit);
    if unit >= ALIGNED_FROM && start.saturating_add(want) <= run.end {
        return start..start + want;
    }
    run.start..run.start + want
}
