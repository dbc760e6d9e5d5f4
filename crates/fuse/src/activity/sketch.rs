//! The keys with the most requests, in bounded memory.
//!
//! # Model
//! Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams",
//! 2005). The sketch has counters for [`CAPACITY`] keys. If another key is recorded, it replaces the key with the
//! smallest score, and inherits this score as its possible error. Therefore the score of a key is never too small, and a
//! key with more than `1 / CAPACITY` of the total weight is always in the sketch.
//!
//! The weights decay (Cormode and others: "Forward Decay", 2009): a request has half of the weight of a request
//! [`HALF_LIFE_NS`] later. Therefore the sketch shows the present load, and its keys stay in order while nothing is
//! recorded. The weight of a new request grows with the time, so that the scores of earlier requests need not change.
//!
//! # Cost
//! Recording compares the key with all keys. Replacing a key also compares all scores.

use larder::Load;

/// The maximum number of keys.
pub(super) const CAPACITY: usize = 128;
/// The time after which a request has half of its weight.
const HALF_LIFE_NS: f64 = 5e9;
/// The number of half-lives after which all values are divided by the present factor, so that they stay finite.
const EPOCH: f64 = 500.0;

/// A number of requests, and their content in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    pub requests: u32,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The keys with the most requests. Callers pass times in nanoseconds since a common start.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    keys: Vec<u32>,
    /// The counters of each key in `keys`.
    counters: Vec<Counters>,
    /// The time at which a request has the weight 1.
    epoch_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// The decayed requests, and the score that the key has inherited.
    score: f64,
    /// The decayed requests since the key is in the sketch, and their content.
    decayed: [f64; 3],
    /// The requests since the key is in the sketch.
    requests: u64,
}

impl Sketch {
    /// Records requests for `key`. Returns the key that was removed for it, and whether `key` is new.
    pub(super) fn record(&mut self, key: u32, amount: Amount, now_ns: u64) -> Recorded {
        let factor = self.factor(now_ns);
        let (index, outcome) = match self.keys.iter().position(|&other| other == key) {
            Some(index) => (index, Recorded::Known),
            None if self.keys.len() < CAPACITY => {
                self.keys.push(key);
                self.counters.push(Counters::default());
                (self.keys.len() - 1, Recorded::New)
            }
            None => {
                let index = self.smallest();
                let removed = std::mem::replace(&mut self.keys[index], key);
                let score = self.counters[index].score;
                self.counters[index] = Counters {
                    score,
                    ..Counters::default()
                };
                (index, Recorded::Replaced(removed))
            }
        };
        let counters = &mut self.counters[index];
        let values = [
            f64::from(amount.requests),
            as_f64(amount.read_bytes),
            as_f64(amount.written_bytes),
        ];
        for (decayed, value) in counters.decayed.iter_mut().zip(values) {
            *decayed += value * factor;
        }
        counters.score += values[0] * factor;
        counters.requests += u64::from(amount.requests);
        outcome
    }

    /// Returns the keys in the order of their requests, the busiest first. The rates are those at `now_ns`.
    pub(super) fn busiest(&self, now_ns: u64) -> Vec<(u32, Load)> {
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        let requests = |index: usize| self.counters[index].decayed[0];
        order.sort_by(|&a, &b| requests(b).total_cmp(&requests(a)));
        let per_s = rate_factor(self.half_lives(now_ns), as_f64(now_ns) / HALF_LIFE_NS);
        let loads = order.into_iter().map(|index| {
            let Counters {
                decayed, requests, ..
            } = self.counters[index];
            let [requests_per_s, read_bytes_per_s, written_bytes_per_s] =
                decayed.map(|value| value * per_s);
            let load = Load {
                requests,
                requests_per_s,
                read_bytes_per_s,
                written_bytes_per_s,
            };
            (self.keys[index], load)
        });
        loads.collect()
    }

    /// Returns the weight of a request at `now_ns`.
    fn factor(&mut self, now_ns: u64) -> f64 {
        let half_lives = self.half_lives(now_ns);
        if half_lives < EPOCH {
            return half_lives.exp2();
        }
        // After a long idle time, the factor is infinite, and all values become 0.
        let scale = (-half_lives).exp2();
        for counters in &mut self.counters {
            counters.score *= scale;
            counters.decayed = counters.decayed.map(|value| value * scale);
        }
        self.epoch_ns = now_ns;
        1.0
    }

    fn half_lives(&self, now_ns: u64) -> f64 {
        as_f64(now_ns.saturating_sub(self.epoch_ns)) / HALF_LIFE_NS
    }

    fn smallest(&self) -> usize {
        let scores = self.counters.iter().map(|counters| counters.score);
        let smallest = scores.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        smallest.map_or(0, |(index, _)| index)
    }
}

/// What [`Sketch::record`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// The key was in the sketch.
    Known,
    /// The key was added.
    New,
    /// The key was added, and this key was removed.
    Replaced(u32),
}

/// Returns the factor by which a decayed value is multiplied for the rate per second. The rate is the mean over the past,
/// weighted by the age. `half_lives` is the age of the epoch, and `recorded` the time since recording began, both in
/// half-lives.
fn rate_factor(half_lives: f64, recorded: f64) -> f64 {
    let weights_s = HALF_LIFE_NS / 1e9 / std::f64::consts::LN_2 * (1.0 - (-recorded).exp2());
    (-half_lives).exp2() / weights_s.max(1e-3)
}

