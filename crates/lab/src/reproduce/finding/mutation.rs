//! Changed results, on which criteria are tested.

use crate::run_report::as_f64;
use crate::workload::chance::mix;

/// A change of results. A figure is changed relative to the figure of the reference. The effect is the ratio of
/// these two figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing differs: each figure equals the figure of the reference.
    Equal,
    /// Each effect is inverted: a variant that was faster is now slower by the same factor.
    Inverted,
    /// Each effect is halved: the ratio becomes its square root.
    Halved,
    /// Nothing differs except for noise, which depends on this seed.
    Noise(u64),
}

/// Relative noise of a figure whose own noise is unknown.
pub const NOISE: f64 = 0.01;

impl Mutation {
    /// Returns the changed figure. Each figure of the results needs its own `index`, for different noise. `noise` is
    /// the largest relative difference between the figure and its mean.
    #[must_use]
    pub fn apply(self, reference: f64, figure: f64, index: u64, noise: f64) -> f64 {
        let power = match self {
            Self::Equal => return reference,
            Self::Noise(seed) => {
                let random = mix(seed ^ mix(index)) >> 11;
                let uniform = as_f64(random) / as_f64(1 << 53);
                return reference * (1.0 + noise * (2.0 * uniform - 1.0));
            }
            Self::Inverted => -1.0,
            Self::Halved => 0.5,
        };
        // If there is no ratio, the difference is changed.
        if reference <= 0.0 || figure <= 0.0 {
            return (reference + power * (figure - reference)).max(0.0);
        }
        reference * (figure / reference).powf(power)
    }
}

/// Results that can be changed.
pub trait Mutable {
    /// Returns the changed results.
    #[must_use]
    fn mutated(&self, mutation: Mutation) -> Self;
}

/// Tests of findings, which each document applies to its own.
#[cfg(test)]
pub(crate) mod expect {
    use super::{Mutable, Mutation};
    use crate::reproduce::finding::{Finding, Verdict};

    /// The expected verdicts on a finding for the unchanged results, and for each mutation except noise.
    pub(crate) type Expected = (&'static str, [Verdict; 4]);

    /// Asserts that each finding has the expected verdicts, and that no finding holds if nothing differs or if
    /// effects are inverted. Claims of non-inferiority are exempt from the second assertion.
    pub(crate) fn verdicts<R: Mutable>(
        findings: &[&'static Finding<R>],
        results: &R,
        expected: &[Expected],
    ) {
        let mutations = [Mutation::Equal, Mutation::Inverted, Mutation::Halved];
        let changed = mutations.map(|mutation| results.mutated(mutation));
        let actual: Vec<Expected> = findings
            .iter()
            .map(|finding| {
                let of = |results: &R| finding.verdict(results);
                let [equal, inverted, halved] = &changed;
                (
                    finding.name,
                    [of(results), of(equal), of(inverted), of(halved)],
                )
            })
            .collect();
        for (finding, (name, [_, equal, inverted, _])) in findings.iter().zip(&actual) {
            let may_hold = finding.is_non_inferiority;
            for (verdict, changed) in [
                (equal, "nothing differs"),
                (inverted, "effects are inverted"),
            ] {
                assert!(
                    may_hold || *verdict != Verdict::Holds,
                    "{name} holds if {changed}"
                );
            }
        }
        assert_eq!(actual, expected);
    }

    /// Asserts that noise alone neither shows nor refutes a finding more often than 95% intervals err.
    ///
    /// Claims of non-inferiority may hold. A claim of a difference may be refuted if it does not hold on results in
    /// which nothing differs. One interval outside of its bound refutes a finding, so a finding may be refuted the more
    /// often, the more effects it has.
    pub(crate) fn noise<R: Mutable>(findings: &[&'static Finding<R>], results: &R) {
        const SEEDS: u64 = 40;
        let noisy: Vec<R> = (0..SEEDS)
            .map(|seed| results.mutated(Mutation::Noise(seed)))
            .collect();
        for finding in findings {
            let verdicts = noisy.iter().map(|results| finding.verdict(results));
            let verdicts: Vec<Verdict> = verdicts.collect();
            let count = |wanted: Verdict| {
                verdicts
                    .iter()
                    .filter(|verdict| **verdict == wanted)
                    .count()
            };
            let held = count(Verdict::Holds);
            assert!(
                held <= 3 || finding.is_non_inferiority,
                "{} holds with noise alone in {held} of {SEEDS}",
                finding.name
            );
            let may_be_refuted =
                !finding.is_non_inferiority && finding.if_nothing_changed(results).is_decided();
            let refuted = count(Verdict::DoesNotHold);
            let effects = (finding.observe)(results).map_or(0, |observed| observed.effects.len());
            assert!(
                refuted <= 4 * effects || may_be_refuted,
                "{} is refuted by noise alone in {refuted} of {SEEDS}",
                finding.name
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effect_is_removed_inverted_or_halved() {
        for (mutation, changed) in [
            (Mutation::Equal, 4.0),
            (Mutation::Inverted, 16.0),
            (Mutation::Halved, 2.0),
        ] {
            let figure = mutation.apply(4.0, 1.0, 0, NOISE);
            assert!((figure - changed).abs() < 1e-9, "{mutation:?}: {figure}");
        }
        assert!((Mutation::Inverted.apply(4.0, 0.0, 0, NOISE) - 8.0).abs() < 1e-9);
        assert!((Mutation::Halved.apply(4.0, 0.0, 0, NOISE) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn noise_has_the_given_size_and_differs_by_figure_and_seed() {
        let noisy = |seed, index| Mutation::Noise(seed).apply(100.0, 5.0, index, 0.01);
        let figures = [noisy(1, 1), noisy(1, 2), noisy(2, 1)];
        assert!(
            figures.iter().all(|figure| (99.0..101.0).contains(figure)),
            "{figures:?}"
        );
        assert!(
            figures[1..]
                .iter()
                .all(|figure| (figure - figures[0]).abs() > 1e-6)
        );
        let large = Mutation::Noise(1).apply(100.0, 5.0, 1, 0.1);
        assert!((large - 100.0 - 10.0 * (figures[0] - 100.0)).abs() < 1e-9);
    }
}
