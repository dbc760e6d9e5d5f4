//! The report in Markdown and HTML, with plots, CSV and JSON.

mod csv;
mod future;
mod histograms;
mod tables;

use super::findings::{Scatter, median_half_width_pct};
use super::kernels::TABLES;
use super::plots;
use super::results::Lever2000;
use super::runs::Runs;
use crate::output::{Report, ReportFile, Table, text_or};
use crate::reproduce::finding::{described as described_finding, printed};
use crate::reproduce::front_page::{Entry, FrontPage, quick_caveat};
use std::io;
use tables::described;

/// The first paragraph.
const LEAD: &str = "\
This page reproduces the tables in Chuck Lever's \"Linux Kernel Hash Table Behavior: Analysis and Improvements\" (2000). \
They show the throughput of concurrent users, each with a script of a C compiler, ed, nroff and spell, in scripts per \
hour. Here the recorded file operations of such scripts run in one process, on volumes with the tables of the \
published kernels. Nothing is computed between these operations. Therefore throughputs are several hundred times as high \
as in the document, and cannot be compared with it. Only their ratios can: the throughput of a kernel relative to \
another kernel. A table has a larger share in the time of a script here, so ratios are also larger.";

const LIMITS: &str = include_str!("limits.md");

/// What changed since the last version.
const CHANGES: &str = "\
The report begins with its findings, as a table and as a plot. Findings are judged by the intervals of their effects; \
throughputs are compared in pairs. Kernels take turns of a few hundredths of a second; a run consists of several rounds \
with new volumes, and the rounds are the pairs. Claims that were not judged before are now findings. The section on the \
document's future work is new.
";

impl Report for Lever2000 {
    const NAME: &'static str = "lever2000";
    const TITLE: &'static str = "Lever 2000, reproduced";

    fn body(&self) -> String {
        let page = self.front_page();
        let mut text = self.caveat();
        text.push_str(&page.text(&format!("{LEAD}{}", self.precision())));
        let tables = TABLES.iter().zip(&self.tables);
        text.extend(tables.map(|(table, rows)| described(table, rows)));
        text.push_str(&self.histograms());
        text.push_str(&self.costs_text());
        text.push_str(&self.future_text());
        text.push_str(&self.method());
        text.push_str(&self.judging_text());
        text.extend(self.findings.iter().map(described_finding));
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

impl Lever2000 {
    fn caveat(&self) -> String {
        if self.size.is_full() {
            return String::new();
        }
        quick_caveat(
            "a sixteenth of the scripts, so that findings that depend on their number are not judged,",
        )
    }

    pub(super) fn front_page(&self) -> FrontPage {
        FrontPage {
            name: Self::NAME,
            title: Self::TITLE,
            tables: vec!["measured"],
            entries: self.findings.iter().map(Entry::of).collect(),
        }
    }

    /// Returns the printed summary: a block for each finding, since the figures need the width of a
    /// terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = self.caveat();
        text.push_str(&printed(&self.findings));
        text
    }

    /// Returns how the figures were obtained.
    fn method(&self) -> String {
        format!(
            "## Method\n\n\
             Printed by `larder lab reproduce lever2000{}` with seed {}, on {} processors. There are as many \
             runs of each kernel as in the document: seven in Table 1, of which the middle five are averaged; \
             ten in Table 6; and five in the other tables{}. A run repeats the scripts until it has taken \
             at least {} seconds of processor time, with the same number of scripts for all kernels of a table. All \
             kernels execute their scripts at the same time, in turns of a few hundredths of a second, so that changes \
             in the machine's speed affect all of them alike. A run consists of {} rounds with new volumes. \
             The measurement was interrupted and resumed {} times. `s` is the standard deviation. All figures \
             are in [lever2000.csv](lever2000.csv) and [lever2000.json](lever2000.json).\n\n",
            if self.size.is_full() { "" } else { " --quick" },
            self.size.seed,
            self.processors,
            match self.size.runs {
                None => String::new(),
                Some(runs) => format!(" (in this quick run: {runs} each)"),
            },
            self.size.run_s,
            self.size.run_rounds,
            self.resumed,
        )
    }

    fn judging_text(&self) -> String {
        let scatter = match Scatter::of(self) {
            None => "Without the first run, only one run of each kernel remains. Therefore no deviation is \
                     known, and no throughput is judged."
                .to_owned(),
            Some(scatter) => format!(
                "Here, without the first run, the standard deviation is {:.1}% to {:.1}% of the mean, with a \
                 median of {:.1}% over {} rows. In Tables 2, 3 and 6 of the document, it is 0.1% to 0.5%, and \
                 kernels A to D differ by 0.4%.",
                scatter.least, scatter.most, scatter.median, scatter.rows,
            ),
        };
        format!(
            "## How findings are judged\n\nA finding holds if the whole interval of each of its effects is within the \
             bound of its criterion, and does not hold if an interval is outside; otherwise the effect is within \
             the noise. Counts of links decide where possible. They have no interval, because they are the same in \
             each run except for effects of concurrency. Throughputs are compared in pairs: the shares of both kernels \
             in one round. The ratio is the geometric mean of the ratios of all pairs, with a 95% interval from a \
             bootstrap over pairs, which requires five pairs. All rounds are compared, because the caches are filled \
             before each one. The same ratios by processor time are listed, but do not decide. The interval of a \
             published throughput follows from the printed deviation. The interval of a ratio of deviations assumes normally distributed runs.\n\n\
             \"If nothing had changed\" is the verdict for these results if all kernels of a table were equal to its \
             first one. Only a non-inferiority claim may hold then. Tests also judge each finding on results with \
             inverted effects, with halved effects, and with noise alone.\n\n{scatter}\n\n\
             The rules were fixed before any result of this reproduction was known, except where a change is stated \
             below the rule. There are five more exceptions. At first, the rule for the size of the inode table used \
             the links of all lookups, the rule for 64 bits used the links of kernel D, and the rule for inlining \
             used a single function and ignored noise. The rules for the function of 2.2.16 and for the throughput of \
             Table 3 were added when figures of an earlier version were known.\n\n"
        )
    }

    /// Returns how precise the relative throughputs are; nothing if there are too few rounds.
    fn precision(&self) -> String {
        let half_widths = [Runs::round_throughputs, Runs::round_processor_throughputs]
            .map(|throughputs: fn(&Runs) -> Vec<f64>| median_half_width_pct(self, throughputs));
        match half_widths {
            [Some(wall), Some(processor)] => format!(
                " The 95% interval of the throughput of a kernel, relative to the first kernel of its table, has a \
                 median half-width of {wall:.2}%, and of {processor:.2}% by processor time."
            ),
            _ => String::new(),
        }
    }

    fn costs_text(&self) -> String {
        let mut table = Table::new(
            "function | latency, inlined: | throughput, inlined: | latency, called: | throughput, called: \
             | bytes of code:",
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
            "## Costs of functions and misses\n\nCycles that the computation of a bucket takes on this \
             machine. The latency applies if the next key depends on the bucket; the throughput is the time \
             from one bucket to the next if the keys are independent. `s` is the standard deviation of nine \
             rounds.\n\n{}\n\
             A lookup of a name takes {:.0} ns on a miss in the dentry cache, and {:.0} ns on a hit. A read \
             of a page takes {:.0} ns on a miss in the page cache, and {:.0} ns on a hit. The device is in \
             memory, so no disk adds its time.\n\n",
            table.to_markdown(),
            misses.dentry_miss_ns,
            misses.dentry_hit_ns,
            misses.page_miss_ns,
            misses.page_hit_ns,
        )
    }
}
