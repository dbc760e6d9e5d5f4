//! Forest plots: published effects beside ours, with their intervals and the value of no effect.
//!
//! A row shows the published effect above ours. All effects of a panel have one unit, and a common axis below
//! the panel. The figures stand at the right, so that the plot can be read without a table.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, tick_label};
use super::canvas::{
    Area, FONT, Failure, Head, LABEL_SIZE, Sample, WIDTH, draw, label_style, marker, text_width,
};
use super::plot::Scale;
use super::style::Style;

/// Left and right end of the axis.
const AXIS: [i32; 2] = [320, 628];
/// Left end of the labels.
const LABELS: i32 = 16;
/// Left end of the figures.
const FIGURES: i32 = 644;
const LINE_HEIGHT: i32 = 18;
/// Space above and below the lines of a row.
const ROW_PADDING: i32 = 5;
/// Height of the ticks and of the description of an axis.
const AXIS_HEIGHT: i32 = 50;
/// Height of the legend of everything that is not a series.
const NOTES_HEIGHT: u32 = 26;
/// Height of a panel's title.
const TITLE_HEIGHT: i32 = 24;
/// Space above a panel.
const PANEL_PADDING: i32 = 14;
/// Half of the height of the end of an interval.
const CAP: i32 = 4;

/// Effects that meet the criterion of their finding.
const CRITERION: RGBColor = RGBColor(0xdd, 0xee, 0xdd);
const GREY: RGBColor = RGBColor(0x66, 0x66, 0x66);
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
    fn values(&self) -> impl Iterator<Item = f64> {
        std::iter::once(self.value).chain(self.interval.into_iter().flatten())
    }
}

/// An effect, as published and as measured here.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Name of the effect.
    pub label: String,
    pub published: Option<Estimate>,
    pub ours: Option<Estimate>,
    /// The range of effects that meet the criterion. An end may be infinite.
    pub criterion: Option<[f64; 2]>,
}

/// Effects of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestPanel {
    /// The title above the panel; empty for none.
    pub title: String,
    /// Lines below the title.
    pub texts: Vec<String>,
    /// Description of the axis, with its unit.
    pub unit: String,
    /// The value if there is no effect.
    pub no_effect: f64,
    pub scale: Scale,
    pub rows: Vec<ForestRow>,
}

/// Panels of effects, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestPlot {
    /// The title above the plot.
    pub title: String,
    /// How our figures were obtained: `measured`, `simulated`.
    pub ours: String,
    pub panels: Vec<ForestPanel>,
}

impl ForestPlot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let head = Head::new(&self.title, self.series(), Sample::Marker);
        let height: i32 = self.panels.iter().map(ForestPanel::height).sum();
        draw(
            head.height() + NOTES_HEIGHT + height.unsigned_abs(),
            |root| {
                let (notes, rest) = head.draw(root)?.split_vertically(NOTES_HEIGHT);
                self.draw_notes(&notes)?;
                let mut top = 0;
                for panel in &self.panels {
                    panel.draw(&rest, top, &self.ours)?;
                    top += panel.height();
                }
                Ok(())
            },
        )
    }

    /// Returns the series of the legend: the published effects and ours.
    fn series(&self) -> [(&str, Style); 2] {
        [("published", Style::PUBLISHED), (&self.ours, Style::OURS)]
    }

    /// Draws the legend of everything that is not a series.
    fn draw_notes(&self, area: &Area<'_>) -> Result<(), Failure> {
        let y = LINE_HEIGHT / 2;
        area.draw(&PathElement::new([(24, y), (48, y)], BLACK.stroke_width(1)))?;
        for x in [24, 48] {
            area.draw(&PathElement::new(
                [(x, y - CAP), (x, y + CAP)],
                BLACK.stroke_width(1),
            ))?;
        }
        area.draw_text("95% interval", &label_style(HPos::Left), (56, y))?;
        let dashes =
            DashedPathElement::new([(190, y - 8), (190, y + 8)], 4, 3, GREY.stroke_width(1));
        area.draw(&dashes)?;
        area.draw_text("no effect", &label_style(HPos::Left), (202, y))?;
        let rows = || self.panels.iter().flat_map(|panel| &panel.rows);
        if rows().any(|row| row.criterion.is_some()) {
            area.draw(&Rectangle::new(
                [(300, y - 7), (324, y + 7)],
                CRITERION.filled(),
            ))?;
            area.draw_text("meets the criterion", &label_style(HPos::Left), (332, y))?;
        }
        Ok(())
    }
}

