//! The report in Markdown and HTML, with plots, CSV and JSON.

mod tables;

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};

use super::findings::{Source, beyond_noise};
use super::verdict::Judged;
use super::{Kara2016, plots};
use crate::output::{Report, ReportFile, Table, significant, text_or};
use crate::published::kara2016::{OPERATIONS, PROCESSORS};
use crate::reproduce::finding::{Observed, Verdict, null_text};
use crate::reproduce::front_page::{BEFORE_CHANGE, Entry, FrontPage, quick_caveat};

/// The first paragraph.
const LEAD: &str = "\
This page reproduces the table in Jan Kara's letter \"ext\\[24\\]: MBCache rewrite\" (linux-ext4, 2016). In each case, P \
processes set an extended attribute of F files each, to values from a pool of V values. The letter compares five ways \
to find equal values; `clock` is Larder's addition.";

const LIMITS: &str = include_str!("limits.md");

/// What changed since the last version.
const CHANGES: &str = "\
The report begins with its findings, as a table and as a plot. Findings are judged by intervals, with the same rule in \
both directions: a table measured on fewer processors than the letter's machine had neither shows nor refutes a finding \
about contention. The volume and the kernel's ext4 have a journal. The costs of the simulation are fitted to the \
published times. The gain of the reusable flag is measured and simulated.
";

impl Report for Kara2016 {
    const NAME: &'static str = "kara2016";
    const TITLE: &'static str = "Kara 2016, reproduced";

    fn body(&self) -> String {
        let page = self.front_page();
        let mut text = self.caveat();
        text.push_str(&page.text(&self.lead()));
        text.extend([
            self.tables_text(),
            self.entries_text(),
            self.clock_text(),
            self.commits_text(),
            self.flag_text(),
            self.contention_text(),
            self.method(),
            self.criterion(),
        ]);
        text.extend(self.findings.iter().map(described));
        text.push_str(LIMITS);
        text.push_str(&page.changes(CHANGES));
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }
}

impl Kara2016 {
    fn caveat(&self) -> String {
        if self.size.is_full() {
            return String::new();
        }
        quick_caveat("few cases and few sets, so that measured tables are not judged,")
    }

    pub(super) fn front_page(&self) -> FrontPage {
        front_page(&self.findings)
    }

