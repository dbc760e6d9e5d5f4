//! The section on the schedulers: which findings and rows depend on them.

use super::super::results::{Tally, Wu2007};
use super::{changes, verdicts};
use crate::output::Table;

impl Wu2007 {
    /// Returns the findings and the rows with both schedulers.
    pub(super) fn schedulers(&self) -> String {
        let Some(cfq) = &self.cfq else {
            return String::new();
        };
        let pairs = || self.findings.iter().zip(&cfq.findings);
        let dependent = pairs().filter(|(one, other)| one.verdict != other.verdict);
        let dependent: Vec<&str> = dependent.map(|(one, _)| one.finding.name).collect();
        let sentence = if dependent.is_empty() {
            "No verdict depends on the scheduler.".to_owned()
        } else {
            format!(
                "These verdicts depend on the scheduler: {}.",
                dependent.join("; ")
            )
        };
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
