//! The lengths of the hash chains of the chosen cache, or the depths of its trees.

use super::super::change::as_f64;
use super::super::format::counted;
use super::super::histogram::{bars, depth_bars, visible_lengths};
use super::super::palette::Meaning;
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let report = &scene.change.now.report;
    let cache = scene.stats().cache(report.cache);
    let objects = counted(as_f64(cache.objects), "object");
    let title = format!("{}: {objects}", report.cache.as_str());
    let note = match &report.trees {
        Some(trees) => format!("largest tree: {}", counted(as_f64(trees.largest), "page")),
        None => "# actual, | random".to_owned(),
    };
    let area = titled(scene.look, &title, &note, area, buffer);
    let head = match &report.trees {
        Some(_) => format!("{:>5} {:>8}", "depth", "pages"),
        None => format!("{:>5} {:>8} {:>8}", "chain", "buckets", "Poisson"),
    };
    let rows = usize::from(area.height).saturating_sub(1);
    let columns = usize::from(area.width);
    let style = scene.look.style(Meaning::Reading);
    let bars = match &report.trees {
        Some(trees) => depth_bars(trees, rows, columns, style),
        None => bars(report, rows, columns, style),
    };
    let head = Line::styled(head, scene.look.style(Meaning::Heading));
    lines(std::iter::once(head).chain(bars), area, buffer);
}

/// Returns the number of rows for all chains or depths, with the title and the head.
pub(in super::super) fn rows(scene: &Scene<'_>) -> u16 {
    let report = &scene.change.now.report;
    let bars = match &report.trees {
        Some(trees) => trees.pages.len(),
        None => visible_lengths(report),
    };
    u16::try_from(bars + 2).unwrap_or(u16::MAX)
}
