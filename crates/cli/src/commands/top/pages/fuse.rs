//! The operations that the kernel has requested, their times and their errors.

use super::super::change::as_f64;
use super::super::format::counted;
use super::super::pane::{WIDE, beside, lines, stacked};
use super::super::panes::{latency, operations, requests};
use super::super::scene::Scene;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;
use ratatui::text::Line;

/// The minimum number of rows for the figures of all requests.
const FIGURE_ROWS: u16 = 6;
/// The width of the distribution of times beside the figures.
const LATENCY_COLUMNS: u16 = 64;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let rows = operations::sorted(scene);
    let list = u16::try_from(rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2);
    let least = FIGURE_ROWS.max(area.height / 3);
    let list = list.clamp(
        FIGURE_ROWS,
        area.height.saturating_sub(least).max(FIGURE_ROWS),
    );
    let [list, below] = stacked(area, [Length(list), Fill(1)]);
    operations::draw(scene, true, list, buffer);
    let marked = rows.get(scene.state.row.min(rows.len().saturating_sub(1)));
    let Some(marked) = marked else {
        return requests::draw(scene, below, buffer);
    };
    let columns = if area.width >= WIDE {
        LATENCY_COLUMNS
    } else {
        area.width / 2
    };
    let [figures, times] = beside(below, [Fill(1), Length(columns)]);
    requests::draw(scene, figures, buffer);
    let name = name::escaped(marked.now.operation.as_bytes());
    let failed = operations::errors(marked.now);
    let [times, errors] = stacked(times, [Fill(1), Length(u16::from(!failed.is_empty()))]);
    let title = format!(
        "{name}: {}",
        counted(as_f64(marked.now.requests), "request")
    );
    latency::draw(scene, &title, &marked.now.latency, times, buffer);
    lines([Line::raw(format!("errors: {failed}"))], errors, buffer);
}
