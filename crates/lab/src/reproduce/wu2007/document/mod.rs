//! The report of a reproduction: Markdown, the same as HTML, plots, CSV and JSON.
//!
//! It depends on the results alone: the same results give the same bytes.

mod csv;
mod thrashing;

use std::fmt::Write as _;
use std::io;

use super::criterion::{Judgement, LOOSE_NOISE_PCT, SIZE_POINTS};
use super::plan::read_noise_pct;
use super::plots;
use super::results::{TableResult, Tally, Wu2007};
use crate::output::{Report, ReportFile, Table, change, ratio, significant};

const LIMITS: &str = include_str!("../limits.md");

impl Report for Wu2007 {
    const NAME: &'static str = "wu2007";
    const TITLE: &'static str = "Wu 2007, reproduced";

    fn body(&self) -> String {
        let mut text = self.head();
        text.push_str(&self.short());
        text.push_str(&criterion());
        text.extend(self.tables.iter().map(described));
        text.extend([
            self.course(),
            self.dependence(),
            self.cpu_text(),
            LIMITS.to_owned(),
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
    /// Returns the printed summary, which only contains the verdicts.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{}\n{}", self.tally_table().to_text(), self.gain())
    }

    fn head(&self) -> String {
        let scale = if self.divisor == 1 {
            "at the document's own sizes".to_owned()
        } else {
            format!(
                "with sizes divided by {}, so that its figures are no reproduction",
                self.divisor
            )
        };
        format!(
            "Every table of Fengguang Wu's \"readahead: on-demand readahead logic\" (Linux 2.6.23), \
             measured again in a simulator: a virtual clock, Larder's own page cache and readahead \
             policies, and a model of the document's disk. `legacy` is the readahead of Linux \
             2.6.20, `ondemand` the one that the document introduces, `modern` that of Linux today, \
             which the document could not know.\n\n\
             Printed by `larder lab reproduce wu2007`, {scale}, from seed {}. The same command \
             prints the same bytes. The figures are also in [wu2007.csv](wu2007.csv) and \
             [wu2007.json](wu2007.json).\n\n",
            self.seed
        )
    }

    fn short(&self) -> String {
        let mut text = format!(
            "## In short\n\n{}\n{}\n\
             A row agrees if nothing changed where a system in which nothing ever changes would \
             agree in direction: the baseline of the column before it. A row has changed where the \
             published change is beyond the noise. Loose rows come from tests whose published \
             noise is above {LOOSE_NOISE_PCT}%: they agree easily.\n\n",
            self.gain(),
            self.tally_table().to_markdown()
        );
        let mut table = Table::new("table | row | published: | ours: | direction | size");
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
        let _ = writeln!(text, "These rows disagree:\n\n{}", table.to_markdown());
        text
    }

    fn tally_table(&self) -> Table {
        let mut table = Table::new(
            "table | rows: | direction agrees: | agrees if nothing changed: | rough size agrees: \
             | changed rows: | of them agree in direction: | loose rows:",
        );
        let mut push = |name: &str, tally: Tally| {
            table.push([
                name.to_owned(),
                tally.rows.to_string(),
                tally.direction_agrees.to_string(),
                tally.agrees_if_nothing_changed().to_string(),
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
            "case | policy | calls: | lookups by the reader: | lookups by readahead: | all:",
        );
        let mut judged =
            Table::new("case | published speed-up: | fewer calls and lookups: | direction");
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

fn criterion() -> String {
    format!(
        "## How rows are judged\n\n\
         The rule was fixed before the first result was seen. Changes are from `legacy` to \
         `ondemand`, in percent, in the unit of the table, to one decimal.\n\n\
         1. A change no larger than its row's noise counts as **no change**. The noise is the \
         largest difference between two runs of the same test on the same kernel that the document \
         prints, over all tests of that kind. It prints no second run of aio-stress, OLTP and \
         thrashing: they take the noise of iozone's reads, {:.1}%. The counts of CPU cost have none.\n\
         2. The **direction** agrees if both are no change, or both are changes of the same sign.\n\
         3. The **rough size** agrees if both are no change, or ours is within {SIZE_POINTS} \
         percentage points of the published change, or between half and twice it.\n\n",
        read_noise_pct()
    )
}

fn described(table: &TableResult) -> String {
    let mut figures = Table::new(
        " | published legacy: | ondemand: | change: | ours legacy: | ondemand: | change: | noise: \
         | direction | size | ours / published: | ours modern:",
    );
    for row in &table.rows {
        let [published_change, our_change] = changes(&row.judgement);
        let [direction, size] = verdicts(&row.judgement);
        figures.push([
            row.label.clone(),
            row.published.legacy.to_string(),
            row.published.ondemand.to_string(),
            published_change,
            significant(row.ours.legacy),
            significant(row.ours.ondemand),
            our_change,
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
        "## {}\n\n{}\n\nIn {}.\n\n{}\n![{} beside the published figures]({})\n\n",
        table.title,
        table.setup.trim(),
        table.unit,
        figures.to_markdown(),
        table.title,
        plots::table_name(table),
    )
}

fn changes(judgement: &Judgement) -> [String; 2] {
    [
        change(Some(judgement.published_pct)),
        change(judgement.ours_pct),
    ]
}

fn verdicts(judgement: &Judgement) -> [String; 2] {
    [
        agreement(Some(judgement.direction_agrees)),
        agreement(judgement.size_agrees),
    ]
}

fn agreement(agrees: Option<bool>) -> String {
    match agrees {
        Some(true) => "agrees",
        Some(false) => "**differs**",
        None => "-",
    }
    .to_owned()
}
