//! Output of a bench for people and programs: the letter's table, CSV, JSON, plots and an HTML
//! page.

use super::{Case, EntrySize, Measured, XattrBench};
use crate::output::{
    BarPlot, LinePlot, Report, ReportFile, Scale, Series, Table, csv_text, significant, text_or,
};
use larder::MbCacheVariant;
use std::io;

/// The letter's order of figures, followed by Larder's own variant.
const COLUMNS: [Option<MbCacheVariant>; 7] = [
    Some(MbCacheVariant::Old),
    Some(MbCacheVariant::Lru),
    Some(MbCacheVariant::ListLru),
    Some(MbCacheVariant::Referenced),
    Some(MbCacheVariant::Off),
    Some(MbCacheVariant::Clock),
    None,
];

const CSV_HEAD: &str = "target,processes,files,values,operations,seed,variant,mean_s,deviation_s,sets_s,\
                        shares,saved_bytes,lookups,hits,inserted,dropped_by_limit,entries,entry_bytes,bytes,\
                        commits,blocks_per_commit,seconds_per_commit";

const LONG_BYTES: u64 = 8;

/// The largest relative deviation of runs that does not cause a warning.
const MAX_DEVIATION: f64 = 0.2;

impl XattrBench {
    /// Returns one line that describes the measurement.
    #[must_use]
    pub fn title(&self) -> String {
        let runs = match self.config.runs {
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        format!(
            "xattr-bench on {}: {} sets per process, {runs}, seed {}",
            self.target, self.config.operations, self.config.seed
        )
    }

    /// Returns whether there are several cases, so that the letter's tables are more useful than a
    /// list.
    #[must_use]
    pub fn is_matrix(&self) -> bool {
        let mut cases = self.measured.iter().map(|measured| measured.case);
        let first = cases.next();
        cases.any(|case| Some(case) != first)
    }

    /// Returns a table with one row for each case and variant.
    #[must_use]
    pub fn table(&self) -> Table {
        let counts = ["shares", "lookups", "hits", "dropped_by_limit"];
        // Other file systems do not report these counts.
        let counts = if self.has_stats() { &counts[..] } else { &[] };
        let commits = ["commits", "blocks/commit", "ms/commit"];
        let commits = if self.has_commits() {
            &commits[..]
        } else {
            &[]
        };
        let mut table = Table::new("variant | P: | F: | V: | seconds: | deviation: | sets/s:")
            .with_numbers(counts)
            .with_numbers(commits);
        for measured in &self.measured {
            table.push(self.row(measured));
        }
        table
    }

    fn row(&self, measured: &Measured) -> Vec<String> {
        let case = measured.case;
        let mut row = vec![self.name_of(measured.variant)];
        row.extend([case.processes, case.files, case.values].map(|count| count.to_string()));
        row.extend([seconds(measured.mean_s()), seconds(measured.deviation_s())]);
        row.push(significant(measured.sets_s()));
        if let Some(stats) = &measured.stats {
            let blocks = &stats.blocks;
            let counts = [
                stats.shares,
                blocks.lookups,
                blocks.hits,
                blocks.dropped_by_limit,
            ];
            row.extend(counts.map(|count| count.to_string()));
        }
        if let Some(commits) = measured.mean_commits() {
            row.extend(commits.cells());
        }
        row
    }

    /// Returns whether the target reports the commits of a journal.
    fn has_commits(&self) -> bool {
        let mut measured = self.measured.iter();
        measured.any(|measured| !measured.commits.is_empty())
    }

    /// Returns whether the measurements have statistics. Measurements of Larder's caches have them;
    /// measurements of a directory do not.
    fn has_stats(&self) -> bool {
        self.measured
            .iter()
            .any(|measured| measured.stats.is_some())
    }

    /// Returns a table with one row for each case: the medians of the runs in seconds, with a
    /// column for each variant, and a star before the fastest.
    #[must_use]
    pub fn medians(&self) -> Table {
        let variants = self.variants();
        let names = variants.iter().map(|variant| self.name_of(*variant));
        let mut table = Table::new("P: | F: | V:").with_numbers(names);
        for case in self.numbers(|case| case) {
            let medians: Vec<Option<f64>> = variants
                .iter()
                .map(|variant| self.find(case, *variant).map(Measured::median_s))
                .collect();
            let fastest = medians.iter().flatten().copied().min_by(f64::total_cmp);
            let cells = medians.iter().map(|median| match median {
                None => "N/A".to_owned(),
                Some(median) if variants.len() > 1 && Some(*median) == fastest => {
                    format!("*{}", seconds(*median))
                }
                Some(median) => seconds(*median),
            });
            let numbers = [case.processes, case.files, case.values].map(|count| count.to_string());
            table.push(numbers.into_iter().chain(cells));
        }
        table
    }

    /// Returns a warning if equal runs scatter too much to be significant.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let scatters =
            |measured: &&Measured| measured.deviation_s() > measured.mean_s() * MAX_DEVIATION;
        let scattering = self.measured.iter().filter(scatters).count();
        (scattering > 0).then(|| {
            format!(
                "in {scattering} of {} measurements, the standard deviation of the runs is more than a \
                 fifth of their mean: increase --ops or --runs, or reduce the load of the machine",
                self.measured.len()
            )
        })
    }

