//! The processes with the most requests.

use super::super::scene::Scene;
use super::super::sort::Value;
use super::super::table::{Cell, Column};
use super::ranking::{Ranking, load_cells, load_columns, load_value};
use larder::BusyProcess;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const LOAD: [Column; 4] = load_columns();
const COLUMNS: [Column; 7] = [
    LOAD[0],
    LOAD[1],
    LOAD[2],
    LOAD[3],
    Column::number("PID", 7).rank(3),
    Column::text("state", 7).rank(4),
    Column::rest("process", 18),
];

/// The number of columns by which the table can be sorted.
pub(in super::super) const SORTS: usize = COLUMNS.len();

/// Draws the table. `is_page` is false on the overview.
pub(in super::super) fn draw(scene: &Scene<'_>, is_page: bool, area: Rect, buffer: &mut Buffer) {
    let ranking = Ranking {
        title: "Processes with the most requests",
        short_title: "Processes",
        none: "no request of a process yet",
        columns: &COLUMNS,
        rows: scene.stats().hot.as_ref().map(|hot| &hot.processes[..]),
        sort: scene.state.processes,
        value: |process: &BusyProcess, column| match column {
            4 => Value::Figure(Some(process.pid.into())),
            5 => Value::Text(state(process).to_owned()),
            6 => Value::Text(program(process)),
            _ => load_value(&process.load, column),
        },
        cells: |process| {
            let pid = match process.pid {
                0 => String::new(),
                pid => pid.to_string(),
            };
            let last = [pid, state(process).to_owned(), program(process)].map(Cell::from);
            load_cells(&process.load).into_iter().chain(last).collect()
        },
    };
    ranking.draw(scene, is_page, area, buffer);
}

/// Returns the name of the program, without control characters.
fn program(process: &BusyProcess) -> String {
    match &process.name {
        Some(name) => name::escaped(name.as_bytes()),
        None if process.pid == 0 => "(kernel)".to_owned(),
        None => "(unknown)".to_owned(),
    }
}

fn state(process: &BusyProcess) -> &'static str {
    match process.pid {
        0 => "",
        _ if process.is_running => "running",
        _ => "exited",
    }
}
