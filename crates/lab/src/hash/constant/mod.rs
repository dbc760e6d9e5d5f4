//! Derives and measures the multiplier of a multiplicative hash function.
//!
//! # Model
//! Lever 2000, section 5.1: "our choice is based on finding a prime that is in golden ratio to the machine's
//! word size". The key is multiplied by this prime, and the highest bits of the product select the bucket. For
//! this, the product is shifted right by the number of bits of the word minus the number of bits of the table.
//! Section 6 raises the question whether 64-bit hardware needs another constant. [`Study::answer`] answers this
//! question from the measurements.

mod answer;
mod key_set;
mod measured;
mod multiplication;
mod prime;
mod quality;
mod text;

pub(crate) use answer::Constants;
pub use key_set::KeySet;
use measured::KeySetMeasured;
pub use multiplication::{Multiplication, Quality};

use larder_cache::hash::MULTIPLIER;
use multiplication::{ODD, PRIME, PUBLISHED, PUBLISHED_11, SPARSE};
use prime::Golden;
use serde::Serialize;

/// The sizes of words, in bits, for which a multiplier can be derived.
pub const WORD_BITS: std::ops::RangeInclusive<u32> = 8..=64;

/// The sizes of tables into which keys can be inserted, as log2 of the number of buckets.
pub const TABLE_BITS: std::ops::RangeInclusive<u32> = 4..=24;

/// The smallest size of words, in bits, for which keys are inserted into tables. Smaller words have too few
/// values for the sets of keys.
pub const MEASURED_BITS: u32 = 32;

/// Number of primes that are listed, including the nearest one.
const LISTED_PRIMES: usize = 5;

/// The multiplier of Linux 2.6 to 4.6 for 32-bit words. It has few set bits, so that compilers could replace
/// the multiplication by shifts and additions.
const SPARSE_32: u64 = 0x9e37_0001;
/// The multiplier of Linux 2.6 to 4.6 for 64-bit words.
const SPARSE_64: u64 = 0x9e37_ffff_fffc_0001;

/// A prime near 2^`bits` / golden ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NearPrime {
    /// The prime.
    pub prime: u64,
    /// The prime minus 2^`bits` / golden ratio.
    pub difference: f64,
}

/// The multiplier that was derived for words of one size, with measurements of this and of other multipliers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The size of a word, in bits.
    pub bits: u32,
    /// 2^`bits` / golden ratio, rounded down.
    pub golden_ratio: u64,
    /// The prime nearest to 2^`bits` / golden ratio.
    pub multiplier: u64,
    /// The multiplier in hexadecimal, for JSON readers that parse numbers as floating point.
    pub multiplier_hex: String,
    /// The nearest primes, in order of distance.
    pub nearest_primes: Vec<NearPrime>,
    /// The multiplications that were compared.
    pub multiplications: Vec<Multiplication>,
    /// Size of the tables into which keys were inserted, in bits.
    pub table_bits: u32,
    /// Distribution of the keys in these tables; empty for words below 32 bits.
    pub key_sets: Vec<KeySetMeasured>,
    /// Conclusions from the measurements, one sentence each.
    pub answer: Vec<String>,
}

impl Study {
    /// Derives the multiplier for words of `bits`, and measures this and other multipliers with `key_sets` in
    /// tables of 2^`table_bits` buckets. `bits` must be in [`WORD_BITS`], `table_bits` in [`TABLE_BITS`].
    #[must_use]
    pub fn new(bits: u32, table_bits: u32, key_sets: &[KeySet]) -> Self {
        let golden = Golden::of_word(bits);
        let primes = golden.nearest_primes(bits, LISTED_PRIMES);
        let multiplier = primes[0];
        let multiplications = multiplications(bits, golden, multiplier);
        let measured = key_sets.iter().filter(|_| bits >= MEASURED_BITS);
        let measured: Vec<_> = measured
            .map(|keys| keys.measure(&multiplications, bits, table_bits))
            .collect();
        Self {
            bits,
            golden_ratio: golden.floor(),
            multiplier,
            multiplier_hex: format!("{multiplier:#x}"),
            nearest_primes: primes
                .iter()
                .map(|prime| NearPrime {
                    prime: *prime,
                    difference: golden.difference(*prime),
                })
                .collect(),
            answer: answer::answer(bits, multiplier, &multiplications, &measured),
            multiplications,
            table_bits,
            key_sets: measured,
        }
    }
}

