//! The pictures of a reproduction.

use super::results::{TableResult, ThrashingSecond, Wu2007};
use crate::output::{BarPlot, LinePlot, ReportFile, Scale, Series};

/// The file name of a table's picture.
pub(super) fn table_name(table: &TableResult) -> String {
    format!("wu2007-{}.svg", table.name)
}

/// Every picture: bars for each table, and the two courses of thrashing.
pub(super) fn all(results: &Wu2007) -> Vec<ReportFile> {
    let bars = results.tables.iter().map(|table| ReportFile {
        name: table_name(table),
        content: bars(table).to_svg(),
    });
    let throughput = ReportFile {
        name: "wu2007-thrashing-throughput.svg".to_owned(),
        content: course(
            results,
            "Thrashing: what all streams get together",
            "MB/s",
            |second| Some(second.throughput_mb_s),
        ),
    };
    let read_size = ReportFile {
        name: "wu2007-thrashing-read-size.svg".to_owned(),
        content: course(
            results,
            "Thrashing: mean size of a device read",
            "KB",
            |second| second.mean_read_kb,
        ),
    };
    bars.chain([throughput, read_size]).collect()
}

fn bars(table: &TableResult) -> BarPlot {
    let series = |name: &str, of: fn(&super::results::Row) -> f64| Series {
        name: name.to_owned(),
        values: table.rows.iter().map(of).collect(),
    };
    BarPlot {
        title: format!("{}: published, and ours", table.title),
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
        Series {
            name: course.policy.to_owned(),
            values: seconds
                .filter_map(|second| Some((f64::from(second.streams), value(second)?)))
                .collect(),
        }
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
