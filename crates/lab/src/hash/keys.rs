//! Generates keys for a comparison without a trace. The keys are computed from a seed, with distributions
//! that are typical of the caches.

use super::error::Error;
use super::source::{BatchConsumer, Source};
use crate::workload::chance::generator;
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation};
use larder_trace::TraceEvent;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::fmt;
use std::str::FromStr;

/// Mean number of lookups of an object after its insertion.
const LOOKUPS_PER_OBJECT: u64 = 4;

/// Number of events in one batch.
const BATCH: usize = 1 << 16;

/// The distance between two consecutive strided keys, in blocks.
const STRIDE: u64 = 64;

/// The first partition of the first disk: `major << 20 | minor`.
const DEVICE: u32 = 8 << 20 | 1;

/// A distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Consecutive numbers of one object, like inodes in creation order.
    Sequential,
    /// Numbers 64 apart, of one object, like the first blocks of file system structures.
    Strided,
    /// Pages of files of 1 to 10,000 pages, from the start of each file. The inode numbers are close together.
    Pages,
    /// Blocks of one device, in runs of 1 to 1000 with gaps between them.
    Blocks,
    /// Names in directories of 1 to 1000 names, each with a uniformly distributed hash.
    Names,
}

impl KeyKind {
    /// All distributions.
    pub const ALL: &[Self] = &[
        Self::Sequential,
        Self::Strided,
        Self::Pages,
        Self::Blocks,
        Self::Names,
    ];

    /// Returns the name of the distribution, as on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Strided => "strided",
            Self::Pages => "pages",
            Self::Blocks => "blocks",
            Self::Names => "names",
        }
    }

    /// Returns the cache whose keys typically have this distribution.
    #[must_use]
    pub fn cache(self) -> CacheKind {
        match self {
            Self::Sequential => CacheKind::Inode,
            Self::Strided | Self::Blocks => CacheKind::Buffer,
            Self::Pages => CacheKind::Page,
            Self::Names => CacheKind::Dentry,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for KeyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.as_str() == name);
        found.copied().ok_or_else(|| {
            let names = Self::ALL.iter().map(|kind| kind.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            format!("unknown kind of keys '{name}'; available: {names}")
        })
    }
}

/// A source of lookups of generated keys. Each key is first looked up once, which misses and inserts its
/// object. Then random keys are looked up, four lookups for each key on average.
#[derive(Clone, Debug)]
pub struct Keys {
    kind: KeyKind,
    cache: CacheKind,
    seed: u64,
    hashed: Vec<HashKey>,
}

impl Keys {
    /// Creates `objects` keys for the table of `cache`.
    #[must_use]
    pub fn new(kind: KeyKind, cache: CacheKind, objects: u32, seed: u64) -> Self {
        let count = objects as usize;
        let mut random = generator(seed, 0);
        let device = u64::from(DEVICE);
        let of_device = |index| HashKey {
            object: device,
            index,
        };
        let numbers = 0..u64::from(objects);
        let keys = match kind {
            KeyKind::Sequential => numbers.map(|number| of_device(11 + number)).collect(),
            KeyKind::Strided => numbers.map(|number| of_device(STRIDE * number)).collect(),
            KeyKind::Pages => runs(&mut random, 10_000, count)
                .map(|(file, page)| HashKey {
                    object: 11 + file * 3 / 2,
                    index: page,
                })
                .collect(),
            KeyKind::Blocks => blocks(&mut random, count).map(of_device).collect(),
            KeyKind::Names => {
                let names: Vec<_> = runs(&mut random, 1000, count).collect();
                let key = |(directory, _)| HashKey {
                    object: 2 + directory * 37,
                    index: random.random::<u32>().into(),
                };
                names.into_iter().map(key).collect()
            }
        };
        Self {
            kind,
            cache,
            seed,
            hashed: keys,
        }
    }

    fn event(&self, key: HashKey) -> TraceEvent {
        let operation = Operation::Lookup { hit: false };
        let cache = self.cache;
        TraceEvent::new(
            0,
            DEVICE,
            Event {
                cache,
                operation,
                key,
            },
        )
    }
}

/// Returns `count` positions in runs of 1 to `longest` positions. Each position is a pair: the number of
/// its run, and the offset in the run. The logarithms of the lengths are uniformly distributed.
fn runs(random: &mut Pcg64Mcg, longest: u32, count: usize) -> impl Iterator<Item = (u64, u64)> {
    let lengths = std::iter::repeat_with(move || length(random, longest));
    let runs = (0_u64..).zip(lengths);
    runs.flat_map(|(run, length)| (0..length).map(move |place| (run, place)))
        .take(count)
}

fn length(random: &mut Pcg64Mcg, longest: u32) -> u64 {
    let length = f64::from(longest).powf(random.random::<f64>());
    // The value is from 1 to `longest`: the cast only discards the fraction.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and a u32"
    )]
    let length = length as u64;
    length
}

/// Returns `count` block numbers in runs. The gaps between runs have the same distribution of lengths as the
/// runs.
fn blocks(random: &mut Pcg64Mcg, count: usize) -> impl Iterator<Item = u64> {
    let mut next = 1;
    let starts = std::iter::repeat_with(move || {
        let (first, run) = (next, length(random, 1000));
        next += run + length(random, 1000);
        first..first + run
    });
    starts.flatten().take(count)
}

impl Source for Keys {
    fn title(&self) -> String {
        format!(
            "{} generated keys: {}, seed {}",
            self.hashed.len(),
            self.kind,
            self.seed
        )
    }

    fn events(&self) -> u64 {
        self.hashed.len() as u64 * (1 + LOOKUPS_PER_OBJECT)
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn read(&self, each: &mut BatchConsumer<'_>) -> Result<(), Error> {
        let mut random = generator(self.seed, 1);
        let again = self.hashed.len() as u64 * LOOKUPS_PER_OBJECT;
        let mut drawn = (0..again).map(|_| self.hashed[random.random_range(0..self.hashed.len())]);
        let first = self.hashed.iter().copied();
        let mut events = first
            .chain(&mut drawn)
            .map(|key| self.event(key))
            .peekable();
        while events.peek().is_some() && each(&mut events.by_ref().take(BATCH)) {}
        Ok(())
    }
}
