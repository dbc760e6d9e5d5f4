//! Readahead: pages that are read before a program needs them.

use super::super::change::{as_f64, ratio};
use super::super::figures::{self, Figure};
use super::super::format::{or_unknown, percent, short};
use super::super::history::Point;
use super::super::palette::{Level, Meaning};
use super::super::pane::titled;
use super::super::scene::Scene;
use larder::{Stats, TreeReadaheadStats};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// The rows of the short pane.
pub(in super::super) const SHORT_ROWS: u16 = 3;

/// Draws the most important figures.
pub(in super::super) fn draw_short(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    draw_all(
        scene,
        &[pages_ahead(scene), wasted_share(scene)],
        area,
        buffer,
    );
}

/// Draws all figures.
pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let mut figures = vec![
        count(scene, "windows/s", |stats| stats.readahead.windows),
        pages_ahead(scene),
        count(scene, "  used/s", |stats| stats.readahead.pages_used),
        count(scene, "  wasted/s", |stats| stats.readahead.pages_wasted),
        wasted_share(scene),
    ];
    if scene.stats().tree_readahead.is_some() {
        let tree = |stats: &Stats| stats.tree_readahead.unwrap_or_default();
        let of = |count: fn(TreeReadaheadStats) -> u64| move |stats: &Stats| count(tree(stats));
        figures.extend([
            count(scene, "directories/s", of(|tree| tree.directories_ahead)),
            count(scene, "  used/s", of(|tree| tree.directories_used)),
        ]);
    }
    draw_all(scene, &figures, area, buffer);
}

fn draw_all(scene: &Scene<'_>, figures: &[Figure<'_>], area: Rect, buffer: &mut Buffer) {
    let policy = scene.stats().readahead.policy.to_string();
    let area = titled(scene.look, "Readahead", &policy, area, buffer);
    figures::draw(scene, figures, area, buffer);
}

fn pages_ahead<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let figure = |point: &Point| point.pages_ahead_s;
    count(scene, "pages ahead/s", |stats| stats.readahead.pages_ahead).trend(
        figure,
        short,
        Meaning::Reading,
    )
}

fn count<'a>(scene: &Scene<'a>, label: &'static str, count: impl Fn(&Stats) -> u64) -> Figure<'a> {
    let total = short(as_f64(count(scene.stats())));
    Figure::number(label, scene.change.rate(count), short).total(total)
}

/// Returns the share of wasted pages among the pages read ahead that were used or evicted by now. A wasted page was
/// evicted before use.
fn wasted_share<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let wasted = |stats: &Stats| stats.readahead.pages_wasted;
    let decided = |stats: &Stats| stats.readahead.pages_used + stats.readahead.pages_wasted;
    let now = scene.change.ratio(wasted, decided);
    let all = ratio(wasted(scene.stats()), decided(scene.stats()));
    Figure::number("  wasted share", now, percent)
        .level(Level::of_waste(now))
        .total(or_unknown(all, percent))
}
