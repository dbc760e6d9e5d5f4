//! The findings of the document, the questions that it leaves open, and their criteria.
//!
//! Counts of links decide wherever possible, since the same scripts always walk the same links. A
//! difference in throughput or in cycles counts only if it exceeds twice the sum of both standard
//! deviations.

mod links;
mod processor;
mod throughput;

pub(super) use throughput::{Scatter, steady};

use super::Lever2000;
use super::measure::{Load, Row};
use serde::Serialize;

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It does not hold.
    DoesNotHold,
    /// Undecided: the difference is no larger than that between runs of one kernel.
    WithinNoise,
    /// Undecided: with a single run, the noise is unknown.
    OneRun,
    /// Undecided: there are too few scripts.
    TooFewScripts,
    /// The necessary figures were not measured.
    NotMeasured,
}

impl Verdict {
    /// Returns the name used in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::WithinNoise => "no difference shown",
            Self::OneRun => "not judged: one run",
            Self::TooFewScripts => "not judged: too few scripts",
            Self::NotMeasured => "not measured",
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

/// The figures as text, and the verdict.
type Observed = (String, Verdict);

/// A finding.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Finding {
    /// Its short name.
    pub name: &'static str,
    /// The document's finding or question, as a claim.
    pub claim: &'static str,
    pub published: &'static str,
    /// The criterion.
    pub criterion: &'static str,
    /// Whether counts decide it, so that few scripts are sufficient.
    #[serde(skip)]
    pub is_counted_alone: bool,
    #[serde(skip)]
    observe: fn(&Lever2000) -> Option<Observed>,
}

/// A finding and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub finding: &'static Finding,
    pub figures: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

impl Finding {
    pub(super) fn judge(&'static self, results: &Lever2000) -> Judged {
        let observed = (self.observe)(results);
        let (figures, verdict) = observed.unwrap_or_else(|| ("-".to_owned(), Verdict::NotMeasured));
        let is_judged = results.size.is_full() || self.is_counted_alone;
        Judged {
            finding: self,
            figures,
            verdict: if is_judged {
                verdict
            } else {
                Verdict::TooFewScripts
            },
        }
    }
}

/// All findings.
pub static FINDINGS: [Finding; 12] = [
    Finding {
        name: "buffer cache, xor",
        claim: "the buffer cache's function, which mixes nothing, is terrible, and any mixing fixes it",
        published: "2.155 iterations a lookup against 0.242; chains up to 116 against 11; 37,256 objects, \
                    296,481 lookups",
        criterion: "with 16384 buckets, lookups walk at least twice as many links beyond the first as with \
                    each mixing function, and the longest chain is at least four times as long",
        is_counted_alone: false,
        observe: links::buffer_xor,
    },
    Finding {
        name: "inode table, size",
        claim: "the inode cache's table of 256 buckets is a bottleneck",
        published: "38.978 iterations a lookup, and 97% of lookups miss",
        criterion: "with the same function, lookups that miss walk at least four times as many links with 8 \
                    bits as with 14: both with the reference's and with Larder's",
        is_counted_alone: false,
        observe: links::inode_size,
    },
    Finding {
        name: "inode table, function",
        claim: "the inode cache gains from the size of its table, not from the function",
        published: "throughput 4282.8, 4361.3 with 12 bits; mult there 4346.0",
        criterion: "from 8 to 12 bits, links of a lookup that misses go down by at least five times what \
                    mult at 12 bits makes of them",
        is_counted_alone: false,
        observe: links::inode_function,
    },
    Finding {
        name: "inode table, throughput",
        claim: "the inode cache's table of 256 buckets costs throughput",
        published: "1.8% less than with 12 bits",
        criterion: "Table 5: throughput with 12 bits is higher, beyond the noise",
        is_counted_alone: false,
        observe: throughput::inode_bits,
    },
    Finding {
        name: "page cache, size",
        claim: "the page cache gains from the size of its table, not from the function",
        published: "throughput with 16 scripts 1864.7, 1877.2 with 14 bits; offset 1880.0, mult 1876.4",
        criterion: "from 11 to 14 bits, links of a lookup go down by at least five times what another \
                    function at 14 bits makes of them",
        is_counted_alone: false,
        observe: links::page_size,
    },
    Finding {
        name: "kernel D",
        claim: "D is the best compromise of the four combinations",
        published: "4591.3 s=10.98; A 4582.9 s=12.55, B 4577.9 s=16.22, C 4596.2 s=22.30",
        criterion: "a script walks no more than 5% more links in all caches than with the best of A, B and \
                    C, and no throughput of theirs is higher beyond the noise",
        is_counted_alone: false,
        observe: throughput::kernel_d,
    },
    Finding {
        name: "64 bits",
        claim: "words of 64 bits ask for another constant",
        published: "a question of section 6",
        criterion: "where the shift follows the word, 2654435761 takes more than twice as much of chance's \
                    links as the prime nearest the golden ratio of 64 bits, each with the keys of `larder lab \
                    constant --bits 64` that suit it least",
        is_counted_alone: true,
        observe: links::word_size,
    },
    Finding {
        name: "miss of the dentry cache",
        claim: "a miss of the dentry cache costs less than one of the page cache",
        published: "a question of section 6",
        criterion: "the median time of a lookup that misses is shorter than that of a read that misses; no \
                    disk is behind either",
        is_counted_alone: false,
        observe: processor::misses,
    },
    Finding {
        name: "eager shrinking",
        claim: "shrinking the dentry cache eagerly pays",
        published: "shrink + mult 11 4380.4, mult 11 4368.7: less than the standard deviation of 62.65",
        criterion: "Table 4: throughput of shrink + mult 11 is higher than that of mult 11 beyond the noise",
        is_counted_alone: false,
        observe: throughput::shrinking,
    },
    Finding {
        name: "shift-add or multiply",
        claim: "a shift-add function is almost as expensive as a multiplication",
        published: "estimates; P6: 5 or 9 cycles for a multiplication",
        criterion: "the latency of Steiner's shift-add, inlined, is at least 0.8 times that of mult-11",
        is_counted_alone: true,
        observe: processor::shift_add,
    },
    Finding {
        name: "inlined or stand-alone",
        claim: "inlining the function gains what a call costs",
        published: "a question of section 6",
        criterion: "stand-alone, more than half of the functions have a higher latency, beyond the noise; \
                    it does not hold where more than half have a lower one",
        is_counted_alone: true,
        observe: processor::inlining,
    },
    Finding {
        name: "swap-like keys",
        claim: "keys of the swap cache ask for a function that takes the unshifted offset",
        published: "\"reduced bucket size distribution anomolies\", at a slight cost",
        criterion: "16384 swap entries in as many buckets: with swap-reference the longest chain is at least \
                    twice as long as with swap-offset",
        is_counted_alone: true,
        observe: links::swap,
    },
];

/// Returns the only load of a row, or its last one.
fn load(row: Option<&Row>) -> Option<&Load> {
    row?.loads.last()
}
