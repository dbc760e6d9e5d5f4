//! Output of a comparison of hash functions: tables, histograms in the form of Lever 2000, CSV, JSON, plots
//! and an HTML page.

use super::cache_report::CacheReport;
use super::choice::own_function;
use super::combination::Combination;
use super::cost::Costs;
use super::counters::uncounted;
use super::plots;
use super::row::Row;
use super::source::{Source, Wanted};
use super::sweep::{Outcome, Surveys};
use crate::output::{Report, ReportFile, Table, csv_text, text_or};
use crate::trace::Losses;
use larder_cache::hash::Function;
use larder_cache::tables::Finder;
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

impl HashReport {
    /// Creates the report of a trace from `outcomes`.
    #[must_use]
    pub fn new(
        source: &dyn Source,
        wanted: Wanted,
        surveys: &Surveys,
        outcomes: &[Outcome],
    ) -> Self {
        let caches = surveys.iter();
        let caches = caches.map(|(cache, survey)| CacheReport::new(*cache, *survey, outcomes));
        Self {
            source: source.title(),
            losses: source.losses(),
            is_completed: wanted.completes(source),
            caches: caches.collect(),
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
            let _ = writeln!(text, "{}", of.full_table().to_markdown());
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

const ABOUT_COLUMNS: &str = "\
`hit` is the mean number of links that a lookup walks if it finds its object, and `miss` is the mean number if \
it does not. For red-black trees, both count the pages that are compared with the key. `excess` compares the \
mean for all lookups with the mean that is expected for keys distributed at random. The following columns \
describe the table at the time when it contains the most objects. `longest` is the length of the longest \
chain. `empty` is the share of empty buckets. `in mean chains` is the share of the objects in chains of \
at most ceil(objects / buckets) entries. `chi-square`, `degrees` and `p` are a test against the Poisson \
distribution. `ns` is the time of a lookup: the median of seven runs, and their median absolute deviation \
(MAD). The runs repeat the last lookups before the time when the table contains the most objects, while \
nothing else runs. An asterisk marks each row that no other row beats by more than the noise. The noise \
between two rows with MADs a and b is 3% of the slower time, plus 4.5 * sqrt(a^2 + b^2).\n";

const ABOUT_COSTS: &str = "\
## Functions\n\nThe table shows the processor cycles to compute a bucket. The function is either inlined \
into a loop or called from the loop. For the latency, each key depends on the previous result; for the \
throughput, it does not. `bytes` is the size of the machine code of the function.\n\n";

const COMPLETED: &str = "\nInsertions and removals were derived from the lookups: each miss inserts its \
object. If the cache is full, the clock hand evicts an object that was not used since its last pass.\n";

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
