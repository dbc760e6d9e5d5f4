//! The first page of each report: all findings with their verdicts, and a forest plot of their effects.
//!
//! Many readers read only this page. Therefore it also states which findings would hold if nothing had changed,
//! and how verdicts differ from those of the last version.

use std::fmt::Write as _;

use super::finding::{Bound, Effect, Finding, Judged, Verdict, null_text};
use crate::output::{Estimate, ForestPanel, ForestPlot, ForestRow, ReportFile, Scale, Table};
use crate::statistics::Interval;

/// The first page of a report.
pub(super) struct FrontPage {
    /// The name of the report's files.
    pub name: &'static str,
    /// The title of the report.
    pub title: &'static str,
    /// How our figures were obtained: `measured`, `simulated`, or `reproduced` if in both ways.
    pub ours: &'static str,
    /// The findings in the order of the document.
    pub entries: Vec<Entry>,
}

/// A finding on the first page.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: &'static str,
    pub claim: &'static str,
    /// The verdict in words.
    pub verdict: String,
    /// Whether the finding holds; `None` if this is undecided.
    pub holds: Option<bool>,
    /// The verdict in words if nothing had changed.
    pub if_nothing_changed: String,
    /// Whether it would hold if nothing had changed, although it claims a difference: its rule proves nothing.
    pub proves_nothing: bool,
    /// What changed since the last version; `None` if nothing did.
    pub change: Option<String>,
    /// The published figures in words, if no published effects are compared.
    pub published: Option<&'static str>,
    pub effects: Vec<ComparedEffect>,
}

/// An effect in the published figures and in ours.
#[derive(Clone, Debug)]
pub(super) struct ComparedEffect {
    label: String,
    /// The effect if nothing differs: 0 for a share, and another value for a ratio.
    no_effect: f64,
    published: Option<Estimate>,
    ours: Option<Estimate>,
    bound: Bound,
}

/// Returns the disclaimer of a quick run, which used `instead` of the published sizes.
pub(super) fn quick_caveat(instead: &str) -> String {
    format!(
        "**This is a quick run: it proves nothing.** It uses {instead} and is not a reproduction. It only shows \
         what the report looks like.\n\n"
    )
}

impl Entry {
    /// Returns the entry of a finding that is judged on one set of results.
    pub fn of<R>(judged: &Judged<R>) -> Self {
        Self::new(
            judged.finding,
            judged.verdict,
            judged.if_nothing_changed,
            [&judged.published_effects, &judged.observed.effects],
        )
    }

    /// Returns the entry of a finding with its verdicts, and with its published effects and ours.
    pub fn new<R>(
        finding: &Finding<R>,
        verdict: Verdict,
        if_nothing_changed: Verdict,
        [published, ours]: [&[Effect]; 2],
    ) -> Self {
        Self {
            name: finding.name,
            claim: finding.claim,
            verdict: verdict.as_str().to_owned(),
            holds: verdict.is_decided().then_some(verdict == Verdict::Holds),
            if_nothing_changed: null_text(finding, if_nothing_changed),
            proves_nothing: if_nothing_changed == Verdict::Holds && !finding.is_non_inferiority,
            change: finding.previous.map(|previous| previous.described(verdict)),
            published: finding.published.filter(|_| published.is_empty()),
            effects: compared(published, ours),
        }
    }

    /// Returns a panel for each unit of the effects.
    fn panels(&self, number: usize) -> Vec<ForestPanel> {
        let mut effects: Vec<&ComparedEffect> = self.effects.iter().collect();
        effects.sort_by(|one, other| other.no_effect.total_cmp(&one.no_effect));
        let units = effects.chunk_by(|one, next| one.no_effect.total_cmp(&next.no_effect).is_eq());
        let mut panels: Vec<ForestPanel> = units.map(panel).collect();
        if let Some(first) = panels.first_mut() {
            first.title = format!("{number}. {}: {}", self.name, self.verdict);
            let published = self.published.map(|words| format!("Published: {words}."));
            let null = self.if_nothing_changed.replace('*', "");
            first.texts = std::iter::once(format!("Claim: {}.", self.claim))
                .chain(published)
                .chain([format!("If nothing had changed: {null}.")])
                .collect();
        }
        panels
    }
}

