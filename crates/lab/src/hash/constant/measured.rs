//! Distribution of keys in a table whose hash function is a multiplication.

use super::key_set::KeySet;
use super::multiplication::Multiplication;
use crate::run_report::{as_f64, quotient};
use larder_cache::table::Histogram;
use serde::Serialize;

/// Results of one multiplication with one set of keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The multiplication's name.
    pub multiplication: &'static str,
    /// Mean number of links of a hit, if each key is looked up once.
    pub links: f64,
    pub longest_chain: u64,
    /// Share of the buckets that are empty.
    pub empty: f64,
    /// Chi-square of the chain lengths against the Poisson distribution.
    pub chi_square: f64,
    pub degrees_of_freedom: u32,
}

/// Results of all multiplications with one set of keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeySetMeasured {
    /// The name of the set.
    pub keys: String,
    /// Number of distinct keys after truncation to words of the requested size.
    pub objects: u64,
    /// Expected mean number of links of a hit if the keys were distributed at random.
    pub chance_links: f64,
    /// The result of each multiplication.
    pub measured: Vec<Measured>,
}

impl KeySet {
    /// Truncates the keys to words of `bits`, and measures their distribution over 2^`table_bits` buckets by
    /// each of `multiplications`.
    pub(super) fn measure(
        &self,
        multiplications: &[Multiplication],
        bits: u32,
        table_bits: u32,
    ) -> KeySetMeasured {
        let mut words = self.words.clone();
        for word in &mut words {
            *word &= u64::MAX >> (64 - bits);
        }
        words.sort_unstable();
        words.dedup();
        let objects = words.len() as u64;
        let others = as_f64(objects.saturating_sub(1));
        KeySetMeasured {
            keys: self.name.clone(),
            objects,
            chance_links: 1.0 + others / as_f64(2 << table_bits),
            measured: multiplications
                .iter()
                .map(|one| one.measure(&words, bits, table_bits))
                .collect(),
        }
    }
}

impl Multiplication {
    fn measure(&self, words: &[u64], bits: u32, table_bits: u32) -> Measured {
        let mut chains = vec![0_u64; 1 << table_bits];
        for word in words {
            chains[self.bucket(*word, bits, table_bits)] += 1;
        }
        let mut histogram = Histogram::default();
        let mut links = 0;
        for length in chains {
            histogram.add(length);
            // The first entry of a chain is found after one link, the last one after `length`
            // links.
            links += length * (length + 1) / 2;
        }
        let chi_square = histogram.chi_square();
        Measured {
            multiplication: self.name,
            links: quotient(links, words.len() as u64),
            longest_chain: histogram.longest_chain(),
            empty: quotient(histogram.empty_buckets(), histogram.buckets()),
            chi_square: chi_square.statistic,
            degrees_of_freedom: chi_square.degrees_of_freedom,
        }
    }

    /// Returns the bucket of `word`: the low `bits` bits of the product, shifted right and masked to
    /// `table_bits` bits.
    fn bucket(&self, word: u64, bits: u32, table_bits: u32) -> usize {
        let product = word.wrapping_mul(self.multiplier) & u64::MAX >> (64 - bits);
        let shift = self.shift.unwrap_or(bits - table_bits);
        let bucket = product >> shift & !(u64::MAX << table_bits);
        usize::try_from(bucket).unwrap_or_default()
    }
}
