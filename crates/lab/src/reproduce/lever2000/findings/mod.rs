//! The findings of the document, the questions that it leaves open, and their criteria.
//!
//! Verdicts are based on counts of links wherever possible, since the same scripts always walk the same
//! links. Throughputs are compared in pairs of rounds, with an interval.

mod addresses;
mod buffer;
mod combination;
mod dentry;
mod function;
mod inode;
mod mutated;
mod page;
mod published;
mod recorded;
mod rule;
#[cfg(test)]
mod tests;
mod throughput;

pub(super) use throughput::{Scatter, median_half_width_pct};

use super::results::Lever2000;
use crate::reproduce::finding::{Judged, Verdict};
use rule::Rule;

/// Returns all findings in the order of the report.
fn rules() -> impl Iterator<Item = &'static Rule> {
    let of_caches = buffer::RULES
        .iter()
        .chain(&inode::RULES)
        .chain(&page::RULES);
    of_caches
        .chain(&dentry::RULES)
        .chain(&combination::RULES)
        .chain(&function::RULES)
        .chain(&recorded::RULES)
}

/// Evaluates all findings.
pub(super) fn judge(results: &Lever2000) -> Vec<Judged<Lever2000>> {
    let judged = rules().map(|rule| {
        let mut judged = Judged::new(&rule.finding, (rule.published)(), results);
        if !results.size.is_full() && !rule.is_counted_alone {
            judged.verdict = Verdict::QuickRun;
        }
        judged
    });
    judged.collect()
}
