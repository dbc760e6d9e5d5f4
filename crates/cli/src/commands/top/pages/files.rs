//! The files with the most requests.

use super::super::panes::files;
use super::super::scene::Scene;
use super::list;
use crate::args::top::Page;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let rows = list::extent(scene.stats(), Page::Files).rows;
    let area = list::place(scene, rows, area, buffer);
    files::draw(scene, true, area, buffer);
}
