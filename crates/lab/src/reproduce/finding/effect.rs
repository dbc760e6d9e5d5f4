//! Effects, which a criterion computes from results.

use super::verdict::Verdict;
use crate::statistics::Interval;
use serde::Serialize;

/// The bound that an effect must exceed or stay below. An effect that equals the bound is not within it: a ratio
/// of 1 is neither above nor below 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The effect must be larger.
    Above(f64),
    /// The effect must be smaller.
    Below(f64),
}

impl Bound {
    /// Returns the verdict on an effect: whether its whole interval is within the bound, outside of the bound,
    /// or neither. Without an interval, there are too few runs for a verdict.
    #[must_use]
    pub fn verdict(self, estimate: Interval) -> Verdict {
        let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
            return Verdict::TooFewRuns;
        };
        let (all, some) = match self {
            Self::Above(bound) => (low > bound, high > bound),
            Self::Below(bound) => (high < bound, low < bound),
        };
        // An estimate that is not a number is within no bound.
        match (all, some) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::WithinNoise,
            (false, false) => Verdict::DoesNotHold,
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::Below(bound) => write!(f, "below {bound}"),
        }
    }
}

/// A number by which a finding is judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// What is compared, such as "scripts per hour, 12 bit / reference".
    pub label: String,
    /// The number, with its interval.
    pub estimate: Interval,
    /// The value if nothing differs: 1 for a ratio, 0 for a share of changed cases.
    pub no_effect: f64,
    /// The bound within which the finding holds.
    pub bound: Bound,
}

impl Effect {
    /// Creates a ratio of two figures.
    pub fn ratio(label: impl Into<String>, estimate: Interval, bound: Bound) -> Self {
        Self {
            label: label.into(),
            estimate,
            no_effect: 1.0,
            bound,
        }
    }

    /// Creates an effect that is 0 if nothing differs, such as a share of cases.
    pub fn share(label: impl Into<String>, estimate: Interval, bound: Bound) -> Self {
        Self {
            no_effect: 0.0,
            ..Self::ratio(label, estimate, bound)
        }
    }

    /// Returns whether the effect is within its bound.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.bound.verdict(self.estimate)
    }
}

/// What a finding shows in one set of results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observed {
    /// The decisive figures as text.
    pub figures: String,
    /// All conditions of the finding.
    pub effects: Vec<Effect>,
    /// Whether the verdict differs with other assumptions, so that the effects cannot decide it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub depends_on_assumption: bool,
    /// Whether the finding holds.
    pub holds: bool,
}

impl Observed {
    /// Returns the observation of a finding whose figures were not measured.
    #[must_use]
    pub fn missing() -> Self {
        Self {
            figures: "-".to_owned(),
            effects: Vec::new(),
            depends_on_assumption: false,
            holds: false,
        }
    }

    /// Returns the verdict: whether all effects are within their bounds. A decision does not count if it
    /// depends on an assumption.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let verdict = Verdict::all(self.effects.iter().map(Effect::verdict));
        if self.depends_on_assumption && verdict.is_decided() {
            return Verdict::DependsOnAssumption;
        }
        verdict
    }

    /// Returns whether all estimates are within their bounds, regardless of their intervals.
    #[must_use]
    pub fn is_met(&self) -> bool {
        let mut effects = self.effects.iter();
        effects.all(|effect| {
            let estimate = Interval::exact(effect.estimate.value);
            effect.bound.verdict(estimate) == Verdict::Holds
        })
    }

    /// Removes the intervals of all effects, for results whose noise is only assumed.
    #[must_use]
    pub fn without_intervals(mut self) -> Self {
        let more = self.figures.split_off(listed(&self.effects).len());
        for effect in &mut self.effects {
            effect.estimate = Interval::unknown(effect.estimate.value);
        }
        self.figures = listed(&self.effects) + &more;
        self
    }

    /// Returns the verdict of a finding from `observed`, or [`Verdict::NotMeasured`] if there is none.
    pub(in crate::reproduce) fn verdict_of(observed: Option<&Self>) -> Verdict {
        observed.map_or(Verdict::NotMeasured, Self::verdict)
    }

    /// Sets whether the verdict differs with other assumptions.
    #[must_use]
    pub fn depending_on_assumption(mut self, depends: bool) -> Self {
        self.depends_on_assumption = depends;
        self.holds = self.verdict() == Verdict::Holds;
        self
    }

    /// Appends figures that do not decide the verdict to [`Self::figures`].
    #[must_use]
    pub fn with_figures(mut self, figures: &str) -> Self {
        self.figures = format!("{}; {figures}", self.figures);
        self
    }
}

