//! The report: Markdown, the same as HTML, plots, CSV and JSON.

use super::findings::steady;
use super::kernels::{PublishedTable, TABLES};
use super::measure::{CacheFigures, Load, Row};
use super::{Lever2000, plots};
use crate::hash::cache_name;
use crate::output::{Align, Report, ReportFile, Table, csv_text, json_text};
use crate::published::lever2000::{self as published, Histogram, KernelRow, Throughput};
use larder::CacheKind;
use std::fmt::Write as _;
use std::io;

const TITLE: &str = "Lever 2000, reproduced";

/// What a quick one is not.
const NO_REPRODUCTION: &str = "These are a sixteenth of the scripts: this is no reproduction.\n\
                               What is measured is not judged.";

/// What is behind the figures, and what they leave out.
const LIMITS: &str = include_str!("limits.md");

/// A row of ours as a histogram of the document: its number, the table, the kernel, and whether it is
/// taken after the run.
const HISTOGRAMS: [(u32, usize, &str, bool); 5] = [
    (1, 3, "reference, 16384", false),
    (2, 3, "reference, 16384", true),
    (3, 3, "mult shift 11, 16384", false),
    (4, 3, "mult shift 11, 16384", true),
    (5, 5, "reference", false),
];

impl Lever2000 {
    /// The report as files: `lever2000.md`, `.html`, `.csv`, `.json`, and the plots.
    ///
    /// # Errors
    /// Where the figures cannot be written as CSV or JSON, which is our own mistake.
    pub fn report(&self) -> io::Result<Vec<ReportFile>> {
        let report = Report {
            name: "lever2000",
            title: TITLE,
            markdown: self.markdown(),
            csv: self.csv()?,
            json: json_text(self)?,
            plots: plots::all(self),
        };
        Ok(report.into_files())
    }

