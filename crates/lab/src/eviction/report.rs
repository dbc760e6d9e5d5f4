//! Formats a study as a report in Markdown with plots, as CSV, and as tables for the terminal.

use super::policy::PolicyName;
use super::size::CacheSize;
use super::study::{Cell, Study};
use super::summary::PolicySummary;
use crate::output::{
    BarPlot, LinePlot, Report, ReportFile, Scale, Series, Table, change, csv_text, json_text,
};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;

/// Explanation of the summary.
const ABOUT_SUMMARY: &str = "\
Misses relative to those of the clock of Larder's frames (policy larder). For each trace, \
they are averaged over the sizes of the cache; the mean is the average over the traces. Belady's optimum avoids some of \
the misses of larder. The share of the optimum is the part of these that the policy avoids as well.";

/// Explanation of the tables of the traces.
const ABOUT_TRACES: &str = "\
Miss ratios in percent of the accesses. The sizes of the caches are percentages of the number of objects, or \
numbers of objects. Sizes with room for fewer than 32 objects are omitted.";

/// A study with its summaries, for JSON.
#[derive(Serialize)]
struct Complete<'a> {
    #[serde(flatten)]
    study: &'a Study,
    summaries: Vec<PolicySummary>,
}

impl Study {
    /// Returns a table of the traces.
    #[must_use]
    pub fn trace_table(&self) -> Table {
        let mut table = Table::new("trace | format | accesses: | objects: | removals: | SHA-256");
        for trace in &self.traces {
            table.push([
                trace.origin.name.clone(),
                trace.origin.format.clone(),
                trace.accesses.to_string(),
                trace.objects.to_string(),
                trace.removals.to_string(),
                trace.origin.sha256.clone(),
            ]);
        }
        table
    }

    /// Returns a table with one row for each policy except the clock of the frames.
    #[must_use]
    pub fn summary_table(&self) -> Table {
        let mut table = Table::new(
            "policy | mean: | of the optimum: | best: | best at | worst: | worst at | verdict",
        );
        for summary in self.summaries() {
            let percent = |share: f64| change(Some(share * 100.0));
            let place = |trace: &str, size: CacheSize| format!("{trace}, {size}");
            let (best, worst) = (&summary.best, &summary.worst);
            table.push([
                summary.policy.to_string(),
                percent(summary.mean_change),
                summary
                    .share_of_optimum
                    .map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
                percent(best.change),
                place(&best.trace, best.size),
                percent(worst.change),
                place(&worst.trace, worst.size),
                summary.verdict.as_str().to_owned(),
            ]);
        }
        table
    }

    /// Returns a table of the miss ratios for a trace, with one row for each size.
    #[must_use]
    pub fn miss_table(&self, trace: usize) -> Table {
        let mut table = Table::new("size | objects:").with_numbers(&self.policies);
        for &size in &self.sizes {
            let cells: Vec<&Cell> = self.cells_of(trace, size).collect();
            let Some(first) = cells.first() else {
                continue;
            };
            let head = [size.to_string(), first.objects.to_string()];
            let ratios = cells
                .iter()
                .map(|cell| format!("{:.2}", cell.miss_ratio * 100.0));
            table.push(head.into_iter().chain(ratios));
        }
        table
    }

    /// Returns the results for a trace and a size, in the order of the policies.
    fn cells_of(&self, trace: usize, size: CacheSize) -> impl Iterator<Item = &Cell> {
        let cells = self.cells.iter();
        cells.filter(move |cell| cell.trace == trace && cell.size == size)
    }

