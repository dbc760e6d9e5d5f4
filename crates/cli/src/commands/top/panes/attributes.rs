//! Extended attributes that files share.

use super::super::change::as_f64;
use super::super::figures::{self, Figure};
use super::super::format::{bytes, short};
use super::super::pane::titled;
use super::super::scene::Scene;
use larder::AttributeStats;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The rows of the pane.
pub(in super::super) const ROWS: u16 = 3;

/// Draws the figures of `attributes`.
pub(in super::super) fn draw(
    scene: &Scene<'_>,
    attributes: &AttributeStats,
    area: Rect,
    buffer: &mut Buffer,
) {
    let note = format!("mbcache {}", attributes.variant);
    let area = titled(scene.look, "Shared attributes", &note, area, buffer);
    let shares = scene
        .change
        .rate(|stats| stats.attributes.as_ref().map_or(0, |of| of.shares));
    let figures = [
        Figure::number("attr. shares/s", shares, short).total(short(as_f64(attributes.shares))),
        Figure::number("space saved", Some(as_f64(attributes.saved_bytes)), bytes),
    ];
    figures::draw(scene, &figures, area, buffer);
}
