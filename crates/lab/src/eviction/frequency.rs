//! The frequency of accesses, estimated with a counting Bloom filter: the `TinyLFU` of W-TinyLFU.
//!
//! An access increments only the smallest counters of the object. So the estimate of an object stays exact, even if
//! some of its counters are shared with other objects.

use super::access::Object;

/// The number of counters for each object of the cache: `-ln(0.001) / ln(2)^2`, for an error of 0.1%.
const COUNTERS_PER_OBJECT: f64 = 14.377_587_6;
/// The number of counters that an object uses.
const HASHES: u32 = 10;
/// The largest value of a counter: counters have four bits.
const MOST: u8 = 15;

/// Estimates how often each object was accessed.
#[derive(Debug)]
pub(super) struct Frequency {
    counters: Vec<u8>,
}

impl Frequency {
    /// Creates a filter without accesses, for a cache of `capacity` objects.
    pub fn new(capacity: usize) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cache has fewer than 2^32 objects"
        )]
        let counters = (COUNTERS_PER_OBJECT * capacity as f64).ceil() as usize;
        Self {
            counters: vec![0; counters.max(2 * HASHES as usize)],
        }
    }

    /// Returns the numbers of the counters of the object.
    fn places(&self, object: Object) -> [usize; HASHES as usize] {
        let hash = mix(u64::from(object));
        #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
        let (first, step) = (hash as u32, (hash >> 32) as u32);
        let mut place = first;
        std::array::from_fn(|_| {
            place = place.wrapping_add(step);
            place as usize % self.counters.len()
        })
    }

    /// Returns the estimated number of accesses, which is at most 15. It is too low only because of halvings or this
    /// limit.
    pub fn estimate(&self, object: Object) -> u8 {
        let counters = self.places(object).map(|place| self.counters[place]);
        counters.into_iter().min().unwrap_or(0)
    }

    /// Counts an access.
    pub fn add(&mut self, object: Object) {
        let next = (self.estimate(object) + 1).min(MOST);
        for place in self.places(object) {
            let counter = &mut self.counters[place];
            *counter = (*counter).max(next);
        }
    }

    /// Halves all counters, so that old accesses lose weight.
    pub fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter >>= 1);
    }
}

/// Distributes the bits of `number` over the word, as a bijection.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_is_at_least_the_number_of_accesses_and_mostly_exact() {
        let mut frequency = Frequency::new(64);
        let mut counts = [0_u8; 100];
        for step in 0..600_u64 {
            let object = Object::try_from(mix(step) % 100 * (mix(step) % 7) / 7).unwrap();
            frequency.add(object);
            counts[object as usize] += 1;
        }
        let mut exact = 0;
        for (object, count) in (0..).zip(counts) {
            let estimate = frequency.estimate(object);
            assert!(
                estimate >= count.min(MOST),
                "{object}: {estimate} < {count}"
            );
            exact += u32::from(estimate == count.min(MOST));
        }
        assert!(exact > 90, "{exact}");
    }

    #[test]
    fn counter_stops_at_its_limit_and_is_halved() {
        let mut frequency = Frequency::new(20);
        (0..100).for_each(|_| frequency.add(7));
        assert_eq!(frequency.estimate(7), 15);
        frequency.halve();
        assert_eq!(frequency.estimate(7), 7);
    }
}
