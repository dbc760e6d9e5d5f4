//! The requests of the kernel.

use super::super::change::as_f64;
use super::super::figures::{self, Figure};
use super::super::format::{duration, short};
use super::super::palette::{Level, Meaning};
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use larder::{LatencyStats, MountTransport, RequestStats};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let stats = scene.stats();
    let transport = stats.transport.map_or("", MountTransport::as_str);
    let area = titled(scene.look, "FUSE requests", transport, area, buffer);
    let Some(requests) = &stats.requests else {
        return lines([unknown()], area, buffer);
    };
    let rate = |count: fn(&RequestStats) -> u64| {
        scene
            .change
            .rate(|stats| stats.requests.as_ref().map_or(0, count))
    };
    let latency = scene.change.request_latency();
    let percentile =
        |of: fn(&LatencyStats) -> Option<u64>| latency.as_ref().and_then(of).map(as_f64);
    let p99_ns = percentile(|latency| latency.p99_ns);
    let errors = rate(|requests| requests.errors);
    let operations = requests.operations.iter();
    let severity = operations
        .map(Level::of_errors)
        .max()
        .unwrap_or(Level::Neutral);
    let figures = [
        Figure::number("requests/s", rate(|requests| requests.requests), short)
            .total(short(as_f64(requests.requests)))
            .trend(|point| point.requests_s, short, Meaning::Reading),
        Figure::number("99% within", p99_ns, duration)
            .level(Level::of_latency(p99_ns))
            .trend(|point| point.request_p99_ns, duration, Meaning::Reading),
        Figure::number("50% within", percentile(|latency| latency.p50_ns), duration).trend(
            |point| point.request_p50_ns,
            duration,
            Meaning::Reading,
        ),
        Figure::number("errors/s", errors, short)
            .level(severity)
            .total(short(as_f64(requests.errors)))
            .trend(|point| point.errors_s, short, Meaning::Errors),
        Figure::number("waiting", requests.waiting.map(as_f64), short).trend(
            |point| point.waiting,
            short,
            Meaning::Writing,
        ),
    ];
    figures::draw(scene, &figures, area, buffer);
}

/// Returns the line for a mount of an older version, whose server does not count requests.
pub(in super::super) fn unknown() -> Line<'static> {
    Line::raw("not recorded by this mount")
}
