//! The type of this document's findings.

use crate::reproduce::finding::{Bound, Effect, Finding};
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
