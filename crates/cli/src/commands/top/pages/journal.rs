//! The journal, dirty content, and shared attributes.

use super::super::pane::{WIDE, beside, stacked};
use super::super::panes::{attributes, journal, latency};
use super::super::scene::Scene;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::Rect;

pub(super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let stats = scene.stats();
    let Some(writing) = &stats.writing else {
        return journal::draw_short(scene, area, buffer);
    };
    let [left, right] = beside(area, [Fill(1), Fill(1)]);
    journal::draw(scene, writing, left, buffer);
    let rows = if stats.attributes.is_some() {
        attributes::ROWS
    } else {
        0
    };
    let [times, shared] = stacked(right, [Fill(1), Length(rows)]);
    if let Some(attributes) = &stats.attributes {
        attributes::draw(scene, attributes, shared, buffer);
    }
    if area.width < WIDE {
        return latency::draw(scene, "Commits", &writing.commit_latency, times, buffer);
    }
    let heights = [
        &writing.commit_latency,
        &writing.checkpoint_latency,
        &writing.handle_wait_latency,
    ]
    .map(latency::height);
    let [commits, checkpoints, waits] = stacked(times, heights);
    latency::draw(scene, "Commits", &writing.commit_latency, commits, buffer);
    latency::draw(
        scene,
        "Checkpoints",
        &writing.checkpoint_latency,
        checkpoints,
        buffer,
    );
    latency::draw(
        scene,
        "Waits for the journal",
        &writing.handle_wait_latency,
        waits,
        buffer,
    );
}
