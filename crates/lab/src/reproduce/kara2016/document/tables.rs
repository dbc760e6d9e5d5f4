//! The figures: tables as the letter has them, hand-overs, CSV.

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Old, Referenced};

use super::super::findings::Source;
use super::super::grid::{Grid, GridRow, ORDER};
use super::super::simulate::{Contended, PRICES, WORK};
use super::super::{Kara2016, plots};
use crate::output::{Align, Table, csv_text, significant};
use crate::published::kara2016::PROCESSORS;
use crate::xattr_bench::Case;

impl Kara2016 {
    pub(super) fn write_contention(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "## Simulated contention\n\n\
             Operations of the variants' own code are recorded one after the other, with every lock, \
             line and entry that they take, and then played against each other on {PROCESSORS} \
             processors: a lock or a line that another processor had last costs {} ns, one of its own \
             {} ns; the file system works {} ns before the cache is asked and {} ns with an entry held, \
             each half to one and a half times as long by chance; to wake a process takes {} ns, and to \
             switch to one {} ns. Shown for each set, with F={}: **locks** that went from one processor \
             to another / **lines** that did / how often a process **parked**.\n",
            PRICES.transfer_ns,
            PRICES.own_ns,
            WORK.before_ns,
            WORK.held_ns,
            PRICES.wake_ns,
            PRICES.switch_ns,
            self.size.pictured_files,
        );
        let shown = [Old, Lru, ListLru, Referenced, Clock];
        let titles = shown.map(|variant| (variant.as_str(), Align::Right));
        let first = [("V", Align::Right), ("P", Align::Right)];
        let mut table = Table::new(first.into_iter().chain(titles));
        for case in self
            .size
            .cases
            .iter()
            .filter(|case| case.files == self.size.pictured_files)
        {
            let mut row = vec![case.values.to_string(), case.processes.to_string()];
            row.extend(shown.map(|variant| {
                let mut contended = self.contended.iter();
                let found = contended.find(|of| of.case == *case && of.variant == variant);
                found.map(handovers).unwrap_or_default()
            }));
            table.push(row);
        }
        let _ = writeln!(text, "{}", table.to_markdown());
        text.push_str(
            "How many times as long 64 processes take as one, with V=10, if a price is another:\n\n",
        );
        let titles = ["old", "referenced"].map(|title| (title, Align::Right));
        let mut table = Table::new([("", Align::Left)].into_iter().chain(titles));
        for changed in &self.sensitivity {
            let growths = [changed.old_growth, changed.referenced_growth];
            let growths = growths.map(|growth| significant(growth.unwrap_or(f64::NAN)));
            table.push(
                [changed.change.clone()]
                    .into_iter()
                    .chain(growths)
                    .collect(),
            );
        }
        let _ = writeln!(text, "{}", table.to_markdown());
    }

    pub(super) fn write_tables(&self, text: &mut String) {
        let order = ORDER.map(MbCacheVariant::as_str).join(",");
        let _ = writeln!(
            text,
            "## The tables\n\nSeconds in the order {order}; `-` where there is no figure.\n"
        );
        for values in self.values() {
            let _ = writeln!(text, "### V={values}\n");
            let _ = writeln!(text, "{}", self.letter_table(values).to_markdown());
            for (table, _) in plots::tables(self) {
                let _ = writeln!(text, "![{table}]({})", plots::name(table, values));
            }
            text.push('\n');
        }
    }

    /// The letter's table for one number of values, and ours below each of its rows.
    fn letter_table(&self, values: u32) -> Table {
        let cases = || self.size.cases.iter().filter(|case| case.values == values);
        let mut processes: Vec<u32> = cases().map(|case| case.processes).collect();
        processes.sort_unstable();
        processes.dedup();
        let mut files: Vec<u32> = cases().map(|case| case.files).collect();
        files.dedup();
        let titles = processes
            .iter()
            .map(|count| (format!("P={count}"), Align::Right));
        let first = ["F", "table"].map(|title| (title.to_owned(), Align::Left));
        let mut table = Table::new(first.into_iter().chain(titles));
        let published = ("published", &self.published);
        let ours = self
            .ours
            .iter()
            .map(|(source, grid)| (source.as_str(), grid));
        let grids: Vec<(&str, &Grid)> = [published].into_iter().chain(ours).collect();
        for files in files {
            for (name, grid) in &grids {
                let mut row = vec![files.to_string(), (*name).to_owned()];
                let cases = processes.iter().map(|&processes| Case {
                    processes,
                    files,
                    values,
                });
                let rows: Vec<_> = cases.map(|case| grid.row(case)).collect();
                if rows.iter().all(Option::is_none) {
                    continue;
                }
                let cells = rows
                    .into_iter()
                    .map(|row| row.map_or_else(|| "-".to_owned(), cell));
                row.extend(cells);
                table.push(row);
            }
        }
        table
    }

    pub(super) fn csv(&self) -> io::Result<String> {
        let head = ["table", "V", "F", "P", "variant", "seconds"];
        let counts = [
            "lock_handovers_per_set",
            "line_handovers_per_set",
            "parks_per_set",
        ];
        let head = head.into_iter().chain(counts).map(str::to_owned).collect();
        let published = ("published", &self.published);
        let ours = self
            .ours
            .iter()
            .map(|(source, grid)| (source.as_str(), grid));
        let lines = [published]
            .into_iter()
            .chain(ours)
            .flat_map(|(name, grid)| {
                let rows = grid.rows.iter();
                rows.flat_map(move |row| ORDER.map(|variant| (name, row, variant)))
            });
        let lines = lines.filter_map(|(name, row, variant)| {
            let seconds = row.of(variant)?;
            let case = row.case;
            let mut line = vec![name.to_owned()];
            line.extend([case.values, case.files, case.processes].map(|count| count.to_string()));
            line.extend([variant.to_string(), seconds.to_string()]);
            let contended = self.contended.iter().find(|of| {
                name == Source::Simulated.as_str() && of.case == case && of.variant == variant
            });
            line.extend(contended.map_or_else(Default::default, |of| {
                counts_of(of).map(|count| of.per_set(count).to_string())
            }));
            Some(line)
        });
        csv_text(std::iter::once(head).chain(lines))
    }
}

fn cell(row: &GridRow) -> String {
    let seconds = |variant| row.of(variant).map_or_else(|| "-".to_owned(), milliseconds);
    ORDER.map(seconds).join(",")
}

/// As the letter prints seconds.
fn milliseconds(seconds: f64) -> String {
    format!("{seconds:.3}")
}

fn counts_of(of: &Contended) -> [u64; 3] {
    let outcome = &of.outcome;
    [
        outcome.lock_handovers,
        outcome.line_handovers,
        outcome.parks,
    ]
}

fn handovers(of: &Contended) -> String {
    let counts = counts_of(of).map(|count| format!("{:.2}", of.per_set(count)));
    counts.join(" / ")
}
