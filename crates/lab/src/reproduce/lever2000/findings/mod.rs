//! The findings of the document, the questions that it leaves open, and their criteria.
//!
//! Verdicts are based on counts of links wherever possible, since the same scripts always walk the same
//! links. Throughputs are compared in pairs of runs, with an interval.

mod buffer;
mod combination;
mod dentry;
mod function;
mod inode;
mod mutated;
mod page;
mod published;
#[cfg(test)]
mod tests;
mod throughput;

pub(super) use throughput::{Scatter, steady};

use super::results::Lever2000;
use crate::reproduce::finding::{Bound, Effect, Finding, Judged, Verdict};
use crate::statistics::Interval;

/// A finding of this document.
struct Rule {
    finding: Finding<Lever2000>,
    /// Returns the effects in the published figures.
    published: fn() -> Vec<Effect>,
    /// Whether the finding does not depend on the scripts, so that it is judged even if few of them run.
    is_counted_alone: bool,
}

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

/// Returns the published effects of a finding without published figures that can be compared.
fn no_figures() -> Vec<Effect> {
    Vec::new()
}

/// Returns the links that another function saves in a large table, as a share of those that the large table saves
/// compared to a small one. It must be less than a fifth.
fn links_share(label: String, [small, large, function]: [f64; 3]) -> Effect {
    let share = (large - function) / (small - large);
    Effect::share(label, Interval::exact(share), Bound::Below(0.2))
}
