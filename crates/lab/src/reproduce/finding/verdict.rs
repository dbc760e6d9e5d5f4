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
    /// Undecided: the machine has too few processors, or the table lacks what the finding needs.
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

    /// Combines the verdicts of several tables on one finding, none of which decides it. The result is the verdict that
    /// says most about the finding: a table that could have decided it says more than one that could not.
    pub fn of_tables(undecided: impl IntoIterator<Item = Self>) -> Self {
        let order = [
            Self::DependsOnAssumption,
            Self::WithinNoise,
            Self::QuickRun,
            Self::TooFewRuns,
            Self::CannotBeShown,
            Self::NotMeasured,
        ];
        let rank = |verdict: &Self| order.iter().position(|of| of == verdict);
        undecided
            .into_iter()
            .min_by_key(rank)
            .unwrap_or(Self::NotMeasured)
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{CannotBeShown, DoesNotHold, Holds, NotMeasured, TooFewRuns, WithinNoise};
    use super::*;

    #[test]
    fn table_within_its_noise_outranks_a_machine_with_few_processors() {
        for (verdicts, of_tables) in [
            (&[CannotBeShown, WithinNoise][..], WithinNoise),
            (&[NotMeasured, CannotBeShown], CannotBeShown),
            (
                &[WithinNoise, Verdict::DependsOnAssumption],
                Verdict::DependsOnAssumption,
            ),
            (&[], NotMeasured),
        ] {
            let combined = Verdict::of_tables(verdicts.iter().copied());
            assert_eq!(combined, of_tables, "{verdicts:?}");
        }
    }

    #[test]
    fn finding_is_refuted_by_one_condition_and_undecided_by_one_undecided_condition() {
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
