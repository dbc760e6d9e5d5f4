//! Every combination of a hash function and a size, replayed.
//!
//! # Model
//! The trace is decoded once for a group of combinations: as many as have room in memory. Each batch
//! is followed by all tables of the group, on all processors. Which objects there are when is the same
//! in all of them, and known from the [`Survey`]: where they are most, chain lengths are noted, and
//! no table follows anything while lookups are timed. The reader decodes a few batches ahead meanwhile,
//! and then waits.
//!
//! # Cost
//! A decoding for each group; a gigabyte for the tables, or one table if that is larger.

use super::error::Error;
use super::replay::{self, BUCKET_BYTES, OBJECT_BYTES, Replay};
use super::source::{Source, Wanted, stream};
use super::step::{Key, Steps};
use super::survey::{Survey, Surveyor};
use super::timing::{TIMED_LOOKUPS, Timing};
use larder_cache::table::{Counts, Histogram};
use larder_cache::tables::Finder;
use larder_cache::tape::{CacheKind, Operation};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// Parts of the trace whose lookups are counted on their own: of as many events each, give or take one.
pub const SEGMENTS: u64 = 32;

/// The segment of this number, from 0, of a trace of so many `events` ends before this one; none if there is
/// no such segment.
pub(crate) fn segment_end(number: u64, events: u64) -> Option<u64> {
    // The product of all events and the number could overflow.
    let (each, more) = (events / SEGMENTS, events % SEGMENTS);
    let end = || (number + 1) * each + ((number + 1) * more).div_ceil(SEGMENTS);
    (number < SEGMENTS).then(end)
}

/// What the tables of a group take together, in bytes.
const GROUP_BYTES: u64 = 1 << 30;

/// A table, or trees, to replay a trace in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Which cache's keys.
    pub cache: CacheKind,
    /// By what they are spread.
    pub function: Finder,
    /// Over 2^`bits` buckets; chains of roots, of trees.
    pub bits: u32,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cache,
            function,
            bits,
        } = self;
        write!(f, "{}={function}/{bits}", cache.as_str())
    }
}

/// What a table did.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The table.
    pub combination: Combination,
    /// All lookups of the trace.
    pub counts: Counts,
    /// Objects when there were the most.
    pub objects: u64,
    /// Chain lengths then; none of trees.
    pub histogram: Histogram,
    /// Lookups then, timed.
    pub timing: Option<Timing>,
    /// Lookups of each [part](SEGMENTS) of the trace; fewer parts if it ends before it said it would.
    pub segments: Vec<Counts>,
}

/// What a trace asks of each of its tables that are wanted.
pub type Surveys = BTreeMap<CacheKind, Survey>;

/// Surveys the trace.
///
/// # Errors
/// Where it cannot be read.
pub fn survey(source: &dyn Source, wanted: Wanted) -> Result<Surveys, Error> {
    survey_from(source, wanted, 0)
}

/// As [`survey`]; but tables are examined, and lookups timed, in what comes from event `from` on, as far
/// as batches can be told apart: segments can.
///
/// # Errors
/// Where it cannot be read.
pub fn survey_from(source: &dyn Source, wanted: Wanted, from: u64) -> Result<Surveys, Error> {
    let caches = wanted.caches();
    let mut surveyors: Vec<_> = caches.map(|cache| (cache, Surveyor::new())).collect();
    let mut done = 0;
    stream(source, wanted, |_, steps| {
        let is_examined = done >= from;
        done += steps.events;
        surveyors.par_iter_mut().for_each(|(cache, surveyor)| {
            surveyor.follow(steps.of(*cache));
            surveyor.end_batch(is_examined);
        });
        Ok(())
    })?;
    let surveys = surveyors.into_iter();
    Ok(surveys
        .map(|(cache, surveyor)| (cache, surveyor.finish()))
        .filter(|(_, survey)| survey.lookups > 0)
        .collect())
}

/// Replays the trace in each table of `combinations`, whose caches were all surveyed. Calls `tick`
/// after each batch of each group, with how many events it had for how many tables.
///
/// # Errors
/// Where it cannot be read, or there is no memory for a table.
pub fn replay(
    source: &dyn Source,
    wanted: Wanted,
    surveys: &Surveys,
    combinations: &[Combination],
    tick: &mut dyn FnMut(u64),
) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = Vec::new();
    let mut rest = combinations;
    while !rest.is_empty() {
        let (group, others) = rest.split_at(group_size(surveys, rest));
        rest = others;
        outcomes.extend(replay_group(source, wanted, surveys, group, tick)?);
    }
    Ok(outcomes)
}

