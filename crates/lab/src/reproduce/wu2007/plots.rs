//! The plots of a reproduction.

use super::results::{TableResult, ThrashingSecond, Wu2007};
use crate::output::{BarPlot, LinePlot, ReportFile, Scale, Series};

/// Returns the file name of a table's plot.
pub(super) fn table_name(table: &TableResult) -> String {
    format!("wu2007-{}.svg", table.name)
}

/// Returns all plots: the findings, bars for each table, and the two courses of thrashing.
pub(super) fn all(results: &Wu2007) -> Vec<ReportFile> {
    let tables = results.tables.iter();
    let bars = tables.map(|table| ReportFile::new(table_name(table), bars(table).to_svg()));
    let throughput = course(
        results,
        "Thrashing: total throughput of all streams",
        "MB/s",
        |second| Some(second.throughput_mb_s),
    );
    let read_size = course(
        results,
        "Thrashing: mean size of a device read",
        "KB",
        |second| second.mean_read_kb,
    );
    let courses = [
        ReportFile::new("wu2007-thrashing-throughput.svg", throughput),
        ReportFile::new("wu2007-thrashing-read-size.svg", read_size),
    ];
    std::iter::once(results.front_page().plot())
        .chain(bars)
        .chain(courses)
        .collect()
}

fn bars(table: &TableResult) -> BarPlot {
    let series =
        |name, of: fn(&super::results::Row) -> f64| Series::new(name, table.rows.iter().map(of));
    BarPlot {
        title: format!("{}: published and simulated", table.title),
        value: table.unit.to_owned(),
        groups: table.rows.iter().map(|row| row.label.clone()).collect(),
        series: vec![
            series("published legacy", |row| row.published.legacy),
            series("published ondemand", |row| row.published.ondemand),
            series("legacy", |row| row.ours.legacy),
            series("ondemand", |row| row.ours.ondemand),
            series("modern", |row| row.ours.modern),
        ],
    }
}

fn course(
    results: &Wu2007,
    title: &str,
    y: &str,
    value: impl Fn(&ThrashingSecond) -> Option<f64>,
) -> String {
    let series = results.thrashing.iter().map(|course| {
        let seconds = course.seconds.iter();
        let points = seconds.filter_map(|second| Some((second.streams.into(), value(second)?)));
        Series::new(course.policy, points)
    });
    let plot = LinePlot {
        title: title.to_owned(),
        x: "streams of 100 KB/s".to_owned(),
        y: y.to_owned(),
        scale: Scale::Linear,
        series: series.collect(),
    };
    plot.to_svg()
}
