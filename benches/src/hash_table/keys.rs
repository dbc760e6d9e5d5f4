//! What is in the maps, and in which order it is looked for.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};
use larder_cache::hash::HashKey;
use larder_cache::tape::CacheKind;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};
use rand_pcg::Pcg64;

use crate::hash_table::plan::Plan;
use crate::hash_table::recorded;
use crate::named::named;

/// Most pages that one reader asks for in a row.
const RUN_PAGES: usize = 32;

/// Names in a directory.
const DIRECTORY_NAMES: u64 = 40;

named! {
    /// Keys like those of a cache, and the order in which a machine at work asks for them.
    Workload {
        /// Pages of files, most of them small; some files are read often, all in runs of pages.
        Page: "page",
        /// Hashes of names in directories, few of which are asked for often.
        Dentry: "dentry",
        /// The pages, each as likely as the other: what processor caches help least with.
        Uniform: "uniform",
        /// What the page cache was asked while it was recorded.
        RecordedPage: "recorded-page",
        /// What the dentry cache was asked.
        RecordedDentry: "recorded-dentry",
    }
}

impl Workload {
    /// The cache whose events in a trace it is.
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
    /// What the threads look for, one after the other.
    pub lookups: Vec<HashKey>,
}

/// The value of a key, which every side has to return.
#[must_use]
#[inline]
pub fn value(key: HashKey) -> u32 {
    let mixed = key.object.rotate_left(20) ^ key.index;
    u32::try_from(mixed & u64::from(u32::MAX)).unwrap_or_default()
}

impl Keys {
    /// The keys of `workload`, for `threads` threads; recorded ones are of `trace`.
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
                let trace = trace.context("there is no trace of recorded keys")?;
                recorded::keys(trace, workload.recorded(), plan.objects, lookups)?
            }
        })
    }

    /// What thread `thread` of `threads` looks for.
    #[must_use]
    pub fn of_thread(&self, thread: usize, threads: usize) -> &[HashKey] {
        let share = self.lookups.len() / threads;
        &self.lookups[thread * share..(thread + 1) * share]
    }

    fn of_pages(objects: u32, lookups: usize, random: &mut Pcg64) -> Self {
        let mut keys = Vec::with_capacity(objects as usize);
        let mut files: Vec<Range<usize>> = Vec::new();
        // In pages: the median file has 4, one in six more than 30.
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
            // Inodes lie beside one another, but for those that have no cached pages.
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
        // What is asked for often is not what came first.
        shuffle(&mut keys, random);
        Self {
            objects: keys,
            lookups,
        }
    }
}

pub(super) fn shuffle<T>(values: &mut [T], random: &mut Pcg64) {
    for last in (1..values.len()).rev() {
        values.swap(last, random.random_range(0..=last));
    }
}

/// How often the first of `count` is asked for, and the second, and so on.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn zipf(count: usize) -> Zipf<f64> {
    Zipf::new(count as f64, 0.9).expect("more than none, and a positive exponent")
}

/// Which of them is asked for now, from 0.
pub(super) fn rank(popular: Zipf<f64>, random: &mut Pcg64) -> usize {
    usize::try_from(whole(popular.sample(random)) - 1).unwrap_or_default()
}

fn log_normal(median: f64, sigma: f64) -> LogNormal<f64> {
    LogNormal::new(median.ln(), sigma).expect("a positive deviation")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; what is too large becomes the largest"
)]
fn whole(number: f64) -> u64 {
    number.ceil() as u64
}
