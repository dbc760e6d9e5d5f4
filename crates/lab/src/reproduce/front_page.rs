//! The first page of each report: all findings with their verdicts, and a forest plot of their effects.
//!
//! Many readers read only this page. Therefore it also states which findings would hold if nothing had changed: if
//! each figure equalled the figure of the reference. It also states the former verdict of a finding: before its rule or
//! workload was changed, or in the last version.

use std::fmt::Write as _;

use super::finding::{Bound, Effect, Finding, Judged, Verdict, null_text};
use crate::output::{
    Estimate, ForestPanel, ForestPlot, ForestRow, ReportFile, Scale, Table, text_or,
};
use crate::statistics::Interval;

/// The first page of a report.
pub(super) struct FrontPage {
    /// The name of the report's files.
    pub name: &'static str,
    /// The title of the report.
    pub title: &'static str,
    /// Names of our tables of figures, such as `measured` or `simulated`.
    pub tables: Vec<&'static str>,
    /// The meaning of a former verdict.
    pub former: &'static str,
    /// The findings in the order of the document.
    pub entries: Vec<Entry>,
}

/// A finding on the first page.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    name: &'static str,
    claim: &'static str,
    /// The verdict in words.
    pub verdict: String,
    /// Whether the finding holds; `None` if this is undecided.
    holds: Option<bool>,
    /// The verdict of each table in words; empty if there is only one table.
    pub verdicts: String,
    /// The table that decides the verdict, if there are several.
    pub decided_by: Option<&'static str>,
    /// The verdict in words if nothing had changed.
    if_nothing_changed: String,
    /// Whether the finding claims a difference, but would hold even if nothing had changed: its rule proves
    /// nothing.
    proves_nothing: bool,
    /// The verdict before the rule or the workload was changed; `None` if neither was changed.
    former: Option<Verdict>,
    /// What was changed, and how the verdict changed with it.
    change: Option<String>,
    /// The published figures in words, if no published effects are compared.
    published: Option<&'static str>,
    effects: Vec<ComparedEffect>,
}

/// An effect in the published figures and in ours.
#[derive(Clone, Debug)]
pub(super) struct ComparedEffect {
    label: String,
    /// The effect if nothing differs: 1 for a ratio, and 0 for a share.
    no_effect: f64,
    published: Option<Estimate>,
    /// The estimate of each of our tables.
    ours: Vec<Option<Estimate>>,
    bound: Bound,
}

/// The meaning of a former verdict of a finding that states it only if something was changed.
pub(super) const BEFORE_CHANGE: &str = "\
the verdict before the rule or the workload was changed; a dash means that neither was changed, or that the finding is \
new";

/// Returns the disclaimer of a quick run. `instead` describes the sizes that replace the published sizes.
pub(super) fn quick_caveat(instead: &str) -> String {
    format!(
        "**This is a quick run: it proves nothing.** It uses {instead} and is not a reproduction. It only shows \
         what the report looks like, and none of its verdicts counts.\n\n"
    )
}

impl Entry {
    /// Returns the entry of a finding that is judged on one set of results.
    pub fn of<R>(judged: &Judged<R>) -> Self {
        Self::new(
            judged.finding,
            judged.verdict,
            judged.if_nothing_changed,
            &judged.published_effects,
            &[&judged.observed.effects],
        )
    }

    /// Returns the entry of a finding: its verdicts, its published effects, and its effects in each of our
    /// tables.
    pub fn new<R>(
        finding: &Finding<R>,
        verdict: Verdict,
        if_nothing_changed: Verdict,
        published: &[Effect],
        ours: &[&[Effect]],
    ) -> Self {
        Self {
            name: finding.name,
            claim: finding.claim,
            verdict: verdict.as_str().to_owned(),
            holds: verdict.is_decided().then_some(verdict == Verdict::Holds),
            verdicts: String::new(),
            decided_by: None,
            if_nothing_changed: null_text(finding, if_nothing_changed),
            proves_nothing: if_nothing_changed == Verdict::Holds && !finding.is_non_inferiority,
            former: finding.previous.map(|previous| previous.verdict),
            change: finding.previous.map(|previous| previous.described(verdict)),
            published: finding.published.filter(|_| published.is_empty()),
            effects: compared(published, ours),
        }
    }

