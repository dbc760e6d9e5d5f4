//! The findings of the document, the questions that it leaves open, and when each holds: fixed before any
//! result of ours was seen.
//!
//! Links that lookups walk decide wherever they can, since the same scripts walk the same links again.
//! A difference of throughputs counts only beyond twice both standard deviations together.

use super::Lever2000;
use super::measure::{Load, Row};
use crate::hash::cache_name;
use crate::sdm::Figures;
use larder::CacheKind;
use larder_cache::hash::{Function, HashKey};
use larder_cache::table::HashFunction;
use serde::Serialize;
use std::fmt::Write as _;

/// Whether a finding holds here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    DoesNotHold,
    /// Nobody can tell: the difference is no larger than that of runs of one kernel.
    WithinNoise,
    /// So little was measured that it says nothing.
    NotJudged,
}

impl Verdict {
    /// As reports print it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::WithinNoise => "within the noise",
            Self::NotJudged => "not judged",
        }
    }

    fn of(holds: bool) -> Self {
        if holds {
            Self::Holds
        } else {
            Self::DoesNotHold
        }
    }
}

/// What the measurements say.
type Observed = (String, Verdict);

/// A finding.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// Its short name.
    pub name: &'static str,
    /// What the document finds, or what its question is, as a claim.
    pub claim: &'static str,
    /// What was published for it.
    pub published: &'static str,
    /// When it holds.
    pub criterion: &'static str,
    /// Whether few scripts are enough to see it.
    pub is_counted_alone: bool,
    observe: fn(&Lever2000) -> Option<Observed>,
}

/// A finding, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: &'static str,
    /// What the document says.
    pub claim: &'static str,
    /// What was published for it.
    pub published: &'static str,
    /// When it holds.
    pub criterion: &'static str,
    /// Our figures.
    pub figures: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl Finding {
    pub(super) fn judge(&self, results: &Lever2000) -> Judged {
        let observed = (self.observe)(results);
        let (figures, verdict) = observed.unwrap_or_else(|| ("-".to_owned(), Verdict::NotJudged));
        let is_judged = results.size.is_full() || self.is_counted_alone;
        Judged {
            name: self.name,
            claim: self.claim,
            published: self.published,
            criterion: self.criterion,
            figures,
            verdict: if is_judged {
                verdict
            } else {
                Verdict::NotJudged
            },
        }
    }
}

/// All of them.
pub const FINDINGS: [Finding; 11] = [
    Finding {
        name: "buffer cache, xor",
        claim: "the buffer cache's function, which mixes nothing, is terrible, and any mixing fixes it",
        published: "2.155 iterations a lookup against 0.242; chains up to 116 against 11",
        criterion: "with 16384 buckets, lookups walk at least twice as many links beyond the first as with \
                    each mixing function, and the longest chain is at least four times as long",
        is_counted_alone: false,
        observe: buffer_xor,
    },
    Finding {
        name: "inode table of 8 bits",
        claim: "the inode cache's table of 256 buckets is a bottleneck",
        published: "38.978 iterations a lookup; throughput 4282.8 against 4361.3 with 12 bits",
        criterion: "lookups walk at least four times as many links as with 12 bits",
        is_counted_alone: false,
        observe: inode_bits,
    },
    Finding {
        name: "inode table, throughput",
        claim: "and costs throughput",
        published: "1.8% less than with 12 bits",
        criterion: "Table 5: throughput with 12 bits is higher, beyond the noise",
        is_counted_alone: false,
        observe: inode_throughput,
    },
    Finding {
        name: "page cache, size",
        claim: "the page cache gains from the size of its table, not from the function",
        published: "throughput with 16 scripts 1864.7, 1877.2 with 14 bits; offset 1880.0, mult 1876.4",
        criterion: "from 11 to 14 bits, links of a lookup go down by at least five times what another \
                    function at 14 bits makes of them",
        is_counted_alone: false,
        observe: page_size,
    },
    Finding {
        name: "kernel D",
        claim: "D is the best compromise of the four combinations",
        published: "4591.3 s=10.98; A 4582.9 s=12.55, B 4577.9 s=16.22, C 4596.2 s=22.30",
        criterion: "a script walks no more than 5% more links in all caches than with the best of A, B and \
                    C, and no throughput of theirs is higher beyond the noise",
        is_counted_alone: false,
        observe: kernel_d,
    },
    Finding {
        name: "64 bits",
        claim: "words of 64 bits ask for another constant",
        published: "a question of section 6",
        criterion: "with D's functions in 64 bits, lookups of a cache walk at least 10% more links than with \
                    D's",
        is_counted_alone: false,
        observe: word_size,
    },
    Finding {
        name: "miss of the dentry cache",
        claim: "a miss of the dentry cache costs less than one of the page cache",
        published: "a question of section 6",
        criterion: "the median time of a lookup that misses is shorter than that of a read that misses; no \
                    disk is behind either",
        is_counted_alone: false,
        observe: misses,
    },
    Finding {
        name: "eager shrinking",
        claim: "shrinking the dentry cache eagerly pays",
        published: "shrink + mult 11 4380.4, mult 11 4368.7: less than the standard deviation of 62.65",
        criterion: "Table 4: throughput of shrink + mult 11 is higher than that of mult 11 beyond the noise",
        is_counted_alone: false,
        observe: shrinking,
    },
    Finding {
        name: "shift-add or multiply",
        claim: "a shift-add function is almost as expensive as a multiplication",
        published: "estimates; P6: 5 or 9 cycles for a multiplication",
        criterion: "the latency of Steiner's shift-add, inlined, is at least 0.8 times that of mult-11",
        is_counted_alone: true,
        observe: shift_add,
    },
    Finding {
        name: "inlined or stand-alone",
        claim: "inlining the function gains what a call costs",
        published: "a question of section 6",
        criterion: "stand-alone, Larder's function has at least one cycle more of latency",
        is_counted_alone: true,
        observe: inlining,
    },
    Finding {
        name: "swap-like keys",
        claim: "keys of the swap cache ask for a function that takes the unshifted offset",
        published: "\"reduced bucket size distribution anomolies\", at a slight cost",
        criterion: "16384 swap entries in as many buckets: with swap-reference the longest chain is at least \
                    twice as long as with swap-offset",
        is_counted_alone: true,
        observe: swap,
    },
];

