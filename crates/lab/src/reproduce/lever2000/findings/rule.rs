//! The type of this document's findings.

use crate::reproduce::finding::{Bound, Effect, Finding, Previous, Verdict};
use crate::reproduce::lever2000::results::Lever2000;
use crate::statistics::Interval;

/// A finding of this document.
pub(super) struct Rule {
    pub(super) finding: Finding<Lever2000>,
    /// Returns the effects in the published figures.
    pub(super) published: fn() -> Vec<Effect>,
    /// Whether the finding is independent of the scripts. If it is, it is judged even in a quick run.
    pub(super) is_counted_alone: bool,
}

/// What changed since the last version for a finding with the same rule.
pub(super) const SAME_RULE: &str = "The rule did not change";

/// What changed since the last version for a finding about throughputs with different tables of pages.
pub(super) const BY_ADDRESSES: &str = "A verdict that depends on the addresses of inodes is undecided; otherwise, the \
                                       rule did not change";

/// What changed since the last version for such a finding over all loads of Table 1.
pub(super) const BY_LOAD_AND_ADDRESSES: &str = "The interval does not contain the differences between numbers of scripts, \
                                                and a verdict that depends on the addresses of inodes is undecided; \
                                                otherwise, the rule did not change";

/// What changed since the last version for a finding with the same rule and the same measurement.
pub(super) const UNCHANGED: &str = "Neither the rule nor the measurement changed";

/// Returns the verdict of a finding in the last version of the report, which is of 29 November 2026, and what changed
/// since then.
#[expect(
    clippy::unnecessary_wraps,
    reason = "new findings have no last verdict"
)]
pub(super) const fn last(verdict: Verdict, reason: &'static str) -> Option<Previous> {
    Some(Previous { verdict, reason })
}

/// Returns no effects, for a finding whose published figures cannot be compared.
pub(super) fn no_figures() -> Vec<Effect> {
    Vec::new()
}

/// Returns the links that another function saves in a large table, divided by the links that the large table saves
/// compared with a small one. This share must be less than a fifth.
pub(super) fn links_share(label: String, [small, large, function]: [f64; 3]) -> Effect {
    let share = (large - function) / (small - large);
    Effect::share(label, Interval::exact(share), Bound::Below(0.2))
}