    fn find(&self, case: Case, variant: Option<MbCacheVariant>) -> Option<&Measured> {
        let mut measured = self.measured.iter();
        measured.find(|measured| measured.case == case && measured.variant == variant)
    }

    /// Returns the letter's tables with their headings, one for each number of values. A cell
    /// contains the average of each variant.
    #[must_use]
    pub fn matrix(&self) -> Vec<(String, Table)> {
        let processes = self.numbers(|case| case.processes);
        let table = |values: u32| {
            let mut table = Table::new("F\\P:").with_numbers(&processes);
            for files in self.numbers(|case| case.files) {
                let cells = processes.iter().map(|processes| {
                    self.cell(Case {
                        processes: *processes,
                        files,
                        values,
                    })
                });
                table.push([files.to_string()].into_iter().chain(cells));
            }
            (format!("V={values}"), table)
        };
        let values = self.numbers(|case| case.values);
        values.into_iter().map(table).collect()
    }

    fn cell(&self, case: Case) -> String {
        let averages = self.variants().into_iter().map(|variant| {
            let found = self.find(case, variant);
            text_or(found.map(|measured| seconds(measured.mean_s())), "N/A")
        });
        averages.collect::<Vec<_>>().join(",")
    }

    /// Returns the variants' names, in the order of their figures in a cell of [`Self::matrix`].
    #[must_use]
    pub fn order(&self) -> String {
        let names = self
            .variants()
            .into_iter()
            .map(|variant| self.name_of(variant));
        names.collect::<Vec<_>>().join(",")
    }

    /// Returns the memory for an entry next to the letter's figures, or `None` if no cache with
    /// entries was measured.
    #[must_use]
    pub fn entry_sizes(&self) -> Option<Table> {
        let mut table = Table::new("variant | bytes per entry: | with buckets: | published:");
        let mut has_any = false;
        for variant in self.variants() {
            let Some(size) = variant.and_then(EntrySize::of) else {
                continue;
            };
            has_any = true;
            let published = size
                .published_longs
                .map(|longs| format!("{} ({longs} longs)", longs * LONG_BYTES));
            table.push([
                size.variant.to_string(),
                size.bytes.to_string(),
                significant(size.bytes_with_buckets),
                published.unwrap_or_default(),
            ]);
        }
        has_any.then_some(table)
    }

    fn csv_line(&self, measured: &Measured) -> Vec<String> {
        let case = measured.case;
        let mut line = vec![self.target.clone()];
        line.extend([case.processes, case.files, case.values].map(|count| count.to_string()));
        line.push(measured.operations.to_string());
        line.push(self.config.seed.to_string());
        line.push(text_or(measured.variant, ""));
        let figures = [measured.mean_s(), measured.deviation_s(), measured.sets_s()];
        line.extend(figures.map(|figure| figure.to_string()));
        line.extend(match &measured.stats {
            Some(stats) => [
                stats.shares,
                stats.saved_bytes,
                stats.blocks.lookups,
                stats.blocks.hits,
                stats.blocks.inserted,
                stats.blocks.dropped_by_limit,
                stats.blocks.entries,
                stats.blocks.entry_bytes,
                stats.blocks.bytes,
            ]
            .map(|count| count.to_string()),
            None => [const { String::new() }; 9],
        });
        let commits = measured.mean_commits();
        let commits = commits.map(|of| [Some(of.transactions), of.blocks, of.seconds]);
        line.extend(
            commits
                .unwrap_or_default()
                .map(|figure| text_or(figure, "")),
        );
        line.extend(measured.seconds.iter().map(f64::to_string));
        line
    }

