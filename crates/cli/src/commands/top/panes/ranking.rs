//! The table of the files or of the processes with the most requests.

use super::super::change::as_f64;
use super::super::format::{bytes, short};
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use super::super::sort::{Sort, Value};
use super::super::table::{self, Cell, Column};
use super::requests::unknown;
use larder::Load;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// A table of the files or of the processes.
pub(super) struct Ranking<'a, T> {
    /// The title on a page of its own, and on the overview.
    pub title: &'static str,
    pub short_title: &'static str,
    /// Shown if there are no rows.
    pub none: &'static str,
    /// The columns: those of [`load_columns`], and others. The name is the last one, so that figures and names are near
    /// each other on a wide screen.
    pub columns: &'static [Column],
    /// `None` if the server of the mount does not record them.
    pub rows: Option<&'a [T]>,
    pub sort: Sort,
    /// Returns the value of a row in a column, by which the table is sorted.
    pub value: fn(&T, usize) -> Value,
    pub cells: fn(&T) -> Vec<Cell>,
}

impl<T> Ranking<'_, T> {
    /// Draws the table, in the order that the user has chosen if it has a page of its own.
    pub(super) fn draw(self, scene: &Scene<'_>, is_page: bool, area: Rect, buffer: &mut Buffer) {
        let look = scene.look;
        let title = if is_page {
            self.title
        } else {
            self.short_title
        };
        let area = titled(look, title, "moving averages", area, buffer);
        let Some(all) = self.rows else {
            return lines([unknown()], area, buffer);
        };
        if all.is_empty() {
            return lines([Line::raw(self.none)], area, buffer);
        }
        let sort = if is_page { self.sort } else { Sort::new(0) };
        let mut rows: Vec<&T> = all.iter().collect();
        sort.apply(&mut rows, |row, column| (self.value)(row, column));
        let marked = scene.state.row.min(rows.len() - 1);
        let rows: Vec<_> = rows.into_iter().map(self.cells).collect();
        if is_page {
            table::draw_marked(look, self.columns, Some(sort), rows, marked, area, buffer);
        } else {
            table::draw(look, self.columns, None, rows, area, buffer);
        }
    }
}

/// Returns the columns of a load.
pub(super) const fn load_columns() -> [Column; 4] {
    [
        Column::number("req/s", 7),
        Column::number("read/s", 10),
        Column::number("written/s", 10).rank(1),
        Column::number("requests", 9).rank(2),
    ]
}

/// Returns the cells of a load.
pub(super) fn load_cells(load: &Load) -> [Cell; 4] {
    [
        short(load.requests_per_s),
        bytes(load.read_bytes_per_s),
        bytes(load.written_bytes_per_s),
        short(as_f64(load.requests)),
    ]
    .map(Cell::from)
}

/// Returns the value of a load in one of its columns.
pub(super) fn load_value(load: &Load, column: usize) -> Value {
    Value::Figure(Some(match column {
        1 => load.read_bytes_per_s,
        2 => load.written_bytes_per_s,
        3 => as_f64(load.requests),
        _ => load.requests_per_s,
    }))
}
