//! The findings of the document, the questions that it leaves open, and their criteria.
//!
//! Verdicts are based on counts of links wherever possible, since the same scripts always walk the same
//! links. A difference in throughput or in cycles is considered only if it exceeds twice the sum of both
//! standard deviations.

mod finding;
mod links;
mod processor;
mod throughput;

pub(super) use finding::Judged;
pub use finding::Verdict;
pub(super) use throughput::{Scatter, steady};

use super::results::Lever2000;
use finding::{Finding, Observed};

/// A function that evaluates a finding. It returns `None` if the necessary figures were not measured.
type Observe = fn(&Lever2000) -> Option<Observed>;

/// All findings, and the functions that evaluate them.
static FINDINGS: [(Finding, Observe); 12] = [
    (
        Finding {
            name: "buffer cache, xor",
            claim: "the buffer cache's function, which does not mix bits, is terrible, and any mixing function fixes it",
            published: "2.155 iterations per lookup with xor, 0.242 with mult shift 11; longest chains 116 and \
                        11; 37,256 objects, 296,481 lookups",
            criterion: "with 16384 buckets, lookups with xor walk at least twice as many links after the first \
                        as with each mixing function, and the longest chain is at least four times as long",
            is_counted_alone: false,
        },
        links::buffer_xor,
    ),
    (
        Finding {
            name: "inode table, size",
            claim: "the inode cache's table of 256 buckets is a bottleneck",
            published: "38.978 iterations per lookup, and 97% of lookups miss",
            criterion: "lookups that miss walk at least four times as many links with 8 bits as with 14 bits, both \
                        with the reference function and with Larder's",
            is_counted_alone: false,
        },
        links::inode_size,
    ),
    (
        Finding {
            name: "inode table, function",
            claim: "the inode cache gains from a larger table, not from another function",
            published: "scripts per hour: 4282.8 with 8 bits, 4361.3 with 12 bits, 4346.0 with 12 bits and mult",
            criterion: "from 8 to 12 bits, the links of a lookup that misses decrease by at least five times the \
                        difference that mult makes with 12 bits",
            is_counted_alone: false,
        },
        links::inode_function,
    ),
    (
        Finding {
            name: "inode table, throughput",
            claim: "the inode cache's table of 256 buckets reduces throughput",
            published: "1.8% less than with 12 bits",
            criterion: "in Table 5, the throughput with 12 bits (the first figure) is higher than with 8 bits by \
                        more than the noise",
            is_counted_alone: false,
        },
        throughput::inode_bits,
    ),
    (
        Finding {
            name: "page cache, size",
            claim: "the page cache gains from a larger table, not from another function",
            published: "scripts per hour with 16 scripts: 1864.7 with 11 bits, 1877.2 with 14 bits, 1880.0 with \
                        14 bits and offset, 1876.4 with 14 bits and mult",
            criterion: "from 11 to 14 bits, the links of a lookup decrease by at least five times the difference \
                        that another function makes with 14 bits",
            is_counted_alone: false,
        },
        links::page_size,
    ),
    (
        Finding {
            name: "kernel D",
            claim: "D is the best compromise of the four combinations",
            published: "scripts per hour: A 4582.9 s=12.55; B 4577.9 s=16.22; C 4596.2 s=22.30; D 4591.3 s=10.98",
            criterion: "with D, a script walks at most 5% more links in all caches than with the best of A, B and \
                        C, and none of these has a higher throughput by more than the noise",
            is_counted_alone: false,
        },
        throughput::kernel_d,
    ),
    (
        Finding {
            name: "64 bits",
            claim: "words of 64 bits need another constant",
            published: "an open question in section 6",
            criterion: "with a shift that depends on the word size, lookups with 2654435761 walk more than twice as many \
                        links, relative to a random distribution, as with the prime nearest the golden ratio of 64 \
                        bits, each with its worst keys of `larder lab constant --bits 64`",
            is_counted_alone: true,
        },
        links::word_size,
    ),
    (
        Finding {
            name: "miss of the dentry cache",
            claim: "a miss in the dentry cache costs less than a miss in the page cache",
            published: "an open question in section 6",
            criterion: "the median time of a lookup that misses is shorter than that of a read that misses, without \
                        the time of a disk",
            is_counted_alone: false,
        },
        processor::misses,
    ),
    (
        Finding {
            name: "eager shrinking",
            claim: "eager shrinking of the dentry cache increases throughput",
            published: "scripts per hour: 4380.4 with shrink + mult 11, 4368.7 with mult 11; the difference is \
                        less than the standard deviation of 62.65",
            criterion: "in Table 4, the throughput with shrink + mult 11 (the first figure) is higher than with \
                        mult 11 by more than the noise",
            is_counted_alone: false,
        },
        throughput::shrinking,
    ),
    (
        Finding {
            name: "shift-add or multiply",
            claim: "a shift-add function is almost as expensive as a multiplication",
            published: "estimates: a multiplication takes 5 or 9 cycles on a P6",
            criterion: "the latency of Steiner's shift-add, inlined, is at least 0.8 times that of mult-11",
            is_counted_alone: true,
        },
        processor::shift_add,
    ),
    (
        Finding {
            name: "inlined or stand-alone",
            claim: "inlining the function saves the cost of a call",
            published: "an open question in section 6",
            criterion: "more than half of the functions have a higher latency called than inlined, by more than the \
                        noise; it does not hold if more than half have a lower one",
            is_counted_alone: true,
        },
        processor::inlining,
    ),
    (
        Finding {
            name: "swap-like keys",
            claim: "keys of the swap cache need a function that uses the unshifted offset",
            published: "\"reduced bucket size distribution anomolies\", at a slight cost",
            criterion: "with 16384 swap entries in 16384 buckets, the longest chain with swap-reference is at least \
                        twice as long as with swap-offset",
            is_counted_alone: true,
        },
        links::swap,
    ),
];

/// Evaluates all findings.
pub(super) fn judge(results: &Lever2000) -> Vec<Judged> {
    let findings = FINDINGS.iter();
    let judged =
        findings.map(|(finding, observe)| Judged::new(finding, observe(results), &results.size));
    judged.collect()
}