impl ForestPanel {
    fn axis(&self) -> Axis {
        let estimates = self.rows.iter().flat_map(|row| [row.published, row.ours]);
        let values = estimates
            .flatten()
            .flat_map(|estimate| estimate.values().collect::<Vec<_>>());
        let criteria = self.rows.iter().filter_map(|row| row.criterion).flatten();
        Axis::of(
            self.scale,
            values.chain(criteria).chain([self.no_effect]),
            AXIS,
        )
    }

    /// Returns the texts below the title, in lines.
    fn lines(&self) -> Vec<String> {
        let width = WIDTH.cast_signed() - 2 * LABELS;
        self.texts
            .iter()
            .flat_map(|text| wrapped(text, width))
            .collect()
    }

    /// Returns the height above the rows.
    fn head_height(&self) -> i32 {
        let title = if self.title.is_empty() {
            0
        } else {
            TITLE_HEIGHT
        };
        let lines = i32::try_from(self.lines().len()).unwrap_or(0);
        PANEL_PADDING + title + lines * LINE_HEIGHT + ROW_PADDING
    }

    fn height(&self) -> i32 {
        let rows: i32 = self.rows.iter().map(ForestRow::height).sum();
        self.head_height() + rows + AXIS_HEIGHT
    }

    fn draw_head(&self, area: &Area<'_>, top: i32) -> Result<(), Failure> {
        let mut y = top + PANEL_PADDING;
        if !self.title.is_empty() {
            let style = (FONT, LABEL_SIZE + 2).into_font().style(FontStyle::Bold);
            let style = style.color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&self.title, &style, (LABELS, y + TITLE_HEIGHT / 2))?;
            y += TITLE_HEIGHT;
        }
        for text in self.lines() {
            area.draw_text(
                &text,
                &label_style(HPos::Left),
                (LABELS, y + LINE_HEIGHT / 2),
            )?;
            y += LINE_HEIGHT;
        }
        Ok(())
    }

    fn draw(&self, area: &Area<'_>, top: i32, ours: &str) -> Result<(), Failure> {
        let axis = self.axis();
        self.draw_head(area, top)?;
        let first = top + self.head_height();
        let mut y = first;
        for row in &self.rows {
            row.draw_background(area, &axis, y)?;
            y += row.height();
        }
        let null = axis.x(self.no_effect);
        area.draw(&DashedPathElement::new(
            [(null, first), (null, y)],
            4,
            3,
            GREY.stroke_width(1),
        ))?;
        let mut at = first;
        for row in &self.rows {
            row.draw(area, &axis, at, ours)?;
            at += row.height();
        }
        self.draw_axis(area, &axis, y)
    }

    fn draw_axis(&self, area: &Area<'_>, axis: &Axis, y: i32) -> Result<(), Failure> {
        area.draw(&PathElement::new(
            AXIS.map(|x| (x, y)),
            BLACK.stroke_width(1),
        ))?;
        let centred = (FONT, LABEL_SIZE)
            .into_font()
            .color(&BLACK)
            .pos(Pos::new(HPos::Center, VPos::Center));
        for tick in axis.ticks() {
            let x = axis.x(tick);
            area.draw(&PathElement::new(
                [(x, y), (x, y + 5)],
                BLACK.stroke_width(1),
            ))?;
            area.draw_text(&tick_label(tick), &centred, (x, y + 15))?;
        }
        area.draw_text(&self.unit, &centred, (AXIS[0].midpoint(AXIS[1]), y + 34))
    }
}

impl ForestRow {
    /// Returns the label in lines.
    fn lines(&self) -> Vec<String> {
        wrapped(&self.label, AXIS[0] - LABELS - 8)
    }

