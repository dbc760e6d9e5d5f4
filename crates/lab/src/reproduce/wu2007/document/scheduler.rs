//! The section on the schedulers: which findings and rows depend on them.

use super::super::results::{Tally, Wu2007};
use super::judgement::{changes, verdicts};
use crate::output::Table;
use crate::reproduce::finding::Judged;

impl Wu2007 {
    /// Describes the scheduler with which findings are judged, and the verdicts that differ with the other one.
    pub(super) fn judged_scheduler(&self) -> String {
        let Some(cfq) = &self.cfq else {
            return String::new();
        };
        format!(
            "Findings are judged with the deadline scheduler. The document does not name the scheduler of its disk; CFQ was \
             the default of Linux 2.6.20. {}",
            dependence(&self.findings, &cfq.findings)
        )
    }

    /// Returns the findings and the rows with both schedulers.
    pub(super) fn schedulers(&self) -> String {
        let Some(cfq) = &self.cfq else {
            return String::new();
        };
        let pairs = || self.findings.iter().zip(&cfq.findings);
        let sentence = dependence(&self.findings, &cfq.findings);
        let mut findings =
            Table::new("finding | deadline | CFQ | figures with deadline | figures with CFQ");
        for (one, other) in pairs() {
            findings.push([
                one.finding.name.to_owned(),
                one.verdict.as_str().to_owned(),
                other.verdict.as_str().to_owned(),
                one.observed.figures.clone(),
                other.observed.figures.clone(),
            ]);
        }
        let mut rows = Table::new(
            "table | row | published change: | change with deadline: | change with CFQ: \
             | direction with CFQ | size with CFQ",
        );
        for (one, other) in self.tables.iter().zip(&cfq.tables) {
            for (row, with_cfq) in one.rows.iter().zip(&other.rows) {
                let [published, deadline] = changes(&row.judgement);
                let [_, changed] = changes(&with_cfq.judgement);
                let [direction, size] = verdicts(&with_cfq.judgement);
                rows.push([
                    one.title.to_owned(),
                    row.label.clone(),
                    published,
                    deadline,
                    changed,
                    direction,
                    size,
                ]);
            }
        }
        let all = cfq.tables.iter().flat_map(|table| &table.rows);
        let tally = Tally::of(all.map(|row| &row.judgement));
        let (agreeing, all) = (tally.direction_agrees, tally.rows);
        format!(
            "## Dependence on the scheduler\n\n\
             The document does not name the scheduler of its disk. CFQ was the default of Linux 2.6.20. All figures \
             above are with the deadline scheduler. The same seeds were run with a simulation of CFQ (`sata-2007-cfq` \
             in `docs/design/devices.md`). {sentence}\n\n{}\n\
             With CFQ, the direction agrees in {agreeing} of {all} rows:\n\n{}\n",
            findings.to_markdown(),
            rows.to_markdown(),
        )
    }
}

/// Describes the verdicts that depend on the scheduler.
fn dependence(deadline: &[Judged<Wu2007>], cfq: &[Judged<Wu2007>]) -> String {
    let dependent = deadline
        .iter()
        .zip(cfq)
        .filter(|(one, other)| one.verdict != other.verdict);
    let dependent = dependent.map(|(one, other)| {
        let [one_text, other_text] = [one, other].map(|judged| judged.verdict.as_str());
        let name = one.finding.name;
        format!("{name} ({one_text} with deadline, {other_text} with CFQ)")
    });
    let dependent: Vec<String> = dependent.collect();
    if dependent.is_empty() {
        "No verdict depends on the scheduler.".to_owned()
    } else {
        format!(
            "These verdicts depend on the scheduler: {}.",
            dependent.join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::finding::{Finding, Observed, Verdict};

    static FINDING: Finding<Wu2007> = Finding {
        name: "OLTP",
        claim: "OLTP gains",
        published: None,
        criterion: "the gain is above 1",
        is_non_inferiority: false,
        previous: None,
        observe: |_| None,
    };

    fn judged(verdict: Verdict) -> Vec<Judged<Wu2007>> {
        vec![Judged {
            finding: &FINDING,
            published_effects: Vec::new(),
            observed: Observed::missing(),
            verdict,
            if_nothing_changed: Verdict::DoesNotHold,
        }]
    }

    #[test]
    fn verdicts_that_depend_on_the_scheduler_are_named() {
        let [holds, fails] = [Verdict::Holds, Verdict::DoesNotHold].map(judged);
        assert_eq!(
            dependence(&holds, &holds),
            "No verdict depends on the scheduler."
        );
        assert_eq!(
            dependence(&holds, &fails),
            "These verdicts depend on the scheduler: OLTP (holds with deadline, does not hold with CFQ)."
        );
    }
}
