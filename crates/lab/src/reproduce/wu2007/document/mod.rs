//! The report of a reproduction in Markdown and HTML, with plots, CSV and JSON.
//!
//! The report depends only on the results: the same results give the same bytes.

mod csv;
mod earlier;
mod judgement;
mod scheduler;
mod thrashing;

use std::io;

use super::criterion::{Judgement, LOOSE_NOISE_PCT, SIZE_POINTS};
use super::plan::read_noise_pct;
use super::plots;
use super::results::{Row, TableResult, Tally, Wu2007};
use crate::output::{Report, ReportFile, Table, change, ratio, significant};
use crate::reproduce::finding::{described as described_finding, printed};
use crate::reproduce::front_page::{BEFORE_CHANGE, Entry, FrontPage, quick_caveat};
use judgement::{agreement, changes, verdicts};

const LIMITS: &str = include_str!("../limits.md");

/// What changed since the last version.
const CHANGES: &str = "\
The last version is of 24 November 2026 (commit c9ace724). Since then, findings about thrashing are judged with several sizes \
of the streams' reads, and the bound of sysbench fileio follows from the document's figures. The gains in the first \
paragraphs are medians over ten seeds, with intervals. The CSV contains the intervals of all changes. The former verdicts \
of findings are those of that version.

The version before it is of 21 November 2026 (commit 55c67f32 still contains it). Only rows were judged in it, with one seed. \
That of 24 November began with findings, which were judged by intervals over ten seeds. It also had other inputs of OLTP and \
thrashing: see [the earlier changes](#changes-after-the-first-results).
";

/// What changed since the first results.
const EARLIER_CHANGES: &str = include_str!("../earlier_changes.md");

impl Report for Wu2007 {
    const NAME: &'static str = "wu2007";
    const TITLE: &'static str = "Wu 2007, reproduced";

    fn body(&self) -> String {
        let page = self.front_page();
        let mut text = self.caveat();
        text.push_str(&page.text(&self.lead()));
        text.push_str(&self.rows_text());
        text.extend(self.tables.iter().map(described));
        text.extend([
            self.course(),
            self.dependence(),
            self.grid(),
            self.cpu_text(),
            self.schedulers(),
            self.method(),
            criterion(),
            self.findings.iter().map(described_finding).collect(),
            LIMITS.to_owned(),
            page.changes(CHANGES),
            self.earlier_rows(),
            EARLIER_CHANGES.to_owned(),
        ]);
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }
}

impl Wu2007 {
    /// Returns the printed summary: the findings, the numbers of rows that agree, and the measured gain.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{}{}\n{}\n{}",
            self.caveat(),
            printed(&self.findings),
            self.tally_table().to_text(),
            self.gain()
        )
    }

    fn caveat(&self) -> String {
        match self.divisor {
            1 => String::new(),
            divisor => quick_caveat(&format!(
                "sizes divided by {divisor} and {}",
                counted(self.seeds)
            )),
        }
    }

    pub(super) fn front_page(&self) -> FrontPage {
        FrontPage {
            name: Self::NAME,
            title: Self::TITLE,
            tables: vec!["simulated"],
            former: BEFORE_CHANGE,
            entries: self.findings.iter().map(Entry::of).collect(),
        }
    }

    /// Returns the first paragraphs: what is reproduced, and the headline.
    fn lead(&self) -> String {
        format!(
            "This page reproduces each table in Fengguang Wu's \"readahead: on-demand readahead logic\" \
             (Linux 2.6.23) in a simulator. The document compares `legacy`, the readahead of Linux 2.6.20, with \
             `ondemand`, the readahead that it introduces.\n\n{}\n\n{}",
            self.gain().trim_end(),
            self.judged_scheduler(),
        )
    }

    /// Returns how the figures were obtained.
    fn method(&self) -> String {
        format!(
            "## Method\n\nThe simulator consists of a virtual clock, Larder's page cache and readahead policies, and \
             a model of the document's disk. `modern` is the readahead of current Linux, which is newer than the \
             document.\n\n\
             Printed by `larder lab reproduce wu2007{}` with {}, starting at {}. Figures are medians over the seeds, except \
             the courses in \"Second by second\" and the machines in \"Dependence of the gain\", which show the first seed. \
             Intervals contain the median of the distribution over seeds with a probability of 95%. The same command always prints \
             the same bytes. The figures are also in [wu2007.csv](wu2007.csv) and [wu2007.json](wu2007.json).\n\n",
            if self.divisor == 1 { "" } else { " --quick" },
            counted(self.seeds),
            self.seed
        )
    }

    /// Returns how many rows agree, and a table of the rows that disagree.
    fn rows_text(&self) -> String {
        let text = format!(
            "## Rows that agree\n\n{}\n\
             \"Direction agrees if nothing changes\" is the baseline: the number of rows whose direction would \
             agree if every simulated change were zero. Changed rows are those whose published change \
             is larger than the noise. Loose rows are from tests whose published noise is above \
             {LOOSE_NOISE_PCT}%, so that agreement is weak evidence.\n\n",
            self.tally_table().to_markdown()
        );
        let mut table =
            Table::new("table | row | published change: | simulated change: | direction | size");
        let disagreeing = self.judgements().filter(|(.., judged)| !judged.agrees());
        let mut disagreeing = disagreeing.peekable();
        if disagreeing.peek().is_none() {
            return text + "No row disagrees.\n\n";
        }
        for (name, label, judgement) in disagreeing {
            let names = [name.to_owned(), label.to_owned()].into_iter();
            let figures = names.chain(changes(judgement));
            table.push(figures.chain(verdicts(judgement)));
        }
        format!("{text}These rows disagree:\n\n{}\n", table.to_markdown())
    }

    fn tally_table(&self) -> Table {
        let mut table = Table::new(
            "table | rows: | direction agrees: | direction agrees if nothing changes: | rough size agrees: \
             | changed rows: | changed, direction agrees: | loose rows:",
        );
        let mut push = |name: &str, tally: Tally| {
            table.push([
                name.to_owned(),
                tally.rows.to_string(),
                tally.direction_agrees.to_string(),
                tally.agrees_if_nothing_changed.to_string(),
                format!("{} of {}", tally.size_agrees, tally.size_judged),
                tally.changed.to_string(),
                tally.changed_agrees.to_string(),
                tally.loose.to_string(),
            ]);
        };
        for table in &self.tables {
            push(
                table.title,
                Tally::of(table.rows.iter().map(|row| &row.judgement)),
            );
        }
        push(
            "CPU cost, counted",
            Tally::of(self.cpu.iter().map(|row| &row.judgement)),
        );
        push(
            "all",
            Tally::of(self.judgements().map(|(_, _, judgement)| judgement)),
        );
        table
    }

    fn judgements(&self) -> impl Iterator<Item = (&str, &str, &Judgement)> {
        let rows = self.tables.iter().flat_map(|table| {
            let rows = table.rows.iter();
            rows.map(|row| (table.title, &*row.label, &row.judgement))
        });
        let cpu = self.cpu.iter();
        rows.chain(cpu.map(|row| ("CPU cost, counted", &*row.case, &row.judgement)))
    }

    fn cpu_text(&self) -> String {
        let mut counted = Table::new(
            "case | policy | calls: | lookups by the reader: | lookups by readahead: | total:",
        );
        let mut judged =
            Table::new("case | published speed-up: | decrease in calls and lookups: | direction");
        for row in &self.cpu {
            for (policy, counts) in row.counts.named() {
                counted.push([
                    row.case.clone(),
                    policy.to_owned(),
                    counts.readahead_calls.to_string(),
                    counts.page_lookups.to_string(),
                    counts.insert_lookups.to_string(),
                    counts.total().to_string(),
                ]);
            }
            let [published, ours] = changes(&row.judgement);
            let direction = agreement(Some(row.judgement.direction_agrees));
            judged.push([row.case.clone(), published, ours, direction]);
        }
        format!(
            "{}{}\n{}\n",
            super::cpu::SETUP,
            counted.to_markdown(),
            judged.to_markdown()
        )
    }
}

