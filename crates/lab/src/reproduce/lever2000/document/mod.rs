//! The report in Markdown and HTML, with plots, CSV and JSON.

mod addresses;
mod changes;
mod csv;
mod future;
mod histograms;
mod tables;

use super::findings::{Scatter, median_half_width_pct};
use super::kernels::TABLES;
use super::measure::Load;
use super::plots;
use super::results::Lever2000;
use super::runs::Runs;
use super::turn::TURNS;
use crate::output::{Report, ReportFile, Table, text_or};
use crate::published::lever2000::throughputs;
use crate::reproduce::finding::{described as described_finding, printed};
use crate::reproduce::front_page::{Entry, FrontPage, quick_caveat};
use crate::statistics::Interval;
use std::io;
use tables::described;

/// The start of the first paragraph.
const LEAD: &str = "\
This page reproduces the tables in Chuck Lever's \"Linux Kernel Hash Table Behavior: Analysis and Improvements\" \
(2000). They show the throughput of concurrent users, each with a script of a C compiler, ed, nroff and spell, in \
scripts per hour. Here the recorded file operations of such scripts run in one process, on volumes with the tables of \
the published kernels. Nothing is computed between these operations.";

/// The first paragraph after the comparison of throughputs with the published ones.
const RATIOS: &str = "\
Only their ratios can: the throughput of a kernel relative to another kernel. A table has a larger share in the time of \
a script here, so ratios are also larger. The loads of Tables 3 to 5 are built for these tables: in addition to the \
scripts, users list large directories (Tables 3 and 4) or examine many files (Table 5), and memory is short (Tables 4 \
and 5). [The limits](#limits-and-differences) state why. The functions of the page cache hash addresses, which are \
assumed. A verdict that would differ with [other addresses](#addresses-of-inodes) depends on an assumption; this is \
computed from links, and not for findings about variance. One finding holds almost by construction, although it would \
not hold if nothing had changed: that, with a disk, a dentry miss costs less than a buffer miss. The buffer misses are \
the reads of these dentry misses.";

/// The aim for the median half-width of the intervals of relative throughputs, in percent.
const AIM_PCT: f64 = 0.7;

/// The meaning of a former verdict on the first page.
const FORMER: &str = "\
the verdict in the last version of this report, of 29 November 2026; a dash means that the finding is new";

const LIMITS: &str = include_str!("limits.md");

impl Report for Lever2000 {
    const NAME: &'static str = "lever2000";
    const TITLE: &'static str = "Lever 2000, reproduced";

