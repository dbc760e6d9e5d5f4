//! The layouts of the pages. Each is made of panes, and has one layout for narrow and one for wide screens.

use super::scene::Scene;
use crate::args::top::Page;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub(super) mod cache;
mod device;
mod files;
mod fuse;
mod journal;
mod list;
mod overview;
mod processes;

pub(super) use list::extent;

/// Draws a page.
pub(super) fn draw(scene: &Scene<'_>, page: Page, area: Rect, buffer: &mut Buffer) {
    match page {
        Page::Overview => overview::draw(scene, area, buffer),
        Page::Fuse => fuse::draw(scene, area, buffer),
        Page::Files => files::draw(scene, area, buffer),
        Page::Processes => processes::draw(scene, area, buffer),
        Page::Device => device::draw(scene, area, buffer),
        Page::Journal => journal::draw(scene, area, buffer),
        Page::Cache(_) => cache::draw(scene, area, buffer),
    }
}