/// How many of `combinations` have room together: one at least.
fn group_size(surveys: &Surveys, combinations: &[Combination]) -> usize {
    let mut bytes = 0_u64;
    let fitting = combinations.iter().take_while(|combination| {
        bytes = bytes.saturating_add(table_bytes(surveys, **combination));
        bytes <= GROUP_BYTES
    });
    fitting.count().max(1)
}

/// What the table of `combination` takes when it has the most objects.
fn table_bytes(surveys: &Surveys, combination: Combination) -> u64 {
    let objects = peak_objects(surveys, combination.cache);
    (BUCKET_BYTES << combination.bits) + OBJECT_BYTES * objects
}

fn peak_objects(surveys: &Surveys, cache: CacheKind) -> u64 {
    surveys.get(&cache).map_or(0, |survey| survey.peak_objects)
}

/// A table, and what is known of it so far.
struct Tested {
    combination: Combination,
    table: Box<dyn Replay>,
    objects: u64,
    histogram: Histogram,
    timing: Option<Timing>,
    segments: Vec<Counts>,
    counted: Counts,
}

impl Tested {
    fn open(combination: Combination, surveys: &Surveys) -> Result<Self, Error> {
        let Combination {
            cache,
            function,
            bits,
        } = combination;
        let objects = peak_objects(surveys, cache);
        let table = replay::open(cache, function, bits, objects);
        let table = table.map_err(|source| Error::Memory {
            combination,
            objects,
            source,
        })?;
        Ok(Self {
            combination,
            table,
            objects: 0,
            histogram: Histogram::default(),
            timing: None,
            segments: Vec::new(),
            counted: Counts::default(),
        })
    }

    /// A part of the trace ends here.
    fn end_segment(&mut self) {
        let counts = self.table.counts();
        self.segments.push(counts - self.counted);
        self.counted = counts;
    }

    fn finish(self) -> Outcome {
        Outcome {
            combination: self.combination,
            counts: self.table.counts(),
            objects: self.objects,
            histogram: self.histogram,
            timing: self.timing,
            segments: self.segments,
        }
    }
}

fn replay_group(
    source: &dyn Source,
    wanted: Wanted,
    surveys: &Surveys,
    group: &[Combination],
    tick: &mut dyn FnMut(u64),
) -> Result<Vec<Outcome>, Error> {
    let mut tested = group
        .iter()
        .map(|combination| Tested::open(*combination, surveys))
        .collect::<Result<Vec<_>, _>>()?;
    let mut recent = Recent::default();
    let (mut done, mut segment) = (0, 0);
    stream(source, wanted, |number, steps| {
        tested
            .par_iter_mut()
            .for_each(|one| one.table.follow(steps.of(one.combination.cache)));
        for (cache, survey) in surveys {
            if (survey.first_batch..=survey.peak_batch).contains(&number) {
                recent.keep(*cache, steps);
            }
            if number == survey.peak_batch {
                let lookups = recent.take(*cache);
                let of_cache = |one: &&mut Tested| one.combination.cache == *cache;
                examine(tested.iter_mut().filter(of_cache).collect(), &lookups);
            }
        }
        done += steps.events;
        while segment_end(segment, source.events()).is_some_and(|end| end <= done) {
            segment += 1;
            tested.iter_mut().for_each(Tested::end_segment);
        }
        tick(steps.events * group.len() as u64);
        Ok(())
    })?;
    Ok(tested.into_iter().map(Tested::finish).collect())
}

/// There are the most objects now: takes note of chain lengths, and times what was looked up last.
fn examine(mut tested: Vec<&mut Tested>, recent: &[Key]) {
    for one in &mut tested {
        one.objects = one.table.objects();
        one.histogram = one.table.histogram();
    }
    if !recent.is_empty() {
        let tables = tested.iter_mut().map(|one| &mut *one.table);
        let timings = Timing::take(tables.collect(), recent);
        for (one, timing) in tested.iter_mut().zip(timings) {
            one.timing = Some(timing);
        }
    }
}

/// What was looked up last, in each table.
#[derive(Default)]
struct Recent([VecDeque<Key>; CacheKind::ALL.len()]);

impl Recent {
    fn keep(&mut self, cache: CacheKind, steps: &Steps) {
        let keys = &mut self.0[cache as usize];
        let lookups = steps.of(cache).iter().filter_map(|step| {
            matches!(step.operation, Operation::Lookup { .. }).then_some(step.key)
        });
        keys.extend(lookups);
        let surplus = keys.len().saturating_sub(TIMED_LOOKUPS);
        keys.drain(..surplus);
    }

    fn take(&mut self, cache: CacheKind) -> Vec<Key> {
        std::mem::take(&mut self.0[cache as usize]).into()
    }
}