    /// Returns the effects with their intervals: those of each of our `tables`, and the published ones.
    fn effects_text(&self, tables: &[&str]) -> String {
        if self.effects.is_empty() {
            return "-".to_owned();
        }
        let effects = self.effects.iter().map(|effect| effect.text(tables));
        effects.collect::<Vec<_>>().join("; ")
    }

    /// Returns a panel for each unit of the effects; a finding without effects has a panel that says so.
    fn panels(&self, number: usize) -> Vec<ForestPanel> {
        let mut effects: Vec<&ComparedEffect> = self.effects.iter().collect();
        effects.sort_by(|one, other| other.no_effect.total_cmp(&one.no_effect));
        let units = effects.chunk_by(|one, next| one.no_effect.total_cmp(&next.no_effect).is_eq());
        let mut panels: Vec<ForestPanel> = units.map(panel).collect();
        if panels.is_empty() {
            panels.push(without_figures());
        }
        let first = &mut panels[0];
        first.title = format!("{number}. {}: {}", self.name, self.verdict);
        let published = self.published.map(|words| format!("Published: {words}."));
        let verdicts = (!self.verdicts.is_empty()).then(|| format!("By table: {}.", self.verdicts));
        let null = self.if_nothing_changed.replace('*', "");
        first.texts = std::iter::once(format!("Claim: {}.", self.claim))
            .chain(published)
            .chain(verdicts)
            .chain([format!("If nothing had changed: {null}.")])
            .collect();
        panels
    }
}

impl ComparedEffect {
    /// Returns the label, and the estimates with their intervals. Names the tables if there are several.
    fn text(&self, tables: &[&str]) -> String {
        let ours = self.ours.iter().zip(tables).filter_map(|(ours, table)| {
            let shown = shown((*ours)?);
            Some(match tables.len() {
                1 => shown,
                _ => format!("{table} {shown}"),
            })
        });
        let published = self
            .published
            .map(|published| format!("published {}", shown(published)));
        let estimates: Vec<String> = ours.chain(published).collect();
        format!("{}: {}", self.label, estimates.join(", "))
    }
}

fn shown(estimate: Estimate) -> String {
    let interval = match estimate.interval {
        Some(range) => Interval::new(estimate.value, range),
        None => Interval::unknown(estimate.value),
    };
    interval.to_string()
}

/// Combines published effects and the effects in our tables by their labels, in the order in which the labels
/// first occur.
fn compared(published: &[Effect], ours: &[&[Effect]]) -> Vec<ComparedEffect> {
    let of = |effects: &[Effect], label: &str| {
        let mut effects = effects.iter();
        let effect = effects.find(|effect| effect.label == label)?;
        Some(estimate(effect.estimate))
    };
    let mut compared: Vec<ComparedEffect> = Vec::new();
    for effect in published.iter().chain(ours.iter().copied().flatten()) {
        if compared.iter().any(|known| known.label == effect.label) {
            continue;
        }
        compared.push(ComparedEffect {
            label: effect.label.clone(),
            no_effect: effect.no_effect,
            published: of(published, &effect.label),
            ours: ours
                .iter()
                .map(|effects| of(effects, &effect.label))
                .collect(),
            bound: effect.bound,
        });
    }
    compared
}

fn estimate(interval: Interval) -> Estimate {
    Estimate {
        value: interval.value,
        interval: interval
            .low
            .zip(interval.high)
            .map(|(low, high)| [low, high]),
    }
}

