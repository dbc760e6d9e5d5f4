//! Compares each variant with a map from which no entry is evicted.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A limit of entries that no test reaches.
const UNREACHED_LIMIT: u32 = 1000;

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64, bool),
    Search(u32),
    /// A search whose first result stays held.
    Hold(u32),
    Release(usize),
    Touch(usize),
    SetReusable(usize, bool),
    Get(u32, u64),
    Delete(u32, u64),
    Scan(u64),
}

fn steps(keys: u32) -> impl Strategy<Value = Vec<Step>> {
    let key = 0..keys;
    let value = 0..12_u64;
    let step = prop_oneof![
        6 => (key.clone(), value.clone(), any::<bool>()).prop_map(|(k, v, r)| Step::Insert(k, v, r)),
        2 => key.clone().prop_map(Step::Search),
        2 => key.clone().prop_map(Step::Hold),
        2 => any::<usize>().prop_map(Step::Release),
        1 => any::<usize>().prop_map(Step::Touch),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, r)| Step::SetReusable(at, r)),
        2 => (key.clone(), value.clone()).prop_map(|(k, v)| Step::Get(k, v)),
        2 => (key, value).prop_map(|(k, v)| Step::Delete(k, v)),
        1 => (0..6_u64).prop_map(Step::Scan),
    ];
    proptest::collection::vec(step, 1..150)
}

/// The entries that were inserted in the cache, except those that were observed to be missing.
struct Model<'c> {
    cache: &'c dyn MbCache,
    limit: u64,
    /// For each key and value, whether the entry is reusable.
    map: BTreeMap<(u32, u64), bool>,
    held: Vec<Held<'c>>,
    evicted: u64,
    deleted: u64,
}

impl Model<'_> {
    fn is_held(&self, key: u32, value: u64) -> bool {
        let mut held = self.held.iter();
        held.any(|held| (held.key(), held.value()) == (key, value))
    }

    /// Removes an entry of the map that is no longer in the cache. The worker may not have counted its
    /// eviction yet.
    fn note_evicted(&mut self, key: u32, value: u64) {
        assert!(!self.is_held(key, value), "({key}, {value}) was held");
        if self.map.remove(&(key, value)).is_some() {
            self.evicted += 1;
        }
    }

    /// Checks whether the cache has the entry of the map. If not, removes the entry from the map.
    fn check(&mut self, key: u32, value: u64) {
        // The caller may hold the entry, and `old` would wait until it is released.
        if !self.is_held(key, value) && self.cache.get(key, value).is_none() {
            self.note_evicted(key, value);
        }
    }

    fn insert(&mut self, key: u32, value: u64, reusable: bool) {
        match self.cache.insert(key, value, reusable) {
            Inserted::New => {
                self.note_evicted(key, value);
                self.map.insert((key, value), reusable);
            }
            Inserted::Existing => assert!(self.map.contains_key(&(key, value))),
            Inserted::NoRoom => {
                let mut held: Vec<_> = self.held.iter().map(|h| (h.key(), h.value())).collect();
                held.sort_unstable();
                held.dedup();
                assert!(held.len() as u64 >= self.limit, "held: {held:?}");
            }
        }
    }

    fn search(&mut self, key: u32) {
        let mut found = search(self.cache, key);
        found.sort_unstable();
        let keyed = self.map.range((key, 0)..=(key, u64::MAX));
        let expected: Vec<_> = keyed
            .filter_map(|((_, value), reusable)| reusable.then_some(*value))
            .collect();
        for value in expected {
            if let Ok(at) = found.binary_search(&value) {
                found.remove(at);
            } else {
                self.note_missed_by_search(key, value);
            }
        }
        assert_eq!(found, [], "found twice, not reusable, or never inserted");
    }

    /// Removes a reusable entry of the map after a search did not find it: the entry was evicted.
    fn note_missed_by_search(&mut self, key: u32, value: u64) {
        assert!(!self.is_held(key, value), "({key}, {value}) was held");
        let got = self.cache.get(key, value);
        assert!(got.is_none(), "a search missed ({key}, {value})");
        self.note_evicted(key, value);
    }

    fn delete(&mut self, key: u32, value: u64) {
        match self.cache.delete_or_get(key, value) {
            Deletion::InUse(held) => {
                assert_eq!((held.key(), held.value()), (key, value));
                assert!(self.is_held(key, value), "({key}, {value}) was not held");
            }
            Deletion::Absent => {
                assert!(!self.is_held(key, value), "({key}, {value}) was held");
                assert!(self.cache.get(key, value).is_none());
                // This call has deleted the entry, or the entry was evicted before.
                if self.map.remove(&(key, value)).is_some() {
                    self.deleted += 1;
                }
            }
        }
    }

    fn run(&mut self, step: &Step) {
        let at = |at: usize, held: &[_]| (!held.is_empty()).then(|| at % held.len());
        match *step {
            Step::Insert(key, value, reusable) => self.insert(key, value, reusable),
            Step::Search(key) => self.search(key),
            Step::Hold(key) => self.held.extend(self.cache.find_first(key)),
            Step::Release(index) => {
                if let Some(index) = at(index, &self.held) {
                    self.held.swap_remove(index);
                }
            }
            Step::Touch(index) => {
                if let Some(index) = at(index, &self.held) {
                    self.held[index].touch();
                }
            }
            Step::SetReusable(index, reusable) => {
                if let Some(index) = at(index, &self.held) {
                    let held = &self.held[index];
                    held.set_reusable(reusable);
                    self.map.insert((held.key(), held.value()), reusable);
                }
            }
            Step::Get(key, value) => self.check(key, value),
            Step::Delete(key, value) => self.delete(key, value),
            Step::Scan(count) => {
                self.cache.scan_objects(count);
            }
        }
    }

    /// Returns true if the cache's statistics match the remaining and the removed entries. They may not match
    /// if a worker starts to evict entries meanwhile.
    fn agrees(&mut self) -> bool {
        let keys: Vec<_> = self.map.keys().copied().collect();
        for (key, value) in keys {
            self.check(key, value);
        }
        let stats = self.cache.stats();
        let removed = self.evicted + self.deleted;
        stats.entries == self.map.len() as u64
            && stats.inserted == stats.entries + removed
            && self.evicted <= dropped(self.cache)
            && stats.inserted <= stats.entries + dropped(self.cache) + self.deleted
    }
}

