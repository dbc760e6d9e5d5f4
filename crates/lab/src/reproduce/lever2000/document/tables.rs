//! Tables 1 to 6, next to the published ones.

use crate::output::{Table, text_or};
use crate::published::lever2000::{self as published, KernelRow, Throughput, throughputs};
use crate::reproduce::lever2000::kernels::PublishedTable;
use crate::reproduce::lever2000::measure::{CacheFigures, Load, Row};
use crate::reproduce::lever2000::runs::Runs;
use crate::statistics::Figures;
use larder::CacheKind;
use std::fmt::Write as _;

pub(super) fn described(table: &PublishedTable, rows: &[Row]) -> String {
    let mut text = format!(
        "## Table {}: {}\n\nMemory of the caches: {} MiB. {}\n\n",
        table.number,
        table.title,
        table.machine.memory_mib,
        additions(table),
    );
    for (at, users) in table.loads.iter().enumerate() {
        let published = throughputs(table.number, at);
        let mut shown = Table::new(
            "kernel | published: | published, without first run: | measured: \
             | measured, without first run: | measured, best run: | by processor time: | links per lookup: \
             | links per miss: \
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
                text_or(load.runs.without_first(), "-"),
                format!("{:.1}", load.runs.best()),
                Figures::of(&load.runs.processor_throughputs()).to_string(),
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
        "Elapsed time of all runs, in seconds. Each run of a kernel executes {}.\n\n{}",
        work(rows),
        elapsed(table.number, rows).to_markdown()
    );
    let _ = writeln!(
        text,
        "![Table {}](lever2000-table{}.svg)\n",
        table.number, table.number
    );
    text
}

/// Describes what users do in addition to their scripts.
fn additions(table: &PublishedTable) -> String {
    let machine = &table.machine;
    let additions = [
        (machine.programs > 0, "runs programs"),
        (machine.has_spool, "lists large directories"),
        (machine.has_tree, "examines a part of 40,960 files"),
    ];
    let additions = additions
        .into_iter()
        .filter_map(|(is_done, what)| is_done.then_some(what));
    let mut text = format!(
        "In addition to its script, each user {}.",
        additions.collect::<Vec<_>>().join(" and ")
    );
    if (3..=5).contains(&table.number) {
        text.push_str(" The load was built for this table, see [Limits](#limits-and-differences).");
    }
    text
}

/// Describes the work of a run under each load.
fn work(rows: &[Row]) -> String {
    let loads = rows.first().into_iter().flat_map(|row| &row.loads);
    let runs = loads.map(|load| {
        let Runs { users, scripts, .. } = load.runs;
        format!("{scripts} scripts, {users} at a time")
    });
    runs.collect::<Vec<_>>().join("; ")
}

/// Returns the table of the elapsed times of all runs of each kernel, under all loads.
fn elapsed(table: u32, rows: &[Row]) -> Table {
    let mut shown = Table::new("kernel | published: | measured: | processor time:");
    let mut published = published_elapsed_s(table).into_iter();
    for row in rows {
        let sum = |time_s: fn(&Runs) -> f64| -> String {
            let loads = row.loads.iter();
            format!("{:.1}", loads.map(|load| time_s(&load.runs)).sum::<f64>())
        };
        shown.push([
            row.kernel.to_owned(),
            text_or(published.next(), "-"),
            sum(Runs::total_s),
            sum(|runs| runs.processor_s.iter().sum()),
        ]);
    }
    shown
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

/// Returns the elapsed times in the rows of a published table.
fn published_elapsed_s(table: u32) -> Vec<u32> {
    let of = |rows: Vec<KernelRow>| rows.iter().map(|row| row.elapsed_s).collect();
    match table {
        1 => (published::table_1().iter())
            .map(|row| row.elapsed_s)
            .collect(),
        2 => of(published::table_2()),
        3 => of(published::table_3()),
        4 => of(published::table_4()),
        5 => of(published::table_5()),
        _ => of(published::table_6()),
    }
}
