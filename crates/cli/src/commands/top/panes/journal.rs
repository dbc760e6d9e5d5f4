//! Writing: dirty content, and the commits and checkpoints of the journal.

use super::super::change::as_f64;
use super::super::figures::{self, Figure};
use super::super::format::{bytes, short};
use super::super::palette::{Level, Meaning};
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use larder::{LatencyStats, WritingStats};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

/// Draws the most important figures.
pub(in super::super) fn draw_short(scene: &Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let area = titled(scene.look, "Journal", "", area, buffer);
    let Some(writing) = &scene.stats().writing else {
        return lines([Line::raw("The image is mounted read-only.")], area, buffer);
    };
    let [_, p99] = times(scene, writing, |writing| &writing.commit_latency);
    let figures = [
        dirty(writing),
        commits(scene, writing),
        p99,
        waiting(writing),
    ];
    figures::draw(scene, &figures, area, buffer);
}

/// Draws all figures.
pub(in super::super) fn draw(
    scene: &Scene<'_>,
    writing: &WritingStats,
    area: Rect,
    buffer: &mut Buffer,
) {
    let area = titled(scene.look, "Journal", "now, since the mount", area, buffer);
    let count = |label, count: fn(&WritingStats) -> u64| rate(scene, writing, label, count);
    let mut figures = vec![
        dirty(writing),
        Figure::number(
            "  metadata",
            Some(as_f64(writing.dirty_metadata_bytes)),
            bytes,
        )
        .trend(|point| point.dirty_metadata_bytes, bytes, Meaning::Writing),
        commits(scene, writing),
        count("  for sync", |writing| writing.sync_commits),
        count("  by time", |writing| writing.timed_commits),
        count("  for space", |writing| writing.space_commits),
    ];
    figures.extend(times(scene, writing, |writing| &writing.commit_latency));
    figures.extend([
        count("blocks/s", |writing| writing.committed_blocks),
        count("logged/s", |writing| writing.logged_blocks),
        count("checkpoints/s", |writing| writing.checkpoints),
    ]);
    figures.extend(times(scene, writing, |writing| &writing.checkpoint_latency));
    figures.push(waiting(writing));
    figures.extend(times(scene, writing, |writing| {
        &writing.handle_wait_latency
    }));
    figures::draw(scene, &figures, area, buffer);
}

fn dirty<'a>(writing: &WritingStats) -> Figure<'a> {
    Figure::number("dirty content", Some(as_f64(writing.dirty_bytes)), bytes).trend(
        |point| point.dirty_bytes,
        bytes,
        Meaning::Writing,
    )
}

fn commits<'a>(scene: &Scene<'a>, writing: &WritingStats) -> Figure<'a> {
    rate(scene, writing, "commits/s", |writing| writing.commits).trend(
        |point| point.commits_s,
        short,
        Meaning::Writing,
    )
}

/// Returns the number of changes that wait for the journal.
fn waiting<'a>(writing: &WritingStats) -> Figure<'a> {
    let now = as_f64(writing.waiting_handles);
    let level = if now > 0.0 {
        Level::Fair
    } else {
        Level::Neutral
    };
    Figure::number("waiting", Some(now), short)
        .level(level)
        .total(short(as_f64(writing.handle_wait_latency.count)))
        .trend(|point| point.waiting_handles, short, Meaning::Writing)
}

fn rate<'a>(
    scene: &Scene<'a>,
    writing: &WritingStats,
    label: &'static str,
    count: fn(&WritingStats) -> u64,
) -> Figure<'a> {
    let rate = scene
        .change
        .rate(|stats| stats.writing.as_ref().map_or(0, count));
    Figure::number(label, rate, short).total(short(as_f64(count(writing))))
}

/// Returns the percentiles of the times of commits, checkpoints or waiting.
fn times<'a>(
    scene: &Scene<'a>,
    writing: &WritingStats,
    of: fn(&WritingStats) -> &LatencyStats,
) -> [Figure<'a>; 2] {
    let recent = scene.change.latency(|stats| stats.writing.as_ref().map(of));
    figures::percentiles(recent.as_ref(), of(writing))
}
