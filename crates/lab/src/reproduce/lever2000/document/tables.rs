//! Tables 1 to 6, next to the published ones.

use crate::output::{Table, text_or};
use crate::published::lever2000::{Throughput, throughputs};
use crate::reproduce::lever2000::findings::steady;
use crate::reproduce::lever2000::kernels::PublishedTable;
use crate::reproduce::lever2000::measure::{CacheFigures, Load, Row};
use larder::CacheKind;
use std::fmt::Write as _;

pub(super) fn described(table: &PublishedTable, rows: &[Row]) -> String {
    let mut text = format!(
        "## Table {}: {}\n\nMemory of the caches: {} MiB.\n\n",
        table.number,
        table.title,
        table.memory.bytes() >> 20
    );
    for (at, users) in table.loads.iter().enumerate() {
        let published = throughputs(table.number, at);
        let mut shown = Table::new(
            "kernel | published: | published, without first run: | measured: \
             | measured, without first run: | measured, best run: | links per lookup: | links per miss: \
             | hits: | objects: | longest chain: | objects in chains > 15:",
        );
        for (row_at, row) in rows.iter().enumerate() {
            let Some(load) = row.loads.get(at) else {
                continue;
            };
            let (all, rest) = published.get(row_at).copied().unwrap_or_default();
            let published = |figures: Option<Throughput>| {
                let text = figures.map(|Throughput { mean, s }| format!("{mean:.1} s={s:.2}"));
                text_or(text, "-")
            };
            let figures = [
                row.kernel.to_owned(),
                published(all),
                published(rest),
                load.runs.all().to_string(),
                steady(load).to_string(),
                format!("{:.1}", load.runs.best()),
            ];
            shown.push(figures.into_iter().chain(cache_cells(load, table.cache)));
        }
        let _ = writeln!(
            text,
            "Throughputs in scripts per hour; concurrent scripts: {users}.\n\n{}",
            shown.to_markdown()
        );
    }
    let _ = writeln!(
        text,
        "![Table {}](lever2000-table{}.svg)\n",
        table.number, table.number
    );
    text
}

/// Returns the cells of the cache that a table examines, or of all caches, one after the other.
fn cache_cells(load: &Load, cache: Option<CacheKind>) -> [String; 6] {
    let caches: Vec<&CacheFigures> = match cache {
        Some(cache) => vec![load.cache(cache)],
        None => load.caches.iter().collect(),
    };
    let joined = |cell: &dyn Fn(&CacheFigures) -> String| {
        let cells: Vec<_> = caches.iter().map(|figures| cell(figures)).collect();
        cells.join(" / ")
    };
    [
        joined(&|figures| format!("{:.3}", figures.links_per_lookup())),
        joined(&|figures| format!("{:.3}", figures.links_per_miss())),
        joined(&|figures| format!("{:.1}%", figures.hit_rate_pct())),
        joined(&|figures| of_chains(figures, figures.full.histogram.objects().to_string())),
        joined(&|figures| of_chains(figures, figures.longest_chain.to_string())),
        joined(&|figures| of_chains(figures, format!("{:.0}%", figures.long_share * 100.0))),
    ]
}

/// Formats a figure of a table's chains; trees have none.
fn of_chains(figures: &CacheFigures, figure: String) -> String {
    match figures.full.histogram.buckets() {
        0 => "-".to_owned(),
        _ => figure,
    }
}
