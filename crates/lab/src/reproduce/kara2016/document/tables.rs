//! The figures: tables in the letter's layout, handovers, and CSV.

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Old, Referenced};

use super::super::findings::Source;
use super::super::grid::{Grid, GridRow, ORDER};
use super::super::simulate::{Contended, PRICES, WORK};
use super::super::{Kara2016, plots};
use crate::output::{Table, csv_text, significant, text_or};
use crate::published::kara2016::PROCESSORS;
use crate::xattr_bench::Case;

impl Kara2016 {
    pub(super) fn contention_text(&self) -> String {
        let shown = [Old, Lru, ListLru, Referenced, Clock];
        let mut counts = Table::new("V: | P:").with_numbers(shown.map(MbCacheVariant::as_str));
        let cases = self.size.cases.iter();
        for case in cases.filter(|case| case.files == self.size.pictured_files) {
            let mut row = vec![case.values.to_string(), case.processes.to_string()];
            row.extend(shown.map(|variant| {
                let mut contended = self.contended.iter();
                let found = contended.find(|of| of.case == *case && of.variant == variant);
                found.map(handovers).unwrap_or_default()
            }));
            counts.push(row);
        }
        let mut growths = Table::new("changed cost | old: | referenced:");
        for changed in &self.sensitivity {
            let growth = |growth: Option<f64>| significant(growth.unwrap_or(f64::NAN));
            growths.push([
                changed.change.clone(),
                growth(changed.old_growth),
                growth(changed.referenced_growth),
            ]);
        }
        format!(
            "## Simulated contention\n\n\
             Operations of the variants' own code are recorded one after the other, with each lock, \
             cache line and entry that they use. They are then executed concurrently on {PROCESSORS} \
             processors in virtual time:\n\n\
             - A lock or line costs {} ns if another processor used it last, and {} ns otherwise.\n\
             - The file system works {} ns before it calls the cache, and {} ns while it holds an entry. \
             Each of these times is multiplied by a random factor from 0.5 to 1.5.\n\
             - Waking a process takes {} ns, and switching to one {} ns.\n\n\
             The table shows three counts per set, with F={}: handovers of **locks** from one processor to \
             another / handovers of **lines** / how often a process **parked**.\n\n{}\n\
             The time of 64 processes divided by the time of one process, with V=10, if one of the assumed \
             costs is changed:\n\n{}\n",
            PRICES.transfer_ns,
            PRICES.own_ns,
            WORK.before_ns,
            WORK.held_ns,
            PRICES.wake_ns,
            PRICES.switch_ns,
            self.size.pictured_files,
            counts.to_markdown(),
            growths.to_markdown(),
        )
    }

    pub(super) fn tables_text(&self) -> String {
        let order = ORDER.map(MbCacheVariant::as_str).join(",");
        let mut text = format!(
            "## Tables\n\nSeconds, in the order {order}. `-` means that the figure is missing.\n\n"
        );
        for values in self.values() {
            let table = self.letter_table(values).to_markdown();
            let _ = writeln!(text, "### V={values}\n\n{table}");
            for (table, _) in plots::tables(self) {
                let _ = writeln!(text, "![{table}]({})", plots::name(table, values));
            }
            text.push('\n');
        }
        text
    }

    /// Returns the published and the measured tables, with their names.
    fn grids(&self) -> impl Iterator<Item = (&'static str, &Grid)> {
        let ours = self.ours.iter();
        [("published", &self.published)]
            .into_iter()
            .chain(ours.map(|(source, grid)| (source.as_str(), grid)))
    }

    /// Returns the letter's table for one number of values, with the measured figures below each of
    /// its rows.
    fn letter_table(&self, values: u32) -> Table {
        let cases = || self.size.cases.iter().filter(|case| case.values == values);
        let mut processes: Vec<u32> = cases().map(|case| case.processes).collect();
        processes.sort_unstable();
        processes.dedup();
        let mut files: Vec<u32> = cases().map(|case| case.files).collect();
        files.dedup();
        let titles = processes.iter().map(|count| format!("P={count}"));
        let mut table = Table::new("F | table").with_numbers(titles);
        for files in files {
            for (name, grid) in self.grids() {
                let mut row = vec![files.to_string(), name.to_owned()];
                let cases = processes.iter().map(|&processes| Case {
                    processes,
                    files,
                    values,
                });
                let rows: Vec<_> = cases.map(|case| grid.row(case)).collect();
                if rows.iter().all(Option::is_none) {
                    continue;
                }
                row.extend(rows.into_iter().map(|row| text_or(row.map(cell), "-")));
                table.push(row);
            }
        }
        table
    }

    pub(super) fn csv(&self) -> io::Result<String> {
        let head = "table,V,F,P,variant,seconds,lock_handovers_per_set,line_handovers_per_set,parks_per_set";
        let lines = self.grids().flat_map(|(name, grid)| {
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
        csv_text(head, lines)
    }
}

/// Formats seconds as the letter does.
fn cell(row: &GridRow) -> String {
    let seconds = |variant| text_or(row.of(variant).map(|seconds| format!("{seconds:.3}")), "-");
    ORDER.map(seconds).join(",")
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