    /// Returns the traces of which events are missing, each with its losses.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let origins = self.traces.iter().map(|trace| &trace.origin);
        let incomplete = origins.filter(|origin| !origin.losses.are_none());
        incomplete.map(|origin| format!("{}: {}", origin.name, origin.losses))
    }

    /// Returns the title of the tables and plots of a trace.
    #[must_use]
    pub fn trace_title(&self, trace: usize) -> String {
        let trace = &self.traces[trace];
        format!(
            "{}: {} accesses to {} objects",
            trace.origin.name, trace.accesses, trace.objects
        )
    }

    fn plot_name(trace: usize) -> String {
        format!("eviction-{trace}.svg")
    }

    /// Returns a plot of the misses for a trace. The misses are shown relative to those of the clock of the frames,
    /// because the differences between policies are small. If this clock was not part of the study, miss ratios are
    /// shown.
    fn plot(&self, trace: usize) -> LinePlot {
        let is_relative = self.policies.contains(&PolicyName::Larder);
        let objects = f64::from(self.traces[trace].objects);
        let point = |cell: &Cell| {
            let clock = self.beside(cell, PolicyName::Larder);
            let misses = clock.map_or(cell.miss_ratio, |clock| {
                f64::from(cell.misses) / f64::from(clock.misses.max(1))
            });
            (f64::from(cell.objects) / objects * 100.0, misses * 100.0)
        };
        let series = |policy: PolicyName| {
            let cells = self.cells.iter();
            let own = cells.filter(|cell| cell.trace == trace && cell.policy == policy);
            let mut points: Vec<_> = own.map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series::new(policy.as_str(), points)
        };
        let y = if is_relative {
            "misses in % of those of larder"
        } else {
            "misses in % of the accesses"
        };
        LinePlot {
            title: self.trace_title(trace),
            x: "size of the cache in % of the objects".to_owned(),
            y: y.to_owned(),
            scale: Scale::FittedY,
            series: self.policies.iter().copied().map(series).collect(),
        }
    }

    /// Returns a plot of the misses relative to those of the clock, for each trace.
    fn summary_plot(&self) -> BarPlot {
        let name = |trace: &super::study::StudiedTrace| trace.origin.name.clone();
        let series = |summary: PolicySummary| {
            let changes = summary.trace_changes.into_iter();
            let relative =
                changes.map(|change| change.map_or(f64::NAN, |change| 100.0 * (1.0 + change)));
            Series::new(summary.policy.as_str(), relative)
        };
        BarPlot {
            title: "Misses relative to the clock of Larder's frames (100%)".to_owned(),
            value: "average over the cache sizes, in %; less is better".to_owned(),
            groups: self.traces.iter().map(name).collect(),
            series: self.summaries().into_iter().map(series).collect(),
        }
    }
}

impl Report for Study {
    const NAME: &'static str = "eviction";
    const TITLE: &'static str = "Replacement policies";

    fn body(&self) -> String {
        let mut text = format!("{}\n", self.trace_table().to_markdown());
        for note in self.notes() {
            let _ = write!(text, "{note}.\n\n");
        }
        if !self.summaries().is_empty() {
            let table = self.summary_table().to_markdown();
            let plot = "![misses relative to larder](eviction.svg)";
            let _ = write!(text, "## Summary\n\n{ABOUT_SUMMARY}\n\n{table}\n{plot}\n\n");
        }
        let _ = write!(text, "## Traces\n\n{ABOUT_TRACES}\n");
        for trace in 0..self.traces.len() {
            let _ = write!(
                text,
                "\n### {}\n\n{}\n![misses for each size]({})\n",
                self.trace_title(trace),
                self.miss_table(trace).to_markdown(),
                Self::plot_name(trace)
            );
        }
        text
    }

    fn to_csv(&self) -> io::Result<String> {
        let line = |cell: &Cell| {
            let trace = &self.traces[cell.trace];
            [
                trace.origin.name.clone(),
                trace.origin.sha256.clone(),
                trace.accesses.to_string(),
                trace.objects.to_string(),
                cell.size.to_string(),
                cell.objects.to_string(),
                cell.policy.to_string(),
                cell.misses.to_string(),
                cell.miss_ratio.to_string(),
            ]
        };
        csv_text(
            "trace,sha256,accesses,objects,size,size_objects,policy,misses,miss_ratio",
            self.cells.iter().map(line),
        )
    }

    fn plots(&self) -> Vec<ReportFile> {
        let traces =
            (0..self.traces.len()).map(|trace| (Self::plot_name(trace), self.plot(trace).to_svg()));
        let summary = ("eviction.svg".to_owned(), self.summary_plot().to_svg());
        std::iter::once(summary)
            .filter(|_| !self.summaries().is_empty())
            .chain(traces)
            .map(|(name, svg)| ReportFile::new(name, svg))
            .collect()
    }

    fn to_json(&self) -> io::Result<String> {
        json_text(&Complete {
            study: self,
            summaries: self.summaries(),
        })
    }
}
