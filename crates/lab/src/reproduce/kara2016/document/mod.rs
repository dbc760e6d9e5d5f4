//! The report in Markdown and HTML, with plots, CSV and JSON.

mod tables;

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};

use super::findings::slower_cases;
use super::plan::Source;
use super::size::Size;
use super::verdict::Judged;
use super::{Kara2016, plots};
use crate::output::{Report, ReportFile, Table, significant, text_or};
use crate::published::kara2016::{OPERATIONS, PROCESSORS, RUNS};
use crate::reproduce::finding::{Observed, null_text};
use crate::reproduce::front_page::{BEFORE_CHANGE, Entry, FrontPage, quick_caveat};

/// The first paragraph.
const LEAD: &str = "\
This page reproduces the table in Jan Kara's letter \"ext\\[24\\]: MBCache rewrite\" (linux-ext4, 2016). In each case, P \
processes set an extended attribute of F files each, to values from a pool of V values. The letter compares five ways \
to find equal values; `clock` is Larder's addition.";

const LIMITS: &str = include_str!("limits.md");

/// What changed since the last version.
const CHANGES: &str = "\
The last version is of 22 November 2026 (commit 55c67f32). Since then, the report begins with its findings, as a table \
and as a plot. Findings are judged by intervals, with the same rule in both directions: a table measured on fewer \
processors than the letter's machine had neither shows nor refutes a finding about contention. The volume no longer \
decides findings about variants, and no measured table decides findings about `list-lru`. The volume and the kernel's ext4 \
have a journal, and its effect is measured. Findings about the journal are judged on the kernel first, and only if `off` \
commits at least twice as often as `referenced`. Runs are longer: most of them lasted less than 50 ms. Variants take turns in a \
rotating order. The costs of the simulation are fitted to the published times with `off`. A simulated verdict does not \
count if another assumption reverses it. The gain of the reusable flag is measured, simulated and judged. The CSV contains \
all times, and the JSON those of each run.
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
            self.journal_text(),
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
        for missing in self.missing() {
            let _ = writeln!(text, "\n{missing}");
        }
        text
    }

    /// Describes the tables that lack figures.
    fn missing(&self) -> impl Iterator<Item = String> {
        self.not_measured.iter().map(|(source, reason)| {
            let missing = match self.table(*source) {
                Some(_) => "Measured in part, and therefore not judged",
                None => "Not measured",
            };
            format!("{missing}: {}: {reason}", source.as_str())
        })
    }

    /// Returns the numbers of values, each once, in order.
    pub(super) fn values(&self) -> Vec<u32> {
        let mut values: Vec<u32> = self.size.cases.iter().map(|case| case.values).collect();
        values.dedup();
        values
    }

    /// Returns the first paragraphs: what is reproduced, and what the tables are.
    fn lead(&self) -> String {
        let mut text = format!(
            "{LEAD}\n\nThere are three measured tables and one simulated table beside the letter's. The first table \
             that decides a finding is named beside its verdict.\n\n{}",
            self.sources()
        );
        if self.processors < PROCESSORS {
            let _ = write!(
                text,
                "\nMeasurements on {} processors cannot show how {PROCESSORS} contend. Therefore only the simulation decides \
                 findings about contention between processors. Such a verdict is about a model, and not about a machine.",
                self.processors
            );
        }
        for missing in self.missing() {
            let _ = write!(text, "\n\n{missing}");
        }
        text
    }

    /// Returns a table that describes the tables: what sets attributes on how many processors, and how often.
    fn sources(&self) -> String {
        let mut table = Table::new(
            "table | what sets attributes | processors: | sets of each process in a run: | runs:",
        );
        table.push([
            "published".to_owned(),
            "processes that call setxattr(2), on the kernel's ext4 of 2016, on a ramdisk"
                .to_owned(),
            PROCESSORS.to_string(),
            OPERATIONS.to_string(),
            RUNS.to_string(),
        ]);
        for source in Source::ALL {
            let (processors, runs) = match source {
                Source::Simulated => (PROCESSORS, self.size.simulated_seeds),
                Source::Volume | Source::Engine | Source::Kernel => {
                    (self.processors, self.size.runs)
                }
            };
            let [least, most] = self.size.sets(source);
            let sets = if least == most {
                most.to_string()
            } else {
                format!("{least} to {most}")
            };
            let numbers = [processors.to_string(), sets, runs.to_string()];
            let texts = [source.as_str(), described_source(source)].map(str::to_owned);
            table.push(texts.into_iter().chain(numbers));
        }
        table.to_markdown()
    }

    /// Returns how the figures were obtained.
    fn method(&self) -> String {
        format!(
            "## Method\n\n\
             Printed by `larder lab reproduce kara2016{}` with seed {}. Times are scaled to {OPERATIONS} sets of each \
             process, the number in the letter. Figures are medians of the runs; runs of the simulation have different \
             seeds. With few processes, a process makes more sets, so that a run lasts at least about 50 ms; on the cache \
             alone, the shortest runs are shorter. Each file is set at least twice. The variants take turns, and each \
             round of turns begins with another variant. All times are in [kara2016.csv](kara2016.csv), and all figures, with \
             the times of each run, are in [kara2016.json](kara2016.json). {}{}\n\n",
            self.size.option(),
            self.size.seed,
            self.provenance,
            self.published_sizes(),
        )
    }

    /// Describes how the option `--full` differs from this report and from the letter; empty if it was used.
    fn published_sizes(&self) -> String {
        let published = Size::published(self.size.seed);
        if self.size == published {
            return String::new();
        }
        format!(
            " The option `--full`, which was not used for this report, measures {OPERATIONS} sets of each process in each run \
             on the volume and on the kernel, as in the letter, in {} runs. The letter has {RUNS} runs, which are too few for \
             an interval.",
            published.runs,
        )
    }

    fn criterion(&self) -> String {
        let known = if self.provenance.measured.is_same(&self.provenance.judged) {
            ", and before the results of this report were."
        } else {
            ". The program that judged is not the one that measured; its criteria may have been changed when the results \
             were known."
        };
        let mut text = format!(
            "## How findings are judged\n\n\
             Each finding has a criterion, which the published table meets. A ratio such as \
             `old / referenced` divides the times under two variants; a mean of ratios is their geometric \
             mean. A finding holds in a table if the whole interval of each of its effects is within the \
             bound of the criterion, and does not hold if an interval is outside; otherwise the effect is \
             within the noise.\n\n\
             \"If nothing had changed\" is the verdict for the same table if its times were equal under all \
             variants; on the first page, the table is the published one, if the letter has figures. Only a \
             non-inferiority claim may hold then. Tests also judge each finding on tables with inverted effects, with \
             halved effects, and with noise alone, which is as large as in the table and may neither show nor refute a \
             finding.\n\n\
             A table measured on fewer than {PROCESSORS} processors can neither show nor refute a finding \
             about contention between processors. A table can neither show nor refute a finding about the commits of \
             additional blocks if its journal commits less than twice as often under `off` as under `referenced`, or less than \
             once in a run under `off`, or if its commits are not known. The verdict of such a table is \"cannot be shown \
             here\". The verdict on a finding is that of the first table that decides it, in the order in which its tables are \
             listed below its criterion. The criteria were fixed after the results of the first report and the times of some \
             single cases were known{known} The changes since the first report are stated below the criteria.\n\n\
             The simulation is repeated with other assumptions: each cost halved and doubled, and other numbers of NUMA \
             nodes. If the estimates lead to the opposite verdict with one of them, the finding depends on an assumption, \
             and the simulation does not decide it.\n\n\
             With at least six runs or seeds, an effect is the median over them, with an interval that \
             contains the median of their distribution with a probability of 95%. With fewer, there is no interval and no \
             verdict. For a share of cases, the interval begins with the cases whose own interval is wholly beyond the \
             limit, and ends with the cases whose interval extends beyond it.\n\n\
             The letter contains only averages, so published effects have no intervals. For the verdict on the published \
             table, a mean of n ratios counts as uncertain by the noise of the table, divided by the square root of n: \
             the difference between the largest and the smallest figure of `off` with the same P and F, because V does \
             not affect `off` ({}). The noise of the other tables, for comparison, is the difference between the longest \
             and the shortest run of a case. Each noise is the median of these differences, in percent of the smaller \
             figure, and at least 5%",
            percent(self.published.noise),
        );
        if self.size.runs == 1 {
            text.push_str(".\n\n");
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
            if grid.ratios(Clock, Referenced, |_| true).is_empty() {
                continue;
            }
            let means = others.map(|other| grid.mean_ratio(other, Clock, |_| true));
            let mut row = vec![source.as_str().to_owned()];
            row.extend(means.map(|mean| significant(mean.unwrap_or(f64::NAN))));
            row.push(text_or(slower_cases(grid, Clock, Referenced), "-"));
            row.extend([Clock, Referenced].map(|variant| self.shares_of(*source, variant)));
            table.push(row);
        }
        format!(
            "## Beyond the letter: `clock`\n\n`clock` has no list, and its lookups take no lock. The first \
             columns show the time under each other variant divided by the time under `clock`, as the mean \
             over all cases: above 1, `clock` is faster. The next column counts the cases in which `clock` \
             takes more than 1.1 times as long as `referenced`, with its whole interval. The last columns show how many files \
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

fn described_source(source: Source) -> &'static str {
    match source {
        Source::Volume => {
            "measured: threads, in Larder's file system with ext4 and a journal of 16,384 blocks, on a device in memory; \
             one set is executed at a time"
        }
        Source::Engine => "measured: threads that call only the cache; blocks are plain numbers",
        Source::Kernel => {
            "measured: processes that call setxattr(2), on this machine's ext4 with such a journal, on an image in memory; \
             only in the cases that its findings need, and only as `referenced` (its default) and `off` (mount option \
             `no_mbcache`)"
        }
        Source::Simulated => {
            "simulated: processes in virtual time, which execute recorded operations of the cache; the costs of the file \
             system are fitted to the letter's own times with `off`"
        }
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
    entry.decided_by = judged.decided_by.map(Source::as_str);
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
    let depends_on = judged.ours.iter().flat_map(|answer| &answer.depends_on);
    let depends_on: Vec<&str> = depends_on.map(String::as_str).collect();
    let reversed = (!depends_on.is_empty()).then(|| {
        format!(
            "\nThe simulated estimates lead to the opposite verdict if {}.\n",
            depends_on.join("; if ")
        )
    });
    format!(
        "### {}\n\nClaim: {}.\n\nCriterion: {}.\n\n{}{}{}\n",
        capitalised(judged.finding.name),
        judged.finding.claim,
        judged.finding.criterion,
        changed.unwrap_or_default(),
        table.to_markdown(),
        reversed.unwrap_or_default(),
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
    use crate::reproduce::kara2016::assumption::Assumption;
    use crate::reproduce::kara2016::findings::RULES;
    use crate::reproduce::kara2016::grid::Grid;
    use crate::reproduce::kara2016::plan::ORDER;
    use crate::reproduce::kara2016::verdict::judge;

    /// Judges all findings on the published table and on `ours`.
    fn judged(ours: &[(Source, Grid)]) -> Vec<Judged> {
        let rules = RULES.iter();
        let judged = rules.map(|rule| judge(rule, &Grid::published(), ours, &[], Some(PROCESSORS)));
        judged.collect()
    }

    /// Returns the published table, with equal times under all variants.
    fn equal() -> Grid {
        let mut equal = Grid::published();
        for row in &mut equal.rows {
            row.seconds = [Some(1.0); ORDER.len()];
        }
        equal
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
        let judged = judged(&[
            (Source::Engine, Grid::published()),
            (Source::Simulated, equal()),
        ]);
        let judged = judged
            .iter()
            .find(|judged| judged.finding.name == "many processes");
        let entry = entry(judged.unwrap());
        assert_eq!(
            entry.verdict,
            "holds (engine table; simulated: does not hold)"
        );
        assert_eq!(entry.decided_by, Some("engine"));
        assert_eq!(entry.verdicts, "engine: holds; simulated: does not hold");
    }

    #[test]
    fn finding_names_the_assumptions_that_reverse_its_verdict() {
        let rule = RULES.iter().find(|rule| rule.finding.name == "collapse");
        let published = Grid::published();
        let ours = [(Source::Simulated, Grid::published())];
        let assumption = Assumption {
            change: "waking costs half as much".to_owned(),
            grid: equal(),
        };
        let judged = judge(rule.unwrap(), &published, &ours, &[assumption], Some(2));
        let text = described(&judged);
        assert!(
            text.contains("opposite verdict if waking costs half as much."),
            "{text}"
        );
        assert!(
            text.contains("\"does not hold\": 64 processes took 31 times"),
            "{text}"
        );
        assert_eq!(entry(&judged).decided_by, None);
    }
}
