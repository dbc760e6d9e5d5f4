//! The table of the operations that the kernel has requested.

use super::super::change::{OperationChange, as_f64};
use super::super::format::{UNKNOWN, bytes, duration, or_unknown, short};
use super::super::palette::{Level, Look, Meaning};
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use super::super::sort::Value;
use super::super::table::{self, Cell, Column};
use super::requests::unknown;
use larder::OperationStats;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

const COLUMNS: [Column; 12] = [
    Column::text("operation", 15),
    Column::number("req/s", 7),
    Column::number("p50", 8),
    Column::number("p90", 8).rank(1),
    Column::number("p99", 8),
    Column::number("errors", 7),
    Column::number("total", 7),
    Column::number("all p99", 8).rank(2),
    Column::number("all p50", 8).rank(4),
    Column::number("longest", 8).rank(3),
    Column::number("bytes/s", 11).rank(5),
    Column::rest("errors by name", 16).rank(6),
];

/// The number of columns by which the table can be sorted.
pub(in super::super) const SORTS: usize = COLUMNS.len() - 1;

pub(in super::super) fn draw(scene: &Scene<'_>, is_page: bool, area: Rect, buffer: &mut Buffer) {
    let note = match scene.change.elapsed() {
        Some(_) => "p50, p90, p99: since the last refresh; all: since the mount",
        None => "",
    };
    let area = titled(scene.look, "Operations", note, area, buffer);
    if scene.stats().requests.is_none() {
        return lines([unknown()], area, buffer);
    }
    let rows = sorted(scene);
    if rows.is_empty() {
        return lines(
            [Line::raw(
                "no request yet: the kernel has answered everything",
            )],
            area,
            buffer,
        );
    }
    let marked = scene.state.row.min(rows.len() - 1);
    let rows = rows.iter().map(|operation| cells(scene.look, operation));
    if is_page {
        let sort = Some(scene.state.operations);
        table::draw_marked(
            scene.look,
            &COLUMNS,
            sort,
            rows.collect(),
            marked,
            area,
            buffer,
        );
    } else {
        table::draw(scene.look, &COLUMNS, None, rows, area, buffer);
    }
}

/// Returns the operations in the order of the table.
pub(in super::super) fn sorted<'a>(scene: &Scene<'a>) -> Vec<OperationChange<'a>> {
    let mut rows = scene.change.operations();
    scene.state.operations.apply(&mut rows, |row, column| {
        let recent = row.latency.as_ref();
        let all = &row.now.latency;
        let figure = |value: Option<u64>| Value::Figure(value.map(as_f64));
        match column {
            0 => Value::Text(row.now.operation.clone()),
            2 => figure(recent.and_then(|it| it.p50_ns)),
            3 => figure(recent.and_then(|it| it.p90_ns)),
            4 => figure(recent.and_then(|it| it.p99_ns)),
            5 => figure(Some(row.now.errors)),
            6 => figure(Some(row.now.requests)),
            7 => figure(all.p99_ns),
            8 => figure(all.p50_ns),
            9 => figure(all.max_ns),
            10 => Value::Figure(row.byte_rate),
            _ => Value::Figure(row.rate),
        }
    });
    rows
}

fn cells(look: Look, row: &OperationChange<'_>) -> Vec<Cell> {
    let recent = row.latency.as_ref();
    let all = &row.now.latency;
    let time = |ns: Option<u64>| {
        let ns = ns.map(as_f64);
        judged(look, or_unknown(ns, duration), Level::of_latency(ns))
    };
    let level = Level::of_errors(row.now);
    vec![
        Cell::from(name::escaped(row.now.operation.as_bytes())),
        Cell::from(or_unknown(row.rate, short)),
        time(recent.and_then(|it| it.p50_ns)),
        time(recent.and_then(|it| it.p90_ns)),
        time(recent.and_then(|it| it.p99_ns)),
        judged(look, short(as_f64(row.now.errors)), level),
        Cell::from(short(as_f64(row.now.requests))),
        time(all.p99_ns),
        time(all.p50_ns),
        time(all.max_ns),
        Cell::from(match row.byte_rate {
            Some(rate) if row.now.bytes > 0 => bytes(rate),
            _ => UNKNOWN.to_owned(),
        }),
        judged(look, errors(row.now), level),
    ]
}

/// Returns a cell with the colour and the mark of its level.
fn judged(look: Look, text: String, level: Level) -> Cell {
    let style = look.style(Meaning::Judged(level));
    let text = text + level.mark();
    Cell { text, style }
}

/// Returns the errors by name, the most frequent first.
pub(in super::super) fn errors(operation: &OperationStats) -> String {
    let mut errnos: Vec<_> = operation.errnos.iter().collect();
    errnos.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let text = |(errno, count): (&String, &u64)| {
        format!(
            "{} {}",
            name::escaped(errno.as_bytes()),
            short(as_f64(*count))
        )
    };
    errnos.into_iter().map(text).collect::<Vec<_>>().join(", ")
}
