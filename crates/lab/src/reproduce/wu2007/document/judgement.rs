//! The results of rows as text.

use super::super::criterion::Judgement;
use crate::output::change;

/// Returns the published and the simulated change.
pub(super) fn changes(judgement: &Judgement) -> [String; 2] {
    [
        change(Some(judgement.published_pct)),
        change(judgement.ours_pct),
    ]
}

/// Returns whether the direction agrees, and whether the rough size agrees.
pub(super) fn verdicts(judgement: &Judgement) -> [String; 2] {
    [
        agreement(Some(judgement.direction_agrees)),
        agreement(judgement.size_agrees),
    ]
}

/// Returns whether something agrees, in words.
pub(super) fn agreement(agrees: Option<bool>) -> String {
    match agrees {
        Some(true) => "agrees",
        Some(false) => "**differs**",
        None => "-",
    }
    .to_owned()
}