/// Pairs published effects with ours by their labels.
fn compared(published: &[Effect], ours: &[Effect]) -> Vec<ComparedEffect> {
    let of = |effects: &[Effect], label: &str| {
        let mut effects = effects.iter();
        let effect = effects.find(|effect| effect.label == label)?;
        Some(estimate(effect.estimate))
    };
    let is_only_published = |effect: &&Effect| of(ours, &effect.label).is_none();
    let only_published = published.iter().filter(is_only_published);
    let effects = ours.iter().chain(only_published);
    effects
        .map(|effect| ComparedEffect {
            label: effect.label.clone(),
            no_effect: effect.no_effect,
            published: of(published, &effect.label),
            ours: of(ours, &effect.label),
            bound: effect.bound,
        })
        .collect()
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

fn panel(effects: &[&ComparedEffect]) -> ForestPanel {
    let no_effect = effects[0].no_effect;
    let (unit, scale) = if no_effect > 0.0 {
        ("ratio", Scale::Logarithmic)
    } else {
        ("share", Scale::Linear)
    };
    let rows = effects.iter().map(|effect| ForestRow {
        label: effect.label.clone(),
        published: effect.published,
        ours: effect.ours,
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

impl FrontPage {
    /// Returns the page as Markdown. `lead` is the paragraph that says what was reproduced.
    pub fn text(&self, lead: &str) -> String {
        let mut text = format!("{lead}\n\n## Findings\n\n{}\n\n", self.sums());
        text.push_str(&self.table().to_markdown());
        text.push_str(
            "\n*If nothing had changed* is the verdict of the same rule if all kernels or variants were equal. A \
             rule that passes then is no evidence, except for a claim that something is not worse.\n\n",
        );
        if let Some(plot) = self.plot() {
            let _ = write!(
                text,
                "![Each finding: published and {} effects]({})\n\n",
                self.ours, plot.name
            );
        }
        text
    }

    /// Returns the forest plot of all findings that have effects; `None` if none has.
    pub fn plot(&self) -> Option<ReportFile> {
        let panels = (1..)
            .zip(&self.entries)
            .flat_map(|(number, entry)| entry.panels(number));
        let plot = ForestPlot {
            title: format!("{}: findings", self.title),
            ours: self.ours.to_owned(),
            panels: panels.collect(),
        };
        let name = format!("{}-findings.svg", self.name);
        (!plot.panels.is_empty()).then(|| ReportFile::new(name, plot.to_svg()))
    }

    /// Returns the findings as a section: what changed since the last version. `changes` describes changes that
    /// concern no single finding.
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

    /// Returns how many findings have each kind of verdict.
    fn sums(&self) -> String {
        let count = |is_counted: &dyn Fn(&Entry) -> bool| {
            self.entries
                .iter()
                .filter(|entry| is_counted(entry))
                .count()
        };
        let holds = count(&|entry| entry.holds == Some(true));
        let fails = count(&|entry| entry.holds == Some(false));
        let undecided = count(&|entry| entry.holds.is_none());
        let weak = count(&|entry| entry.holds == Some(true) && entry.proves_nothing);
        format!(
            "Of {} findings, {holds} hold, {fails} do not hold, and {undecided} are undecided. Of those that hold, \
             {weak} would also hold if nothing had changed, although they claim a difference.",
            self.entries.len(),
        )
    }

    fn table(&self) -> Table {
        let mut table =
            Table::new("no.: | claim | verdict | if nothing had changed | since the last version");
        for (number, entry) in (1..).zip(&self.entries) {
            table.push([
                number.to_string(),
                entry.claim.to_owned(),
                format!("**{}**", entry.verdict),
                entry.if_nothing_changed.clone(),
                entry
                    .change
                    .clone()
                    .unwrap_or_else(|| "no change".to_owned()),
            ]);
        }
        table
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
        Entry::new(&finding(is_non_inferiority), verdict, null, [&[], &ours])
    }

    fn page(entries: Vec<Entry>) -> FrontPage {
        FrontPage {
            name: "lever2000",
            title: "Lever 2000, reproduced",
            ours: "measured",
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
        let sums = "Of 5 findings, 3 hold, 1 do not hold, and 1 are undecided. Of those that hold, 1 would also \
                    hold if nothing had changed, although they claim a difference.";
        assert!(text.contains(sums), "{text}");
        assert_eq!(text.matches("xor is terrible").count(), 5);
        assert!(text.contains("](lever2000-findings.svg)"), "{text}");
        assert_eq!(page.plot().unwrap().name, "lever2000-findings.svg");
        let mut without = entry(Verdict::NotMeasured, DoesNotHold, false);
        without.effects.clear();
        let page = self::page(vec![without]);
        assert!(page.plot().is_none() && !page.text("").contains("!["));
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
            [&published, &[ratio("links"), ratio("new")]],
        );
        let shown: Vec<_> = entry
            .effects
            .iter()
            .map(|effect| {
                let of = [effect.published, effect.ours];
                (&*effect.label, of.map(|estimate| estimate.is_some()))
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("links", [true, true]),
                ("new", [false, true]),
                ("old", [true, false])
            ]
        );
        assert_eq!(entry.published, None);
    }

    #[test]
    fn changed_verdict_is_on_the_page_and_among_the_changes() {
        let mut flipped = entry(Verdict::DoesNotHold, Verdict::DoesNotHold, false);
        flipped.change = Some("The rule had no margin.".into());
        let page = page(vec![
            flipped,
            entry(Verdict::Holds, Verdict::DoesNotHold, false),
        ]);
        assert!(page.text("").contains("The rule had no margin."));
        let changes = page.changes("The form is new.");
        assert_eq!(changes.matches("\n- ").count(), 1, "{changes}");
        assert!(
            changes.contains("- xor: The rule had no margin."),
            "{changes}"
        );
    }
}
