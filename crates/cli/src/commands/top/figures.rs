//! A list of figures with their trends. The graphs of the trends take the rows that the list leaves.

use super::change::as_f64;
use super::format::{UNKNOWN, duration, or_unknown, span};
use super::graph;
use super::history::Point;
use super::palette::{Level, Meaning};
use super::scene::Scene;
use super::table::start_of;
use larder::LatencyStats;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

const LABEL_COLUMNS: u16 = 14;
const VALUE_COLUMNS: u16 = 11;
const MARK_COLUMNS: u16 = 2;
const TOTAL_COLUMNS: u16 = 10;
/// The first column after the value and its mark.
const REST: u16 = LABEL_COLUMNS + VALUE_COLUMNS + MARK_COLUMNS;
/// The fewest columns of a graph. If the column of totals leaves fewer, the totals are shown below the figures.
const LEAST_TREND_COLUMNS: u16 = 8;

/// A figure of a list.
pub(super) struct Figure<'a> {
    label: &'static str,
    value: Shown,
    level: Level,
    /// The value since the mount.
    total: Option<String>,
    trend: Option<Trend<'a>>,
}

/// The value of a figure.
enum Shown {
    /// A short text at the right edge of its column.
    Number(String),
    /// A text that can be long.
    Text(String),
}

/// Returns the figure of a refresh, if it is known.
type OfPoint<'a> = dyn Fn(&Point) -> Option<f32> + 'a;

/// The history of a figure.
struct Trend<'a> {
    figure: Box<OfPoint<'a>>,
    shown: fn(f64) -> String,
    meaning: Meaning,
}

impl<'a> Figure<'a> {
    fn new(label: &'static str, value: Shown) -> Self {
        Self {
            label,
            value,
            level: Level::Neutral,
            total: None,
            trend: None,
        }
    }

    /// Returns a figure with a number, which may be unknown.
    pub(super) fn number(
        label: &'static str,
        value: Option<f64>,
        shown: fn(f64) -> String,
    ) -> Self {
        Self::new(label, Shown::Number(or_unknown(value, shown)))
    }

    /// Returns a figure that is a text.
    pub(super) fn text(label: &'static str, text: impl Into<String>) -> Self {
        Self::new(label, Shown::Text(text.into()))
    }

    pub(super) fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Adds the value since the mount.
    pub(super) fn total(self, total: impl Into<String>) -> Self {
        Self {
            total: Some(total.into()),
            ..self
        }
    }

    /// Adds a graph. `shown` formats its largest value.
    pub(super) fn trend(
        self,
        figure: impl Fn(&Point) -> Option<f32> + 'a,
        shown: fn(f64) -> String,
        meaning: Meaning,
    ) -> Self {
        let trend = Trend {
            figure: Box::new(figure),
            shown,
            meaning,
        };
        Self {
            trend: Some(trend),
            ..self
        }
    }
}

/// Returns the median and the 99th percentile of times: since the last refresh, if there is an earlier reply, and since
/// the mount.
pub(super) fn percentiles<'a>(
    recent: Option<&LatencyStats>,
    all: &LatencyStats,
) -> [Figure<'a>; 2] {
    [("  50% within", 50), ("  99% within", 99)].map(|(label, percent)| {
        let at = |latency: &LatencyStats| latency.percentile_ns(percent).map(as_f64);
        let now = recent.and_then(at);
        Figure::number(label, now, duration)
            .level(Level::of_latency(now))
            .total(or_unknown(at(all), duration))
    })
}

/// Draws the figures from top to bottom.
pub(super) fn draw(scene: &Scene<'_>, figures: &[Figure<'_>], area: Rect, buffer: &mut Buffer) {
    let has_totals = figures.iter().any(|figure| figure.total.is_some());
    let has_trends = figures.iter().any(|figure| figure.trend.is_some());
    let least = if has_trends {
        LEAST_TREND_COLUMNS + 1
    } else {
        0
    };
    let shows_totals = has_totals && area.width >= REST + TOTAL_COLUMNS + least;
    // Printed text has at most a few points, so high graphs would be mostly blank.
    let least = u16::try_from(figures.len()).unwrap_or(u16::MAX);
    let rows = if scene.has_keys {
        area.height
    } else {
        area.height.min(least)
    };
    let mut y = area.y;
    for (figure, height) in figures.iter().zip(heights(figures, rows)) {
        if height > 0 {
            let row = Rect { y, height, ..area };
            draw_one(scene, figure, shows_totals, row, buffer);
        }
        y += height;
    }
}

