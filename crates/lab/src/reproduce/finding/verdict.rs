//! Whether a finding holds.

use serde::Serialize;

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The finding holds.
    Holds,
    /// The finding does not hold.
    DoesNotHold,
    /// Undecided: an interval contains its bound.
    WithinNoise,
    /// Undecided: there are too few runs or seeds for an interval.
    TooFewRuns,
    /// Undecided: the machine has too few processors.
    CannotBeShown,
    /// Undecided: the verdict differs if an assumption is replaced by others that are as plausible.
    DependsOnAssumption,
    /// Undecided: this is a quick run.
    QuickRun,
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
            Self::WithinNoise => "within the noise",
            Self::TooFewRuns => "not judged: too few runs",
            Self::CannotBeShown => "cannot be shown here",
            Self::DependsOnAssumption => "depends on an assumption",
            Self::QuickRun => "not judged: quick run",
            Self::NotMeasured => "not measured",
        }
    }

    /// Returns whether the verdict is a decision.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Holds | Self::DoesNotHold)
    }

    /// Combines the verdicts on all conditions of a finding. If a condition does not hold, the finding does not
    /// hold. Otherwise, if a condition is undecided, the finding is undecided.
    pub fn all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let order = [
            Self::DoesNotHold,
            Self::NotMeasured,
            Self::QuickRun,
            Self::CannotBeShown,
            Self::DependsOnAssumption,
            Self::TooFewRuns,
            Self::WithinNoise,
            Self::Holds,
        ];
        let rank = |verdict: &Self| order.iter().position(|of| of == verdict);
        verdicts
            .into_iter()
            .min_by_key(rank)
            .unwrap_or(Self::NotMeasured)
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{DoesNotHold, Holds, NotMeasured, TooFewRuns, WithinNoise};
    use super::*;

    #[test]
    fn one_refuted_condition_refutes_and_one_undecided_condition_leaves_undecided() {
        for (verdicts, all) in [
            (&[Holds, Holds][..], Holds),
            (&[Holds, WithinNoise], WithinNoise),
            (&[WithinNoise, TooFewRuns, Holds], TooFewRuns),
            (&[WithinNoise, DoesNotHold, Holds], DoesNotHold),
            (&[], NotMeasured),
        ] {
            assert_eq!(Verdict::all(verdicts.iter().copied()), all, "{verdicts:?}");
        }
    }
}
