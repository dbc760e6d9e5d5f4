//! The findings of a document: their criteria, their results, and how criteria are tested.
//!
//! # Model
//! A [`Finding`] is a claim with a criterion. The criterion computes [`Effect`]s from results, such as the
//! ratio of two throughputs, and each effect has a [`Bound`]. The claim holds if the 95% interval of each effect
//! is within its bound. It does not hold if an interval is outside of its bound. Otherwise it is undecided. It is also
//! undecided if the verdict is the opposite with other, equally plausible assumptions.
//!
//! A criterion that passes on any results proves nothing. Therefore each finding is also judged on results that
//! are changed by a [`Mutation`], above all on results in which nothing differs. Each report prints the verdict
//! on results in which nothing differs beside the actual verdict. Only a claim that something is *not worse*
//! ([`Finding::is_non_inferiority`]) may hold on such results.
//!
//! # Tests
//! The tests of each document judge all findings on the results of all mutations.

mod effect;
mod judged;
mod mutation;
mod report;
mod verdict;

pub use effect::{Bound, Effect, Observed};
pub use judged::{Finding, Judged, Previous};
#[cfg(test)]
pub(crate) use mutation::expect;
pub use mutation::{Mutable, Mutation, NOISE};
pub use report::{described, null_text, printed};
pub use verdict::Verdict;

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of a kernel, and the time of the reference.
    #[derive(Clone)]
    struct Times {
        reference: f64,
        kernel: f64,
    }

    impl Mutable for Times {
        fn mutated(&self, mutation: Mutation) -> Self {
            Self {
                kernel: mutation.apply(self.reference, self.kernel, 1, NOISE),
                ..*self
            }
        }
    }

    static FASTER: Finding<Times> = Finding {
        name: "faster",
        claim: "the kernel is faster",
        published: None,
        criterion: "its time is below that of the reference",
        is_non_inferiority: false,
        previous: Some(Previous {
            verdict: Verdict::WithinNoise,
            reason: "The first rule had no bound",
        }),
        observe: |times| {
            let ratio = crate::statistics::Interval::exact(times.kernel / times.reference);
            Some(Observed::from(vec![Effect::ratio(
                "time",
                ratio,
                Bound::Below(1.0),
            )]))
        },
    };

    #[test]
    #[should_panic(expected = "faster holds with noise alone")]
    fn finding_without_a_margin_for_noise_is_rejected() {
        expect::noise(&[&FASTER], &TIMES);
    }

    static NOT_SLOWER: Finding<Times> = Finding {
        name: "not slower",
        claim: "the kernel is not slower",
        published: None,
        criterion: "its time is below that of the reference",
        is_non_inferiority: true,
        previous: None,
        observe: |times| (FASTER.observe)(times),
    };

    #[test]
    #[should_panic(expected = "not slower is refuted by noise alone")]
    fn finding_that_noise_refutes_is_rejected() {
        expect::noise(&[&NOT_SLOWER], &TIMES);
    }

    const TIMES: Times = Times {
        reference: 4.0,
        kernel: 2.0,
    };

    #[test]
    fn finding_is_judged_beside_results_in_which_nothing_differs() {
        let judged = Judged::new(&FASTER, Vec::new(), &TIMES);
        assert_eq!(judged.verdict, Verdict::Holds);
        assert_eq!(judged.if_nothing_changed, Verdict::DoesNotHold);
        assert_eq!(
            null_text(&FASTER, judged.if_nothing_changed),
            "does not hold"
        );
        assert_eq!(null_text(&FASTER, Verdict::Holds), "**holds**");
        let verdicts = [
            Verdict::Holds,
            Verdict::DoesNotHold,
            Verdict::DoesNotHold,
            Verdict::Holds,
        ];
        expect::verdicts(&[&FASTER], &TIMES, &[("faster", verdicts)]);
    }

    #[test]
    fn changed_verdict_is_printed_with_the_previous_one() {
        let previous = FASTER.previous.unwrap();
        assert_eq!(
            previous.described(Verdict::Holds),
            "The first rule had no bound. The verdict was \"within the noise\"; now it is \"holds\"."
        );
        assert!(
            previous
                .described(Verdict::WithinNoise)
                .ends_with("as it is now.")
        );
    }

    #[test]
    fn judged_finding_has_its_claim_and_its_effects_in_json() {
        let judged = Judged::new(&FASTER, Vec::new(), &TIMES);
        let json = serde_json::to_value(&judged).unwrap();
        assert_eq!(json["name"], "faster");
        assert_eq!(json["verdict"], "holds");
        assert_eq!(json["if_nothing_changed"], "does-not-hold");
        assert_eq!(json["figures"], "time 0.500");
        assert_eq!(json["effects"][0]["bound"]["below"], 1.0);
        assert_eq!(json["effects"][0]["estimate"]["value"], 0.5);
        assert_eq!(json.get("published"), None);
    }
}