    fn plot(&self, values: u32, files: u32) -> String {
        let title = format!("{}: V={values}, F={files}", self.target);
        let y = format!("seconds for {} sets per process", self.config.operations);
        let points = |variant| -> Vec<(f64, f64)> {
            let of = |measured: &&Measured| {
                let case = measured.case;
                case.values == values && case.files == files && measured.variant == variant
            };
            let of = self.measured.iter().filter(of);
            of.map(|measured| (f64::from(measured.case.processes), measured.mean_s()))
                .collect()
        };
        let named = |variant| Series::new(self.name_of(variant), points(variant));
        let series = self.variants().into_iter().map(named);
        if self.numbers(|case| case.processes).len() > 1 {
            let plot = LinePlot {
                title,
                x: "processes".to_owned(),
                y,
                scale: Scale::Logarithmic,
                series: series.collect(),
            };
            return plot.to_svg();
        }
        let bars = series.map(|Series { name, values }| {
            Series::new(name, values.into_iter().map(|(_, seconds)| seconds))
        });
        let plot = BarPlot {
            title,
            value: y,
            groups: vec![String::new()],
            series: bars.collect(),
        };
        plot.to_svg()
    }

    /// Returns the distinct results of `of` for the cases, in order.
    fn numbers<T: PartialEq>(&self, of: impl Fn(Case) -> T) -> Vec<T> {
        let mut numbers = Vec::new();
        for measured in &self.measured {
            let number = of(measured.case);
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        numbers
    }

    /// Returns the variants that were measured, in the letter's order.
    fn variants(&self) -> Vec<Option<MbCacheVariant>> {
        let is_measured = |variant: &Option<_>| {
            let mut measured = self.measured.iter();
            measured.any(|measured| measured.variant == *variant)
        };
        COLUMNS.into_iter().filter(is_measured).collect()
    }

    /// Returns the name of the variant, or of the target if the variant is unknown.
    fn name_of(&self, variant: Option<MbCacheVariant>) -> String {
        variant.map_or_else(|| self.target.clone(), |variant| variant.to_string())
    }
}

impl Report for XattrBench {
    const NAME: &'static str = "xattr-bench";
    const TITLE: &'static str = "xattr-bench";

    fn body(&self) -> String {
        let mut parts = vec![format!("{}\n", self.title())];
        if let Some(warning) = self.warning() {
            parts.push(format!("\n**Warning**: {warning}.\n"));
        }
        if self.is_matrix() {
            let order = self.order();
            parts.push(format!(
                "\nMean times of the runs in seconds, for {order}\n"
            ));
        }
        let values = self.numbers(|case| case.values);
        for (values, (heading, table)) in values.into_iter().zip(self.matrix()) {
            parts.push(format!("\n## {heading}\n\n{}\n", table.to_markdown()));
            for files in self.numbers(|case| case.files) {
                parts.push(format!("![F={files}]({})\n", plot_name(values, files)));
            }
        }
        if let Some(sizes) = self.entry_sizes() {
            parts.push(format!("\n## Entries\n\n{}", sizes.to_markdown()));
        }
        let all = self.table().to_markdown();
        parts.push(format!("\n## All figures\n\n{all}"));
        parts.concat()
    }

    /// Returns one line for each case and variant.
    fn to_csv(&self) -> io::Result<String> {
        let runs = (1..=self.config.runs).map(|run| format!(",run_{run}_s"));
        let lines = self.measured.iter().map(|measured| self.csv_line(measured));
        csv_text(&format!("{CSV_HEAD}{}", runs.collect::<String>()), lines)
    }

    /// Returns one plot for each number of values and of files: time over the number of processes,
    /// with one line for each variant; bars if there is only one number of processes.
    fn plots(&self) -> Vec<ReportFile> {
        let mut plots = Vec::new();
        for values in self.numbers(|case| case.values) {
            for files in self.numbers(|case| case.files) {
                let content = self.plot(values, files);
                plots.push(ReportFile::new(plot_name(values, files), content));
            }
        }
        plots
    }
}

fn plot_name(values: u32, files: u32) -> String {
    format!("v{values}-f{files}.svg")
}

/// Formats seconds with three decimals as in the letter, or with three significant digits if these
/// need more decimals.
fn seconds(seconds: f64) -> String {
    let mut decimals = 3;
    while decimals < 9 && seconds > 0.0 && seconds * 10_f64.powi(decimals) < 100.0 {
        decimals += 1;
    }
    let decimals = usize::try_from(decimals).unwrap_or(3);
    format!("{seconds:.decimals$}")
}