/// Returns a panel of effects of the same unit.
fn panel(effects: &[&ComparedEffect]) -> ForestPanel {
    let no_effect = effects.first().map_or(0.0, |effect| effect.no_effect);
    let (unit, scale) = if no_effect > 0.0 {
        ("ratio", Scale::Logarithmic)
    } else {
        ("share", Scale::Linear)
    };
    let rows = effects.iter().map(|effect| ForestRow {
        label: effect.label.clone(),
        published: effect.published,
        ours: effect.ours.clone(),
        criterion: Some(match effect.bound {
            Bound::Above(bound) => [bound, f64::INFINITY],
            Bound::Below(bound) => [f64::NEG_INFINITY, bound],
        }),
    });
    ForestPanel {
        title: String::new(),
        texts: Vec::new(),
        unit: unit.to_owned(),
        no_effect,
        scale,
        rows: rows.collect(),
    }
}

/// Returns the panel of a finding without effects.
fn without_figures() -> ForestPanel {
    let row = ForestRow {
        label: "no figures".to_owned(),
        published: None,
        ours: Vec::new(),
        criterion: None,
    };
    ForestPanel {
        rows: vec![row],
        ..panel(&[])
    }
}

impl FrontPage {
    /// Returns the page as Markdown. `lead` is the paragraph that says what was reproduced.
    pub fn text(&self, lead: &str) -> String {
        let mut text = format!("{lead}\n\n## Findings\n\n{}\n\n", self.sums());
        text.push_str(&self.table().to_markdown());
        let plot = self.plot();
        let _ = write!(
            text,
            "\n*If nothing had changed* is the verdict of the same rule if all kernels or variants were equal. A finding \
             that would hold then proves nothing, unless it claims that something is not worse. *Former verdict* is \
             {}. [The last section](#changes-since-the-last-version) states the reasons.\n\n\
             A finding holds if the whole 95% interval of each of its effects is in the green range, and does not \
             hold if one interval is outside of it. A figure without an interval is exact, or has too few \
             repetitions.\n\n\
             ![Each finding: published effects and those obtained here]({})\n\n",
            self.former, plot.name
        );
        text
    }

    /// Returns the forest plot of all findings.
    pub fn plot(&self) -> ReportFile {
        let panels = (1..)
            .zip(&self.entries)
            .flat_map(|(number, entry)| entry.panels(number));
        let plot = ForestPlot {
            title: format!("{}: findings", self.title),
            ours: self.tables.iter().map(|&name| name.to_owned()).collect(),
            panels: panels.collect(),
        };
        ReportFile::new(format!("{}-findings.svg", self.name), plot.to_svg())
    }

    /// Returns the section on what changed since the last version: `changes`, and then the change of each
    /// finding. `changes` describes the changes that do not belong to one finding.
    pub fn changes(&self, changes: &str) -> String {
        let mut text = format!("## Changes since the last version\n\n{changes}\n");
        for entry in &self.entries {
            if let Some(change) = &entry.change {
                let _ = writeln!(text, "- {}: {change}", entry.name);
            }
        }
        text.push('\n');
        text
    }

    /// Returns how many findings have each kind of verdict, and how many of them each table decides.
    fn sums(&self) -> String {
        let count = |is_counted: &dyn Fn(&Entry) -> bool| {
            self.entries
                .iter()
                .filter(|entry| is_counted(entry))
                .count()
        };
        let decided = |holds: bool| {
            let tables = self.tables.iter().filter_map(|&table| {
                let is_counted =
                    |entry: &Entry| entry.holds == Some(holds) && entry.decided_by == Some(table);
                let count = count(&is_counted);
                (count > 0).then(|| format!("{table} {count}"))
            });
            let tables: Vec<String> = tables.collect();
            let all = count(&|entry| entry.holds == Some(holds));
            match tables[..] {
                [] => all.to_string(),
                _ => format!("{all} ({})", tables.join(", ")),
            }
        };
        let [holds, fails] = [true, false].map(decided);
        let undecided = count(&|entry| entry.holds.is_none());
        let weak = count(&|entry| entry.holds == Some(true) && entry.proves_nothing);
        format!(
            "Findings: {}. Hold: {holds}; do not hold: {fails}; undecided: {undecided}. Findings that claim a difference \
             and hold, but would also hold if nothing had changed: {weak}.",
            self.entries.len(),
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new(
            "no.: | claim | verdict | effects, with their intervals | if nothing had changed | former verdict",
        );
        for (number, entry) in (1..).zip(&self.entries) {
            table.push([
                number.to_string(),
                entry.claim.to_owned(),
                format!("**{}**", entry.verdict),
                entry.effects_text(&self.tables),
                entry.if_nothing_changed.clone(),
                text_or(entry.former.map(Verdict::as_str), "-"),
            ]);
        }
        table
    }
}

/// Tests of the first page, which each document applies to its own.
#[cfg(test)]
pub(super) mod expect {
    use super::FrontPage;
    use crate::output::picture::{expect_texts_inside, texts};

