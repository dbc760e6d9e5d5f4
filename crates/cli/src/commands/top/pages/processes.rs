//! The processes with the most requests.

use super::super::panes::processes;
use super::super::scene::Scene;
use super::list;
use crate::args::top::Page;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let rows = list::extent(scene.stats(), Page::Processes).rows;
    let area = list::place(scene, rows, area, buffer);
    processes::draw(scene, true, area, buffer);
}