    /// Returns the printed summary: a block for each finding, since the figures need the width of a
    /// terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = self.caveat();
        for finding in &self.findings {
            let by = finding.decided_by.map(Source::as_str);
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  result     {}\n  verdict    {}{}\n  unchanged  {}",
                finding.finding.claim,
                figures(finding.published.as_ref()),
                decisive_figures(finding),
                finding.verdict.as_str(),
                by.map(|by| format!(" ({by} table)")).unwrap_or_default(),
                null_text(finding.finding, finding.if_nothing_changed),
            );
        }
        for (source, reason) in &self.not_measured {
            let _ = writeln!(text, "\nnot measured: {}: {reason}", source.as_str());
        }
        text
    }

    /// Returns the numbers of values, each once, in order.
    pub(super) fn values(&self) -> Vec<u32> {
        let mut values: Vec<u32> = self.size.cases.iter().map(|case| case.values).collect();
        values.dedup();
        values
    }

    /// Returns the first paragraphs.
    fn lead(&self) -> String {
        let mut text = LEAD.to_owned();
        for (source, reason) in &self.not_measured {
            let _ = write!(text, "\n\nNot measured: {}: {reason}", source.as_str());
        }
        text
    }

    /// Returns how the figures were obtained.
    fn method(&self) -> String {
        let config = &self.size.config;
        format!(
            "## Method\n\n\
             Printed by `larder lab reproduce kara2016{}` with seed {}, on {} processors; the letter's \
             machine had {PROCESSORS}. Here each process sets an attribute {} times; in the letter, \
             {OPERATIONS} times. All times are scaled to {OPERATIONS} sets. Figures are {}. All figures are in \
             [kara2016.csv](kara2016.csv) and [kara2016.json](kara2016.json).\n\n\
             | table | what sets attributes |\n|-------|------|\n\
             | volume | threads, in Larder's file system with ext4 and a journal of 16,384 blocks, on a \
             device in memory |\n\
             | engine | threads that call only the cache; blocks are plain numbers |\n\
             | kernel | processes that call setxattr(2), on the kernel's ext4 with such a journal, on an \
             image in memory; only in the cases that its findings need, and only as `referenced` (its \
             default) and `off` (mount option `no_mbcache`) |\n\
             | simulated | processes on 24 processors in virtual time, which execute recorded \
             operations of the cache |\n\n",
            self.size.option(),
            config.seed,
            self.processors,
            config.operations,
            match config.runs {
                1 => "from one run".to_owned(),
                runs => format!("medians of {runs} runs"),
            },
        )
    }

    fn criterion(&self) -> String {
        let mut text = format!(
            "## How findings are judged\n\n\
             Each finding has a criterion, which the published table meets. A ratio such as \
             `old / referenced` divides the times under two variants; a mean of ratios is their geometric \
             mean. A finding holds in a table if the whole interval of each of its effects is within the \
             bound of the criterion, and does not hold if an interval is outside; otherwise the effect is \
             within the noise.\n\n\
             \"If nothing had changed\" is the verdict for the same table if its times were equal under all \
             variants; on the first page, the table is the published one. Only a non-inferiority claim may \
             hold then. Tests also judge \
             each finding on tables with inverted effects, with halved effects, and with noise alone.\n\n\
             A table measured on fewer than {PROCESSORS} processors can neither show nor refute a finding \
             about contention between processors. Its verdict is then \"cannot be shown here\". The verdict \
             on a finding is that of the first table that decides it, in the order volume, engine, kernel, \
             simulated. The criteria were fixed before any result was known, except where a change is \
             stated below the criterion.\n\n\
             With at least six runs or seeds, an effect is the median over them, with an interval that \
             contains the median of their distribution with a probability of 95%. Otherwise the interval of \
             a mean assumes that each figure can differ by the noise of the table: the \
             difference between two figures that can occur by chance. For \
             the published table, it is the difference between the largest and the smallest figure of \
             `off` with the same P and F, because V does not affect `off` ({}). For the other tables, \
             it is the difference between the longest and the shortest run of a case. In both cases, the \
             noise is the median of these differences, in percent of the smaller figure, and at least 5%",
            percent(self.published.noise),
        );
        if self.size.config.runs == 1 {
            text.push_str(", which is used here, because a single run shows no noise.\n\n");
            return text;
        }
        let noises = self.ours.iter();
        let noises =
            noises.map(|(source, grid)| format!(" {} {}", source.as_str(), percent(grid.noise)));
        text + ":" + &noises.collect::<Vec<_>>().join(",") + ".\n\n"
    }

    fn entries_text(&self) -> String {
        let mut table =
            Table::new("variant | bytes per entry: | bytes with buckets: | published bytes:");
        for size in &self.entries {
            table.push([
                size.variant.to_string(),
                size.bytes.to_string(),
                significant(size.bytes_with_buckets),
                text_or(size.published_longs.map(|longs| longs * 8), ""),
            ]);
        }
        format!(
            "## Entry sizes\n\nThe letter: \"smaller cache entries (7 longs instead of 13)\", of 8 \
             bytes each. Larder's entries contain slot numbers instead of pointers. Bytes with buckets \
             include an entry's share of the hash buckets of a full cache.\n\n\
             {}\n",
            table.to_markdown()
        )
    }

    fn clock_text(&self) -> String {
        let others = [Old, Lru, ListLru, Referenced, Off];
        let mut table = Table::new("table")
            .with_numbers(others.map(MbCacheVariant::as_str))
            .with_numbers([
                "clock slower than referenced",
                "shares per set, clock",
                "shares per set, referenced",
            ]);
        for (source, grid) in &self.ours {
            let Some(slower) = beyond_noise(grid, Clock, Referenced) else {
                continue;
            };
            let means = others.map(|other| grid.mean_ratio(other, Clock, |_| true));
            let mut row = vec![source.as_str().to_owned()];
            row.extend(means.map(|mean| significant(mean.unwrap_or(f64::NAN))));
            let is_judged = *source == Source::Simulated || self.size.is_full();
            row.push(if is_judged {
                slower.to_string()
            } else {
                Verdict::QuickRun.as_str().to_owned()
            });
            row.extend([Clock, Referenced].map(|variant| self.shares_of(*source, variant)));
            table.push(row);
        }
        format!(
            "## Beyond the letter: `clock`\n\n`clock` has no list, and its lookups take no lock. The first \
             columns show the time under each other variant divided by the time under `clock`, as the mean \
             over all cases: above 1, `clock` is faster. The next column counts the cases in which `clock` \
             is slower than `referenced` by more than the noise. The last columns show how many files \
             started to share a block, per set, over all cases. Times and shares must be read together. \
             At the limit of entries, `referenced` keeps up to twice as many entries as `clock`, and \
             therefore finds more shares. A set that shares no block writes one instead.\n\n{}\n",
            table.to_markdown()
        )
    }

    fn shares_of(&self, source: Source, variant: MbCacheVariant) -> String {
        let mut shares = self.shares.iter();
        let found = shares.find(|of| of.source == source && of.variant == variant);
        text_or(found.map(|of| format!("{:.3}", of.per_set)), "-")
    }
}

