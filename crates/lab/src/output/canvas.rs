//! The parts that all plots share: the canvas, texts, markers, lines with dashes, and the head with title and legend.

use std::io;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::Style;

pub(super) const WIDTH: u32 = 900;
pub(super) const FONT: &str = "sans-serif";
pub(super) const LABEL_SIZE: u32 = 14;
const TITLE_SIZE: u32 = 20;
/// Height of the title.
const TITLE_HEIGHT: i32 = 38;
/// Height of a line of the legend.
const LEGEND_LINE: i32 = 20;
/// Distance of texts from the edges.
const MARGIN: i32 = 24;
/// Width of the sample of a series in the legend.
const SAMPLE_WIDTH: i32 = 32;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// An error of drawing into a string, which is always a bug.
pub(super) type Failure = DrawingAreaErrorKind<io::Error>;

/// A position in pixels.
pub(super) type Point = (i32, i32);

/// Returns an SVG document with the drawing that `on` makes on a white area.
pub(super) fn draw(height: u32, on: impl FnOnce(&Area<'_>) -> Result<(), Failure>) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)
        .and_then(|()| on(&root))
        .and_then(|()| root.present())
        .expect("drawing into a string does not fail");
    drop(root);
    svg
}

/// Returns a text style with the anchor at the given side of the text, vertically centred.
pub(super) fn label_style(side: HPos) -> TextStyle<'static> {
    let style = (FONT, LABEL_SIZE).into_font().color(&BLACK);
    style.pos(Pos::new(side, VPos::Center))
}

/// Returns an estimate of the width of a label in pixels, slightly too large for most fonts.
pub(super) fn text_width(text: &str) -> i32 {
    i32::try_from(text.chars().count()).map_or(i32::MAX, |count| count.saturating_mul(7))
}

/// Draws the marker of a style at a point.
pub(super) fn marker(area: &Area<'_>, style: Style, (x, y): Point) -> Result<(), Failure> {
    let mut outline: Vec<Point> = style
        .marker()
        .iter()
        .map(|(dx, dy)| (x + dx, y + dy))
        .collect();
    area.draw(&Polygon::new(outline.clone(), style.fill()))?;
    outline.push(outline[0]);
    area.draw(&PathElement::new(outline, style.stroke(1)))
}

/// Draws a line through the points, with the dashes of a style.
pub(super) fn line(area: &Area<'_>, style: Style, points: Vec<Point>) -> Result<(), Failure> {
    let stroke = style.stroke(2);
    match style.dash() {
        None => area.draw(&PathElement::new(points, stroke)),
        Some((dash, gap)) => area.draw(&DashedPathElement::new(points, dash, gap, stroke)),
    }
}

/// Draws a bar with the fill and the outline of a style.
pub(super) fn bar(area: &Area<'_>, style: Style, corners: [Point; 2]) -> Result<(), Failure> {
    area.draw(&Rectangle::new(corners, style.fill()))?;
    area.draw(&Rectangle::new(corners, style.stroke(1)))
}

/// The appearance of a series in the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Bar,
    Line,
    Marker,
    MarkedLine,
}

/// The title of a plot and, below the title, the legend, which can have several lines.
pub(super) struct Head<'a> {
    title: &'a str,
    /// Names of the series with their positions and styles.
    entries: Vec<(&'a str, Point, Style)>,
    sample: Sample,
}

impl<'a> Head<'a> {
    pub fn new(
        title: &'a str,
        series: impl IntoIterator<Item = (&'a str, Style)>,
        sample: Sample,
    ) -> Self {
        let (mut x, mut y) = (MARGIN, TITLE_HEIGHT + LEGEND_LINE / 2);
        let entries = series.into_iter().map(|(name, style)| {
            let width = SAMPLE_WIDTH + text_width(name) + 28;
            if x > MARGIN && x + width > WIDTH.cast_signed() {
                (x, y) = (MARGIN, y + LEGEND_LINE);
            }
            let at = (x, y);
            x += width;
            (name, at, style)
        });
        Self {
            title,
            entries: entries.collect(),
            sample,
        }
    }

    pub fn height(&self) -> u32 {
        let last = self
            .entries
            .last()
            .map_or(TITLE_HEIGHT - LEGEND_LINE / 2, |(_, (_, y), _)| *y);
        (last + LEGEND_LINE).unsigned_abs()
    }

    /// Draws the head, and returns the area below it.
    pub fn draw<'r>(&self, root: &Area<'r>) -> Result<Area<'r>, Failure> {
        let (area, rest) = root.split_vertically(self.height());
        let centre = Pos::new(HPos::Center, VPos::Top);
        let style = (FONT, TITLE_SIZE).into_font().color(&BLACK).pos(centre);
        area.draw_text(self.title, &style, (WIDTH.cast_signed() / 2, 10))?;
        for (name, (x, y), style) in &self.entries {
            let (left, right) = (*x, x + SAMPLE_WIDTH - 8);
            if self.sample == Sample::Bar {
                bar(&area, *style, [(left + 8, y - 6), (right, y + 6)])?;
            }
            if matches!(self.sample, Sample::Line | Sample::MarkedLine) {
                line(&area, *style, vec![(left, *y), (right, *y)])?;
            }
            if matches!(self.sample, Sample::Marker | Sample::MarkedLine) {
                marker(&area, *style, (left.midpoint(right), *y))?;
            }
            area.draw_text(name, &label_style(HPos::Left), (x + SAMPLE_WIDTH, *y))?;
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legend_with_many_series_continues_on_the_next_line() {
        let names: Vec<String> = (0..30).map(|n| format!("function number {n}")).collect();
        let series = || names.iter().map(|name| (&**name, Style::PUBLISHED));
        let head = Head::new("t", series(), Sample::Line);
        assert_eq!(head.entries.len(), 30);
        for (name, (x, y), _) in &head.entries {
            assert!(
                x + SAMPLE_WIDTH + text_width(name) <= WIDTH.cast_signed(),
                "{name}"
            );
            assert!(y + LEGEND_LINE / 2 <= head.height().cast_signed(), "{name}");
        }
        for (one, next) in head.entries.iter().zip(&head.entries[1..]) {
            let ((x, y), (next_x, next_y)) = (one.1, next.1);
            assert!(
                next_y > y || next_x >= x + SAMPLE_WIDTH + text_width(one.0),
                "{next:?}"
            );
        }
        let few = Head::new("t", series().take(2), Sample::Line);
        assert!(few.height() < head.height());
    }
}
