//! The files with the most requests.

use super::super::scene::Scene;
use super::super::sort::Value;
use super::super::table::{Cell, Column};
use super::ranking::{Ranking, load_cells, load_columns, load_value};
use larder::HotFile;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const LOAD: [Column; 4] = load_columns();
const COLUMNS: [Column; 6] = [
    LOAD[0],
    LOAD[1],
    LOAD[2],
    LOAD[3],
    Column::number("inode", 10).rank(3),
    Column::path("path", 28),
];

/// The number of columns by which the table can be sorted.
pub(in super::super) const SORTS: usize = COLUMNS.len();

/// Draws the table. `is_page` is false on the overview.
pub(in super::super) fn draw(scene: &Scene<'_>, is_page: bool, area: Rect, buffer: &mut Buffer) {
    let ranking = Ranking {
        title: "Files with the most requests",
        short_title: "Files",
        none: "no request for a file yet",
        columns: &COLUMNS,
        rows: scene.stats().hot.as_ref().map(|hot| &hot.files[..]),
        sort: scene.state.files,
        value: |file: &HotFile, column| match column {
            4 => Value::Figure(Some(file.ino.into())),
            5 => Value::Text(path(file)),
            _ => load_value(&file.load, column),
        },
        cells: |file| {
            let last = [file.ino.to_string(), path(file)].map(Cell::from);
            load_cells(&file.load).into_iter().chain(last).collect()
        },
    };
    ranking.draw(scene, is_page, area, buffer);
}

/// Returns the path of a file, without control characters.
fn path(file: &HotFile) -> String {
    let raw = file.path_hex.as_deref().and_then(from_hex);
    match (raw, &file.path) {
        (Some(bytes), _) => name::escaped(&bytes),
        (None, Some(path)) => name::escaped(path.as_bytes()),
        (None, None) => format!("inode {}", file.ino),
    }
}

/// Returns the bytes of a path that is not UTF-8.
fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    bytes.collect()
}
