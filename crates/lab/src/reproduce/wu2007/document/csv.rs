//! The figures of a reproduction as CSV, with one header for all tables.

use super::super::criterion::{Judgement, one_decimal};
use super::super::fewer_pct;
use super::super::gain::{SMOOTHED_S, STREAMS_ABOVE};
use super::super::results::{
    CpuResult, EqualStreams, GridCell, Row, TableResult, ThrashingFigures, ThrashingGain,
    ThrashingVariant, Wu2007,
};
use crate::output::{csv_text, text_or};
use crate::published::Pair;
use crate::statistics::Interval;

const CSV_HEAD: &str = "table,row,unit,published_legacy,published_ondemand,published_change_pct,legacy,\
                        ondemand,modern,change_pct,change_low_pct,change_high_pct,noise_pct,direction_agrees,\
                        size_agrees";

/// A line, with the columns of [`CSV_HEAD`].
type Line = [String; 15];

impl Wu2007 {
    pub(super) fn csv(&self) -> Result<String, std::io::Error> {
        let rows = self.tables.iter().flat_map(|table| {
            let rows = table.rows.iter();
            rows.map(|row| csv_row(table, row))
        });
        let cfq = self.cfq.iter().flat_map(|cfq| &cfq.tables);
        let cfq = cfq.flat_map(|table| {
            table.rows.iter().map(|row| {
                let mut cells = csv_row(table, row);
                cells[0].push_str(" (CFQ)");
                cells
            })
        });
        let means = self.thrashing_means.iter().map(|means| {
            let row = format!("mean above {STREAMS_ABOVE} streams");
            csv_gain_row("thrashing-means", &row, means)
        });
        let cells = self.thrashing_grid.iter().flat_map(csv_grid_rows);
        let cpu = self.cpu.iter().map(csv_cpu_row);
        let variants = self.thrashing_variants.iter().flat_map(csv_variant_rows);
        let equal_streams = self.thrashing_gain.iter().flat_map(|gain| {
            let largest = ("largest gain", gain.largest);
            let threefold = gain.threefold.into_iter().flatten();
            std::iter::once(largest).chain(threefold.map(|at| ("end of the threefold range", at)))
        });
        let equal_streams = equal_streams.map(|(what, at)| csv_equal_streams_row(what, &at));
        csv_text(
            CSV_HEAD,
            rows.chain(cfq)
                .chain(means)
                .chain(variants)
                .chain(cells)
                .chain(equal_streams)
                .chain(cpu),
        )
    }
}

fn csv_row(table: &TableResult, row: &Row) -> Line {
    let [direction, size] = csv_verdicts(&row.judgement);
    [
        table.name.to_owned(),
        row.label.clone(),
        table.unit.to_owned(),
        row.published.legacy.to_string(),
        row.published.ondemand.to_string(),
        row.judgement.published_pct.to_string(),
        row.ours.legacy.to_string(),
        row.ours.ondemand.to_string(),
        row.ours.modern.to_string(),
        text_or(row.judgement.ours_pct, ""),
        text_or(row.change_pct.low.map(one_decimal), ""),
        text_or(row.change_pct.high.map(one_decimal), ""),
        row.noise_pct.to_string(),
        direction,
        size,
    ]
}

fn csv_variant_rows(variant: &ThrashingVariant) -> [Line; 3] {
    let row = |what: String, of: fn(&ThrashingFigures) -> f64| {
        let figures = Pair {
            legacy: of(&variant.legacy),
            ondemand: of(&variant.ondemand),
        };
        let row = format!("{}: {what}", variant.name);
        let gain = Interval::unknown(figures.ondemand / figures.legacy);
        csv_unjudged_row(["thrashing-variants", &row, "MB/s"], figures, gain)
    };
    [
        row("best second".to_owned(), |of| of.max_throughput_mb_s),
        row(format!("mean above {STREAMS_ABOVE} streams"), |of| {
            of.mean_throughput_mb_s
        }),
        row(format!("last {SMOOTHED_S} seconds"), |of| {
            of.final_throughput_mb_s
        }),
    ]
}

fn csv_grid_rows(cell: &GridCell) -> [Line; 2] {
    let row = |what: &str| {
        let (memory_mib, read_kib) = (cell.memory_mib, cell.read_kib);
        format!("{what}: {memory_mib} MiB for pages, reads of {read_kib} KiB")
    };
    let read = &cell.min_mean_read;
    let sizes = Pair {
        legacy: read.legacy_kb,
        ondemand: read.ondemand_kb.value,
    };
    let read_row = row("smallest mean read");
    [
        csv_gain_row("thrashing-grid", &row("best second"), &cell.throughput),
        csv_unjudged_row(["thrashing-grid-reads", &read_row, "KB"], sizes, read.gain),
    ]
}

fn csv_equal_streams_row(what: &str, at: &EqualStreams) -> Line {
    let row = format!("{what}: {} streams", at.streams);
    csv_gain_row("thrashing-equal-streams", &row, &at.throughput)
}

fn csv_gain_row(table: &str, row: &str, of: &ThrashingGain) -> Line {
    let figures = Pair {
        legacy: of.legacy_mb_s,
        ondemand: of.ondemand_mb_s,
    };
    csv_unjudged_row([table, row, "MB/s"], figures, of.gain)
}

/// Formats a row without a published counterpart. `gain` is the ratio of both figures.
fn csv_unjudged_row([table, row, unit]: [&str; 3], figures: Pair, gain: Interval) -> Line {
    let none = String::new;
    let change_pct = |gain: f64| one_decimal((gain - 1.0) * 100.0);
    [
        table.to_owned(),
        row.to_owned(),
        unit.to_owned(),
        none(),
        none(),
        none(),
        figures.legacy.to_string(),
        figures.ondemand.to_string(),
        none(),
        change_pct(gain.value).to_string(),
        text_or(gain.low.map(change_pct), ""),
        text_or(gain.high.map(change_pct), ""),
        none(),
        none(),
        none(),
    ]
}

fn csv_cpu_row(row: &CpuResult) -> Line {
    let [direction, size] = csv_verdicts(&row.judgement);
    let seeds = row.seeds.iter();
    let fewer_pct = seeds.map(|counts| fewer_pct(counts.legacy, counts.ondemand));
    let fewer_pct = Interval::of_median(&fewer_pct.collect::<Vec<_>>());
    [
        "cpu".to_owned(),
        row.case.clone(),
        "calls and lookups; published: speed-up in percent".to_owned(),
        String::new(),
        String::new(),
        row.judgement.published_pct.to_string(),
        row.counts.legacy.total().to_string(),
        row.counts.ondemand.total().to_string(),
        row.counts.modern.total().to_string(),
        text_or(row.judgement.ours_pct, ""),
        text_or(fewer_pct.low.map(one_decimal), ""),
        text_or(fewer_pct.high.map(one_decimal), ""),
        "0".to_owned(),
        direction,
        size,
    ]
}

fn csv_verdicts(judgement: &Judgement) -> [String; 2] {
    [
        judgement.direction_agrees.to_string(),
        text_or(judgement.size_agrees, ""),
    ]
}