    fn height(&self) -> i32 {
        // The published effect and ours need a line each.
        let lines = i32::try_from(self.lines().len()).unwrap_or(2).max(2);
        lines * LINE_HEIGHT + 2 * ROW_PADDING
    }

    /// Draws the range of the criterion, and the line above the row.
    fn draw_background(&self, area: &Area<'_>, axis: &Axis, top: i32) -> Result<(), Failure> {
        if let Some(ends) = self.criterion {
            let [left, right] = ends.map(|end| axis.x(end));
            let corners = [(left, top + 1), (right, top + self.height() - 1)];
            area.draw(&Rectangle::new(corners, CRITERION.filled()))?;
        }
        let right = WIDTH.cast_signed() - LABELS;
        area.draw(&PathElement::new(
            [(LABELS, top), (right, top)],
            PALE_GREY.stroke_width(1),
        ))
    }

    fn draw(&self, area: &Area<'_>, axis: &Axis, top: i32, ours: &str) -> Result<(), Failure> {
        let line_at = |at: i32| top + ROW_PADDING + at * LINE_HEIGHT + LINE_HEIGHT / 2;
        for (at, text) in (0..).zip(self.lines()) {
            area.draw_text(&text, &label_style(HPos::Left), (LABELS, line_at(at)))?;
        }
        let both = [
            ("published", self.published, Style::PUBLISHED),
            (ours, self.ours, Style::OURS),
        ];
        for (at, (name, estimate, style)) in (0..).zip(both) {
            let y = line_at(at);
            if let Some(estimate) = estimate {
                draw_estimate(area, axis, estimate, style, y)?;
            }
            let text = format!("{name} {}", figure(axis, estimate));
            let colour = if estimate.is_some() {
                style.colour()
            } else {
                GREY
            };
            area.draw_text(&text, &label_style(HPos::Left).color(&colour), (FIGURES, y))?;
        }
        Ok(())
    }
}

fn draw_estimate(
    area: &Area<'_>,
    axis: &Axis,
    estimate: Estimate,
    style: Style,
    y: i32,
) -> Result<(), Failure> {
    if let Some(ends) = estimate.interval {
        let ends = ends.map(|end| axis.x(end));
        area.draw(&PathElement::new(ends.map(|x| (x, y)), style.stroke(2)))?;
        for x in ends {
            area.draw(&PathElement::new(
                [(x, y - CAP), (x, y + CAP)],
                style.stroke(2),
            ))?;
        }
    }
    if axis.contains(estimate.value) {
        marker(area, style, (axis.x(estimate.value), y))?;
    }
    Ok(())
}

/// Formats a figure with its interval.
fn figure(axis: &Axis, estimate: Option<Estimate>) -> String {
    let Some(estimate) = estimate.filter(|estimate| estimate.value.is_finite()) else {
        return "-".to_owned();
    };
    let value = axis.figure(estimate.value);
    match estimate
        .interval
        .map(|ends| ends.map(|end| axis.figure(end)))
    {
        // The interval of an exact figure.
        Some([low, high]) if low == high => value,
        Some([low, high]) => format!("{value} [{low}, {high}]"),
        None => value,
    }
}