/// The only load of a row, or its last.
fn load(row: Option<&Row>) -> Option<&Load> {
    row?.loads.last()
}

fn buffer_xor(results: &Lever2000) -> Option<Observed> {
    let at = |kernel| Some(load(results.row(3, kernel))?.cache(CacheKind::Buffer));
    let xor = at("reference, 16384")?;
    let beyond_first = |links: f64| links - 1.0;
    let mut holds = true;
    let longest = xor.longest_chain;
    let mut text = format!(
        "xor {:.3} links a lookup, longest chain {longest}",
        xor.links_a_lookup()
    );
    for kernel in [
        "mult shift 11, 16384",
        "mult shift 17, 16384",
        "shift-add, 16384",
    ] {
        let mixed = at(kernel)?;
        let chain = mixed.longest_chain;
        // Writing to a string does not fail.
        let _ = write!(text, "; {kernel} {:.3}, {chain}", mixed.links_a_lookup());
        holds &= beyond_first(xor.links_a_lookup()) >= 2.0 * beyond_first(mixed.links_a_lookup())
            && longest >= 4 * chain;
    }
    Some((text, Verdict::of(holds)))
}

fn inode_bits(results: &Lever2000) -> Option<Observed> {
    let links = |kernel| {
        Some(
            load(results.row(5, kernel))?
                .cache(CacheKind::Inode)
                .links_a_lookup(),
        )
    };
    let (eight, twelve) = (links("reference")?, links("12 bit")?);
    let text = format!("{eight:.2} links a lookup, {twelve:.2} with 12 bits");
    Some((text, Verdict::of(eight >= 4.0 * twelve)))
}

fn inode_throughput(results: &Lever2000) -> Option<Observed> {
    let (twelve, eight) = (
        load(results.row(5, "12 bit"))?,
        load(results.row(5, "reference"))?,
    );
    Some(higher(twelve, eight))
}

fn page_size(results: &Lever2000) -> Option<Observed> {
    let row = |kernel| results.row(1, kernel);
    // Sixteen scripts, which the memory holds.
    let links = |kernel| {
        Some(
            row(kernel)?
                .loads
                .first()?
                .cache(CacheKind::Page)
                .links_a_lookup(),
        )
    };
    let (small, large) = (links("reference")?, links("14-bit")?);
    let functions = [links("offset")?, links("mult")?];
    let [offset, mult] = functions;
    let most = functions
        .iter()
        .map(|links| (links - large).abs())
        .fold(0.0, f64::max);
    let text = format!(
        "links a lookup: {small:.3} with 11 bits, {large:.3} with 14; there offset {offset:.3}, mult {mult:.3}"
    );
    Some((text, Verdict::of(small - large >= 5.0 * most)))
}

