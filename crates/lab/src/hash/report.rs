//! Output of a comparison of hash functions: tables, histograms in the form of Lever 2000, CSV, JSON, plots
//! and an HTML page.

use super::choice::own_function;
use super::combination::Combination;
use super::cost::Costs;
use super::counters::uncounted;
use super::plots;
use super::row::{Chains, Row};
use super::source::{Source, Wanted};
use super::survey::Survey;
use super::sweep::{Outcome, Surveys};
use crate::output::{Report, ReportFile, Table, csv_text, significant, text_or};
use crate::run_report::{as_f64, quotient};
use crate::trace::Losses;
use larder_cache::hash::Function;
use larder_cache::table::histogram::Report as PublishedForm;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

/// Size of the tables for which functions are timed on their own, in bits.
const COST_BITS: u32 = 14;

/// Results of a comparison of hash functions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HashReport {
    /// Origin of the keys.
    pub source: String,
    /// Events that are missing from the source.
    pub losses: Losses,
    /// Whether insertions and removals were derived from the lookups, instead of being taken from the trace.
    pub is_completed: bool,
    /// Results of each cache.
    pub caches: Vec<CacheReport>,
    /// Costs of computing the functions, without a table.
    pub costs: Costs,
    /// A sentence that explains why processor-cache misses are not counted.
    pub uncounted: &'static str,
}

/// Results of the comparison for one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheReport {
    pub cache: CacheKind,
    /// Properties of the trace that do not depend on a table.
    pub survey: Survey,
    /// Results of the tables, sorted by size, then by the links of a lookup.
    pub rows: Vec<Row>,
}

/// The requirement for Larder's own functions: the links of a lookup must exceed chance by at most this
/// share.
const OWN_OVER_CHANCE: f64 = 0.02;

/// The minimum number of objects for a reliable verdict. With fewer objects, the links of a random function
/// can exceed chance by [`OWN_OVER_CHANCE`].
const MIN_OBJECTS: u64 = 5000;

/// The remark if the requirement is missed with fewer than [`MIN_OBJECTS`] objects.
const FEW_OBJECTS: &str = " (with so few objects, random functions also exceed this limit)";

impl HashReport {
    /// Creates the report of a trace from `outcomes`.
    #[must_use]
    pub fn new(
        source: &dyn Source,
        wanted: Wanted,
        surveys: &Surveys,
        outcomes: &[Outcome],
    ) -> Self {
        let of_cache = |(cache, survey): (&CacheKind, &Survey)| {
            let outcomes = outcomes.iter();
            let of_cache = outcomes.filter(|outcome| outcome.combination.cache == *cache);
            let mut rows: Vec<Row> = of_cache.map(|outcome| Row::new(outcome, survey)).collect();
            rows.sort_by(|a, b| {
                let links = a.links.lookup.total_cmp(&b.links.lookup);
                a.bits.cmp(&b.bits).then(links)
            });
            mark_fastest(&mut rows);
            CacheReport {
                cache: *cache,
                survey: *survey,
                rows,
            }
        };
        Self {
            source: source.title(),
            losses: source.losses(),
            is_completed: wanted.completes(source),
            caches: surveys.iter().map(of_cache).collect(),
            costs: Costs::measure(&functions(outcomes), COST_BITS),
            uncounted: uncounted(),
        }
    }

    fn costs_table(&self) -> Table {
        let mut table = Table::new(
            "function | inlined, latency: | inlined, throughput: | called, latency: | \
             called, throughput: | bytes:",
        );
        for cost in &self.costs.costs {
            let (inlined, called) = (cost.inlined, cost.stand_alone);
            let cycles = [
                inlined.latency,
                inlined.throughput,
                called.latency,
                called.throughput,
            ];
            let mut row = vec![cost.function.to_string()];
            row.extend(cycles.map(|cycles| format!("{cycles:.1}")));
            row.push(text_or(cost.instruction_bytes, "-"));
            table.push(row);
        }
        table
    }
}

impl Report for HashReport {
    const NAME: &'static str = "hash";
    const TITLE: &'static str = "Comparison of hash functions";

    fn body(&self) -> String {
        let mut text = format!("{}.\n\n", self.source);
        if !self.losses.are_none() {
            let _ = writeln!(text, "**Incomplete**: {}.\n", self.losses);
        }
        text.push_str(ABOUT_COLUMNS);
        if self.is_completed {
            text.push_str(COMPLETED);
        }
        for of in &self.caches {
            let name = of.cache.as_str();
            let _ = writeln!(text, "\n## {name} cache\n\n{}\n", of.title());
            let _ = writeln!(text, "{}", of.table_of(&COLUMNS).to_markdown());
            if let Some(verdict) = of.verdict() {
                let _ = writeln!(text, "{verdict}\n");
            }
            for plot in plots::of_cache(of) {
                let _ = writeln!(text, "![{name}]({})\n", plot.name);
            }
        }
        let _ = writeln!(text, "{ABOUT_COSTS}{}", self.costs_table().to_markdown());
        let _ = writeln!(text, "{}\n", self.uncounted);
        for of in &self.caches {
            let _ = writeln!(text, "## {} cache, histograms\n", of.cache.as_str());
            for (heading, histogram) in of.histograms() {
                let _ = writeln!(text, "### {heading}\n\n```text\n{histogram}```\n");
            }
        }
        text
    }