/// Returns the number of rows of each figure. Figures with a trend share the rows that are left over.
fn heights(figures: &[Figure<'_>], rows: u16) -> Vec<u16> {
    let trends = figures
        .iter()
        .filter(|figure| figure.trend.is_some())
        .count();
    let spare = usize::from(rows).saturating_sub(figures.len());
    let mut left = usize::from(rows);
    let mut trend = 0;
    let height = |figure: &Figure<'_>| {
        let mut height = 1;
        if figure.trend.is_some() {
            height += spare / trends + usize::from(trend < spare % trends);
            trend += 1;
        }
        height = height.min(left);
        left -= height;
        u16::try_from(height).unwrap_or(u16::MAX)
    };
    figures.iter().map(height).collect()
}

fn draw_one(
    scene: &Scene<'_>,
    figure: &Figure<'_>,
    shows_totals: bool,
    area: Rect,
    buffer: &mut Buffer,
) {
    let style = scene.look.style(Meaning::Judged(figure.level));
    left((0, area.width), figure.label, area, Style::new(), buffer);
    let cut = scene.look.glyphs.cut;
    match &figure.value {
        Shown::Number(number) => right(LABEL_COLUMNS + VALUE_COLUMNS, number, area, style, buffer),
        Shown::Text(text) => {
            let x = LABEL_COLUMNS + 1;
            let columns = area.width.saturating_sub(x);
            let text = start_of(text.clone(), columns, cut);
            left((x, columns), &text, area, style, buffer);
            return;
        }
    }
    let mark = (LABEL_COLUMNS + VALUE_COLUMNS, MARK_COLUMNS);
    left(mark, figure.level.mark(), area, style, buffer);
    let Some(trend) = &figure.trend else {
        let has_room = area.width >= REST + TOTAL_COLUMNS;
        if let Some(total) = figure.total.as_deref().filter(|_| has_room) {
            right(REST + TOTAL_COLUMNS, total, area, Style::new(), buffer);
        }
        return;
    };
    let note = match &figure.total {
        Some(total) if shows_totals => {
            right(REST + TOTAL_COLUMNS, total, area, Style::new(), buffer);
            None
        }
        total => total.as_ref().map(|total| ("  total", total.clone())),
    };
    let x = REST + 1 + if shows_totals { TOTAL_COLUMNS } else { 0 };
    draw_trend(scene, trend, note, x, area, buffer);
}

/// Draws a graph from column `x` to the right edge. If it has several rows, `note`, its largest value and the time that
/// it covers are shown below the figure.
fn draw_trend(
    scene: &Scene<'_>,
    trend: &Trend<'_>,
    note: Option<(&'static str, String)>,
    x: u16,
    area: Rect,
    buffer: &mut Buffer,
) {
    let columns = usize::from(area.width.saturating_sub(x));
    let look = scene.look;
    let values = scene.history.last(columns, &trend.figure);
    let largest = values.iter().flatten().copied().fold(0.0, f32::max);
    let size = (columns, usize::from(area.height));
    let style = look.style(trend.meaning);
    let rows = graph::rows(&values, size, largest, look.glyphs);
    for (text, row) in rows.iter().zip(area.rows()) {
        left((x, area.width), text, row, style, buffer);
    }
    let is_known = values.iter().any(Option::is_some);
    let largest = if is_known {
        (trend.shown)(largest.into())
    } else {
        UNKNOWN.to_owned()
    };
    let seconds = scene.history.span(columns).as_secs_f64();
    let quiet = look.style(Meaning::Quiet);
    let notes = [("  largest", largest), ("  in the last", span(seconds))];
    let notes = note.into_iter().chain(notes);
    for ((label, text), row) in notes.zip(area.rows().skip(1)) {
        left((0, LABEL_COLUMNS), label, row, quiet, buffer);
        right(LABEL_COLUMNS + VALUE_COLUMNS, &text, row, quiet, buffer);
    }
}

/// Draws a text in the first row of `area`, from column `x` on, in at most `columns` columns.
fn left((x, columns): (u16, u16), text: &str, area: Rect, style: Style, buffer: &mut Buffer) {
    let columns = columns.min(area.width.saturating_sub(x));
    if columns > 0 {
        buffer.set_stringn(area.x + x, area.y, text, columns.into(), style);
    }
}

/// Draws a text in the first row of `area`, so that it ends before column `end`.
fn right(end: u16, text: &str, area: Rect, style: Style, buffer: &mut Buffer) {
    let columns = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    left(
        (end.saturating_sub(columns), end),
        text,
        area,
        style,
        buffer,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trends_share_spare_rows() {
        let plain = || Figure::number("plain", None, |value| value.to_string());
        let with_trend = || plain().trend(|_| None, |value| value.to_string(), Meaning::Reading);
        let figures = [with_trend(), plain(), with_trend()];
        assert_eq!(heights(&figures, 3), [1, 1, 1]);
        assert_eq!(heights(&figures, 8), [4, 1, 3]);
        assert_eq!(heights(&figures, 2), [1, 1, 0]);
        assert_eq!(heights(&figures[1..2], 5), [1]);
    }
}
