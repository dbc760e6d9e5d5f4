//! A finding, and its result.

use crate::reproduce::lever2000::size::Size;
use serde::Serialize;

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The finding holds.
    Holds,
    /// It does not hold.
    DoesNotHold,
    /// Undecided, because runs of the same kernel differ at least as much.
    WithinNoise,
    /// Undecided, because a single run does not show the noise.
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

    pub(super) fn of(holds: bool) -> Self {
        if holds {
            Self::Holds
        } else {
            Self::DoesNotHold
        }
    }
}

/// The figures as text, and the verdict.
pub(super) type Observed = (String, Verdict);

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
    /// Whether the finding does not depend on the scripts, so that it is judged even if few of them
    /// run.
    #[serde(skip)]
    pub is_counted_alone: bool,
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

impl Judged {
    /// Creates the result of a finding in a reproduction of this `size`. `observed` is `None` if its figures were
    /// not measured.
    pub(super) fn new(finding: &'static Finding, observed: Option<Observed>, size: &Size) -> Self {
        let (figures, verdict) = observed.unwrap_or_else(|| ("-".to_owned(), Verdict::NotMeasured));
        let is_judged = size.is_full() || finding.is_counted_alone;
        Self {
            finding,
            figures,
            verdict: if is_judged {
                verdict
            } else {
                Verdict::TooFewScripts
            },
        }
    }
}
