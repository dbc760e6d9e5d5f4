//! Properties of a trace for one table that do not depend on the hash function and size: the number of
//! objects over time, and the cost of lookups if chance distributed the objects.
//!
//! # Model
//! The expectation over all functions from keys to buckets, for this trace. A lookup that hits walks the
//! object sought and, with a probability of one divided by the number of buckets, each object that was
//! inserted after it. A lookup that misses walks that share of all objects. This expectation reflects that
//! traces look up recent objects more often than old ones, so no function gains from it in the comparison.
//!
//! # Cost
//! A map lookup and the rank of a stamp for each event, once for all functions and sizes.

use super::ranks::Ranks;
use super::step::{Key, Step};
use crate::run_report::{as_f64, ratio};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use serde::Serialize;
use std::collections::HashMap;

/// Properties of a trace for one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Number of lookups.
    pub lookups: u64,
    /// Number of lookups that find their object.
    pub hits: u64,
    /// Number of inserted objects.
    pub inserts: u64,
    /// Number of removed objects.
    pub removals: u64,
    /// Number of events that contradict earlier ones: hits of absent objects, which were inserted before
    /// the recording began or whose insertion was lost; misses of present objects; second insertions;
    /// removals of absent objects.
    pub contradictions: u64,
    /// The largest number of objects.
    pub peak_objects: u64,
    /// The batch of the trace, from 0, at whose end the number of objects is largest among all examined
    /// batches; the last one if there are several.
    pub peak_batch: u64,
    /// The first examined batch.
    #[serde(skip)]
    pub first_batch: u64,
    /// The sum over all hits of the number of objects that were inserted after the one sought.
    pub younger_on_hits: u64,
    /// The sum over all misses of the number of objects.
    pub objects_on_misses: u64,
}

/// Mean links that lookups walk.
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

    /// Returns the counts of the lookups since `earlier`, with all other values as now.
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

    /// Returns the mean links of lookups in 2^`bits` buckets that chance selects.
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

    /// Returns the smallest number of bits with at least as many buckets as objects.
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

    /// Records the next steps.
    pub(super) fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            match step.operation {
                Operation::Lookup { hit } => self.look_up(step.key, hit),
                Operation::Insert => self.insert(step.key),
                Operation::Remove => self.remove(step.key),
            }
        }
    }

    /// Ends a batch.
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
