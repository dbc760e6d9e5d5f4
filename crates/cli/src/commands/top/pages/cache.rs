//! A cache: its chains, compared with a random distribution, and its activity.

use super::super::pane::{beside, stacked};
use super::super::panes::{cache, caches, chains};
use super::super::scene::Scene;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let [caches, below] = stacked(area, [Length(caches::ROWS), Fill(1)]);
    caches::draw(scene, caches, buffer);
    draw_details(scene, below, buffer);
}

/// Draws the chains, the properties and the activity.
pub(in super::super) fn draw_details(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let most = area.height.saturating_sub(cache::ACTIVITY_ROWS);
    let rows = chains::rows(scene).max(cache::PROPERTY_ROWS).min(most);
    let [above, activity] = stacked(area, [Length(rows), Fill(1)]);
    // On the smallest screen, the properties still have a column of totals.
    let [chains, properties] = beside(above, [Fill(1), Length((area.width / 2).max(38))]);
    chains::draw(scene, chains, buffer);
    cache::draw_properties(scene, properties, buffer);
    cache::draw_activity(scene, activity, buffer);
}