#[expect(clippy::cast_precision_loss, reason = "the values are estimates")]
fn as_f64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::{Random, Seed};
    use std::collections::HashMap;

    const SECOND_NS: u64 = 1_000_000_000;

    fn requests(requests: u32) -> Amount {
        Amount {
            requests,
            ..Amount::default()
        }
    }

    fn is_near(value: f64, expected: f64) -> bool {
        (value - expected).abs() <= expected * 1e-6
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut sketch = Sketch::default();
        for (key, times) in [(7, 3), (9, 5), (8, 1)] {
            for _ in 0..times {
                sketch.record(key, requests(2), 0);
            }
        }
        let counted = sketch.busiest(SECOND_NS).into_iter();
        let counted = counted.map(|(key, load)| (key, load.requests));
        assert_eq!(counted.collect::<Vec<_>>(), [(9, 10), (7, 6), (8, 2)]);
    }

    #[test]
    fn skewed_keys_are_found_and_counted_within_the_error() {
        let seed = Seed::from_environment(0x0b5e_0001);
        let mut random = Random::new(seed);
        let (mut sketch, mut exact) = (Sketch::default(), HashMap::<u32, u64>::new());
        let total = 200_000;
        for _ in 0..total {
            // Half of the requests are for 2^0 keys, a quarter for 2^1 keys, and so on, up to 2^15 keys.
            let class = random.below(1 << 16).leading_zeros().min(63) - 48;
            let key = u32::try_from(random.below(1 << class)).unwrap() + (1 << class);
            sketch.record(key, requests(1), 0);
            *exact.entry(key).or_default() += 1;
        }
        assert!(exact.len() > 4 * CAPACITY, "seed {seed}");
        let error_bound = total / CAPACITY as u64;
        let counted: HashMap<u32, u64> = sketch
            .busiest(SECOND_NS)
            .into_iter()
            .map(|(key, load)| (key, load.requests))
            .collect();
        for (index, key) in sketch.keys.iter().enumerate() {
            let (score, exact) = (sketch.counters[index].score, as_f64(exact[key]));
            assert!(exact <= score, "seed {seed}: key {key}");
            assert!(
                score <= exact + as_f64(error_bound),
                "seed {seed}: key {key}"
            );
            assert!(as_f64(counted[key]) <= exact, "seed {seed}: key {key}");
        }
        for (key, count) in exact {
            if count > error_bound {
                assert!(counted.contains_key(&key), "seed {seed}: key {key}");
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut sketch = Sketch::default();
        for key in 0..10_000 {
            let recorded = sketch.record(key, requests(1), u64::from(key));
            let is_new = matches!(recorded, Recorded::New);
            assert_eq!(is_new, (key as usize) < CAPACITY, "{key}");
        }
        assert_eq!(
            (sketch.keys.len(), sketch.counters.len()),
            (CAPACITY, CAPACITY)
        );
    }

    #[test]
    fn present_load_replaces_the_past_load() {
        let mut sketch = Sketch::default();
        for _ in 0..1000 {
            sketch.record(1, requests(1), 0);
        }
        // 20 half-lives later, 1000 requests have the weight of a thousandth.
        let now_ns = 100 * SECOND_NS;
        sketch.record(2, requests(1), now_ns);
        let keys: Vec<_> = sketch
            .busiest(now_ns)
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, [2, 1]);
    }

    #[test]
    fn rate_of_a_constant_load_is_the_load() {
        let mut sketch = Sketch::default();
        // 10 requests each 0.1 s, for longer than the values can grow without a new epoch.
        let mut now_ns = 0;
        for _ in 0..30_000 {
            now_ns += SECOND_NS / 10;
            let amount = Amount {
                requests: 10,
                read_bytes: 1000,
                written_bytes: 500,
            };
            sketch.record(1, amount, now_ns);
        }
        let (_, load) = sketch.busiest(now_ns)[0];
        assert!((load.requests_per_s - 100.0).abs() < 1.0, "{load:?}");
        assert!(is_near(load.read_bytes_per_s, 100.0 * load.requests_per_s));
        assert!(is_near(
            load.written_bytes_per_s,
            50.0 * load.requests_per_s
        ));
        let (_, later) = sketch.busiest(now_ns + 5 * SECOND_NS)[0];
        assert!(is_near(later.requests_per_s, load.requests_per_s / 2.0));
        assert_eq!(later.requests, 300_000);
    }

    #[test]
    fn rate_soon_after_the_start_is_the_load_so_far() {
        let mut sketch = Sketch::default();
        for step in 1..=10 {
            sketch.record(1, requests(5), step * SECOND_NS / 10);
        }
        let (_, load) = sketch.busiest(SECOND_NS)[0];
        assert!((load.requests_per_s - 50.0).abs() < 5.0, "{load:?}");
    }

    #[test]
    fn long_idle_time_leaves_no_rate() {
        let mut sketch = Sketch::default();
        sketch.record(1, requests(1000), 0);
        let year_ns = 365 * 24 * 3600 * SECOND_NS;
        assert!(sketch.busiest(year_ns)[0].1.requests_per_s < 1e-9);
        sketch.record(2, requests(1), year_ns);
        let busiest = sketch.busiest(year_ns);
        assert_eq!(busiest[0].0, 2);
        assert!(
            busiest
                .iter()
                .all(|(_, load)| load.requests_per_s.is_finite())
        );
    }
}
