//! Properties of the events of one cache that do not depend on the hash function and table size: counts of
//! events, the maximum number of objects, and the expected links of lookups if the objects were distributed
//! over the buckets at random.
//!
//! # Model
//! The expected number of links ("chance") is the mean over all possible functions from keys to buckets, for
//! the lookups of this trace. A link is an entry that a lookup compares with its key. Let p be one divided by
//! the number of buckets. A lookup that hits compares the object that it finds. It also compares each object
//! that was inserted later with probability p, because new objects are inserted at the front of a chain. A
//! lookup that misses compares each object with probability p. Traces look up recently inserted objects
//! more often than old ones, which shortens walks with any function. The expectation includes this effect, so
//! no function appears better than random because of it.
//!
//! # Cost
//! Each event costs a map lookup and a lookup in [`Ranks`]. A survey is computed once for all functions and
//! sizes.

use super::ranks::Ranks;
use super::step::{Key, Step};
use crate::run_report::{as_f64, ratio};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use serde::Serialize;
use std::collections::HashMap;

/// Properties of the events of one cache in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Number of lookups.
    pub lookups: u64,
    /// Number of lookups that find their object.
    pub hits: u64,
    /// Number of insertions.
    pub inserts: u64,
    /// Number of removals.
    pub removals: u64,
    /// Number of events that contradict earlier events: hits of absent objects, misses of present objects,
    /// insertions of present objects, and removals of absent objects. Such events occur if an object was
    /// inserted before the recording began, or if events were lost.
    pub contradictions: u64,
    /// The largest number of objects at any time.
    pub peak_objects: u64,
    /// The examined batch (numbered from 0 in the trace) at whose end the number of objects is largest; the
    /// last such batch if there are several. [`survey_from`](super::survey_from) selects the batches to
    /// examine.
    pub peak_batch: u64,
    /// The first examined batch.
    #[serde(skip)]
    pub first_batch: u64,
    /// The sum over all hits of the number of present objects that were inserted after the object found.
    pub younger_on_hits: u64,
    /// The sum over all misses of the number of present objects.
    pub objects_on_misses: u64,
}

/// Mean numbers of links that lookups walk: of hits, of misses and of all lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Links {
    pub hit: f64,
    pub miss: f64,
    pub lookup: f64,
}

impl Survey {
    /// Returns the number of lookups that do not find their object.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.lookups - self.hits
    }

    /// Returns a copy of `self` in which the lookups of `earlier` are subtracted from the counts and sums of
    /// lookups. `earlier` must be a survey of a prefix of the same trace.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            lookups: self.lookups - earlier.lookups,
            hits: self.hits - earlier.hits,
            younger_on_hits: self.younger_on_hits - earlier.younger_on_hits,
            objects_on_misses: self.objects_on_misses - earlier.objects_on_misses,
            ..*self
        }
    }

    /// Returns the expected mean numbers of links if the objects were distributed over 2^`bits` buckets at
    /// random.
    #[must_use]
    pub fn chance(&self, bits: u32) -> Links {
        let buckets = as_f64(1 << bits);
        let on_hits = as_f64(self.hits) + as_f64(self.younger_on_hits) / buckets;
        let on_misses = as_f64(self.objects_on_misses) / buckets;
        Links {
            hit: ratio(on_hits, as_f64(self.hits)),
            miss: ratio(on_misses, as_f64(self.misses())),
            lookup: ratio(on_hits + on_misses, as_f64(self.lookups)),
        }
    }

    /// Returns the log2 of the smallest number of buckets that is at least the largest number of objects.
    #[must_use]
    pub fn fitting_bits(&self) -> u32 {
        self.peak_objects.max(1).next_power_of_two().ilog2()
    }
}

/// A survey in progress.
#[derive(Debug)]
pub(super) struct Surveyor {
    survey: Survey,
    stamps: HashMap<Key, u32, NumberHash>,
    ranks: Ranks,
    batches: u64,
    /// The largest number of objects at the end of an examined batch.
    peak_at_end: Option<u64>,
}

impl Surveyor {
    pub(super) fn new() -> Self {
        Self {
            survey: Survey::default(),
            stamps: HashMap::default(),
            ranks: Ranks::new(0),
            batches: 0,
            peak_at_end: None,
        }
    }

    /// Adds `steps`, the next events, to the survey.
    pub(super) fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            match step.operation {
                Operation::Lookup { hit } => self.look_up(step.key, hit),
                Operation::Insert => self.insert(step.key),
                Operation::Remove | Operation::Evict => self.remove(step.key),
            }
        }
    }

    /// Ends a batch. `is_examined` is whether the batch can become the peak batch.
    pub(super) fn end_batch(&mut self, is_examined: bool) {
        let objects = u64::from(self.ranks.present());
        if is_examined && self.peak_at_end.is_none_or(|most| objects >= most) {
            if self.peak_at_end.is_none() {
                self.survey.first_batch = self.batches;
            }
            self.peak_at_end = Some(objects);
            self.survey.peak_batch = self.batches;
        }
        self.batches += 1;
    }

    pub(super) fn finish(self) -> Survey {
        self.survey
    }

    fn look_up(&mut self, key: Key, recorded_hit: bool) {
        self.survey.lookups += 1;
        let stamp = self.stamps.get(&key).copied();
        if let Some(stamp) = stamp {
            self.survey.hits += 1;
            self.survey.younger_on_hits += u64::from(self.ranks.younger(stamp));
        } else {
            self.survey.objects_on_misses += u64::from(self.ranks.present());
        }
        if stamp.is_some() != recorded_hit {
            self.survey.contradictions += 1;
            if recorded_hit {
                self.add_object(key);
            }
        }
    }

    fn insert(&mut self, key: Key) {
        self.survey.inserts += 1;
        if self.stamps.contains_key(&key) {
            self.survey.contradictions += 1;
        } else {
            self.add_object(key);
        }
    }

    fn remove(&mut self, key: Key) {
        self.survey.removals += 1;
        match self.stamps.remove(&key) {
            Some(stamp) => self.ranks.remove(stamp),
            None => self.survey.contradictions += 1,
        }
    }

    fn add_object(&mut self, key: Key) {
        if self.ranks.is_full() {
            for stamp in self.stamps.values_mut() {
                *stamp = self.ranks.older(*stamp);
            }
            self.ranks = Ranks::new(self.ranks.present());
        }
        self.stamps.insert(key, self.ranks.push());
        let objects = u64::from(self.ranks.present());
        self.survey.peak_objects = self.survey.peak_objects.max(objects);
    }
}
