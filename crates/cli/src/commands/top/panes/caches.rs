//! The table of the caches. The mark `>` shows the chosen cache.

use super::super::change::{as_f64, ratio};
use super::super::format::{or_unknown, percent, short, span, two_decimals};
use super::super::graph;
use super::super::palette::{Level, Meaning};
use super::super::pane::titled;
use super::super::scene::Scene;
use super::super::table::{self, Cell, Column};
use super::memory;
use larder::{CacheKind, CacheStats};
use larder_console::size;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The rows of the pane: the title, the head, and a row for each cache.
pub(in super::super) const ROWS: u16 = 6;

const COLUMNS: [Column; 10] = [
    Column::text("cache", 6),
    Column::number("lookups/s", 9),
    Column::number("hits now", 9),
    Column::number("overall", 8),
    Column::number("links/hit", 9).rank(3),
    Column::number("links/miss", 10).rank(4),
    Column::number("longest", 7).rank(1),
    Column::number("objects", 8).rank(5),
    Column::number("memory", 10),
    Column::rest("  lookups/s", 12).rank(2),
];

pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let columns = table::rest_width(&COLUMNS, table::without_mark(area).width);
    let covered = scene.history.span(graph_columns(columns));
    let note = if columns == 0 || covered.is_zero() {
        String::new()
    } else {
        format!("graph: last {}", span(covered.as_secs_f64()))
    };
    let area = titled(scene.look, "Caches", &note, area, buffer);
    let rows = scene
        .stats()
        .caches()
        .map(|(kind, cache)| row(scene, kind, cache, columns));
    let marked = scene.state.cache as usize;
    table::draw_marked(
        scene.look,
        &COLUMNS,
        None,
        rows.to_vec(),
        marked,
        area,
        buffer,
    );
}

/// Returns the number of columns of a graph in a column of the table. Two columns before it are blank.
fn graph_columns(columns: u16) -> usize {
    usize::from(columns).saturating_sub(2)
}

fn row(scene: &Scene<'_>, kind: CacheKind, cache: &CacheStats, columns: u16) -> Vec<Cell> {
    let look = scene.look;
    let change = scene.change.cache(kind);
    let level = hits_level(scene, cache, change.hit_rate);
    let lookups = scene
        .history
        .last(graph_columns(columns), |point| point.lookups_s(kind));
    let largest = lookups.iter().flatten().copied().fold(0.0, f32::max);
    let graph = graph::rows(&lookups, (graph_columns(columns), 1), largest, look.glyphs);
    vec![
        Cell::from(kind.as_str().to_owned()),
        Cell::from(or_unknown(change.rate, short)),
        Cell {
            text: or_unknown(change.hit_rate, percent) + level.mark(),
            style: look.style(Meaning::Judged(level)),
        },
        Cell::from(or_unknown(ratio(cache.hits, cache.lookups), percent)),
        Cell::from(or_unknown(change.links_per_hit, two_decimals)),
        Cell::from(or_unknown(change.links_per_miss, two_decimals)),
        Cell::from(
            cache
                .longest_chain
                .map_or("-".to_owned(), |chain| chain.to_string()),
        ),
        Cell::from(short(as_f64(cache.objects))),
        Cell::from(size::human(cache.bytes)),
        Cell {
            text: format!("  {}", graph.concat()),
            style: look.style(Meaning::Reading),
        },
    ]
}

/// Judges the share of hits in a cache.
pub(in super::super) fn hits_level(
    scene: &Scene<'_>,
    cache: &CacheStats,
    share: Option<f64>,
) -> Level {
    Level::of_hits(share, memory::is_full(scene, cache.objects, cache.capacity))
}
