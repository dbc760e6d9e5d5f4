//! The report: Markdown, the same as HTML, plots, CSV and JSON.

mod csv;
mod histograms;
mod tables;

use super::findings::Scatter;
use super::kernels::TABLES;
use super::{Lever2000, plots};
use crate::output::{Report, ReportFile, Table, text_or};
use std::fmt::Write as _;
use std::io;
use tables::described;

/// Disclaimer of a quick reproduction.
const NO_REPRODUCTION: &str = "These are a sixteenth of the scripts: this is no reproduction.\n\
                               What depends on their number is not judged.\n\n";

const LIMITS: &str = include_str!("limits.md");

impl Report for Lever2000 {
    const NAME: &'static str = "lever2000";
    const TITLE: &'static str = "Lever 2000, reproduced";

    fn body(&self) -> String {
        let mut text = self.caveat().to_owned();
        text.push_str(&self.head());
        text.push_str(&self.findings_text());
        let tables = TABLES.iter().zip(&self.tables);
        text.extend(tables.map(|(table, rows)| described(table, rows)));
        text.push_str(&self.histograms());
        text.push_str(&self.costs_text());
        text.push_str(LIMITS);
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        self.csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        plots::all(self)
    }
}

impl Lever2000 {
    fn caveat(&self) -> &'static str {
        if self.size.is_full() {
            ""
        } else {
            NO_REPRODUCTION
        }
    }

    /// Returns the printed summary: a block for each finding, since the figures need the width of a
    /// terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = self.caveat().to_owned();
        for judged in &self.findings {
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  ours       {}\n  rule       {}\n  verdict    {}",
                judged.finding.claim,
                judged.finding.published,
                judged.figures,
                judged.finding.criterion,
                judged.verdict.as_str(),
            );
        }
        text
    }

    fn head(&self) -> String {
        format!(
            "The tables of Chuck Lever's \"Linux Kernel Hash Table Behavior: Analysis and Improvements\" \
             (2000), measured again: users at once, each with a script of a C compiler, ed, nroff and \
             spell, in scripts an hour. Here the scripts' recorded file operations run in one process, on a \
             volume with the tables of each published kernel.\n\n\
             Printed by `larder lab reproduce lever2000{}` from seed {}, on {} processors: {} runs of \
             each kernel in turn. `s` is the standard deviation. All figures are in \
             [lever2000.csv](lever2000.csv) and [lever2000.json](lever2000.json).\n\n",
            if self.size.is_full() { "" } else { " --quick" },
            self.size.seed,
            self.processors,
            self.size.runs,
        )
    }

    fn findings_text(&self) -> String {
        let mut table = Table::new("finding | verdict");
        for judged in &self.findings {
            table.push([judged.finding.claim, judged.verdict.as_str()].map(str::to_owned));
        }
        let mut text = format!(
            "## In short\n\n{}\n{}",
            table.to_markdown(),
            self.judging_text()
        );
        for judged in &self.findings {
            let _ = writeln!(
                text,
                "### {}: {}\n\nClaim: {}.\n\n- published: {}\n- ours: {}\n- holds where: {}\n",
                judged.finding.name,
                judged.verdict.as_str(),
                judged.finding.claim,
                judged.finding.published,
                judged.figures,
                judged.finding.criterion,
            );
        }
        text
    }

    fn judging_text(&self) -> String {
        let scatter = match Scatter::of(self) {
            None => "Without the first run there is one run of each kernel, so that no deviation is known, and \
                     no throughput is judged."
                .to_owned(),
            Some(scatter) => format!(
                "Here the standard deviation without the first run is from {:.1}% to {:.1}% of the average, \
                 {:.1}% in the middle of {} rows: of two such rows, no difference below {:.0}% is shown. The \
                 document's is from 0.1% to 0.5% in its Tables 2, 3 and 6, where its kernels A to D differ by \
                 0.4%.",
                scatter.least,
                scatter.most,
                scatter.median,
                scatter.rows,
                scatter.shown(),
            ),
        };
        format!(
            "## How findings are judged\n\nCounts of links decide where they can: they are the same in each \
             run, but for what threads do to one another. A difference of throughputs counts only beyond \
             twice both standard deviations together, and never between single runs.\n\n{scatter}\n\n\
             The rules were fixed before the first figure of ours was seen, but for three. That of the inode \
             table took links of all lookups, though the document's mostly miss and ours mostly hit, and \
             did not tell the table's size from its function. That of 64 bits took links of kernel D, which \
             has no multiplication whose shift follows the word. That of inlining took one function and no \
             noise.\n\n"
        )
    }

    fn costs_text(&self) -> String {
        let mut table = Table::new(
            "function | latency, inlined: | throughput: | latency, stand-alone: | throughput: | bytes:",
        );
        for cost in &self.costs {
            table.push([
                cost.function.to_string(),
                cost.inlined.latency.to_string(),
                cost.inlined.throughput.to_string(),
                cost.stand_alone.latency.to_string(),
                cost.stand_alone.throughput.to_string(),
                text_or(cost.instruction_bytes, "-"),
            ]);
        }
        let misses = &self.misses;
        format!(
            "## What functions and misses cost\n\nCycles of a bucket on this machine: the latency, \
             where the next key waits for it, and the time from one to the next where none waits; with the \
             standard deviation of nine rounds.\n\n{}\n\
             A name that the dentry cache lacks takes {:.0} ns, one that it has {:.0} ns; a page that \
             the page cache lacks takes {:.0} ns, one that it has {:.0} ns. No disk is behind any of them.\n\n",
            table.to_markdown(),
            misses.dentry_miss_ns,
            misses.dentry_hit_ns,
            misses.page_miss_ns,
            misses.page_hit_ns,
        )
    }
}
