//! The memory of all caches.

use super::super::change::{as_f64, ratio};
use super::super::format::percent;
use super::super::histogram::cells;
use super::super::palette::Meaning;
use super::super::pane::titled;
use super::super::scene::Scene;
use larder_console::size;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub(in super::super) const ROWS: u16 = 2;

pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let stats = scene.stats();
    let readahead = &stats.readahead;
    let note = format!(
        "readahead {}, {}",
        readahead.policy,
        size::human(readahead.max_bytes)
    );
    let area = titled(scene.look, "Memory", &note, area, buffer);
    if area.is_empty() {
        return;
    }
    let used_bytes = scene.change.used_bytes();
    let share = ratio(used_bytes, stats.cache_size_bytes).unwrap_or(0.0);
    let text = format!(
        "{} of {}, {}  ",
        size::human(used_bytes),
        size::human(stats.cache_size_bytes),
        percent(share)
    );
    let width = usize::from(area.width);
    let (x, _) = buffer.set_stringn(area.x, area.y, text, width, Style::new());
    let columns = usize::from(area.right() - x);
    let glyphs = scene.look.glyphs;
    let used = cells(share, columns);
    let meter = [
        (glyphs.used, used, Meaning::Reading),
        (glyphs.free, columns - used, Meaning::Quiet),
    ];
    let mut at = x;
    for (glyph, cells, meaning) in meter {
        let text = String::from(glyph).repeat(cells);
        (at, _) = buffer.set_stringn(at, area.y, text, width, scene.look.style(meaning));
    }
}

/// Returns whether the caches use nearly all of their memory, or whether a cache with `objects`
/// entries nearly reaches its `capacity`.
pub(in super::super) fn is_full(scene: &Scene<'_>, objects: u64, capacity: u64) -> bool {
    let nearly = |part: u64, whole: u64| whole > 0 && as_f64(part) >= 0.95 * as_f64(whole);
    nearly(scene.change.used_bytes(), scene.stats().cache_size_bytes) || nearly(objects, capacity)
}
