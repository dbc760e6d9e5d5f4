//! What the figures say of a multiplier, in sentences.

use super::{KeySetMeasured, MULTIPLIER, Multiplication, PRIME, PUBLISHED};

/// More links than this, relative to chance, and a multiplication has failed its keys.
const TOLERABLE: f64 = 1.25;

/// The worst that a multiplication did.
struct Worst<'a> {
    keys: &'a str,
    links: f64,
    /// Relative to chance.
    times: f64,
}

pub(super) fn answer(
    bits: u32,
    prime: u64,
    multiplications: &[Multiplication],
    key_sets: &[KeySetMeasured],
) -> Vec<String> {
    let mut answer = vec![format!(
        "The prime nearest the golden ratio of 2^{bits} is {prime} ({prime:#x})."
    )];
    if bits == 32 {
        let is = if prime == MULTIPLIER { "is" } else { "is not" };
        answer.push(format!("The published {MULTIPLIER} {is} that prime."));
    }
    for one in multiplications {
        answer.extend(worst(one.name, key_sets).map(|worst| verdict(one.name, &worst)));
    }
    if bits == 64 {
        answer.extend(open_question(key_sets));
    }
    answer
}

/// One multiplication, under the keys that it did worst with.
fn verdict(name: &str, Worst { keys, links, times }: &Worst<'_>) -> String {
    let judged = if *times > TOLERABLE { "fails" } else { "holds" };
    format!(
        "{name} {judged}: {links:.2} links a hit at worst, {times:.2} of chance's, on {keys} keys."
    )
}

/// "The tuning patch should be benchmarked on 64-bit hardware to see if another constant needs to be
/// chosen there."
fn open_question(key_sets: &[KeySetMeasured]) -> Option<String> {
    let published = worst(PUBLISHED, key_sets)?;
    let prime = worst(PRIME, key_sets)?;
    let fails = |worst: &Worst<'_>| worst.times > TOLERABLE;
    Some(match (fails(&published), fails(&prime)) {
        (true, false) => format!(
            "Another constant needs to be chosen for 64 bits, if the shift follows the word: at worst \
             {MULTIPLIER} takes {:.2} links a hit, the prime of 64 bits {:.2}.",
            published.links, prime.links
        ),
        (false, _) => {
            format!("No other constant needs to be chosen for these keys: {MULTIPLIER} holds.")
        }
        (true, true) => format!(
            "Another constant does not suffice for these keys: {MULTIPLIER} fails, and so does the prime \
             of 64 bits."
        ),
    })
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