    /// Asserts that the page has this many findings, that each has a row in the plot, and that all texts are
    /// inside of it.
    pub fn rows(page: &FrontPage, findings: usize) {
        assert_eq!(page.entries.len(), findings);
        let svg = page.plot().content;
        let titles = texts(&svg);
        for (number, entry) in (1..).zip(&page.entries) {
            let panels = entry.panels(number);
            let rows: Vec<_> = panels.iter().map(|panel| panel.rows.len()).collect();
            assert!(!rows.is_empty() && !rows.contains(&0), "{}", entry.name);
            let title = format!("{number}. {}: ", entry.name);
            assert!(
                titles.iter().any(|text| text.starts_with(&title)),
                "{title}: {titles:?}"
            );
        }
        expect_texts_inside(&svg);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(is_non_inferiority: bool) -> Finding<()> {
        Finding {
            name: "xor",
            claim: "xor is terrible",
            published: Some("116 objects in a chain"),
            criterion: "more than twice the links",
            is_non_inferiority,
            previous: None,
            observe: |()| None,
        }
    }

    fn ratio(label: &str) -> Effect {
        Effect::ratio(label, Interval::unknown(7.7), Bound::Above(2.0))
    }

    fn entry(verdict: Verdict, null: Verdict, is_non_inferiority: bool) -> Entry {
        let ours = [
            ratio("links"),
            Effect::share("cases", Interval::exact(0.25), Bound::Below(0.1)),
            ratio("chains"),
        ];
        Entry::new(&finding(is_non_inferiority), verdict, null, &[], &[&ours])
    }

    fn page(entries: Vec<Entry>) -> FrontPage {
        FrontPage {
            name: "lever2000",
            title: "Lever 2000, reproduced",
            tables: vec!["measured"],
            former: BEFORE_CHANGE,
            entries,
        }
    }

    #[test]
    fn page_counts_verdicts_and_findings_that_prove_nothing() {
        use Verdict::{DoesNotHold, Holds, WithinNoise};
        let page = page(vec![
            entry(Holds, DoesNotHold, false),
            entry(Holds, Holds, false),
            entry(Holds, Holds, true),
            entry(DoesNotHold, DoesNotHold, false),
            entry(WithinNoise, DoesNotHold, false),
        ]);
        let text = page.text("This page reproduces a document.");
        let sums = "Findings: 5. Hold: 3; do not hold: 1; undecided: 1. Findings that claim a difference and hold, but \
                    would also hold if nothing had changed: 1.";
        assert!(text.contains(sums), "{text}");
        assert_eq!(text.matches("xor is terrible").count(), 5);
        assert!(text.contains("](lever2000-findings.svg)"), "{text}");
        assert_eq!(page.plot().name, "lever2000-findings.svg");
    }

    #[test]
    fn page_counts_the_findings_that_each_table_decides() {
        use Verdict::{DoesNotHold, Holds, WithinNoise};
        let by = |table, verdict| Entry {
            decided_by: Some(table),
            ..entry(verdict, DoesNotHold, false)
        };
        let page = FrontPage {
            tables: vec!["engine", "simulated"],
            ..page(vec![
                by("engine", Holds),
                by("simulated", Holds),
                by("simulated", Holds),
                by("engine", DoesNotHold),
                entry(WithinNoise, DoesNotHold, false),
            ])
        };
        let sums = page.sums();
        let expected = "Hold: 3 (engine 1, simulated 2); do not hold: 1 (engine 1); undecided: 1.";
        assert!(sums.contains(expected), "{sums}");
    }

    #[test]
    fn each_finding_has_a_row_in_the_plot() {
        let mut without = entry(Verdict::NotMeasured, Verdict::DoesNotHold, false);
        without.effects.clear();
        let page = page(vec![
            entry(Verdict::Holds, Verdict::DoesNotHold, false),
            without,
        ]);
        expect::rows(&page, 2);
        assert!(page.plot().content.contains("no figures"));
    }

    #[test]
    fn panel_has_one_unit() {
        let panels = entry(Verdict::Holds, Verdict::DoesNotHold, false).panels(3);
        let units: Vec<_> = panels
            .iter()
            .map(|panel| (&*panel.unit, panel.rows.len()))
            .collect();
        assert_eq!(units, [("ratio", 2), ("share", 1)]);
        assert_eq!(panels[0].title, "3. xor: holds");
        assert_eq!(
            panels[0].texts,
            [
                "Claim: xor is terrible.",
                "Published: 116 objects in a chain.",
                "If nothing had changed: does not hold."
            ]
        );
        assert_eq!(panels[0].rows[0].criterion, Some([2.0, f64::INFINITY]));
        assert_eq!(panels[1].rows[0].criterion, Some([f64::NEG_INFINITY, 0.1]));
        assert_eq!(panels[1].title, "");
    }

    #[test]
    fn effects_are_paired_by_label_and_published_ones_are_not_lost() {
        let published = [ratio("old"), ratio("links")];
        let entry = Entry::new(
            &finding(false),
            Verdict::Holds,
            Verdict::DoesNotHold,
            &published,
            &[&[ratio("links")], &[ratio("new"), ratio("links")]],
        );
        let shown: Vec<_> = entry
            .effects
            .iter()
            .map(|effect| {
                let of = [effect.published, effect.ours[0], effect.ours[1]];
                (&*effect.label, of.map(|estimate| estimate.is_some()))
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("old", [true, false, false]),
                ("links", [true, true, true]),
                ("new", [false, false, true])
            ]
        );
        assert_eq!(entry.published, None);
    }

    #[test]
    fn effects_are_listed_beside_the_verdicts() {
        let links = |low| {
            let interval = Interval::new(7.7, [low, 8.0]);
            Effect::ratio("links", interval, Bound::Above(2.0))
        };
        let entry = |ours: &[&[Effect]]| {
            let verdicts = [Verdict::Holds, Verdict::DoesNotHold];
            Entry::new(
                &finding(false),
                verdicts[0],
                verdicts[1],
                &[links(7.5)],
                ours,
            )
        };
        let one = entry(&[&[links(7.0), ratio("chains")]]);
        assert_eq!(
            one.effects_text(&["measured"]),
            "links: 7.700 (7.000 to 8.000), published 7.700 (7.500 to 8.000); chains: 7.700"
        );
        let two = entry(&[&[links(7.0)], &[]]);
        assert_eq!(
            two.effects_text(&["measured", "simulated"]),
            "links: measured 7.700 (7.000 to 8.000), published 7.700 (7.500 to 8.000)"
        );
        assert_eq!(
            entry(&[&[]]).effects_text(&["measured"]),
            "links: published 7.700 (7.500 to 8.000)"
        );
        let text = page(vec![one]).text("");
        assert!(
            text.contains("| links: 7.700 (7.000 to 8.000), published"),
            "{text}"
        );
    }

    #[test]
    fn changed_verdict_is_on_the_page_and_among_the_changes() {
        let mut flipped = entry(Verdict::DoesNotHold, Verdict::DoesNotHold, false);
        flipped.change = Some("The rule had no margin.".into());
        flipped.former = Some(Verdict::WithinNoise);
        let page = page(vec![
            flipped,
            entry(Verdict::Holds, Verdict::DoesNotHold, false),
        ]);
        let text = page.text("");
        assert!(text.contains("| within the noise |"), "{text}");
        let changes = page.changes("The form is new.");
        assert_eq!(changes.matches("\n- ").count(), 1, "{changes}");
        assert!(
            changes.contains("- xor: The rule had no margin."),
            "{changes}"
        );
    }
}
