//! The report: Markdown, the same as HTML, plots, CSV and JSON.

mod csv;
mod histograms;
mod tables;

use super::findings::Scatter;
use super::kernels::TABLES;
use super::{Lever2000, plots};
use crate::output::{Align, ReportFile, Table};
use crate::reproduce::Reproduction;
use std::fmt::Write as _;
use std::io;
use tables::write_table;

/// What a quick one is not.
const NO_REPRODUCTION: &str = "These are a sixteenth of the scripts: this is no reproduction.\n\
                               What depends on their number is not judged.";

impl Reproduction for Lever2000 {
    const NAME: &'static str = "lever2000";
    const TITLE: &'static str = "Lever 2000, reproduced";
    const LIMITS: &'static str = include_str!("limits.md");

    fn body(&self) -> String {
        let mut text = String::new();
        self.write_head(&mut text);
        self.write_findings(&mut text);
        for (table, rows) in TABLES.iter().zip(&self.tables) {
            write_table(&mut text, table, rows);
        }
        self.write_histograms(&mut text);
        self.write_costs(&mut text);
        text
    }

    fn caveat(&self) -> Option<&'static str> {
        (!self.size.is_full()).then_some(NO_REPRODUCTION)
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }

    /// A block for each finding, since figures are as wide as a terminal.
    fn verdicts(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  ours       {}\n  rule       {}\n  verdict    {}",
                finding.claim,
                finding.published,
                finding.figures,
                finding.criterion,
                finding.verdict.as_str(),
            );
        }
        text
    }
}

impl Lever2000 {
    fn write_head(&self, text: &mut String) {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "The tables of Chuck Lever's \"Linux Kernel Hash Table Behavior: Analysis and Improvements\" \
             (2000), measured again: users at once, each with a script of a C compiler, ed, nroff and \
             spell, in scripts an hour. Here the scripts' recorded file operations run in one process, on a \
             volume with the tables of each published kernel.\n\n\
             Printed by `larder lab reproduce lever2000{}` from seed {}, on {} processors: {} runs of \
             each kernel in turn. `s` is the standard deviation. All figures are in \
             [lever2000.csv](lever2000.csv) and [lever2000.json](lever2000.json).\n",
            if self.size.is_full() { "" } else { " --quick" },
            self.size.seed,
            self.processors,
            self.size.runs,
        );
    }

    fn write_findings(&self, text: &mut String) {
        let titles = ["finding", "verdict"];
        let mut table = Table::new(titles.map(|title| (title, Align::Left)));
        for finding in &self.findings {
            table.push(vec![
                finding.claim.to_owned(),
                finding.verdict.as_str().to_owned(),
            ]);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "## In short\n\n{}", table.to_markdown());
        self.write_judging(text);
        for finding in &self.findings {
            let _ = writeln!(
                text,
                "### {}: {}\n\nClaim: {}.\n\n- published: {}\n- ours: {}\n- holds where: {}\n",
                finding.name,
                finding.verdict.as_str(),
                finding.claim,
                finding.published,
                finding.figures,
                finding.criterion,
            );
        }
    }

    fn write_judging(&self, text: &mut String) {
        text.push_str(
            "## How findings are judged\n\nCounts of links decide where they can: they are the same in each \
             run, but for what threads do to one another. A difference of throughputs counts only beyond \
             twice both standard deviations together, and never between single runs.\n\n",
        );
        // Writing to a string does not fail.
        let _ = match Scatter::of(self) {
            None => writeln!(
                text,
                "Without the first run there is one run of each kernel, so that no deviation is known, and \
                 no throughput is judged.\n"
            ),
            Some(scatter) => writeln!(
                text,
                "Here the standard deviation without the first run is from {:.1}% to {:.1}% of the average, \
                 {:.1}% in the middle of {} rows: of two such rows, no difference below {:.0}% is shown. The \
                 document's is from 0.1% to 0.5% in its Tables 2, 3 and 6, where its kernels A to D differ by \
                 0.4%.\n",
                scatter.least,
                scatter.most,
                scatter.median,
                scatter.rows,
                scatter.shown(),
            ),
        };
        text.push_str(
            "The rules were fixed before the first figure of ours was seen, but for three. That of the inode \
             table took links of all lookups, though the document's mostly miss and ours mostly hit, and \
             did not tell the table's size from its function. That of 64 bits took links of kernel D, which \
             has no multiplication whose shift follows the word. That of inlining took one function and no \
             noise.\n\n",
        );
    }

    fn write_costs(&self, text: &mut String) {
        text.push_str(
            "## What functions and misses cost\n\nCycles of a bucket on this machine: the latency, \
             where the next key waits for it, and the time from one to the next where none waits; with the \
             standard deviation of nine rounds.\n\n",
        );
        let titles = [
            "latency, inlined",
            "throughput",
            "latency, stand-alone",
            "throughput",
            "bytes",
        ];
        let titles = titles.map(|title| (title, Align::Right));
        let mut table = Table::new([("function", Align::Left)].into_iter().chain(titles));
        for cost in &self.costs {
            let cycles = [cost.inlined, cost.stand_alone];
            let cycles = cycles
                .into_iter()
                .flat_map(|cycles| [cycles.latency, cycles.throughput]);
            let mut row = vec![cost.function.to_string()];
            row.extend(cycles.map(|cycles| cycles.to_string()));
            row.push(
                cost.instruction_bytes
                    .map_or("-".to_owned(), |bytes| bytes.to_string()),
            );
            table.push(row);
        }
        let misses = &self.misses;
        let _ = writeln!(
            text,
            "{}\nA name that the dentry cache lacks takes {:.0} ns, one that it has {:.0} ns; a page that \
             the page cache lacks takes {:.0} ns, one that it has {:.0} ns. No disk is behind any of them.\n",
            table.to_markdown(),
            misses.dentry_miss_ns,
            misses.dentry_hit_ns,
            misses.page_miss_ns,
            misses.page_hit_ns,
        );
    }
}