/// Returns the number of seeds in words.
fn counted(seeds: u32) -> String {
    match seeds {
        1 => "one seed".to_owned(),
        _ => format!("{seeds} seeds"),
    }
}

fn criterion() -> String {
    format!(
        "## How findings are judged\n\n\
         A finding is about the ratio of a figure under `ondemand` to the same figure under `legacy`, as the median \
         over all seeds. Its interval contains the median of the distribution over seeds with a probability of 95%. \
         With fewer than six seeds, there is no interval, and nothing is decided. A finding holds if the whole \
         interval is within the bound of its criterion, and does not hold if the whole interval is outside. The \
         bounds were derived from the published figures alone: half of a published gain or size, or the noise of the \
         document's own tables. They were fixed when simulated figures were already known.\n\n\
         \"If nothing had changed\" is the verdict if each figure under `ondemand` equalled the figure under \
         `legacy`. Only a non-inferiority claim may hold then. Tests also judge each finding on results with inverted \
         changes, with halved changes, and with noise alone.\n\n\
         Rows are judged as well. The rule was fixed before any result was known. A change is the relative change of \
         a figure from `legacy` to `ondemand`, in percent, rounded to one decimal. The figure has the unit of its \
         table.\n\n\
         1. A change counts as **none** if it is not larger than the noise of its row. The noise is the \
         largest difference, in the document, between two runs of the same test on the same kernel, \
         over all tests of that kind. The document has no second run of aio-stress, OLTP and thrashing; \
         their noise is that of iozone's reads, {:.1}%. Counts of CPU cost have no noise.\n\
         2. The **direction** agrees if both changes count as none, or if both have the same sign.\n\
         3. The **rough size** agrees if both changes count as none, or if the simulated change is within \
         {SIZE_POINTS} percentage points of the published change, or is between half and twice the \
         published change.\n\n",
        read_noise_pct()
    )
}

