//! The distribution of durations.

use super::super::change::as_f64;
use super::super::format::{duration, short};
use super::super::histogram::cells;
use super::super::palette::Meaning;
use super::super::pane::{lines, titled};
use super::super::scene::Scene;
use larder::LatencyStats;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Span};

/// The number of columns before a bar.
const LABEL_COLUMNS: usize = 19;
/// The width from which the summary has one line.
const SUMMARY_COLUMNS: u16 = 60;

/// Returns the height of a distribution that is stacked with others. Without durations, it takes two rows.
pub(in super::super) fn height(latency: &LatencyStats) -> Constraint {
    if latency.count == 0 {
        Constraint::Length(2)
    } else {
        Constraint::Fill(1)
    }
}

/// Draws one bar for each range of durations. If there are more ranges than rows, neighbours are combined.
pub(in super::super) fn draw(
    scene: &Scene<'_>,
    title: &str,
    latency: &LatencyStats,
    area: Rect,
    buffer: &mut Buffer,
) {
    let area = titled(scene.look, title, "since the mount", area, buffer);
    if latency.count == 0 {
        return lines([Line::raw("none yet")], area, buffer);
    }
    let mean_ns = as_f64(latency.total_ns) / as_f64(latency.count);
    let shown = |value: Option<u64>| value.map_or("-".to_owned(), |ns| duration(as_f64(ns)));
    let times = format!(
        "50% {}, 99% {}",
        shown(latency.p50_ns),
        shown(latency.p99_ns)
    );
    let extremes = format!(
        "mean {}, longest {}",
        duration(mean_ns),
        shown(latency.max_ns)
    );
    let summary = if area.width >= SUMMARY_COLUMNS {
        vec![format!("{times}, {extremes}")]
    } else {
        vec![times, extremes]
    };
    let head = format!("{:>10} {:>7}", "up to", "count");
    let heading = scene.look.style(Meaning::Heading);
    let rows = ranges(
        latency,
        usize::from(area.height).saturating_sub(1 + summary.len()),
    );
    let largest = rows.iter().map(|range| range.1).max().unwrap_or(0);
    let columns = usize::from(area.width).saturating_sub(LABEL_COLUMNS);
    let bar = |&(limit_ns, count): &(u64, u64)| {
        let share = as_f64(count) / as_f64(largest).max(1.0);
        let bar = String::from(scene.look.glyphs.used).repeat(cells(share, columns));
        Line::from(vec![
            Span::raw(format!(
                "{:>10} {:>7} ",
                duration(as_f64(limit_ns)),
                short(as_f64(count))
            )),
            Span::styled(bar, scene.look.style(Meaning::Reading)),
        ])
    };
    let head = Line::styled(head, heading);
    let first = summary.into_iter().map(Line::raw).chain([head]);
    lines(first.chain(rows.iter().map(bar)), area, buffer);
}

/// Returns at most `most` ranges, each with its upper limit in nanoseconds and the number of durations in it. A limit is
/// a power of two, and the ranges follow each other without gaps.
fn ranges(latency: &LatencyStats, most: usize) -> Vec<(u64, u64)> {
    let power = |limit_ns: u64| limit_ns.max(1).next_power_of_two().trailing_zeros();
    let powers = latency
        .buckets
        .iter()
        .map(|&(limit_ns, count)| (power(limit_ns), count));
    let powers: Vec<(u32, u64)> = powers.collect();
    let (Some(first), Some(last)) = (powers.first(), powers.last()) else {
        return Vec::new();
    };
    let (first, last) = (first.0, last.0);
    let span = last - first + 1;
    let most = u32::try_from(most.max(1)).unwrap_or(u32::MAX);
    let step = span.div_ceil(most);
    let mut ranges: Vec<(u64, u64)> = (0..span.div_ceil(step))
        .map(|range| (1 << (first + step * (range + 1) - 1).min(last), 0))
        .collect();
    for (power, count) in powers {
        ranges[((power - first) / step) as usize].1 += count;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_durations_without_gaps() {
        let latency = LatencyStats {
            buckets: vec![(256, 1), (320, 2), (512, 3), (4096, 4), (5120, 5)],
            ..LatencyStats::default()
        };
        assert_eq!(
            ranges(&latency, 10),
            [
                (256, 1),
                (512, 5),
                (1024, 0),
                (2048, 0),
                (4096, 4),
                (8192, 5)
            ]
        );
        assert_eq!(ranges(&latency, 3), [(512, 6), (2048, 0), (8192, 9)]);
        assert_eq!(ranges(&latency, 4), [(512, 6), (2048, 0), (8192, 9)]);
        assert_eq!(ranges(&latency, 1), [(8192, 15)]);
        assert_eq!(ranges(&latency, 0), [(8192, 15)]);
        assert!(ranges(&LatencyStats::default(), 5).is_empty());
    }
}
