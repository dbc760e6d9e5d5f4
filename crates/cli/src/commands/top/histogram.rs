//! Draws the histogram of a cache, or of the depths of its trees, with bars.

use super::change::as_f64;
use super::format::short;
use larder::HistogramReport;
use larder::tables::TreeDepths;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

/// The number of columns before the bars of chain lengths.
const LABEL_COLUMNS: usize = 24;
/// The number of columns before the bars of depths.
const DEPTH_LABEL_COLUMNS: usize = 15;

/// Returns a histogram of chain lengths, at most `most` rows of `width` columns. The last row counts the
/// chains of all remaining lengths.
pub(super) fn bars(
    report: &HistogramReport,
    most: usize,
    width: usize,
    style: Style,
) -> Vec<Line<'static>> {
    draw(
        &visible_rows(report, most),
        width,
        LABEL_COLUMNS,
        style,
        |row| {
            let (buckets, poisson) = (short(row.buckets), short(row.poisson));
            format!("{:>5} {buckets:>8} {poisson:>8}", row.length)
        },
    )
}

/// Returns a histogram of the depths of pages in trees, at most `most` rows of `width` columns. If there are
/// more depths, the first row counts the pages of the smallest depths.
pub(super) fn depth_bars(
    trees: &TreeDepths,
    most: usize,
    width: usize,
    style: Style,
) -> Vec<Line<'static>> {
    let all: Vec<(u64, f64)> = trees
        .rows()
        .map(|(depth, pages)| (depth, as_f64(pages)))
        .collect();
    // Most pages are at the greatest depths, so the smallest depths are combined in one row.
    let combined = match all.len() {
        depths if depths > most => depths - most.saturating_sub(1),
        _ => 0,
    };
    let (shallow, deep) = all.split_at(combined);
    let row = |length, buckets| Row {
        length,
        buckets,
        poisson: 0.0,
    };
    let shallow = shallow.last().map(|(last, _)| {
        let pages = shallow.iter().map(|(_, pages)| pages).sum();
        row(format!("<{}", last + 1), pages)
    });
    let deep = deep
        .iter()
        .map(|(depth, pages)| row(depth.to_string(), *pages));
    let rows: Vec<Row> = shallow.into_iter().chain(deep).collect();
    draw(&rows, width, DEPTH_LABEL_COLUMNS, style, |row| {
        format!("{:>5} {:>8}", row.length, short(row.buckets))
    })
}

/// Draws each row as a label and a bar in `style`, together `width` columns wide.
fn draw(
    rows: &[Row],
    width: usize,
    label_columns: usize,
    style: Style,
    label: impl Fn(&Row) -> String,
) -> Vec<Line<'static>> {
    let largest = rows.iter().fold(1.0_f64, |largest, row| {
        largest.max(row.buckets).max(row.poisson)
    });
    let columns = width.saturating_sub(label_columns);
    let line = |row: &Row| {
        // Less than half a bucket counts as 0.
        let by_chance = if row.poisson < 0.5 { 0.0 } else { row.poisson };
        let bar = bar(row.buckets / largest, by_chance / largest, columns);
        Line::from(vec![
            Span::raw(format!("{} ", label(row))),
            Span::styled(bar, style),
        ])
    };
    rows.iter().map(line).collect()
}

/// A row of a histogram. It counts the buckets whose chains have a certain length, or the pages at a certain
/// depth. The last row of lengths and the first row of depths may cover several values.
struct Row {
    /// The label: a length or depth, such as `3`, or a range, such as `>7`.
    length: String,
    buckets: f64,
    /// The number of buckets that a random distribution would give; 0 for trees.
    poisson: f64,
}

/// Returns each chain length with the number of its buckets, and the number of a random distribution.
fn lengths(report: &HistogramReport) -> Vec<(Option<u64>, f64, f64)> {
    report
        .histogram
        .rows()
        .zip(report.poisson)
        .map(|((length, buckets, _), poisson)| (length, as_f64(buckets), poisson))
        .collect()
}

/// Returns the number of chain lengths up to the longest chain, or up to the longest chain of a random distribution if
/// that is longer.
pub(super) fn visible_lengths(report: &HistogramReport) -> usize {
    let is_something = |(_, buckets, poisson): &(_, f64, f64)| *buckets > 0.0 || *poisson >= 0.5;
    let last = lengths(report).iter().rposition(is_something);
    last.map_or(0, |last| last + 1)
}

/// Returns the rows of the visible lengths. If there are more than `most` rows, combines the last rows in one.
fn visible_rows(report: &HistogramReport, most: usize) -> Vec<Row> {
    let all = lengths(report);
    let used = visible_lengths(report);
    let single = if used > most {
        most.saturating_sub(1)
    } else {
        used
    };
    let mut rows: Vec<Row> = all[..single]
        .iter()
        .zip(0..)
        .map(|(&(length, buckets, poisson), at)| Row {
            length: length.map_or_else(|| format!(">{}", at - 1), |length| length.to_string()),
            buckets,
            poisson,
        })
        .collect();
    if used > single {
        rows.push(Row {
            length: format!(">{}", single.saturating_sub(1)),
            buckets: all[single..].iter().map(|(_, buckets, _)| buckets).sum(),
            poisson: all[single..].iter().map(|(_, _, poisson)| poisson).sum(),
        });
    }
    rows
}

/// Draws a bar: `#` up to the actual count, `|` at the count of a random distribution, and `:` between them
/// if the count of the random distribution is larger.
fn bar(found: f64, by_chance: f64, columns: usize) -> String {
    let (found, by_chance) = (cells(found, columns), cells(by_chance, columns));
    let cell = |at| match at {
        at if at + 1 == by_chance => '|',
        at if at < found => '#',
        at if at < by_chance => ':',
        _ => ' ',
    };
    (0..columns)
        .map(cell)
        .collect::<String>()
        .trim_end()
        .to_owned()
}

/// Returns the number of columns for `share`, where a share of 1 fills `columns`. A share above 0 gets at
/// least one column.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a few columns"
)]
pub(super) fn cells(share: f64, columns: usize) -> usize {
    let cells = (share * columns as f64).round() as usize;
    cells.max(usize::from(share > 0.0)).min(columns)
}