    /// The verdicts alone, for a terminal: a block for each finding.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        if !self.size.is_full() {
            text.extend([NO_REPRODUCTION, "\n\n"]);
        }
        for finding in &self.findings {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{}\n  published  {}\n  ours       {}\n  verdict    {}",
                finding.claim,
                finding.published,
                finding.figures,
                finding.verdict.as_str(),
            );
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!("# {TITLE}\n\n");
        self.write_head(&mut text);
        self.write_findings(&mut text);
        for (table, rows) in TABLES.iter().zip(&self.tables) {
            write_table(&mut text, table, rows);
        }
        self.write_histograms(&mut text);
        self.write_costs(&mut text);
        text.push_str(LIMITS);
        text
    }

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
        if !self.size.is_full() {
            text.extend([NO_REPRODUCTION, "\n\n"]);
        }
    }

    fn write_findings(&self, text: &mut String) {
        let titles = ["finding", "published", "ours", "verdict"];
        let mut table = Table::new(titles.map(|title| (title, Align::Left)));
        for finding in &self.findings {
            table.push(vec![
                finding.claim.to_owned(),
                finding.published.to_owned(),
                finding.figures.clone(),
                finding.verdict.as_str().to_owned(),
            ]);
        }
        let _ = writeln!(text, "## In short\n\n{}", table.to_markdown());
        text.push_str(
            "## How findings are judged\n\nThe rules were fixed before the first figure of ours was seen. \
             Counts of links decide where they can: they are the same in each run, but for what threads do \
             to one another. Times of the kernels lie close together, here as in the document, so a \
             difference of throughputs counts only beyond twice both standard deviations together.\n\n",
        );
        for finding in &self.findings {
            let _ = writeln!(
                text,
                "- **{}** holds where {}.",
                finding.name, finding.criterion
            );
        }
        text.push('\n');
    }

    fn write_histograms(&self, text: &mut String) {
        text.push_str("## Histograms 1 to 5\n\n");
        for (number, table, kernel, is_after) in HISTOGRAMS {
            let histograms = published::histograms();
            let published = histograms
                .iter()
                .find(|histogram| histogram.number == number);
            let load = self.row(table, kernel).and_then(|row| row.loads.last());
            let (Some(published), Some(load)) = (published, load) else {
                continue;
            };
            write_histogram(text, published, load.cache(published.cache), is_after);
        }
    }

    fn write_costs(&self, text: &mut String) {
        text.push_str(
            "## What functions and misses cost\n\nCycles of a bucket on this machine: the latency, \
             where the next key waits for it, and the time from one to the next where none waits.\n\n",
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
        for cost in &self.costs.costs {
            let cycles = [cost.inlined, cost.stand_alone];
            let cycles = cycles
                .into_iter()
                .flat_map(|cycles| [cycles.latency, cycles.throughput]);
            let mut row = vec![cost.function.to_string()];
            row.extend(cycles.map(|cycles| format!("{cycles:.1}")));
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

    fn csv(&self) -> io::Result<String> {
        let head = [
            "table",
            "kernel",
            "tables",
            "scripts",
            "run",
            "elapsed_s",
            "scripts_hour",
            "cache",
            "lookups",
            "hits",
            "links",
            "objects",
            "longest_chain",
            "long_share",
            "device_reads",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for (number, rows) in (1..).zip(&self.tables) {
            for row in rows {
                row.loads
                    .iter()
                    .for_each(|load| push_lines(&mut lines, number, row, load));
            }
        }
        csv_text(lines)
    }
}

/// A line for each run, and one for each cache of all runs.
fn push_lines(lines: &mut Vec<Vec<String>>, table: u32, row: &Row, load: &Load) {
    let begin = || {
        let names = [
            table.to_string(),
            row.kernel.to_owned(),
            row.tables.to_owned(),
        ];
        names.into_iter().chain([load.runs.users.to_string()])
    };
    let none = |count| std::iter::repeat_n(String::new(), count);
    let runs = load.runs.elapsed_s.iter().zip(load.runs.throughputs());
    for (run, (elapsed_s, throughput)) in (1..).zip(runs) {
        let run: u32 = run;
        let figures = [
            run.to_string(),
            format!("{elapsed_s:.6}"),
            format!("{throughput:.1}"),
        ];
        lines.push(begin().chain(figures).chain(none(8)).collect());
    }
    for figures in &load.caches {
        let cells = [
            cache_name(figures.cache).to_owned(),
            figures.lookups.to_string(),
            figures.hits.to_string(),
            figures.links.to_string(),
            figures.full.histogram.objects().to_string(),
            figures.longest_chain.to_string(),
            format!("{:.4}", figures.long_share),
            load.device_reads.to_string(),
        ];
        lines.push(begin().chain(none(3)).chain(cells).collect());
    }
}

fn write_table(text: &mut String, table: &PublishedTable, rows: &[Row]) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "## Table {}: {}\n\nThe caches have {} MiB.\n",
        table.number,
        table.title,
        table.memory.bytes() >> 20
    );
    for (at, users) in table.loads.iter().enumerate() {
        let published = published_throughputs(table.number, at);
        let _ = writeln!(text, "{users} scripts:\n");
        let titles = [
            "published",
            "without first",
            "ours",
            "without first",
            "best run",
            "links a lookup",
            "hits",
            "objects",
            "longest chain",
            "in chains > 15",
        ];
        let titles = titles.map(|title| (title, Align::Right));
        let mut shown = Table::new([("kernel", Align::Left)].into_iter().chain(titles));
        for (row_at, row) in rows.iter().enumerate() {
            let Some(load) = row.loads.get(at) else {
                continue;
            };
            let (all, rest) = published.get(row_at).copied().unwrap_or_default();
            let published = |figures: Option<Throughput>| {
                figures.map_or("-".to_owned(), |Throughput { mean, s }| {
                    format!("{mean:.1} s={s:.2}")
                })
            };
            let mut cells = vec![row.kernel.to_owned(), published(all), published(rest)];
            cells.extend([
                load.runs.all().to_string(),
                steady(load).to_string(),
                format!("{:.1}", load.runs.best()),
            ]);
            cells.extend(cache_cells(load, table.cache));
            shown.push(cells);
        }
        let _ = writeln!(text, "{}", shown.to_markdown());
    }
    let _ = writeln!(
        text,
        "![Table {}](lever2000-table{}.svg)\n",
        table.number, table.number
    );
}

/// Of the cache that a table is about, or of all, one behind the other.
fn cache_cells(load: &Load, cache: Option<CacheKind>) -> [String; 5] {
    let caches: Vec<&CacheFigures> = match cache {
        Some(cache) => vec![load.cache(cache)],
        None => load.caches.iter().collect(),
    };
    let joined = |cell: &dyn Fn(&CacheFigures) -> String| {
        let cells: Vec<_> = caches.iter().map(|figures| cell(figures)).collect();
        cells.join(" / ")
    };
    [
        joined(&|figures| format!("{:.3}", figures.links_a_lookup())),
        joined(&|figures| format!("{}%", figures.hits * 100 / figures.lookups.max(1))),
        joined(&|figures| of_chains(figures, figures.full.histogram.objects().to_string())),
        joined(&|figures| of_chains(figures, figures.longest_chain.to_string())),
        joined(&|figures| of_chains(figures, format!("{:.0}%", figures.long_share * 100.0))),
    ]
}

/// A figure of a table's chains; trees have none.
fn of_chains(figures: &CacheFigures, figure: String) -> String {
    match figures.full.histogram.buckets() {
        0 => "-".to_owned(),
        _ => figure,
    }
}

/// All runs of a published row, and all but the first.
type Pair = (Option<Throughput>, Option<Throughput>);

/// The throughputs of a published table's rows under load number `at`.
fn published_throughputs(table: u32, at: usize) -> Vec<Pair> {
    let of = |rows: Vec<KernelRow>| {
        let rows = rows.into_iter();
        rows.map(|row| (Some(row.throughput()), row.without_first()))
            .collect()
    };
    match table {
        1 => {
            let rows = published::table_1().into_iter();
            rows.map(|row| (row.throughputs().get(at).copied(), None))
                .collect()
        }
        2 => of(published::table_2()),
        3 => of(published::table_3()),
        4 => of(published::table_4()),
        5 => of(published::table_5()),
        _ => of(published::table_6()),
    }
}

fn write_histogram(
    text: &mut String,
    published: &Histogram,
    figures: &CacheFigures,
    is_after: bool,
) {
    let ours = if is_after {
        &figures.after
    } else {
        &figures.full
    };
    let histogram = &ours.histogram;
    // Writing to a string does not fail.
    let _ = writeln!(text, "### {}\n", published.label);
    let mut table = Table::new([
        ("", Align::Left),
        ("published", Align::Right),
        ("ours", Align::Right),
    ]);
    let rows = [
        ("lookups", published.lookups, figures.lookups),
        (
            "hit rate, %",
            published.hit_rate_pct,
            figures.hits * 100 / figures.lookups.max(1),
        ),
        ("buckets", published.buckets, histogram.buckets()),
        ("objects", published.objects, histogram.objects()),
        (
            "largest bucket",
            published.largest_bucket,
            histogram.longest_chain(),
        ),
        (
            "links of 1000 lookups",
            published.iterations_per_1000_lookups,
            figures.links * 1000 / figures.lookups.max(1),
        ),
    ];
    for (name, published, ours) in rows {
        table.push(vec![
            name.to_owned(),
            published.to_string(),
            ours.to_string(),
        ]);
    }
    let _ = writeln!(text, "{}", table.to_markdown());
    let titles = [
        "size",
        "buckets",
        "objects",
        "sum-pct",
        "our buckets",
        "objects",
        "sum-pct",
    ];
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    let objects = histogram.objects().max(1);
    let mut so_far = 0;
    for (row, (length, buckets, own)) in published.chains.iter().zip(histogram.rows()) {
        so_far += own;
        let mut cells = vec![length.map_or(">15".to_owned(), |length| length.to_string())];
        let numbers = [
            row.buckets,
            row.objects,
            row.cumulative_pct,
            buckets,
            own,
            so_far * 100 / objects,
        ];
        cells.extend(numbers.map(|number| number.to_string()));
        table.push(cells);
    }
    let _ = writeln!(text, "{}", table.to_markdown());
}