fn kernel_d(results: &Lever2000) -> Option<Observed> {
    let at = |kernel| load(results.row(6, kernel));
    let d = at("D")?;
    let mut text = String::from("links a script and scripts an hour:");
    let mut least = f64::INFINITY;
    let mut is_beaten = false;
    for kernel in ["A", "B", "C", "D"] {
        let other = at(kernel)?;
        least = least.min(other.links_a_script());
        is_beaten |= is_beyond_noise(steady(other), steady(d));
        // Writing to a string does not fail.
        let _ = write!(
            text,
            " {kernel} {:.0}, {};",
            other.links_a_script(),
            steady(other)
        );
    }
    let holds = d.links_a_script() <= 1.05 * least && !is_beaten;
    Some((text.trim_end_matches(';').to_owned(), Verdict::of(holds)))
}

fn word_size(results: &Lever2000) -> Option<Observed> {
    let (narrow, wide) = (
        load(results.row(6, "D"))?,
        load(results.row(6, "D in 64 bits"))?,
    );
    let mut text = String::from("links a lookup in 32 and 64 bits:");
    let mut worst: f64 = 0.0;
    for cache in CacheKind::ALL {
        let [narrow, wide] = [narrow, wide].map(|load| load.cache(cache).links_a_lookup());
        worst = worst.max(wide / narrow);
        // Writing to a string does not fail.
        let _ = write!(text, " {} {narrow:.3} and {wide:.3};", cache_name(cache));
    }
    Some((
        text.trim_end_matches(';').to_owned(),
        Verdict::of(worst >= 1.1),
    ))
}

#[expect(clippy::unnecessary_wraps, reason = "as every finding is asked")]
fn misses(results: &Lever2000) -> Option<Observed> {
    let misses = &results.misses;
    let text = format!(
        "dentry: {:.0} ns a miss, {:.0} ns a hit; page: {:.0} ns a miss, {:.0} ns a hit",
        misses.dentry_miss_ns, misses.dentry_hit_ns, misses.page_miss_ns, misses.page_hit_ns
    );
    Some((text, Verdict::of(misses.dentries_a_page() > 1.0)))
}

fn shrinking(results: &Lever2000) -> Option<Observed> {
    let (eager, normal) = (
        load(results.row(4, "shrink + mult 11"))?,
        load(results.row(4, "mult shift 11"))?,
    );
    let (text, verdict) = higher(eager, normal);
    let dentries = |load: &Load| load.cache(CacheKind::Dentry).full.histogram.objects();
    let text = format!(
        "{text}; dentries at the end {} and {}",
        dentries(eager),
        dentries(normal)
    );
    Some((text, verdict))
}

fn shift_add(results: &Lever2000) -> Option<Observed> {
    let latency = |function| Some(results.cost(function)?.inlined.latency);
    let (shift_add, multiply) = (
        latency(Function::BufferSteiner)?,
        latency(Function::BufferMult11)?,
    );
    let text = format!("cycles of latency: shift-add {shift_add:.1}, mult-11 {multiply:.1}");
    Some((text, Verdict::of(shift_add >= 0.8 * multiply)))
}

fn inlining(results: &Lever2000) -> Option<Observed> {
    let cost = results.cost(Function::Golden)?;
    let (inlined, called) = (cost.inlined.latency, cost.stand_alone.latency);
    let text = format!("cycles of latency: inlined {inlined:.1}, stand-alone {called:.1}");
    Some((text, Verdict::of(called - inlined >= 1.0)))
}

#[expect(clippy::unnecessary_wraps, reason = "as every finding is asked")]
fn swap(_: &Lever2000) -> Option<Observed> {
    let chains = |function: Function| {
        const BITS: u32 = 14;
        let mut lengths = vec![0_u64; 1 << BITS];
        for slot in 0..1 << BITS {
            // Linux 2.2: the number of the area from bit 1, that of the page in it from bit 8.
            let key = HashKey {
                object: 1,
                index: slot << 8 | 1 << 1,
            };
            lengths[function.bucket(key, BITS) as usize] += 1;
        }
        lengths.into_iter().max().unwrap_or(0)
    };
    let (reference, offset) = (
        chains(Function::SwapReference),
        chains(Function::SwapOffset),
    );
    let text = format!("longest chain: swap-reference {reference}, swap-offset {offset}");
    Some((text, Verdict::of(reference >= 2 * offset)))
}

/// Without the first run, if there is another.
pub(super) fn steady(load: &Load) -> Figures {
    load.runs.without_first().unwrap_or_else(|| load.runs.all())
}

/// Whether throughput under `one` is higher than under `other`.
fn higher(one: &Load, other: &Load) -> Observed {
    let (one, other) = (steady(one), steady(other));
    let verdict = if is_beyond_noise(one, other) {
        Verdict::Holds
    } else if is_beyond_noise(other, one) {
        Verdict::DoesNotHold
    } else {
        Verdict::WithinNoise
    };
    (format!("scripts an hour {one} and {other}"), verdict)
}

fn is_beyond_noise(one: Figures, other: Figures) -> bool {
    one.mean - other.mean > 2.0 * (one.s + other.s)
}