fn run(variant: Variant, limit: u32, bits: u32, steps: Vec<Step>) {
    let cache = cache(variant, limit, bits);
    let mut model = Model {
        cache: &*cache,
        limit: limit.into(),
        map: BTreeMap::new(),
        held: Vec::new(),
        evicted: 0,
        deleted: 0,
    };
    for step in steps {
        model.run(&step);
    }
    model.held.clear();
    // The check of the invariants waits for a worker that evicts entries. After that, the worker may have one
    // more request, which disturbs at most one attempt.
    let agrees = (0..3).any(|_| {
        cache.check_invariants();
        model.agrees()
    });
    assert!(agrees, "{:?} {:?}", model.map, cache.stats());
    if limit == UNREACHED_LIMIT {
        assert_eq!(cache.stats().dropped_by_limit, 0);
    }
}

macro_rules! agrees_with_map {
    ($($name:ident: $variant:ident,)*) => {$(
        mod $name {
            use super::*;

            proptest! {
                #[test]
                fn cache_of_any_size_agrees_with_map(
                    steps in steps(4), limit in 1..40_u32, bits in 0..4_u32
                ) {
                    run(Variant::$variant, limit, bits, steps);
                }

                #[test]
                fn cache_with_one_key_agrees_with_map(steps in steps(1)) {
                    run(Variant::$variant, UNREACHED_LIMIT, 4, steps);
                }

                #[test]
                fn cache_with_one_chain_agrees_with_map(steps in steps(4)) {
                    run(Variant::$variant, UNREACHED_LIMIT, 0, steps);
                }
            }
        }
    )*};
}

agrees_with_map! {
    old: Old,
    lru: Lru,
    list_lru: ListLru,
    referenced: Referenced,
    clock: Clock,
}