fn described(table: &TableResult) -> String {
    let mut figures = Table::new(
        "row | published legacy: | published ondemand: | published change: | simulated legacy: \
         | simulated ondemand: | simulated change: | noise: | direction | size \
         | simulated / published: | simulated modern:",
    );
    for row in &table.rows {
        let [published_change, _] = changes(&row.judgement);
        let [direction, size] = verdicts(&row.judgement);
        figures.push([
            row.label.clone(),
            row.published.legacy.to_string(),
            row.published.ondemand.to_string(),
            published_change,
            significant(row.ours.legacy),
            significant(row.ours.ondemand),
            simulated_change(row),
            format!("{:.1}%", row.noise_pct),
            direction,
            size,
            format!(
                "{}, {}",
                ratio(row.ours.legacy, row.published.legacy),
                ratio(row.ours.ondemand, row.published.ondemand)
            ),
            significant(row.ours.modern),
        ]);
    }
    format!(
        "## {}\n\n{}\n\nFigures in {}. The column simulated / published has the ratios for `legacy` and \
         `ondemand`.\n\n{}\n![{}: published and simulated figures]({})\n\n",
        table.title,
        table.setup.trim(),
        table.unit,
        figures.to_markdown(),
        table.title,
        plots::table_name(table),
    )
}

/// Returns the simulated change with its interval over the seeds, unless both ends are printed alike.
fn simulated_change(row: &Row) -> String {
    let [low, high] = [row.change_pct.low, row.change_pct.high].map(change);
    let text = change(row.judgement.ours_pct);
    if low == high {
        text
    } else {
        format!("{text} ({low} to {high})")
    }
}
