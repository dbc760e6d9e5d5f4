//! The keys in the maps, and the order of the lookups.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use larder_cache::hash::HashKey;
use larder_cache::tape::CacheKind;
use rand::{Rng, SeedableRng};
use rand_distr::Distribution;
use rand_pcg::Pcg64;

use crate::hash_table::draws::{log_normal, rank, shuffle, whole, zipf};
use crate::hash_table::plan::Plan;
use crate::hash_table::recorded;
use crate::named::named;

/// The maximum number of consecutive pages that one reader requests.
const RUN_PAGES: usize = 32;

/// The number of names in a directory.
const DIRECTORY_NAMES: u64 = 40;

named! {
    /// Keys like those of a cache, and the order in which a machine under load requests them.
    Workload {
        /// Pages of files, most of which are small. Files are read in runs of pages, some files often.
        Page: "page",
        /// Hashes of names in directories. A few of the names are looked up often.
        Dentry: "dentry",
        /// The keys of `Page`, looked up with equal probability: processor caches help least here.
        Uniform: "uniform",
        /// The recorded lookups of the page cache.
        RecordedPage: "recorded-page",
        /// The recorded lookups of the dentry cache.
        RecordedDentry: "recorded-dentry",
    }
}

impl Workload {
    /// Returns the cache whose recorded lookups the workload repeats, if it is a recorded workload.
    #[must_use]
    pub const fn recorded(self) -> Option<CacheKind> {
        match self {
            Self::RecordedPage => Some(CacheKind::Page),
            Self::RecordedDentry => Some(CacheKind::Dentry),
            Self::Page | Self::Dentry | Self::Uniform => None,
        }
    }
}

/// The keys of a workload.
#[derive(Debug)]
pub struct Keys {
    /// Every key, once.
    pub objects: Vec<HashKey>,
    /// The lookups of the threads, in order.
    pub lookups: Vec<HashKey>,
}

/// Returns the value that every side stores for `key`, and must return for it.
#[must_use]
#[inline]
pub fn value(key: HashKey) -> u32 {
    let mixed = key.object.rotate_left(20) ^ key.index;
    u32::try_from(mixed & u64::from(u32::MAX)).unwrap_or_default()
}

impl Keys {
    /// Returns the keys of `workload`, with lookups for `threads` threads. Recorded keys are read from
    /// `trace`.
    pub fn new(
        workload: Workload,
        plan: &Plan,
        threads: usize,
        trace: Option<&Path>,
    ) -> Result<Self> {
        let random = &mut Pcg64::seed_from_u64(plan.seed);
        let lookups = plan.lookups * threads;
        Ok(match workload {
            Workload::Page => Self::of_pages(plan.objects, lookups, random),
            Workload::Dentry => Self::of_names(plan.objects, lookups, random),
            Workload::Uniform => {
                let mut keys = Self::of_pages(plan.objects, 0, random);
                let one = |_| keys.objects[random.random_range(0..keys.objects.len())];
                keys.lookups = (0..lookups).map(one).collect();
                keys
            }
            Workload::RecordedPage | Workload::RecordedDentry => {
                let trace = trace.context("recorded keys require a trace")?;
                let cache = workload.recorded();
                let (objects, lookups) = recorded::keys(trace, cache, plan.objects, lookups)?;
                Self { objects, lookups }
            }
        })
    }

    /// Returns the lookups of thread `thread` of `threads`.
    #[must_use]
    pub fn of_thread(&self, thread: usize, threads: usize) -> &[HashKey] {
        let share = self.lookups.len() / threads;
        &self.lookups[thread * share..(thread + 1) * share]
    }

    fn of_pages(objects: u32, lookups: usize, random: &mut Pcg64) -> Self {
        let mut keys = Vec::with_capacity(objects as usize);
        let mut files: Vec<Range<usize>> = Vec::new();
        // The median file has 4 pages, and one file in six has more than 30.
        let sizes = log_normal(4.0, 2.0);
        let mut inode = 12;
        while keys.len() < objects as usize {
            let left = objects as usize - keys.len();
            let pages = whole(sizes.sample(random)).clamp(1, left as u64);
            let page = |index| HashKey {
                object: inode,
                index,
            };
            let first = keys.len();
            keys.extend((0..pages).map(page));
            files.push(first..keys.len());
            // Inodes without cached pages leave gaps between the inode numbers.
            inode += random.random_range(1..4);
        }
        shuffle(&mut files, random);
        let mut order = Vec::with_capacity(lookups);
        let popular = zipf(files.len());
        while order.len() < lookups {
            let file = &files[rank(popular, random)];
            let run = file.len().min(RUN_PAGES);
            let start = random.random_range(file.start..=file.end - run);
            order.extend_from_slice(&keys[start..start + run]);
        }
        order.truncate(lookups);
        Self {
            objects: keys,
            lookups: order,
        }
    }

    fn of_names(objects: u32, lookups: usize, random: &mut Pcg64) -> Self {
        let directories = u64::from(objects).div_ceil(DIRECTORY_NAMES);
        let mut known = HashSet::new();
        let mut keys = Vec::with_capacity(objects as usize);
        while keys.len() < objects as usize {
            let key = HashKey {
                object: 2 + 8 * random.random_range(0..directories),
                index: random.random_range(0..1 << 32),
            };
            if known.insert(key) {
                keys.push(key);
            }
        }
        let popular = zipf(keys.len());
        let one = |_| keys[rank(popular, random)];
        let lookups = (0..lookups).map(one).collect();
        // Without this shuffle, the most frequent keys would be inserted first.
        shuffle(&mut keys, random);
        Self {
            objects: keys,
            lookups,
        }
    }
}
