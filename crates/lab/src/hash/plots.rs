//! Plots of a comparison: links by function, time of lookups, and lengths of chains.

use super::cache_report::CacheReport;
use super::row::Row;
use crate::output::{BarPlot, LinePlot, ReportFile, Scale, Series};
use crate::run_report::as_f64;
use larder_cache::tables::Finder;
use std::collections::BTreeMap;

/// Maximum number of functions in the plot of times. The functions with the fewest links are shown.
const LINES: usize = 6;

/// Number of chain lengths in the plot of chains, from 0.
const LENGTHS: u64 = 16;

/// Returns the plots of a cache.
pub(super) fn of_cache(of: &CacheReport) -> Vec<ReportFile> {
    let cache = of.cache.as_str();
    let plots = [
        ("links", links(of)),
        ("time", times(of)),
        ("chains", chains(of)),
    ];
    let file = |(name, content): (&str, Option<String>)| {
        Some(ReportFile::new(format!("{cache}-{name}.svg"), content?))
    };
    plots.into_iter().filter_map(file).collect()
}

/// Plots the mean links of a lookup by function and size, as bars.
fn links(of: &CacheReport) -> Option<String> {
    let functions = functions(of);
    let value = |function, bits| {
        let mut rows = of.rows.iter();
        let found = rows.find(|row| row.function == function && row.bits == bits);
        found.map_or(f64::NAN, |row| row.links.lookup)
    };
    let series = sizes(of).into_iter().map(|bits| {
        let values = functions.iter().map(|function| value(*function, bits));
        Series::new(
            format!("{bits} bits"),
            values.chain([of.survey.chance(bits).lookup]),
        )
    });
    let groups = functions.iter().map(ToString::to_string);
    let plot = BarPlot {
        title: format!("{} cache: links walked by a lookup", of.cache.as_str()),
        value: "links".to_owned(),
        groups: groups.chain(["chance".to_owned()]).collect(),
        series: series.collect(),
    };
    (!functions.is_empty()).then(|| plot.to_svg())
}

/// Plots the time of a lookup over the number of buckets, as lines. Returns `None` unless there are several
/// sizes.
fn times(of: &CacheReport) -> Option<String> {
    if sizes(of).len() < 2 {
        return None;
    }
    let series = functions(of).into_iter().take(LINES).map(|function| {
        let rows = of.rows.iter().filter(|row| row.function == function);
        let point = |row: &Row| Some((as_f64(1 << row.bits), row.lookup_ns?));
        Series::new(function.to_string(), rows.filter_map(point))
    });
    let plot = LinePlot {
        title: format!(
            "{} cache: time of a lookup, functions with the fewest links",
            of.cache.as_str()
        ),
        x: "buckets".to_owned(),
        y: "ns".to_owned(),
        scale: Scale::Logarithmic,
        series: series.collect(),
    };
    Some(plot.to_svg())
}

/// Plots the number of objects in chains of each length, as lines, for tables of the largest size: with the
/// function that has the fewest links, with the function that has the most links, and as expected from the
/// Poisson distribution. Returns `None` if there is no table.
fn chains(of: &CacheReport) -> Option<String> {
    let tables = of.rows.iter().filter(|row| row.chains.is_some());
    let largest = tables.clone().map(|row| row.bits).max()?;
    let same_size: Vec<&Row> = tables.filter(|row| row.bits == largest).collect();
    let (best, worst) = (*same_size.first()?, *same_size.last()?);
    let of_row = |row: &Row| {
        let lengths: BTreeMap<_, _> = row.histogram.lengths().collect();
        let objects = |length| as_f64(length * lengths.get(&length).copied().unwrap_or(0));
        let points = (0..LENGTHS).map(|length| (as_f64(length), objects(length)));
        Series::new(row.function.to_string(), points)
    };
    let buckets = as_f64(1 << best.bits);
    let mean = as_f64(best.objects) / buckets;
    let mut expected = buckets * (-mean).exp();
    let poisson = (0..LENGTHS).map(|length| {
        let objects = as_f64(length) * expected;
        expected *= mean / as_f64(length + 1);
        (as_f64(length), objects)
    });
    let poisson = Series::new("Poisson", poisson);
    let plot = LinePlot {
        title: format!(
            "{} cache: objects by chain length, {} bits",
            of.cache.as_str(),
            best.bits
        ),
        x: "chain length".to_owned(),
        y: "objects".to_owned(),
        scale: Scale::Linear,
        series: vec![poisson, of_row(best), of_row(worst)],
    };
    Some(plot.to_svg())
}

/// Returns the functions, each once, in ascending order of links in the tables of the largest size.
fn functions(of: &CacheReport) -> Vec<Finder> {
    let mut functions = Vec::new();
    for row in of.rows.iter().rev() {
        if !functions.contains(&row.function) {
            functions.insert(0, row.function);
        }
    }
    functions
}

fn sizes(of: &CacheReport) -> Vec<u32> {
    let mut sizes: Vec<u32> = of.rows.iter().map(|row| row.bits).collect();
    sizes.dedup();
    sizes
}
