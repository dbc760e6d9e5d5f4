//! Replays a trace in a table of each given combination of hash function and size.
//!
//! # Model
//! The combinations are divided into groups whose tables fit in memory together, and the trace is decoded
//! once for each group. All tables of the group replay each batch in parallel, on all processors. At any
//! time, all tables of a cache contain the same objects, and the [`Survey`] shows when their number is
//! largest. At that time all replays pause: chain lengths are recorded and lookups are timed. The thread that
//! decodes the trace blocks when a few batches are ready, so it does not disturb the timing for long.
//!
//! # Cost
//! The trace is decoded once for each group. The tables of a group take at most one gigabyte; a larger table
//! forms a group on its own.

use super::combination::Combination;
use super::error::Error;
use super::replay::{self, BUCKET_BYTES, OBJECT_BYTES, Replay};
use super::segments::segment_end;
use super::source::{Source, Wanted, for_each_batch};
use super::step::{Key, Steps};
use super::survey::{Survey, Surveyor};
use super::timing::{TIMED_LOOKUPS, Timing};
use larder_cache::table::{Counts, Histogram};
use larder_cache::tape::{CacheKind, Operation};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Maximum memory for the tables of a group with several tables, in bytes.
const GROUP_BYTES: u64 = 1 << 30;

/// Results of replaying a trace in one table.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The table.
    pub combination: Combination,
    /// Counts of all lookups of the trace.
    pub counts: Counts,
    /// The largest number of objects.
    pub objects: u64,
    /// Chain lengths when the number of objects was largest; empty for trees.
    pub histogram: Histogram,
    /// Timed lookups when the number of objects was largest; `None` if there were no lookups to time.
    pub timing: Option<Timing>,
    /// Counts of the lookups of each [segment](super::segments::SEGMENTS). If the source has fewer events than it declared,
    /// the last segments are missing.
    pub segments: Vec<Counts>,
}

/// The survey of each cache.
pub type Surveys = BTreeMap<CacheKind, Survey>;

/// Surveys the trace.
///
/// # Errors
/// Returns an error if the trace cannot be read.
pub fn survey(source: &dyn Source, wanted: Wanted) -> Result<Surveys, Error> {
    survey_from(source, wanted, 0)
}

/// Surveys the whole trace like [`survey`], but determines the batch with the most objects only among the
/// batches that start at or after event `from`. A [`replay()`] with the resulting surveys examines tables and
/// times lookups at the end of that batch.
///
/// # Errors
/// Returns an error if the trace cannot be read.
pub fn survey_from(source: &dyn Source, wanted: Wanted, from: u64) -> Result<Surveys, Error> {
    let caches = wanted.caches();
    let mut surveyors: Vec<_> = caches.map(|cache| (cache, Surveyor::new())).collect();
    let mut done = 0;
    for_each_batch(source, wanted, |_, steps| {
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

/// Replays the trace in each table of `combinations`. `surveys` must contain all their caches. Calls `tick`
/// after each batch of each group, with the product of the number of events and the number of tables.
///
/// # Errors
/// Returns an error if the trace cannot be read, or if there is not enough memory for a table.
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

/// Returns how many of the first `combinations` fit in memory together, at least one.
fn group_size(surveys: &Surveys, combinations: &[Combination]) -> usize {
    let mut bytes = 0_u64;
    let fitting = combinations.iter().take_while(|combination| {
        bytes = bytes.saturating_add(table_bytes(surveys, **combination));
        bytes <= GROUP_BYTES
    });
    fitting.count().max(1)
}

/// Returns the memory for the table of `combination` at the largest number of objects.
fn table_bytes(surveys: &Surveys, combination: Combination) -> u64 {
    let objects = peak_objects(surveys, combination.cache);
    (BUCKET_BYTES << combination.bits) + OBJECT_BYTES * objects
}

fn peak_objects(surveys: &Surveys, cache: CacheKind) -> u64 {
    surveys.get(&cache).map_or(0, |survey| survey.peak_objects)
}

/// A table, and its results so far.
struct ReplayedTable {
    combination: Combination,
    table: Box<dyn Replay>,
    objects: u64,
    histogram: Histogram,
    timing: Option<Timing>,
    segments: Vec<Counts>,
    counted: Counts,
}

impl ReplayedTable {
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

    /// Ends a segment: stores the counts of its lookups.
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
        .map(|combination| ReplayedTable::open(*combination, surveys))
        .collect::<Result<Vec<_>, _>>()?;
    let mut recent = Recent::default();
    let (mut done, mut segment) = (0, 0);
    for_each_batch(source, wanted, |number, steps| {
        tested
            .par_iter_mut()
            .for_each(|one| one.table.follow(steps.of(one.combination.cache)));
        for (cache, survey) in surveys {
            if (survey.first_batch..=survey.peak_batch).contains(&number) {
                recent.keep(*cache, steps);
            }
            if number == survey.peak_batch {
                let lookups = recent.take(*cache);
                let of_cache = |one: &&mut ReplayedTable| one.combination.cache == *cache;
                examine(tested.iter_mut().filter(of_cache).collect(), &lookups);
            }
        }
        done += steps.events;
        while segment_end(segment, source.events()).is_some_and(|end| end <= done) {
            segment += 1;
            tested.iter_mut().for_each(ReplayedTable::end_segment);
        }
        tick(steps.events * group.len() as u64);
        Ok(())
    })?;
    Ok(tested.into_iter().map(ReplayedTable::finish).collect())
}

/// Records the chain lengths of the tables, and times the lookups of the `recent` keys in them.
fn examine(mut tested: Vec<&mut ReplayedTable>, recent: &[Key]) {
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

/// The keys of the latest lookups of each cache.
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