impl From<Vec<Effect>> for Observed {
    /// Creates the observation of `effects`. Its [`figures`](Observed::figures) list the effects.
    fn from(effects: Vec<Effect>) -> Self {
        Self {
            figures: listed(&effects),
            holds: Verdict::all(effects.iter().map(Effect::verdict)) == Verdict::Holds,
            depends_on_assumption: false,
            effects,
        }
    }
}

fn listed(effects: &[Effect]) -> String {
    let effects = effects
        .iter()
        .map(|effect| format!("{} {}", effect.label, effect.estimate));
    effects.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval {
            value: low.midpoint(high),
            low: Some(low),
            high: Some(high),
        }
    }

    #[test]
    fn bound_is_decided_by_the_whole_interval() {
        let above = Bound::Above(1.0);
        assert_eq!(above.verdict(interval(1.01, 1.2)), Verdict::Holds);
        assert_eq!(above.verdict(interval(0.9, 1.2)), Verdict::WithinNoise);
        assert_eq!(above.verdict(interval(0.8, 0.9)), Verdict::DoesNotHold);
        let below = Bound::Below(1.0);
        assert_eq!(below.verdict(interval(0.8, 0.9)), Verdict::Holds);
        assert_eq!(below.verdict(interval(0.9, 1.2)), Verdict::WithinNoise);
        assert_eq!(below.verdict(interval(1.01, 1.2)), Verdict::DoesNotHold);
    }

    #[test]
    fn bound_does_not_accept_its_own_value_an_undefined_one_or_a_single_run() {
        for bound in [Bound::Above(1.0), Bound::Below(1.0)] {
            assert_eq!(bound.verdict(Interval::exact(1.0)), Verdict::DoesNotHold);
            let undefined = Interval::exact(f64::NAN);
            assert_eq!(bound.verdict(undefined), Verdict::DoesNotHold);
            assert_eq!(bound.verdict(Interval::unknown(9.0)), Verdict::TooFewRuns);
        }
    }

    #[test]
    fn decision_that_depends_on_an_assumption_is_undecided() {
        let of = |low, high, depends| {
            let effect = Effect::ratio("links", interval(low, high), Bound::Above(1.0));
            Observed::from(vec![effect]).depending_on_assumption(depends)
        };
        assert_eq!(of(1.5, 2.5, true).verdict(), Verdict::DependsOnAssumption);
        assert_eq!(of(0.5, 0.9, true).verdict(), Verdict::DependsOnAssumption);
        assert_eq!(of(0.5, 1.5, true).verdict(), Verdict::WithinNoise);
        assert!(of(1.5, 2.5, false).holds && !of(1.5, 2.5, true).holds);
    }

    #[test]
    fn estimates_meet_a_criterion_even_if_their_intervals_are_too_wide() {
        let of = |low, high| {
            let effect = Effect::ratio("links", interval(low, high), Bound::Above(1.0));
            let even = Effect::ratio("chains", Interval::unknown(2.0), Bound::Above(1.0));
            Observed::from(vec![even, effect])
        };
        assert!(of(0.9, 1.2).is_met() && !of(0.8, 1.1).is_met());
    }

    #[test]
    fn observation_lists_its_effects() {
        let observed = Observed::from(vec![
            Effect::ratio("links", interval(1.5, 2.5), Bound::Above(1.0)),
            Effect::share("slower cases", Interval::exact(0.25), Bound::Below(0.1)),
        ])
        .with_figures("12 objects");
        assert_eq!(
            observed.figures,
            "links 2.000 (1.500 to 2.500); slower cases 0.250; 12 objects"
        );
        assert_eq!(observed.verdict(), Verdict::DoesNotHold);
        let without = observed.without_intervals();
        assert_eq!(
            without.figures,
            "links 2.000; slower cases 0.250; 12 objects"
        );
        assert_eq!(without.effects[0].estimate, Interval::unknown(2.0));
        assert_eq!(Observed::missing().verdict(), Verdict::NotMeasured);
    }
}