/// Breaks a text into lines of at most `width` pixels, if its words permit.
fn wrapped(text: &str, width: i32) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        let interval = Some([low, high]);
        Estimate { value, interval }
    }

    fn row(label: &str, published: Option<Estimate>, ours: Option<Estimate>) -> ForestRow {
        ForestRow {
            label: label.into(),
            published,
            ours,
            criterion: None,
        }
    }

    fn plot() -> ForestPlot {
        let known = |value| {
            Some(Estimate {
                value,
                interval: None,
            })
        };
        ForestPlot {
            title: "Findings of <a document>".into(),
            ours: "measured".into(),
            panels: vec![
                ForestPanel {
                    title: "Links".into(),
                    texts: vec!["Claim: xor is terrible. ".repeat(8)],
                    unit: "ratio of links".into(),
                    no_effect: 1.0,
                    scale: Scale::Logarithmic,
                    rows: vec![
                        ForestRow {
                            criterion: Some([2.0, f64::INFINITY]),
                            ..row("xor / mult", known(8.9), Some(estimate(7.7, 6.5, 9.25)))
                        },
                        row(
                            "reference / red-black tree",
                            None,
                            Some(estimate(1.01, 0.8, 1.2)),
                        ),
                    ],
                },
                ForestPanel {
                    title: String::new(),
                    texts: Vec::new(),
                    unit: "change of throughput, %".into(),
                    no_effect: 0.0,
                    scale: Scale::Linear,
                    rows: vec![row(
                        "12 bits instead of 8, which has a name that needs more than two lines of a label, which is rare",
                        Some(estimate(1.8, 0.9, 2.8)),
                        Some(estimate(-0.75, -1.5, 0.25)),
                    )],
                },
            ],
        }
    }

    /// Returns the texts of a picture.
    fn texts(svg: &str) -> Vec<&str> {
        let lines = svg.lines().zip(svg.lines().skip(1));
        let texts = lines.filter(|(tag, _)| tag.starts_with("<text"));
        texts.map(|(_, text)| text).collect()
    }

    #[test]
    fn axis_contains_every_interval_criterion_and_no_effect() {
        for panel in plot().panels {
            let axis = panel.axis();
            assert!(axis.contains(panel.no_effect), "{panel:?}");
            for row in &panel.rows {
                let estimates = [row.published, row.ours].into_iter().flatten();
                for value in estimates.flat_map(|estimate| estimate.values().collect::<Vec<_>>()) {
                    assert!(axis.contains(value), "{value}: {axis:?}");
                }
                let bounds = row.criterion.into_iter().flatten();
                for bound in bounds.filter(|bound| bound.is_finite()) {
                    assert!(axis.contains(bound), "{bound}: {axis:?}");
                }
            }
        }
    }

    #[test]
    fn plot_names_series_units_labels_and_figures() {
        let svg = plot().to_svg();
        let texts = texts(&svg);
        for text in [
            "Findings of &lt;a document&gt;",
            "published",
            "measured",
            "95% interval",
            "no effect",
            "meets the criterion",
            "Links",
            "ratio of links",
            "change of throughput, %",
            "xor / mult",
            "published 8.90",
            "measured 7.70 [6.50, 9.25]",
            "published -",
            "published 1.80 [0.90, 2.80]",
            "measured -0.75 [-1.50, 0.25]",
        ] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        assert_eq!(svg, plot().to_svg());
    }

    #[test]
    fn legend_explains_the_criterion_only_if_there_is_one() {
        let mut plot = plot();
        plot.panels[0].rows[0].criterion = None;
        assert!(!plot.to_svg().contains("meets the criterion"));
    }

    #[test]
    fn published_effects_and_ours_have_different_styles() {
        let plot = plot();
        let [published, ours] = plot.series().map(|(_, style)| style);
        assert_ne!(published.colour(), ours.colour());
        assert_ne!(published.marker(), ours.marker());
    }

    #[test]
    fn long_label_is_broken_into_lines_that_fit() {
        let plot = plot();
        let lines = plot.panels[0].lines();
        assert!(lines.len() > 1, "{lines:?}");
        for line in &lines {
            assert!(
                text_width(line) <= WIDTH.cast_signed() - 2 * LABELS,
                "{line}"
            );
        }
        let panel = &plot.panels[1];
        let lines = panel.rows[0].lines();
        assert!(lines.len() > 2, "{lines:?}");
        for line in &lines {
            assert!(text_width(line) <= AXIS[0] - LABELS, "{line}");
        }
        assert!(panel.rows[0].height() >= LINE_HEIGHT * i32::try_from(lines.len()).unwrap());
    }

    #[test]
    fn figures_that_cannot_be_drawn_are_missing() {
        let mut plot = plot();
        plot.panels[0].rows[1].ours = Some(estimate(f64::NAN, 0.0, f64::INFINITY));
        assert!(texts(&plot.to_svg()).contains(&"measured -"));
        plot.panels.clear();
        assert!(plot.to_svg().ends_with("</svg>\n"));
    }
}
