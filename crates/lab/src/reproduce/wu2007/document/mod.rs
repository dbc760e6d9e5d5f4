//! The report of a reproduction: Markdown, the same as HTML, plots, CSV and JSON.
//!
//! Written from the results alone: the same results give the same bytes.

mod csv;
mod thrashing;

use std::fmt::Write as _;
use std::io;

use super::criterion::{Judgement, LOOSE_NOISE_PCT, SIZE_POINTS};
use super::plan::read_noise_pct;
use super::plots;
use super::results::{CpuCounts, CpuResult, TableResult, Tally, Wu2007};
use crate::output::{Align, ReportFile, Table, change, ratio, significant};
use crate::reproduce::Reproduction;

impl Reproduction for Wu2007 {
    const NAME: &'static str = "wu2007";
    const TITLE: &'static str = "Wu 2007, reproduced";
    const LIMITS: &'static str = include_str!("../limits.md");

    fn body(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text);
        self.write_short(&mut text);
        write_criterion(&mut text);
        for table in &self.tables {
            write_table(&mut text, table);
        }
        self.write_course(&mut text);
        self.write_dependence(&mut text);
        self.write_cpu(&mut text);
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }

    fn verdicts(&self) -> String {
        format!("{}\n{}", self.tally_table().to_text(), self.gain())
    }
}

impl Wu2007 {
    fn write_head(&self, text: &mut String) {
        text.push_str(
            "Every table of Fengguang Wu's \"readahead: on-demand readahead logic\" (Linux 2.6.23), \
             measured again in a simulator: a virtual clock, Larder's own page cache and readahead \
             policies, and a model of the document's disk. `legacy` is the readahead of Linux \
             2.6.20, `ondemand` the one that the document introduces, `modern` that of Linux today, \
             which the document could not know.\n\n",
        );
        let scale = if self.divisor == 1 {
            "at the document's own sizes".to_owned()
        } else {
            format!(
                "with sizes divided by {}, so that its figures are no reproduction",
                self.divisor
            )
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "Printed by `larder lab reproduce wu2007`, {scale}, from seed {}. The same command \
             prints the same bytes. The figures are also in [wu2007.csv](wu2007.csv) and \
             [wu2007.json](wu2007.json).\n",
            self.seed
        );
    }

    fn write_short(&self, text: &mut String) {
        text.push_str("## In short\n\n");
        text.push_str(&self.gain());
        text.push('\n');
        text.push_str(&self.tally_table().to_markdown());
        let _ = writeln!(
            text,
            "\nA row agrees if nothing changed where a system in which nothing ever changes would \
             agree in direction: the baseline of the column before it. A row has changed where the \
             published change is beyond the noise. Loose rows come from tests whose published \
             noise is above {LOOSE_NOISE_PCT}%: they agree easily.\n"
        );
        let disagreeing = self.disagreeing();
        if disagreeing.is_empty() {
            text.push_str("No row disagrees.\n\n");
            return;
        }
        text.push_str("These rows disagree:\n\n");
        let mut table = Table::new([
            ("table", Align::Left),
            ("row", Align::Left),
            ("published", Align::Right),
            ("ours", Align::Right),
            ("direction", Align::Left),
            ("size", Align::Left),
        ]);
        for (name, label, judgement) in disagreeing {
            let mut cells = vec![name.to_owned(), label.to_owned()];
            cells.extend(changes(judgement));
            cells.extend(verdicts(judgement));
            table.push(cells);
        }
        text.push_str(&table.to_markdown());
        text.push('\n');
    }

    fn tally_table(&self) -> Table {
        let mut table = Table::new([
            ("table", Align::Left),
            ("rows", Align::Right),
            ("direction agrees", Align::Right),
            ("agrees if nothing changed", Align::Right),
            ("rough size agrees", Align::Right),
            ("changed rows", Align::Right),
            ("of them agree in direction", Align::Right),
            ("loose rows", Align::Right),
        ]);
        let mut push = |name: &str, tally: Tally| {
            table.push(vec![
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

    fn disagreeing(&self) -> Vec<(&str, &str, &Judgement)> {
        self.judgements()
            .filter(|(_, _, judgement)| !judgement.agrees())
            .collect()
    }

    fn write_cpu(&self, text: &mut String) {
        text.push_str(super::cpu::SETUP);
        let mut table = Table::new([
            ("case", Align::Left),
            ("policy", Align::Left),
            ("calls", Align::Right),
            ("lookups by the reader", Align::Right),
            ("lookups by readahead", Align::Right),
            ("all", Align::Right),
        ]);
        for row in &self.cpu {
            for (policy, counts) in row.by_policy() {
                table.push(vec![
                    row.case.clone(),
                    policy.to_owned(),
                    counts.readahead_calls.to_string(),
                    counts.page_lookups.to_string(),
                    counts.insert_lookups.to_string(),
                    counts.total().to_string(),
                ]);
            }
        }
        text.push_str(&table.to_markdown());
        text.push('\n');
        let mut table = Table::new([
            ("case", Align::Left),
            ("published speed-up", Align::Right),
            ("fewer calls and lookups", Align::Right),
            ("direction", Align::Left),
        ]);
        for row in &self.cpu {
            let mut cells = vec![row.case.clone()];
            cells.extend(changes(&row.judgement));
            cells.push(agreement(Some(row.judgement.direction_agrees)));
            table.push(cells);
        }
        text.push_str(&table.to_markdown());
        text.push('\n');
    }
}

impl CpuResult {
    fn by_policy(&self) -> [(&'static str, CpuCounts); 3] {
        [
            ("legacy", self.legacy),
            ("ondemand", self.ondemand),
            ("modern", self.modern),
        ]
    }
}

fn write_criterion(text: &mut String) {
    let _ = writeln!(
        text,
        "## How rows are judged\n\n\
         The rule was fixed before the first result was seen. Changes are from `legacy` to \
         `ondemand`, in percent, in the unit of the table, to one decimal.\n\n\
         1. A change no larger than its row's noise counts as **no change**. The noise is the \
         largest difference between two runs of the same test on the same kernel that the document \
         prints, over all tests of that kind. It prints no second run of aio-stress, OLTP and \
         thrashing: they take the noise of iozone's reads, {:.1}%. The counts of CPU cost have none.\n\
         2. The **direction** agrees if both are no change, or both are changes of the same sign.\n\
         3. The **rough size** agrees if both are no change, or ours is within {SIZE_POINTS} \
         percentage points of the published change, or between half and twice it.\n",
        read_noise_pct()
    );
}

fn write_table(text: &mut String, table: &TableResult) {
    let _ = writeln!(text, "## {}\n\n{}\n", table.title, table.setup.trim());
    let mut figures = Table::new([
        ("", Align::Left),
        ("published legacy", Align::Right),
        ("ondemand", Align::Right),
        ("change", Align::Right),
        ("ours legacy", Align::Right),
        ("ondemand", Align::Right),
        ("change", Align::Right),
        ("noise", Align::Right),
        ("direction", Align::Left),
        ("size", Align::Left),
        ("ours / published", Align::Right),
        ("ours modern", Align::Right),
    ]);
    for row in &table.rows {
        let [published_change, our_change] = changes(&row.judgement);
        let [direction, size] = verdicts(&row.judgement);
        figures.push(vec![
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
    let _ = writeln!(
        text,
        "In {}.\n\n{}\n![{} beside the published figures]({})\n",
        table.unit,
        figures.to_markdown(),
        table.title,
        plots::table_name(table),
    );
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