impl Study {
    /// Returns the results of the published multiplier and of the prime, or `None` if no keys were measured.
    pub(crate) fn constants(&self) -> Option<Constants> {
        Constants::of(&self.key_sets)
    }
}

/// Returns the multiplications to compare for words of `bits`.
fn multiplications(bits: u32, golden: Golden, prime: u64) -> Vec<Multiplication> {
    let one = |name, about, multiplier, shift| Multiplication {
        name,
        about,
        multiplier,
        shift,
        quality: Quality {
            prime: prime::is_prime(multiplier),
            difference: golden.difference(multiplier),
            spectral: quality::spectral(multiplier, bits),
            worst_gap: quality::worst_gap(multiplier, bits),
        },
    };
    let odd = match bits {
        64 => "nearest odd number, prime or not: used by Linux since 4.7 (negated) and by Larder",
        _ => "nearest odd number, prime or not",
    };
    let mut all = vec![
        one(
            PRIME,
            "prime nearest to the word size divided by the golden ratio",
            prime,
            None,
        ),
        one(ODD, odd, golden.nearest_odd(), None),
    ];
    if bits >= MEASURED_BITS {
        all.push(one(
            PUBLISHED,
            "2654435761, from Lever 2000",
            MULTIPLIER,
            None,
        ));
        let about = "2654435761, always shifted by 11, as in buffer-mult-11";
        all.push(one(PUBLISHED_11, about, MULTIPLIER, Some(11)));
    }
    let about = "used by Linux 2.6 to 4.6: few bits are set";
    match bits {
        32 => all.push(one(SPARSE, about, SPARSE_32, None)),
        64 => all.push(one(SPARSE, about, SPARSE_64, None)),
        _ => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::KeyKind;

    fn study(bits: u32) -> Study {
        Study::new(bits, 12, &KeySet::generated(12).unwrap())
    }

    /// Returns the links of a multiplication relative to chance, with the keys for which this ratio is largest.
    fn worst(study: &Study, name: &str) -> f64 {
        let rows = study.key_sets.iter().flat_map(|set| {
            let of_this = set.measured.iter().filter(|row| row.multiplication == name);
            of_this.map(|row| row.links / set.chance_links)
        });
        rows.fold(0.0, f64::max)
    }

    #[test]
    fn multiplier_of_32_bits_is_the_published_one() {
        let study = study(32);
        assert_eq!(study.multiplier, MULTIPLIER);
        assert!(study.multiplications[0].quality.prime);
        let expected = "The published 2654435761 is that prime.";
        assert!(
            study.answer.iter().any(|line| line == expected),
            "{:?}",
            study.answer
        );
    }

    #[test]
    fn words_of_64_bits_need_another_multiplier() {
        let study = study(64);
        assert_eq!(study.multiplier, 11_400_714_819_323_198_549);
        assert_eq!(study.multiplier_hex, "0x9e3779b97f4a7c55");
        assert_eq!(study.key_sets.len(), KeyKind::ALL.len());
        assert!(worst(&study, PUBLISHED) > 10.0 && worst(&study, PRIME) < 2.0);
        let needed = study.answer.last().unwrap();
        assert!(
            needed.starts_with("64-bit words need another multiplier"),
            "{needed}"
        );
    }

    #[test]
    fn multiplier_of_8_bits_is_derived_but_not_measured() {
        let study = study(8);
        assert_eq!((study.golden_ratio, study.multiplier), (158, 157));
        assert!(study.key_sets.is_empty());
        let text = study.to_string();
        assert!(text.contains("157") && !text.contains("chance"), "{text}");
    }

    #[test]
    fn studies_of_the_same_keys_are_equal() {
        assert_eq!(study(64), study(64));
    }
}
