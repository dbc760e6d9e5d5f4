//! The requests to the device of the image.

use super::super::change::as_f64;
use super::super::figures::{self, Figure};
use super::super::format::{bytes, short};
use super::super::history::Point;
use super::super::palette::Meaning;
use super::super::pane::titled;
use super::super::scene::Scene;
use larder::{DeviceStats, LatencyStats};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the most important figures.
pub(in super::super) fn draw_short(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let figures = if scene.stats().writing.is_some() {
        vec![
            reads(scene),
            read_bytes(scene),
            writes(scene),
            written_bytes(scene),
            flushes(scene),
        ]
    } else {
        let [_, p99] = times(scene, |device| &device.read_latency);
        vec![reads(scene), read_bytes(scene), p99]
    };
    draw_all(scene, &figures, area, buffer);
}

/// Draws all figures.
pub(in super::super) fn draw(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let mut figures = vec![reads(scene), read_bytes(scene)];
    figures.extend(times(scene, |device| &device.read_latency));
    if scene.stats().writing.is_some() {
        figures.extend([writes(scene), written_bytes(scene)]);
        figures.extend(times(scene, |device| &device.write_latency));
        figures.push(flushes(scene));
        figures.extend(times(scene, |device| &device.flush_latency));
    }
    draw_all(scene, &figures, area, buffer);
}

fn draw_all(scene: &Scene<'_>, figures: &[Figure<'_>], area: Rect, buffer: &mut Buffer) {
    let back_end = scene.stats().device.back_end.to_string();
    let area = titled(scene.look, "Device", &back_end, area, buffer);
    figures::draw(scene, figures, area, buffer);
}

fn reads<'a>(scene: &Scene<'a>) -> Figure<'a> {
    rate(scene, "reads/s", |device| device.reads, short).trend(
        |point| point.reads_s,
        short,
        Meaning::Reading,
    )
}

fn read_bytes<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let figure = |point: &Point| point.read_bytes_s;
    rate(scene, "read/s", |device| device.bytes, bytes).trend(figure, bytes, Meaning::Reading)
}

fn writes<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let figure = |point: &Point| point.writes_s;
    rate(scene, "writes/s", |device| device.writes, short).trend(figure, short, Meaning::Writing)
}

fn written_bytes<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let figure = |point: &Point| point.written_bytes_s;
    rate(scene, "written/s", |device| device.written_bytes, bytes).trend(
        figure,
        bytes,
        Meaning::Writing,
    )
}

fn flushes<'a>(scene: &Scene<'a>) -> Figure<'a> {
    let figure = |point: &Point| point.flushes_s;
    rate(scene, "flushes/s", |device| device.flushes, short).trend(figure, short, Meaning::Writing)
}

fn rate<'a>(
    scene: &Scene<'a>,
    label: &'static str,
    count: fn(&DeviceStats) -> u64,
    shown: fn(f64) -> String,
) -> Figure<'a> {
    let total = shown(as_f64(count(&scene.stats().device)));
    Figure::number(
        label,
        scene.change.rate(|stats| count(&stats.device)),
        shown,
    )
    .total(total)
}

/// Returns the percentiles of the times of requests.
fn times<'a>(scene: &Scene<'a>, of: fn(&DeviceStats) -> &LatencyStats) -> [Figure<'a>; 2] {
    let recent = scene.change.latency(|stats| Some(of(&stats.device)));
    figures::percentiles(recent.as_ref(), of(&scene.stats().device))
}
