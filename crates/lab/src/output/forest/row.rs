//! A row of a forest plot: the label, the estimates on the axis, and their figures.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::super::axis::Axis;
use super::super::canvas::{Area, Failure, WIDTH, label_style, marker, text_width};
use super::super::style::Style;

/// Left and right end of the axis.
pub(super) const AXIS: [i32; 2] = [320, 628];
/// Left end of the labels.
pub(super) const LABELS: i32 = 16;
pub(super) const LINE_HEIGHT: i32 = 18;
/// Half of the height of the mark at the end of an interval, and of an arrow.
pub(super) const CAP: i32 = 4;
/// Colour of the range of effects that meet the criterion of their finding.
pub(super) const CRITERION: RGBColor = RGBColor(0xdd, 0xee, 0xdd);
pub(super) const GREY: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Left end of the figures.
const FIGURES: i32 = 644;
/// Space above and below the lines of a row.
pub(super) const ROW_PADDING: i32 = 5;
/// Length of an arrow.
const ARROW: i32 = 8;
const PALE_GREY: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// The ends of its 95% interval; `None` if it is unknown.
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// Returns the value and the ends of the interval.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        std::iter::once(self.value).chain(self.interval.into_iter().flatten())
    }
}

/// An effect, as published and in each of our tables.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Name of the effect.
    pub label: String,
    pub published: Option<Estimate>,
    /// The effects in our tables, in their order; `None` for a table without this effect.
    pub ours: Vec<Option<Estimate>>,
    /// The range of effects that meet the criterion. An end may be infinite.
    pub criterion: Option<[f64; 2]>,
}

impl ForestRow {
    /// Returns the label in lines.
    pub(super) fn lines(&self) -> Vec<String> {
        wrapped(&self.label, AXIS[0] - LABELS - 8)
    }

    /// Returns the published estimate, then ours.
    pub(super) fn estimates(&self) -> impl Iterator<Item = Option<&Estimate>> {
        let ours = self.ours.iter().map(Option::as_ref);
        std::iter::once(self.published.as_ref()).chain(ours)
    }

    /// Returns the lines of figures: one for the published estimate, and one for each of our tables that has an
    /// estimate.
    fn figures<'a>(&'a self, series: &[(&'a str, Style)]) -> Vec<Figure<'a>> {
        let all = series.iter().zip(self.estimates()).enumerate();
        let shown = all.filter(|(at, (_, estimate))| *at == 0 || estimate.is_some());
        let shown = shown.map(|(_, ((name, style), estimate))| Figure {
            name,
            style: *style,
            estimate,
        });
        let has_ours = self.ours.iter().any(Option::is_some);
        let missing = (!has_ours).then_some(Figure {
            name: "here",
            style: Style::PUBLISHED,
            estimate: None,
        });
        shown.chain(missing).collect()
    }

    pub(super) fn height(&self) -> i32 {
        let ours = self.ours.iter().flatten().count().max(1);
        let lines = self.lines().len().max(1 + ours);
        i32::try_from(lines).unwrap_or(2) * LINE_HEIGHT + 2 * ROW_PADDING
    }

    /// Draws the range of the criterion.
    pub(super) fn draw_criterion(
        &self,
        area: &Area<'_>,
        axis: &Axis,
        top: i32,
    ) -> Result<(), Failure> {
        let Some(ends) = self.criterion else {
            return Ok(());
        };
        let [left, right] = ends.map(|end| axis.x(end));
        let corners = [(left, top + 1), (right, top + self.height() - 1)];
        area.draw(&Rectangle::new(corners, CRITERION.filled()))
    }

    pub(super) fn draw(
        &self,
        area: &Area<'_>,
        axis: &Axis,
        top: i32,
        series: &[(&str, Style)],
    ) -> Result<(), Failure> {
        let right = WIDTH.cast_signed() - LABELS;
        area.draw(&PathElement::new(
            [(LABELS, top), (right, top)],
            PALE_GREY.stroke_width(1),
        ))?;
        let line_at = |at: i32| top + ROW_PADDING + at * LINE_HEIGHT + LINE_HEIGHT / 2;
        for (at, text) in (0..).zip(self.lines()) {
            area.draw_text(&text, &label_style(HPos::Left), (LABELS, line_at(at)))?;
        }
        for (at, figure) in (0..).zip(self.figures(series)) {
            figure.draw(area, axis, line_at(at))?;
        }
        Ok(())
    }
}

/// A line of a row.
#[derive(Clone, Copy, Debug)]
struct Figure<'a> {
    /// Name of the series of the line.
    name: &'a str,
    style: Style,
    estimate: Option<&'a Estimate>,
}

impl Figure<'_> {
    /// Draws the estimate and its text at the height `y`.
    fn draw(self, area: &Area<'_>, axis: &Axis, y: i32) -> Result<(), Failure> {
        let style = self.style;
        if let Some([low, high]) = self.estimate.and_then(|estimate| estimate.interval)
            && !low.is_nan()
            && !high.is_nan()
        {
            area.draw(&PathElement::new(
                [low, high].map(|end| (axis.x(end), y)),
                style.stroke(2),
            ))?;
            for end in [low, high].into_iter().filter(|end| axis.contains(*end)) {
                let x = axis.x(end);
                area.draw(&PathElement::new(
                    [(x, y - CAP), (x, y + CAP)],
                    style.stroke(2),
                ))?;
            }
        }
        let mut colour = GREY;
        if let Some(Estimate { value, .. }) = self.estimate.filter(|of| !of.value.is_nan()) {
            colour = style.colour();
            let x = axis.x(*value);
            if axis.contains(*value) {
                marker(area, style, (x, y))?;
            } else {
                let inwards = if x == AXIS[0] { ARROW } else { -ARROW };
                let arrow = [(x, y), (x + inwards, y - CAP), (x + inwards, y + CAP)];
                area.draw(&Polygon::new(arrow, colour.filled()))?;
            }
        }
        let style = label_style(HPos::Left).color(&colour);
        area.draw_text(&self.text(), &style, (FIGURES, y))
    }

    /// Returns the name and the figure with its interval.
    fn text(self) -> String {
        let figure = match self.estimate {
            None => "-".to_owned(),
            Some(estimate) => {
                let value = number(estimate.value);
                match estimate.interval.map(|ends| ends.map(number)) {
                    // The figure is exact.
                    Some([low, high]) if low == high => value,
                    Some([low, high]) => format!("{value} [{low}, {high}]"),
                    None => value,
                }
            }
        };
        format!("{} {figure}", self.name)
    }
}

/// Formats a number with three decimals below 10, two below 100, one below 1000, and none from 1000 on.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "\u{221e}" } else { "-\u{221e}" }.to_owned();
    }
    let decimals = [10.0, 100.0, 1000.0]
        .iter()
        .filter(|end| value.abs() < **end)
        .count();
    // Removes the sign of zero.
    let value = value + 0.0;
    format!("{value:.decimals$}")
}

/// Breaks a text into lines of at most `width` pixels, if its words permit.
pub(super) fn wrapped(text: &str, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + text_width(" ") <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