    /// Returns one line for each combination.
    fn to_csv(&self) -> io::Result<String> {
        let rows = self.caches.iter().flat_map(|of| {
            let rows = of.rows.iter();
            rows.map(|row| csv_line(of.cache.as_str(), row))
        });
        csv_text(CSV_HEAD, rows)
    }

    fn plots(&self) -> Vec<ReportFile> {
        self.caches.iter().flat_map(plots::of_cache).collect()
    }
}

/// A column's title, and the function that formats its cells.
type Column = (&'static str, fn(&Row) -> String);

/// The columns of measurements and statistics. Output to a terminal contains only some of them.
const COLUMNS: [Column; 12] = [
    ("hit", |row| format!("{:.3}", row.links.hit)),
    ("miss", |row| format!("{:.3}", row.links.miss)),
    ("excess", |row| {
        of_chains(row, |chains| format!("{:+.1}%", chains.over_chance * 100.0))
    }),
    ("longest", |row| {
        of_chains(row, |chains| chains.longest_chain.to_string())
    }),
    ("empty", |row| {
        of_chains(row, |chains| {
            percent(as_f64(chains.empty_buckets) / as_f64(1 << row.bits))
        })
    }),
    ("in mean chains", |row| {
        of_chains(row, |chains| percent(chains.share_in_mean_chains))
    }),
    ("chi-square", |row| {
        of_chains(row, |chains| significant(chains.chi_square))
    }),
    ("degrees", |row| {
        of_chains(row, |chains| chains.degrees_of_freedom.to_string())
    }),
    ("p", |row| {
        of_chains(row, |chains| format!("{:.3}", chains.p_value))
    }),
    ("ns", nanos),
    ("million lookups/s", |row| {
        significant(row.lookups_s.map_or(f64::NAN, |rate| rate / 1e6))
    }),
    ("KiB", |row| significant(as_f64(row.table_bytes) / 1024.0)),
];

const ABOUT_COLUMNS: &str = "\
`hit` and `miss` are the mean numbers of links that a lookup walks if it finds its object and if it does \
not. For red-black trees, they count the pages that are compared with the key. `excess` compares all lookups \
with chance: the mean over all possible functions for this trace. `longest`, `empty`, `in mean chains` (the \
share of the objects in chains no longer than the mean, rounded up) and the chi-square test against the \
Poisson distribution describe the table when it holds the most objects. `ns` is the time of a lookup: the \
median of seven runs, and the median absolute deviation of the runs. Each run repeats the last lookups before \
the table held the most objects, with nothing else running. * = no other row is significantly faster, that \
is, by more than 3% plus 4.5 times the combined deviation of both rows.\n";

const ABOUT_COSTS: &str = "\
## Functions\n\nProcessor cycles to compute a bucket, with the function inlined into a loop or called from the \
loop. For the latency, the next key depends on the result; for the throughput, it does not. `bytes` is the size of the instructions.\n\n";

const COMPLETED: &str = "\nInsertions and removals were derived from the lookups: each miss inserts its \
object; if the cache is full, the clock hand evicts an object that was not used since its last pass.\n";

const CSV_HEAD: &str = "cache,function,bits,lookups,hits,links_on_hits,links_on_misses,links_hit,\
                        links_miss,links_lookup,objects,over_chance,longest_chain,empty_buckets,\
                        share_in_mean_chains,chi_square,degrees_of_freedom,p_value,lookup_ns,mad_ns";

/// Returns the functions that were compared, each once.
fn functions(outcomes: &[Outcome]) -> Vec<Function> {
    let functions = outcomes.iter().filter_map(|outcome| {
        let Combination {
            cache, function, ..
        } = outcome.combination;
        match function {
            Finder::Larder => Some(own_function(cache)),
            Finder::Function(function) => Some(function),
            Finder::RedBlackTrees => None,
        }
    });
    functions.collect::<BTreeSet<_>>().into_iter().collect()
}

fn csv_line(cache: &str, row: &Row) -> Vec<String> {
    let counts = [
        row.bits.into(),
        row.lookups,
        row.hits,
        row.links_on_hits,
        row.links_on_misses,
    ];
    let links = [row.links.hit, row.links.miss, row.links.lookup];
    let mut line = vec![cache.to_owned(), row.function.to_string()];
    line.extend(counts.map(|count| count.to_string()));
    line.extend(links.map(|figure| figure.to_string()));
    line.push(row.objects.to_string());
    line.extend(row.chains.map_or_else(Default::default, |chains| {
        [
            chains.over_chance.to_string(),
            chains.longest_chain.to_string(),
            chains.empty_buckets.to_string(),
            chains.share_in_mean_chains.to_string(),
            chains.chi_square.to_string(),
            chains.degrees_of_freedom.to_string(),
            chains.p_value.to_string(),
        ]
    }));
    let times = [row.lookup_ns, row.mad_ns];
    line.extend(times.map(|time| text_or(time, "")));
    line
}

/// Marks the rows for which no other row is significantly faster.
fn mark_fastest(rows: &mut [Row]) {
    let times: Vec<_> = rows.iter().map(Row::time).collect();
    for row in rows {
        let Some(time) = row.time() else {
            continue;
        };
        let mut others = times.iter().flatten();
        row.is_fastest = !others.any(|other| other.is_significantly_less(time));
    }
}

impl CacheReport {
    /// Returns one line with the properties of the trace.
    pub fn title(&self) -> String {
        let Survey {
            lookups,
            peak_objects,
            contradictions,
            ..
        } = self.survey;
        let hit_rate = quotient(self.survey.hits, lookups) * 100.0;
        let contradictions = match contradictions {
            0 => String::new(),
            1 => "; 1 event contradicts earlier ones".to_owned(),
            count => format!("; {count} events contradict earlier ones"),
        };
        format!(
            "{} cache: {lookups} lookups, {hit_rate:.1}% hit, up to {peak_objects} \
             objects{contradictions}",
            self.cache.as_str()
        )
    }

    /// Returns a sentence that compares Larder's own function with chance, if it was measured.
    pub fn verdict(&self) -> Option<String> {
        let own = self
            .rows
            .iter()
            .filter(|row| row.function == Finder::Larder);
        let over = own.filter_map(|row| Some(row.chains?.over_chance));
        let most = over.max_by(f64::total_cmp)?;
        let result = if most <= OWN_OVER_CHANCE {
            "met"
        } else {
            "missed"
        };
        let is_significant = most <= OWN_OVER_CHANCE || self.survey.peak_objects >= MIN_OBJECTS;
        let remark = if is_significant { "" } else { FEW_OBJECTS };
        // The hash of names has a secret seed, so a mixer was replayed instead.
        let replayed_as = match self.cache {
            CacheKind::Dentry => "replayed as ",
            _ => "",
        };
        let side = if most < 0.0 { "fewer" } else { "more" };
        Some(format!(
            "larder's own function ({replayed_as}{}) walks {:.1}% {side} links than chance \
             (limit: {:.0}% more): {result}{remark}.",
            own_function(self.cache),
            most.abs() * 100.0,
            OWN_OVER_CHANCE * 100.0
        ))
    }

    /// Returns a table for a terminal, with one row for each combination and one for chance.
    pub fn table(&self) -> Table {
        let [hit, miss, excess, longest, .., p, ns, _, _] = COLUMNS;
        self.table_of(&[hit, miss, excess, longest, p, ns])
    }

    fn table_of(&self, columns: &[Column]) -> Table {
        let titles = columns.iter().map(|(title, _)| title);
        let mut table = Table::new("function | bits:").with_numbers(titles);
        let mut bits = None;
        for row in &self.rows {
            if bits != Some(row.bits) && row.chains.is_some() {
                bits = Some(row.bits);
                table.push(self.chance_row(row.bits, columns));
            }
            let mark = if row.is_fastest { "*" } else { " " };
            let mut cells = vec![format!("{mark}{}", row.function), row.bits.to_string()];
            cells.extend(columns.iter().map(|(_, cell)| cell(row)));
            table.push(cells);
        }
        table
    }

    /// Returns the row of chance. Cells without a defined value are empty.
    fn chance_row(&self, bits: u32, columns: &[Column]) -> Vec<String> {
        let chance = self.survey.chance(bits);
        let mut cells = vec![" chance".to_owned(), bits.to_string()];
        cells.extend(columns.iter().map(|(title, _)| match *title {
            "hit" => format!("{:.3}", chance.hit),
            "miss" => format!("{:.3}", chance.miss),
            _ => String::new(),
        }));
        cells
    }

    /// Returns the name and the histogram of each table, in the form of Lever 2000.
    pub fn histograms(&self) -> impl Iterator<Item = (String, PublishedForm)> + '_ {
        let tables = self.rows.iter().filter(|row| row.chains.is_some());
        tables.map(|row| {
            let form = PublishedForm::of(self.cache, [(row.counts(), row.histogram.clone())]);
            (format!("{}, {} bits", row.function, row.bits), form)
        })
    }
}

/// Formats a statistic of a table's chains, or `-` for trees, which have no chains.
fn of_chains(row: &Row, cell: impl Fn(&Chains) -> String) -> String {
    text_or(row.chains.as_ref().map(cell), "-")
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn nanos(row: &Row) -> String {
    match (row.lookup_ns, row.mad_ns) {
        (Some(time), Some(mad)) if mad < 10.0 => format!("{time:.1} ±{mad:.1}"),
        (Some(time), Some(mad)) => format!("{time:.1} ±{mad:.0}"),
        _ => "-".to_owned(),
    }
}
