//! Results of a comparison for one cache: tables, the verdict on Larder's own function, and histograms in the
//! form of Lever 2000.

use super::choice::own_function;
use super::row::{Chains, Row};
use super::survey::Survey;
use super::sweep::Outcome;
use crate::output::{Table, significant, text_or};
use crate::run_report::{as_f64, quotient};
use larder_cache::table::histogram::Report as PublishedForm;
use larder_cache::tables::Finder;
use larder_cache::tape::CacheKind;
use serde::Serialize;

/// Results of the comparison for one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CacheReport {
    pub cache: CacheKind,
    /// Properties of the trace that do not depend on a table.
    pub survey: Survey,
    /// Results of the tables, sorted by size, then by the links of a lookup.
    pub rows: Vec<Row>,
}

/// The requirement for Larder's own functions: the links of a lookup exceed chance by at most this share.
const OWN_OVER_CHANCE: f64 = 0.02;

/// The minimum number of objects for a reliable verdict. With fewer objects, the links of a random function
/// can exceed chance by [`OWN_OVER_CHANCE`].
const MIN_OBJECTS: u64 = 5000;

/// The remark if the requirement is missed with fewer than [`MIN_OBJECTS`] objects.
const FEW_OBJECTS: &str = " (with so few objects, random functions also exceed this limit)";

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

impl CacheReport {
    /// Creates the report of `cache` from the outcomes of all caches.
    pub(super) fn new(cache: CacheKind, survey: Survey, outcomes: &[Outcome]) -> Self {
        let outcomes = outcomes.iter();
        let of_cache = outcomes.filter(|outcome| outcome.combination.cache == cache);
        let mut rows: Vec<Row> = of_cache.map(|outcome| Row::new(outcome, &survey)).collect();
        rows.sort_by(|a, b| {
            let links = a.links.lookup.total_cmp(&b.links.lookup);
            a.bits.cmp(&b.bits).then(links)
        });
        mark_fastest(&mut rows);
        Self {
            cache,
            survey,
            rows,
        }
    }

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

    /// Returns a table like [`CacheReport::table`], with all columns.
    pub(super) fn full_table(&self) -> Table {
        self.table_of(&COLUMNS)
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
