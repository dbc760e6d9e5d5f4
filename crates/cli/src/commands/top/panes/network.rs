//! The server of an image at a URL.

use super::super::change::as_f64;
use super::super::figures::{self, Figure};
use super::super::format::{bytes, duration, short};
use super::super::history::Point;
use super::super::palette::{Level, Meaning};
use super::super::pane::titled;
use super::super::scene::Scene;
use larder::ServerCounts;
use larder_console::name;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the figures of `server`.
pub(in super::super) fn draw(
    scene: &Scene<'_>,
    server: &ServerCounts,
    area: Rect,
    buffer: &mut Buffer,
) {
    let area = titled(scene.look, "Network", "server of the image", area, buffer);
    let rate = |label, count: fn(&ServerCounts) -> u64, shown: fn(f64) -> String| {
        let rate = scene
            .change
            .rate(|stats| stats.server.as_ref().map_or(0, count));
        Figure::number(label, rate, shown).total(shown(as_f64(count(server))))
    };
    let micros = |us: Option<u64>| us.map(|us| as_f64(us) * 1000.0);
    let p99_ns = micros(server.latency_p99_us);
    let failed = scene
        .change
        .rate(|stats| stats.server.as_ref().map_or(0, |server| server.failed));
    let fetched = |point: &Point| point.fetched_bytes_s;
    let mut figures = vec![
        rate("fetched/s", |server| server.fetched_bytes, bytes).trend(
            fetched,
            bytes,
            Meaning::Reading,
        ),
        rate("requests/s", |server| server.requests, short).trend(
            |point| point.fetches_s,
            short,
            Meaning::Reading,
        ),
        rate("failed/s", |server| server.failed, short).level(Level::of_failures(failed)),
        rate("repeated/s", |server| server.repeated, short),
        Figure::number("50% within", micros(server.latency_p50_us), duration),
        Figure::number("99% within", p99_ns, duration).level(Level::of_latency(p99_ns)),
        rate("from memory/s", |server| server.memory_bytes, bytes),
        rate("from disk/s", |server| server.disk_bytes, bytes),
        rate("read ahead/s", |server| server.ahead_bytes, bytes),
        Figure::number("bandwidth/s", server.bandwidth_bytes().map(as_f64), bytes),
    ];
    if let Some(failure) = &server.last_failure {
        let text = name::escaped(failure.as_bytes());
        figures.insert(3, Figure::text("  last failure", text).level(Level::Fair));
    }
    figures::draw(scene, &figures, area, buffer);
}
