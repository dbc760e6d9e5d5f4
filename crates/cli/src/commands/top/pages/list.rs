//! Pages that consist of a long list: its extent, and the figures that it leaves space for.

use super::super::pane::{WIDE, beside, stacked};
use super::super::panes::{device, files, operations, processes, requests};
use super::super::scene::Scene;
use super::super::state::Extent;
use crate::args::top::Page;
use larder::Stats;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;

/// The rows of the figures of all requests below a list.
const FIGURE_ROWS: u16 = 6;

/// Draws the figures of all requests below a list of `rows`, and beside them those of the device. Returns the area of
/// the list.
pub(super) fn place(scene: &Scene<'_>, rows: usize, area: Rect, buffer: &mut Buffer) -> Rect {
    let needed = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(2);
    let most = area.height.saturating_sub(FIGURE_ROWS).max(FIGURE_ROWS);
    let [list, figures] = stacked(area, [Length(needed.clamp(FIGURE_ROWS, most)), Fill(1)]);
    if area.width >= WIDE {
        let [left, right] = beside(figures, [Fill(1), Fill(1)]);
        requests::draw(scene, left, buffer);
        device::draw_short(scene, right, buffer);
    } else {
        requests::draw(scene, figures, buffer);
    }
    list
}

/// Returns the number of rows and columns of the table of a page whose rows can be marked and sorted.
pub(in super::super) fn extent(stats: &Stats, page: Page) -> Extent {
    let hot = stats.hot.as_ref();
    let requests = stats.requests.as_ref();
    let (rows, columns) = match page {
        Page::Fuse => (
            requests.map_or(0, |requests| requests.operations.len()),
            operations::SORTS,
        ),
        Page::Files => (hot.map_or(0, |hot| hot.files.len()), files::SORTS),
        Page::Processes => (hot.map_or(0, |hot| hot.processes.len()), processes::SORTS),
        _ => (0, 0),
    };
    Extent { rows, columns }
}
