//! Findings as text.

use super::judged::{Finding, Judged};
use super::verdict::Verdict;
use crate::output::text_or;
use std::fmt::Write as _;

/// Describes the verdict if nothing differed. A non-inferiority claim may hold then. Any other finding that
/// holds is emphasized.
#[must_use]
pub fn null_text<R>(finding: &Finding<R>, if_nothing_changed: Verdict) -> String {
    match (if_nothing_changed, finding.is_non_inferiority) {
        (Verdict::Holds, true) => "holds (non-inferiority claim)".to_owned(),
        (Verdict::Holds, false) => "**holds**".to_owned(),
        (verdict, _) => verdict.as_str().to_owned(),
    }
}

/// Returns a section on a finding in Markdown.
#[must_use]
pub fn described<R>(judged: &Judged<R>) -> String {
    let finding = judged.finding;
    let mut text = format!(
        "### {}: {}\n\nClaim: {}.\n\n- published: {}\n- measured: {}\n- holds if: {}\n- if nothing had changed: {}\n",
        finding.name,
        judged.verdict.as_str(),
        finding.claim,
        text_or(finding.published, "-"),
        judged.observed.figures,
        finding.criterion,
        null_text(finding, judged.if_nothing_changed),
    );
    if let Some(previous) = finding.previous {
        // Writing to a string does not fail.
        let _ = writeln!(text, "- formerly: {}", previous.described(judged.verdict));
    }
    text.push('\n');
    text
}

/// Returns the findings for a terminal. Each finding is a block of lines, since its figures need the whole width.
#[must_use]
pub fn printed<R>(findings: &[Judged<R>]) -> String {
    let mut text = String::new();
    for judged in findings {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}\n  published  {}\n  measured   {}\n  rule       {}\n  verdict    {}\n  unchanged  {}",
            judged.finding.claim,
            text_or(judged.finding.published, "-"),
            judged.observed.figures,
            judged.finding.criterion,
            judged.verdict.as_str(),
            null_text(judged.finding, judged.if_nothing_changed),
        );
    }
    text
}
