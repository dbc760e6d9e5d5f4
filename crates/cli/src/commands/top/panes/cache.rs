//! The figures of the chosen cache.

use super::super::change::{as_f64, ratio};
use super::super::figures::{self, Figure};
use super::super::format::{bytes, counted, or_unknown, percent, short, two_decimals};
use super::super::history::Point;
use super::super::palette::Meaning;
use super::super::pane::titled;
use super::super::scene::Scene;
use super::caches::hits_level;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The rows of the properties with their title.
pub(in super::super) const PROPERTY_ROWS: u16 = 9;
/// The rows of the activity with its title.
pub(in super::super) const ACTIVITY_ROWS: u16 = 4;

/// Draws the properties of the cache.
pub(in super::super) fn draw_properties(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let kind = scene.state.cache;
    let cache = scene.stats().cache(kind);
    let change = scene.change.cache(kind);
    let area = titled(scene.look, "Properties", "since the mount", area, buffer);
    let all = |part, whole| or_unknown(ratio(part, whole), two_decimals);
    let searches = cache.searches();
    let removed = cache.inserted.saturating_sub(cache.objects);
    let trees = scene.change.now.report.trees.as_ref();
    let found_by = match trees {
        Some(trees) => counted(as_f64(trees.trees), "red-black tree"),
        None => format!(
            "{}, {}",
            counted(as_f64(cache.buckets), "bucket"),
            cache.finder
        ),
    };
    let figures = [
        Figure::text("found by", found_by),
        Figure::number("links/hit", change.links_per_hit, two_decimals)
            .total(all(cache.links_on_hits, searches.hits)),
        Figure::number("links/miss", change.links_per_miss, two_decimals)
            .total(all(cache.links_on_misses, searches.misses)),
        Figure::number("longest", cache.longest_chain.map(as_f64), short),
        Figure::number("removed/s", change.removed, short).total(short(as_f64(removed))),
        Figure::number("objects", Some(as_f64(cache.objects)), short),
        Figure::number(
            "  of capacity",
            ratio(cache.objects, cache.capacity),
            percent,
        )
        .total(short(as_f64(cache.capacity))),
        Figure::number("memory", Some(as_f64(cache.bytes)), bytes),
    ];
    figures::draw(scene, &figures, area, buffer);
}

/// Draws the activity of the cache with its history.
pub(in super::super) fn draw_activity(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let kind = scene.state.cache;
    let cache = scene.stats().cache(kind);
    let change = scene.change.cache(kind);
    let area = titled(scene.look, "Activity", "now, since the mount", area, buffer);
    let hits = |point: &Point| point.hit_share(kind);
    let figures = [
        Figure::number("lookups/s", change.rate, short)
            .total(short(as_f64(cache.lookups)))
            .trend(move |point| point.lookups_s(kind), short, Meaning::Reading),
        Figure::number("hits", change.hit_rate, percent)
            .level(hits_level(scene, cache, change.hit_rate))
            .total(or_unknown(ratio(cache.hits, cache.lookups), percent))
            .trend(hits, percent, Meaning::Reading),
        Figure::number("inserted/s", change.inserted, short)
            .total(short(as_f64(cache.inserted)))
            .trend(move |point| point.inserted_s(kind), short, Meaning::Writing),
    ];
    figures::draw(scene, &figures, area, buffer);
}
