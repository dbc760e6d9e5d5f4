//! Findings, and their results.

use super::effect::{Effect, Observed};
use super::mutation::{Mutable, Mutation};
use super::verdict::Verdict;
use serde::Serialize;

/// A finding, judged on results of type `R`.
#[derive(Debug, Serialize)]
#[serde(bound = "")]
pub struct Finding<R: 'static> {
    /// The short name of the finding.
    pub name: &'static str,
    /// The document's finding or question, as a claim.
    pub claim: &'static str,
    /// The published figures or words; `None` if the published table is judged like our tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<&'static str>,
    /// The criterion in words.
    pub criterion: &'static str,
    /// Whether the claim is that something is not worse, so that it holds if nothing differs.
    pub is_non_inferiority: bool,
    /// The last verdict before the criterion or the workload was changed, or the verdict of the last version.
    pub previous: Option<Previous>,
    /// Computes the effects; `None` if the necessary figures were not measured.
    #[serde(skip)]
    pub observe: fn(&R) -> Option<Observed>,
}

/// A former verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Previous {
    /// The former verdict.
    pub verdict: Verdict,
    /// What was changed since, and why.
    pub reason: &'static str,
}

impl<R: Mutable> Finding<R> {
    /// Returns the verdict for `results`.
    pub fn verdict(&self, results: &R) -> Verdict {
        let observed = (self.observe)(results);
        observed.map_or(Verdict::NotMeasured, |observed| observed.verdict())
    }

    /// Returns the verdict for `results` after they are changed so that nothing differs in them.
    pub fn if_nothing_changed(&self, results: &R) -> Verdict {
        self.verdict(&results.mutated(Mutation::Equal))
    }
}

impl Previous {
    /// Describes the change in a sentence, given the current verdict.
    pub fn described(self, current: Verdict) -> String {
        let [before, now] = [self.verdict, current].map(Verdict::as_str);
        let outcome = if self.verdict == current {
            format!("The verdict was \"{before}\", as it is now.")
        } else {
            format!("The verdict was \"{before}\"; now it is \"{now}\".")
        };
        format!("{}. {outcome}", self.reason)
    }
}

/// A finding and its result.
#[derive(Debug, Serialize)]
#[serde(bound = "")]
pub struct Judged<R: 'static> {
    /// The finding.
    #[serde(flatten)]
    pub finding: &'static Finding<R>,
    /// The effects in the published figures.
    pub published_effects: Vec<Effect>,
    /// The effects in the results.
    #[serde(flatten)]
    pub observed: Observed,
    /// Whether the finding holds.
    pub verdict: Verdict,
    /// The verdict if nothing differed in the results.
    pub if_nothing_changed: Verdict,
}

impl<R> Clone for Judged<R> {
    fn clone(&self) -> Self {
        Self {
            finding: self.finding,
            published_effects: self.published_effects.clone(),
            observed: self.observed.clone(),
            ..*self
        }
    }
}

impl<R: Mutable> Judged<R> {
    /// Judges `finding` on `results`.
    pub fn new(finding: &'static Finding<R>, published_effects: Vec<Effect>, results: &R) -> Self {
        let observed = (finding.observe)(results);
        Self {
            finding,
            published_effects,
            verdict: Observed::verdict_of(observed.as_ref()),
            observed: observed.unwrap_or_else(Observed::missing),
            if_nothing_changed: finding.if_nothing_changed(results),
        }
    }
}