    fn body(&self) -> String {
        let page = self.front_page();
        let mut text = self.caveat();
        text.push_str(&page.text(&self.lead()));
        let tables = TABLES.iter().zip(&self.tables);
        text.extend(tables.map(|(table, rows)| described(table, rows)));
        text.push_str(&self.addresses_text());
        text.push_str(&self.histograms());
        text.push_str(&self.costs_text());
        text.push_str(&self.future_text());
        text.push_str(&self.method());
        text.push_str(&self.judging_text());
        text.extend(self.findings.iter().map(described_finding));
        text.push_str(LIMITS);
        text.push_str(&page.changes(&self.changes_text()));
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
            former: FORMER,
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

    /// Returns the first paragraph.
    fn lead(&self) -> String {
        let [least, most] = self.multiples_of_published();
        format!(
            "{LEAD} Therefore throughputs are {least:.0} to {most:.0} times as high as in the document, depending on the \
             table, and cannot be compared with it. {RATIOS}{}",
            self.precision()
        )
    }

    /// Returns the least and the greatest throughput divided by the published one.
    fn multiples_of_published(&self) -> [f64; 2] {
        let mut ends = [f64::INFINITY, 0.0];
        for (table, rows) in TABLES.iter().zip(&self.tables) {
            for load in 0..table.loads.len() {
                for (row, (published, _)) in rows.iter().zip(throughputs(table.number, load)) {
                    if let (Some(load), Some(published)) = (row.loads.get(load), published) {
                        let multiple = load.runs.all().mean / published.mean;
                        ends = [multiple.min(ends[0]), multiple.max(ends[1])];
                    }
                }
            }
        }
        ends
    }

    /// Returns how the figures were obtained.
    fn method(&self) -> String {
        format!(
            "## Method\n\n\
             Printed by `larder lab reproduce lever2000{}` with seed {}, on {} processors. There are as many \
             runs of each kernel as in the document: seven in Table 1, of which the middle five are averaged; \
             ten in Table 6; and five in the other tables{}. A run repeats the scripts, in several rounds with new \
             volumes. The numbers of repetitions and of rounds are planned before the first round, from the time of \
             earlier repetitions, so that a run of the fastest kernel of a table takes at least {} seconds of processor \
             time. If a run is shorter, all runs get another round. All kernels of a table execute equally many \
             repetitions and rounds. {} {} All kernels execute their scripts at the same time, in turns of a few \
             hundredths of a second and in random order, so that changes in the machine's speed affect all of them alike. \
             {} \
             The measurement was interrupted and resumed {} times. {} `s` is the standard deviation. All figures \
             are in [lever2000.csv](lever2000.csv) and [lever2000.json](lever2000.json).\n\n",
            if self.size.is_full() { "" } else { " --quick" },
            self.size.seed,
            self.processors,
            match self.size.runs {
                None => String::new(),
                Some(runs) => format!(" (in this quick run: {runs} each)"),
            },
            self.size.run_s,
            self.rounds_text(),
            self.shortest_run(),
            self.turns_text(),
            self.resumed,
            self.provenance,
        )
    }

    /// Describes how many rounds a run of each table has.
    fn rounds_text(&self) -> String {
        let tables = (1..).zip(&self.tables).filter_map(|(number, rows)| {
            let loads = &rows.first()?.loads;
            let rounds = loads.iter().map(|load| {
                let runs = &load.runs;
                let rounds = runs.round_elapsed_s.len() / runs.elapsed_s.len().max(1);
                rounds.to_string()
            });
            let rounds: Vec<String> = rounds.collect();
            Some(format!("{} in Table {number}", rounds.join(", ")))
        });
        let tables: Vec<String> = tables.collect();
        format!(
            "Rounds of a run, for each number of scripts: {}.",
            tables.join("; ")
        )
    }

    /// Describes the run with the least processor time, and how many runs took less time than planned.
    fn shortest_run(&self) -> String {
        let mut shortest = (f64::INFINITY, String::new());
        let planned_s = f64::from(self.size.run_s);
        let loads = self.tables.iter().flatten().flat_map(|row| &row.loads);
        let count = |durations: fn(&Runs) -> &Vec<f64>| {
            let durations = loads.clone().flat_map(move |load| durations(&load.runs));
            durations.filter(|of_run| **of_run < planned_s).count()
        };
        let runs: usize = loads.clone().map(|load| load.runs.elapsed_s.len()).sum();
        let [shorter, shorter_by_wall] = [
            count(|runs| &runs.processor_s),
            count(|runs| &runs.elapsed_s),
        ];
        for (number, rows) in (1..).zip(&self.tables) {
            for (row, load) in rows
                .iter()
                .flat_map(|row| row.loads.iter().map(move |load| (row, load)))
            {
                let time_s = load
                    .runs
                    .processor_s
                    .iter()
                    .copied()
                    .fold(f64::INFINITY, f64::min);
                if time_s < shortest.0 {
                    let users = load.runs.users;
                    let of = format!("{} in Table {number} with {users} scripts", row.kernel);
                    shortest = (time_s, of);
                }
            }
        }
        let (time_s, of) = shortest;
        format!(
            "The shortest run of a kernel took {time_s:.2} seconds of processor time ({of}); {shorter} of {runs} runs \
             took less than {planned_s} seconds of it. By wall time, {shorter_by_wall} did."
        )
    }

    /// Describes the cost of a turn itself, and its share in the turns of the kernels.
    fn turns_text(&self) -> String {
        let empty = &self.empty_turn;
        let loads = self.tables.iter().flatten().flat_map(|row| &row.loads);
        let turns = loads.filter(|load| load.runs.users == empty.users);
        let turns: Vec<f64> = turns.map(Load::turn_s).collect();
        let shortest_s = turns.iter().copied().fold(f64::INFINITY, f64::min);
        let longest_s = turns.iter().copied().fold(0.0, f64::max);
        format!(
            "In each turn, threads wake, and wait again. The measured times contain this, which is the same for all \
             kernels, so ratios are closer to 1. A turn of {} threads without work takes {:.2} ms, and \
             {:.2} ms of processor time (medians of {TURNS} turns after the measurement). With the {} \
             scripts that so many threads execute, a turn of a kernel took {:.1} to {:.1} ms on average, \
             so the share of this time is {:.1}% to {:.1}%. Without it, a ratio below 1 would be lower, \
             and one above 1 higher. Therefore \"holds\" with a bound of 0.99 or 1.01 is too favourable, \
             and \"does not hold\" is not.",
            empty.threads,
            empty.elapsed_s * 1e3,
            empty.processor_s * 1e3,
            empty.users,
            shortest_s * 1e3,
            longest_s * 1e3,
            100.0 * empty.elapsed_s / longest_s,
            100.0 * empty.elapsed_s / shortest_s,
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
             bound of its criterion, and does not hold if an interval is outside; otherwise the effect is within the \
             noise. Counts of links decide where possible. They have no interval, because they are the same in each run \
             except for effects of concurrency. Throughputs are compared in pairs: the shares of both kernels in one \
             round. The ratio is the geometric mean of the ratios of all pairs, with a 95% interval from a bootstrap \
             over pairs, which requires five pairs. If a ratio is over several numbers of scripts, the bootstrap draws \
             the pairs of each number separately, because the ratios differ, and each number has the same weight. All \
             rounds are compared, because the caches are filled before each one. The same ratios by processor time are \
             listed, but do not decide. The interval of a published throughput follows from the printed deviation.\n\n\
             The length of a longest chain is a single observation at the end of the last planned round. Its ratio has \
             no 95% interval. Instead, the printed range contains the ratios with one entry more or less \
             in each of the two chains, so that one entry cannot change \"holds\" to \"does not hold\".\n\n\
             {}\n\n\
             \"If nothing had changed\" is the verdict for these results if all kernels of a table were equal to its \
             first one. Only a non-inferiority claim may hold then. Tests also judge each finding on results with \
             inverted effects, with halved effects, and with noise alone.\n\n{scatter}\n\n\
             The rules were fixed before any result of this reproduction was known, except where a change is stated \
             below the rule. There are fifteen more exceptions. At first, the rule for the size of the inode table used \
             the links of all lookups, the rule for 64 bits used the links of kernel D, and the rule for inlining \
             used a single function and ignored noise. Seven rules were added when figures of an earlier version were \
             known: those for the function of 2.2.16, for the throughput of Table 3, for fewer buckets and for the \
             variance of shift-add in Table 3, for the variance of trees and for offset with 64 scripts in Table 1, \
             and for 14 bits in Table 4. Five rules were added when the figures of 29 November 2026 were known: those for \
             the elapsed times of mult and of D, for the cost of offset, for the fastest kernel of Table 4, and for the \
             variance with 14 bits in Table 5. Their bounds are 1: the claim is only that something is faster, or varies \
             more.\n\n\
             \"Depends on an assumption\" is the verdict on a finding about tables of pages that would have another \
             one with other [addresses of inodes](#addresses-of-inodes); that section states how this is computed.\n\n",
            deviations_text(),
        )
    }

    /// Returns how precise the relative throughputs and the lengths of chains are; nothing if there are too few rounds.
    fn precision(&self) -> String {
        let half_widths = [Runs::round_throughputs, Runs::round_processor_throughputs]
            .map(|throughputs: fn(&Runs) -> Vec<f64>| median_half_width_pct(self, throughputs));
        match half_widths {
            [Some(wall), Some(processor)] => format!(
                " The 95% interval of the throughput of a kernel, relative to the first kernel of its table, has a \
                 median half-width of {wall:.2}%, and of {processor:.2}% by processor time. The aim of {AIM_PCT}% was \
                 {} by wall time, and {} by processor time. The lengths of longest chains are single observations; their ranges are \
                 those of one entry more or less.",
                reached(wall),
                reached(processor),
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

/// Returns whether the aim was reached, in a word.
fn reached(half_width_pct: f64) -> &'static str {
    if half_width_pct <= AIM_PCT {
        "reached"
    } else {
        "missed"
    }
}

/// Returns how little the deviations of few runs can show.
fn deviations_text() -> String {
    let factors =
        [(1, 5), (1, 10), (4, 7)].map(|(loads, runs)| Interval::deviation_factor(loads, runs));
    let [five, ten, seven] = factors;
    format!(
        "The interval of a ratio of deviations assumes normally distributed runs, and is wide. With five runs of each \
         kernel, it extends from the ratio divided by {five:.1} to the ratio times {five:.1}; with ten runs, as in \
         Table 6, this factor is {ten:.1}; with seven runs under four loads, as in Table 1, it is {seven:.1}. Smaller \
         differences of deviations remain undecided, and the document's own runs cannot show them either. The \
         deviations of Table 1 are those of all seven runs; the document prints those of the middle five."
    )
}