fn front_page(findings: &[Judged]) -> FrontPage {
    FrontPage {
        name: Kara2016::NAME,
        title: Kara2016::TITLE,
        tables: Source::ALL.map(Source::as_str).into(),
        former: BEFORE_CHANGE,
        entries: findings.iter().map(entry).collect(),
    }
}

/// Returns the finding with the figures and the verdicts of all tables.
fn entry(judged: &Judged) -> Entry {
    let effects = |observed: Option<&Observed>| {
        observed.map_or_else(Vec::new, |observed| observed.effects.clone())
    };
    let ours = Source::ALL.map(|source| {
        let mut ours = judged.ours.iter();
        let answer = ours.find(|answer| answer.source == source);
        effects(answer.and_then(|answer| answer.observed.as_ref()))
    });
    let mut entry = Entry::new(
        judged.finding,
        judged.verdict,
        judged.if_nothing_changed,
        &effects(judged.published.as_ref()),
        &ours.each_ref().map(Vec::as_slice),
    );
    let verdicts = judged
        .ours
        .iter()
        .map(|answer| format!("{}: {}", answer.source.as_str(), answer.verdict.as_str()));
    entry.verdicts = verdicts.collect::<Vec<_>>().join("; ");
    if let Some(source) = judged.decided_by {
        // Writing to a string does not fail.
        let _ = write!(entry.verdict, " ({} table", source.as_str());
        let contrary = judged
            .ours
            .iter()
            .filter(|answer| answer.is_contrary_to(judged.verdict));
        for answer in contrary {
            let _ = write!(
                entry.verdict,
                "; {}: {}",
                answer.source.as_str(),
                answer.verdict.as_str()
            );
        }
        entry.verdict.push(')');
    }
    entry
}

fn described(judged: &Judged) -> String {
    let mut table = Table::new("table | figures | verdict | verdict if nothing had changed");
    let published = figures(judged.published.as_ref());
    table.push([
        "published".to_owned(),
        published,
        judged.published_verdict.as_str().to_owned(),
        null_text(judged.finding, judged.if_nothing_changed),
    ]);
    for answer in &judged.ours {
        table.push([
            answer.source.as_str().to_owned(),
            figures(answer.observed.as_ref()),
            answer.verdict.as_str().to_owned(),
            null_text(judged.finding, answer.if_nothing_changed),
        ]);
    }
    let changed = judged
        .finding
        .previous
        .map(|previous| format!("Changed: {}\n\n", previous.described(judged.verdict)));
    format!(
        "### {}\n\nFinding of the letter: {}.\n\nCriterion: {}.\n\n{}{}\n",
        capitalised(judged.finding.name),
        judged.finding.claim,
        judged.finding.criterion,
        changed.unwrap_or_default(),
        table.to_markdown()
    )
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn figures(observed: Option<&Observed>) -> String {
    text_or(observed.map(|observed| &observed.figures), "-")
}

/// Returns the figures of the decisive table.
fn decisive_figures(finding: &Judged) -> String {
    let decisive = finding.decisive();
    figures(decisive.and_then(|answer| answer.observed.as_ref()))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::front_page::expect;
    use crate::reproduce::kara2016::findings::RULES;
    use crate::reproduce::kara2016::grid::{Grid, ORDER};
    use crate::reproduce::kara2016::verdict::judge;

    /// Judges all findings on the published table and on `ours`.
    fn judged(ours: &[(Source, Grid)]) -> Vec<Judged> {
        let rules = RULES.iter();
        let judged = rules.map(|rule| judge(rule, &Grid::published(), ours, Some(PROCESSORS)));
        judged.collect()
    }

    #[test]
    fn each_finding_has_a_row_in_the_plot() {
        let all = Source::ALL.map(|source| (source, Grid::published()));
        for ours in [&all[..], &[]] {
            expect::rows(&front_page(&judged(ours)), RULES.len());
        }
    }

    #[test]
    fn verdict_names_the_tables_that_contradict_it() {
        let mut equal = Grid::published();
        for row in &mut equal.rows {
            row.seconds = [Some(1.0); ORDER.len()];
        }
        let judged = judged(&[
            (Source::Volume, Grid::published()),
            (Source::Engine, Grid::published()),
            (Source::Simulated, equal),
        ]);
        let judged = judged
            .iter()
            .find(|judged| judged.finding.name == "many processes");
        let entry = entry(judged.unwrap());
        assert_eq!(
            entry.verdict,
            "holds (volume table; simulated: does not hold)"
        );
        assert_eq!(
            entry.verdicts,
            "volume: holds; engine: holds; simulated: does not hold"
        );
    }
}
