//! Simulates the eviction of a mount: a clock hand scans the objects, and evicts an object unless it was used
//! since the hand last passed it. The use that inserts an object does not count.
//!
//! By chance, a sample of the objects has too many or too few of the misses. Therefore the simulations do not estimate
//! the number of misses itself, but its difference from the number of misses of LRU for the same lookups. The stack
//! distances give the misses of LRU. Both numbers have nearly the same error, so it cancels out.
//!
//! # Cost
//! A cache of up to [`MINIATURE`] objects is simulated with all objects. A cache that is *n* times as large is
//! represented by one of [`MINIATURE`] objects, in which one of *n* objects takes part. For each lookup of the trace,
//! all sizes together simulate about 6 lookups.

use super::ids::IdMap;
use super::stack::Reference;

/// The size of the largest simulated cache, in objects. It also represents larger caches.
const MINIATURE: usize = 1 << 11;

/// The log2 of the smallest and the largest cache for which misses are estimated.
const MIN_BITS: u32 = 7;
const MAX_BITS: u32 = 30;

/// A cache that evicts by a clock.
#[derive(Debug)]
pub(super) struct Clock {
    capacity: usize,
    slots: Vec<Slot>,
    places: IdMap<u32>,
    free: Vec<u32>,
    hand: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    id: u64,
    is_referenced: bool,
    is_free: bool,
}

impl Clock {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            slots: Vec::new(),
            places: IdMap::default(),
            free: Vec::new(),
            hand: 0,
        }
    }

    /// Uses the object, and inserts it if it is absent. Returns whether it was present.
    #[inline]
    pub(super) fn touch(&mut self, id: u64) -> bool {
        if let Some(place) = self.places.get(&id) {
            self.slots[*place as usize].is_referenced = true;
            return true;
        }
        self.insert(id);
        false
    }

    /// Inserts the object unless it is present. This does not count as a use.
    pub(super) fn fill(&mut self, id: u64) {
        if !self.places.contains_key(&id) {
            self.insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            self.slots[place as usize].is_free = true;
            self.free.push(place);
        }
    }

    fn insert(&mut self, id: u64) {
        let slot = Slot {
            id,
            is_referenced: false,
            is_free: false,
        };
        let place = match self.free.pop() {
            Some(place) => place as usize,
            None if self.slots.len() < self.capacity => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
            None => self.evict(),
        };
        self.slots[place] = slot;
        self.places
            .insert(id, u32::try_from(place).unwrap_or(u32::MAX));
    }

    /// Evicts an object, and returns its place. All slots must be in use.
    fn evict(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (place + 1) % self.slots.len();
            let slot = &mut self.slots[place];
            if !std::mem::take(&mut slot.is_referenced) {
                self.places.remove(&slot.id);
                return place;
            }
        }
    }
}

/// A cache of one size.
#[derive(Debug)]
struct Simulation {
    /// An object takes part if at least this number of bits at the start of its hash are 0.
    shift: u32,
    clock: Clock,
    /// For both kinds of objects, the number of misses minus that of an LRU cache of the same size.
    differences: [i64; 2],
}

/// Caches of all sizes that are powers of two, which receive the same lookups. There can be two kinds of objects,
/// whose misses are counted separately.
#[derive(Debug)]
pub(crate) struct ClockSimulations {
    /// In the order of size.
    simulations: Vec<Simulation>,
}

/// The misses in caches that evict by a clock, compared with LRU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClockMisses {
    /// The size in objects, and the number of misses minus that of an LRU cache of this size.
    differences: Vec<(u64, f64)>,
}

impl ClockSimulations {
    pub(crate) fn new() -> Self {
        Self::with_miniature(MINIATURE)
    }

    /// Returns simulations of at most `miniature` objects.
    pub(super) fn with_miniature(miniature: usize) -> Self {
        let of_bits = |bits: u32| {
            let shift = bits.saturating_sub(miniature.ilog2());
            Simulation {
                shift,
                clock: Clock::new(1 << (bits - shift)),
                differences: [0; 2],
            }
        };
        Self {
            simulations: (MIN_BITS..=MAX_BITS).map(of_bits).collect(),
        }
    }

    /// Applies `operation` to all caches in which the object takes part.
    #[inline]
    fn each(&mut self, id: u64, mut operation: impl FnMut(&mut Simulation)) {
        // The LRU stack selects its sample by the same bits. So the smaller of the two samples is a part of the larger
        // one, and enough lookups are in both.
        let bits = id.leading_zeros();
        for simulation in &mut self.simulations {
            if simulation.shift > bits {
                break;
            }
            operation(simulation);
        }
    }

    /// Looks up an object of the given kind, 0 or 1. `reference` is the use of the object in the LRU stack; `None`
    /// if the object is not in the sample of the stack.
    #[inline]
    pub(crate) fn lookup(&mut self, id: u64, kind: usize, reference: Option<Reference>) {
        self.each(id, |simulation| {
            let misses = !simulation.clock.touch(id);
            if let Some(Reference { depth, shift }) = reference {
                let misses_lru = depth.is_none_or(|depth| depth > simulation.size());
                let difference = i64::from(misses) - i64::from(misses_lru);
                simulation.differences[kind] += difference << shift.max(simulation.shift);
            }
        });
    }

    /// Inserts an object.
    pub(crate) fn insert(&mut self, id: u64) {
        self.each(id, |simulation| simulation.clock.fill(id));
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, id: u64) {
        self.each(id, |simulation| simulation.clock.remove(id));
    }

    /// Returns the misses of objects of the given kind, 0 or 1.
    pub(crate) fn misses(&self, kind: usize) -> ClockMisses {
        #[expect(clippy::cast_precision_loss, reason = "a number of lookups")]
        let difference =
            |simulation: &Simulation| (simulation.size(), simulation.differences[kind] as f64);
        ClockMisses {
            differences: self.simulations.iter().map(difference).collect(),
        }
    }
}

impl Simulation {
    /// Returns the size of the cache that the simulation represents.
    fn size(&self) -> u64 {
        (self.clock.capacity as u64) << self.shift
    }
}

impl ClockMisses {
    /// Returns the number of misses in a cache of `size` objects. It is the sum of the misses of an LRU cache, which
    /// `lru` returns, and the difference, which is interpolated between the simulated sizes.
    pub(crate) fn at(&self, size: u64, lru: impl Fn(u64) -> f64) -> f64 {
        let above = self.differences.partition_point(|(at, _)| *at < size);
        let [below, above] = [above.checked_sub(1), Some(above)]
            .map(|place| place.and_then(|place| self.differences.get(place)));
        let difference = match (below, above) {
            (Some(below), Some(above)) => {
                let log2 = |size: u64| crate::run_report::as_f64(size.max(1)).log2();
                let part = (log2(size) - log2(below.0)) / (log2(above.0) - log2(below.0));
                (1.0 - part) * below.1 + part * above.1
            }
            (Some(one), None) | (None, Some(one)) => one.1,
            (None, None) => 0.0,
        };
        (lru(size) + difference).max(lru(u64::MAX))
    }
}
