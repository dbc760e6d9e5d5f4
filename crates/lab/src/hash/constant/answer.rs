//! Conclusions from the measurements of multipliers, as sentences.

use super::measured::KeySetMeasured;
use super::multiplication::{Multiplication, PRIME, PUBLISHED};
use larder_cache::hash::MULTIPLIER;
use serde::Serialize;

/// Words of a size need another multiplier if lookups with the published one walk more than this many times
/// the links of lookups with the prime.
const NEEDED: f64 = 2.0;

/// Links of a hit with the published multiplier and with the prime, divided by the links expected by chance.
/// Each is the maximum over all sets of keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Constants {
    pub published: f64,
    /// The same ratio for the prime nearest to 2^(bits of the word) / golden ratio.
    pub prime: f64,
}

impl Constants {
    /// Returns whether words of this size need a multiplier other than the published one.
    pub fn is_another_needed(&self) -> bool {
        self.published > NEEDED * self.prime
    }

    pub(super) fn of(key_sets: &[KeySetMeasured]) -> Option<Self> {
        Some(Self {
            published: worst(PUBLISHED, key_sets)?.times,
            prime: worst(PRIME, key_sets)?.times,
        })
    }
}

/// The result of a multiplication with the set of keys for which lookups walk the most links relative to
/// chance.
struct Worst<'a> {
    keys: &'a str,
    links: f64,
    /// The links divided by the links expected by chance.
    times: f64,
}

pub(super) fn answer(
    bits: u32,
    prime: u64,
    multiplications: &[Multiplication],
    key_sets: &[KeySetMeasured],
) -> Vec<String> {
    let mut answer = vec![format!(
        "The prime nearest to 2^{bits} / golden ratio is {prime} ({prime:#x})."
    )];
    if bits == 32 {
        let is = if prime == MULTIPLIER { "is" } else { "is not" };
        answer.push(format!("The published {MULTIPLIER} {is} that prime."));
    }
    for one in multiplications {
        let worst = worst(one.name, key_sets);
        answer.extend(worst.map(|Worst { keys, links, times }| {
            let name = one.name;
            format!(
                "{name}: at worst {links:.2} links per hit, {times:.2} times chance, with {keys} keys."
            )
        }));
    }
    if bits == 64 {
        answer.extend(open_question(key_sets));
    }
    answer
}

/// Answers the question of Lever 2000: "The tuning patch should be benchmarked on 64-bit hardware to see if
/// another constant needs to be chosen there."
fn open_question(key_sets: &[KeySetMeasured]) -> Option<String> {
    let constants = Constants::of(key_sets)?;
    let needed = if constants.is_another_needed() {
        "64-bit words need another multiplier"
    } else {
        "64-bit words need no other multiplier"
    };
    Some(format!(
        "{needed} if the shift depends on the word size: at worst, lookups walk {:.2} times as many links \
         as chance with {MULTIPLIER}, and {:.2} times as many with the 64-bit prime. If the shift is \
         always 11, tables of up to 21 bits use the same buckets as with 32-bit words.",
        constants.published, constants.prime
    ))
}

fn worst<'a>(name: &str, key_sets: &'a [KeySetMeasured]) -> Option<Worst<'a>> {
    let of_this = key_sets.iter().filter_map(|set| {
        let row = set.measured.iter().find(|row| row.multiplication == name)?;
        Some(Worst {
            keys: &set.keys,
            links: row.links,
            times: row.links / set.chance_links,
        })
    });
    of_this.max_by(|a, b| a.times.total_cmp(&b.times))
}
