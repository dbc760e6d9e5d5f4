//! The sequence of sets of each process, which depends only on the seed.

use super::{BenchConfig, Case, VALUE_BYTES};
use crate::workload::chance::{generator, mix};
use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// One set: a file, and the new value of its attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    /// The number of the file among the process's files.
    pub file: u32,
    /// The index of the value in the pool.
    pub value: u32,
}

/// An iterator over the sets of one process. It sets the attribute of each file in turn, to random values.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    generator: Pcg64Mcg,
    case: Case,
    done: u32,
    operations: u32,
}

impl Draws {
    pub(super) fn new(case: Case, config: &BenchConfig, process: u32) -> Self {
        Self {
            generator: generator(config.seed, u64::from(process)),
            case,
            done: 0,
            operations: config.unmeasured(case) + config.operations,
        }
    }

    /// Divides the sets into those before the measured time and the measured ones, given the number of the former.
    pub(super) fn split(mut self, unmeasured: u32) -> [Self; 2] {
        let before = Self {
            operations: unmeasured,
            ..self.clone()
        };
        self.by_ref().take(unmeasured as usize).for_each(drop);
        [before, self]
    }
}

impl Iterator for Draws {
    type Item = Draw;

    fn next(&mut self) -> Option<Draw> {
        if self.done == self.operations {
            return None;
        }
        let draw = Draw {
            file: self.done % self.case.files,
            value: self.generator.random_range(0..self.case.values),
        };
        self.done += 1;
        Some(draw)
    }
}

/// Returns the final value of each file of a process; `None` if it was never set.
pub(super) fn last_values(case: Case, config: &BenchConfig, process: u32) -> Vec<Option<u32>> {
    let mut last = vec![None; case.files as usize];
    for Draw { file, value } in Draws::new(case, config, process) {
        last[file as usize] = Some(value);
    }
    last
}

/// Generates the bytes of value `number`. This takes no longer than reading them from a pool in memory that
/// is not in the processor's caches.
pub(super) fn bytes_of(number: u32, seed: u64) -> [u8; VALUE_BYTES] {
    let mut bytes = [0; VALUE_BYTES];
    let start = start_of(number, seed);
    for (word, at) in bytes.chunks_exact_mut(8).zip(0..) {
        word.copy_from_slice(&mix(start.wrapping_add(at)).to_le_bytes());
    }
    bytes
}

/// Returns a hash of value `number`, which is as evenly distributed as a hash of its bytes.
pub(super) fn key_of(number: u32, seed: u64) -> u32 {
    let [.., a, b, c, d] = start_of(number, seed).to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn start_of(number: u32, seed: u64) -> u64 {
    mix(seed ^ mix(u64::from(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const CONFIG: BenchConfig = BenchConfig {
        operations: 1000,
        is_warm: false,
        runs: 1,
        seed: 7,
    };
    const CASE: Case = Case {
        processes: 2,
        files: 30,
        values: 10,
    };

    #[test]
    fn draws_depend_only_on_the_process_and_the_seed() {
        let draws = |process| Draws::new(CASE, &CONFIG, process).collect::<Vec<_>>();
        assert_eq!(draws(0), draws(0));
        assert_ne!(draws(0), draws(1));
        assert_eq!(draws(0).len(), 1000);
        let values: HashSet<u32> = draws(0).iter().map(|draw| draw.value).collect();
        assert_eq!(values, (0..10).collect());
        let files = draws(0).into_iter().map(|draw| draw.file);
        assert!(files.eq((0..30).cycle().take(1000)));
    }

    #[test]
    fn each_file_is_set_once_before_the_measured_time() {
        let config = BenchConfig {
            is_warm: true,
            ..CONFIG
        };
        let all = Draws::new(CASE, &config, 1);
        let [before, measured] = all.clone().split(config.unmeasured(CASE));
        let [before, measured] = [before, measured].map(Iterator::collect::<Vec<_>>);
        let files = before.iter().map(|draw| draw.file);
        assert!(files.eq(0..30));
        assert_eq!(measured.len(), 1000);
        assert!(before.into_iter().chain(measured).eq(all));
        let [before, measured] = Draws::new(CASE, &CONFIG, 1).split(CONFIG.unmeasured(CASE));
        assert_eq!((before.count(), measured.count()), (0, 1000));
    }

    #[test]
    fn values_of_different_numbers_have_different_bytes_and_hashes() {
        let bytes: HashSet<_> = (0..1000).map(|number| bytes_of(number, 7)).collect();
        let keys: HashSet<_> = (0..1000).map(|number| key_of(number, 7)).collect();
        assert_eq!((bytes.len(), keys.len()), (1000, 1000));
        assert_eq!(bytes_of(1, 7), bytes_of(1, 7));
        assert_ne!(bytes_of(1, 7), bytes_of(1, 8));
    }
}
