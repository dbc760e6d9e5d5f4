//! What a trace asks of one table, whatever its hash function and size: how many objects there are
//! when, and what lookups would cost if chance spread the objects.
//!
//! # Model
//! The expectation over all functions from keys to buckets, for this very trace: a lookup that hits
//! walks the object sought and, with the chance of one in as many as there are buckets, each
//! object that came after it; one that misses walks that part of all objects. So a function has
//! nothing to thank the trace for, which seeks what is new more often than what is old.
//!
//! # Cost
//! A map's lookup and the rank of a stamp for each event, once for all functions and sizes.

use super::ranks::Ranks;
use super::step::{Key, Step};
use crate::run_report::{as_f64, ratio};
use larder_cache::number_hash::NumberHash;
use larder_cache::tape::Operation;
use serde::Serialize;
use std::collections::HashMap;

/// What a trace asks of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Lookups.
    pub lookups: u64,
    /// Those that find their object.
    pub hits: u64,
    /// Objects that come.
    pub inserts: u64,
    /// Objects that go.
    pub removals: u64,
    /// Events that cannot be, given those before: hits of what is not there, which came before the
    /// recording began or was lost, misses of what is, second inserts, removals of nothing.
    pub contradictions: u64,
    /// The most objects at any time.
    pub peak_objects: u64,
    /// After this batch of the trace, from 0, there are the most objects of all batches that are examined;
    /// the last such one.
    pub peak_batch: u64,
    /// Batches are examined from this one on.
    #[serde(skip)]
    pub first_batch: u64,
    /// For each hit the objects that came after the one sought, in sum.
    pub younger_on_hits: u64,
    /// For each miss all objects, in sum.
    pub objects_on_misses: u64,
}

/// Links that lookups walk in the mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Links {
    pub hit: f64,
    pub miss: f64,
    pub lookup: f64,
}

impl Survey {
    /// Lookups that do not find their object.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.lookups - self.hits
    }

    /// What lookups did since `earlier`; the rest is as now.
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

    /// What lookups would cost in 2^`bits` buckets that chance chooses.
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

    /// The fewest bits with which there are no more objects than buckets.
    #[must_use]
    pub fn fitting_bits(&self) -> u32 {
        self.peak_objects.max(1).next_power_of_two().ilog2()
    }
}

/// A survey that is being made.
#[derive(Debug)]
pub(super) struct Surveyor {
    survey: Survey,
    stamps: HashMap<Key, u32, NumberHash>,
    ranks: Ranks,
    batches: u64,
    /// The most objects at the end of a batch that was examined.
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

    /// Takes note of what happens next.
    pub(super) fn follow(&mut self, steps: &[Step]) {
        for step in steps {
            match step.operation {
                Operation::Lookup { hit } => self.look_up(step.key, hit),
                Operation::Insert => self.insert(step.key),
                Operation::Remove => self.remove(step.key),
            }
        }
    }

    /// A batch ends.
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

    fn look_up(&mut self, key: Key, told_hit: bool) {
        self.survey.lookups += 1;
        let stamp = self.stamps.get(&key).copied();
        if let Some(stamp) = stamp {
            self.survey.hits += 1;
            self.survey.younger_on_hits += u64::from(self.ranks.younger(stamp));
        } else {
            self.survey.objects_on_misses += u64::from(self.ranks.present());
        }
        if stamp.is_some() != told_hit {
            self.survey.contradictions += 1;
            if told_hit {
                self.come(key);
            }
        }
    }

    fn insert(&mut self, key: Key) {
        self.survey.inserts += 1;
        if self.stamps.contains_key(&key) {
            self.survey.contradictions += 1;
        } else {
            self.come(key);
        }
    }

    fn remove(&mut self, key: Key) {
        self.survey.removals += 1;
        match self.stamps.remove(&key) {
            Some(stamp) => self.ranks.remove(stamp),
            None => self.survey.contradictions += 1,
        }
    }

    fn come(&mut self, key: Key) {
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
