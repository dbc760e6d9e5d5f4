//! Forest plots: published effects beside ours, with their intervals and the value of no effect.
//!
//! A row shows the published effect above ours. All effects of a panel have one unit, and a common axis below
//! the panel. The figures are at the right, so that the plot can be read without a table. A figure that the
//! axis cannot contain, such as 0 on a logarithmic axis, is an arrow at an end of the axis.

mod row;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, tick_label};
use super::canvas::{Area, FONT, Failure, Head, LABEL_SIZE, Sample, WIDTH, draw, label_style};
use super::plot::Scale;
use super::style::Style;
use row::{AXIS, CAP, CRITERION, GREY, LABELS, LINE_HEIGHT, ROW_PADDING, wrapped};
pub use row::{Estimate, ForestRow};

/// Height of the ticks and of the description of an axis.
const AXIS_HEIGHT: i32 = 50;
/// Height of the second legend, which explains the marks that are not series.
const NOTES_HEIGHT: u32 = 26;
/// Height of a panel's title.
const TITLE_HEIGHT: i32 = 24;
/// Space above a panel.
const PANEL_PADDING: i32 = 14;

/// Effects of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestPanel {
    /// The title above the panel; empty for none.
    pub title: String,
    /// Lines below the title.
    pub texts: Vec<String>,
    /// Description of the axis, with its unit.
    pub unit: String,
    /// The value of the axis that means no effect, such as 1 for a ratio.
    pub no_effect: f64,
    pub scale: Scale,
    pub rows: Vec<ForestRow>,
}

/// Panels of effects, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestPlot {
    /// The title above the plot.
    pub title: String,
    /// Names of our tables, such as `measured` or `simulated`.
    pub ours: Vec<String>,
    pub panels: Vec<ForestPanel>,
}

impl ForestPlot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let series = self.series();
        let head = Head::new(&self.title, series.clone(), Sample::Marker);
        let height: i32 = self.panels.iter().map(ForestPanel::height).sum();
        draw(
            head.height() + NOTES_HEIGHT + height.unsigned_abs(),
            |root| {
                let (notes, rest) = head.draw(root)?.split_vertically(NOTES_HEIGHT);
                self.draw_notes(&notes)?;
                let mut top = 0;
                for panel in &self.panels {
                    panel.draw(&rest, top, &series)?;
                    top += panel.height();
                }
                Ok(())
            },
        )
    }

    /// Returns the series of the legend: the published effects and ours.
    fn series(&self) -> Vec<(&str, Style)> {
        let ours = (0..).zip(&self.ours);
        let ours = ours.map(|(at, name)| (&**name, Style::ours(at)));
        std::iter::once(("published", Style::PUBLISHED))
            .chain(ours)
            .collect()
    }

    /// Draws the second legend, which explains the marks that are not series.
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
    /// Returns the estimates of all rows.
    fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        let all = self.rows.iter().map(ForestRow::estimates);
        all.flat_map(Iterator::flatten)
    }

    /// Returns whether there is anything to draw: an axis without figures would be empty.
    fn has_axis(&self) -> bool {
        self.estimates().next().is_some()
    }

    fn axis(&self) -> Axis {
        let estimates = self.estimates().map(Estimate::values);
        let values = estimates.flat_map(Iterator::collect::<Vec<_>>);
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
        let axis = if self.has_axis() { AXIS_HEIGHT } else { 0 };
        self.head_height() + rows + axis
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

    fn draw(&self, area: &Area<'_>, top: i32, series: &[(&str, Style)]) -> Result<(), Failure> {
        let axis = self.axis();
        self.draw_head(area, top)?;
        let first = top + self.head_height();
        let mut last = first;
        for row in &self.rows {
            if self.has_axis() {
                row.draw_criterion(area, &axis, last)?;
            }
            last += row.height();
        }
        if self.has_axis() {
            self.draw_axis(area, &axis, [first, last])?;
        }
        let mut at = first;
        for row in &self.rows {
            row.draw(area, &axis, at, series)?;
            at += row.height();
        }
        Ok(())
    }

    /// Draws the line of no effect between both heights, and the axis below it.
    fn draw_axis(&self, area: &Area<'_>, axis: &Axis, [first, y]: [i32; 2]) -> Result<(), Failure> {
        let null = axis.x(self.no_effect);
        area.draw(&DashedPathElement::new(
            [(null, first), (null, y)],
            4,
            3,
            GREY.stroke_width(1),
        ))?;
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

#[cfg(test)]
mod tests {
    use super::super::canvas::text_width;
    use super::super::picture::{expect_texts_inside, texts};
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        let interval = Some([low, high]);
        Estimate { value, interval }
    }

    fn row(label: &str, published: Option<Estimate>, ours: Option<Estimate>) -> ForestRow {
        ForestRow {
            label: label.into(),
            published,
            ours: vec![ours],
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
            ours: vec!["measured".into()],
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

    #[test]
    fn axis_contains_every_interval_criterion_and_no_effect() {
        for panel in plot().panels {
            let axis = panel.axis();
            assert!(axis.contains(panel.no_effect), "{panel:?}");
            for row in &panel.rows {
                let values = row.estimates().flatten().map(Estimate::values);
                for value in values.flatten() {
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
            "published 8.900",
            "measured 7.700 [6.500, 9.250]",
            "published -",
            "published 1.800 [0.900, 2.800]",
            "measured -0.750 [-1.500, 0.250]",
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
        let mut plot = plot();
        plot.ours = ["volume", "engine", "kernel", "simulated"]
            .map(str::to_owned)
            .into();
        let series = plot.series();
        for (at, (name, style)) in series.iter().enumerate() {
            for (other, of_other) in &series[at + 1..] {
                assert_ne!(style.colour(), of_other.colour(), "{name} and {other}");
                assert_ne!(style.marker(), of_other.marker(), "{name} and {other}");
            }
        }
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
        expect_texts_inside(&plot.to_svg());
        assert!(panel.rows[0].height() >= LINE_HEIGHT * i32::try_from(lines.len()).unwrap());
    }

    #[test]
    fn row_lists_the_tables_that_have_a_figure() {
        let known = |value| {
            Some(Estimate {
                value,
                interval: None,
            })
        };
        let mut plot = plot();
        plot.ours = vec!["volume".into(), "simulated".into()];
        let rows = &mut plot.panels[0].rows;
        rows[0].ours = vec![None, known(2.5)];
        rows[1].ours = vec![None, None];
        plot.panels.truncate(1);
        let svg = plot.to_svg();
        let figures: Vec<_> = texts(&svg).into_iter().skip(10).collect();
        assert!(!svg.contains("volume -"), "{figures:?}");
        for text in [
            "published 8.900",
            "simulated 2.500",
            "published -",
            "here -",
        ] {
            assert!(figures.contains(&text), "{text}: {figures:?}");
        }
    }

    #[test]
    fn figure_beyond_the_axis_is_an_arrow_and_none_is_a_dash() {
        let mut plot = plot();
        plot.panels.truncate(1);
        let polygons = |plot: &ForestPlot| plot.to_svg().matches("<polygon").count();
        let before = polygons(&plot);
        let row = &mut plot.panels[0].rows[1];
        row.ours = vec![Some(Estimate {
            value: f64::INFINITY,
            interval: Some([f64::INFINITY; 2]),
        })];
        assert_eq!(polygons(&plot), before);
        assert!(texts(&plot.to_svg()).contains(&"measured \u{221e}"));
        plot.panels[0].rows[1].ours = vec![Some(estimate(f64::NAN, 0.0, f64::INFINITY))];
        assert_eq!(polygons(&plot), before - 1);
        let unknown = "measured - [0.000, \u{221e}]";
        assert!(texts(&plot.to_svg()).contains(&unknown));
    }

    #[test]
    fn panel_without_figures_has_its_texts_and_no_axis() {
        let mut plot = plot();
        plot.panels.truncate(1);
        let panel = &mut plot.panels[0];
        panel.rows = vec![row("no figures", None, None)];
        let svg = plot.to_svg();
        let texts = texts(&svg);
        for text in ["Links", "no figures", "published -", "here -"] {
            assert!(texts.contains(&text), "{text}: {texts:?}");
        }
        assert!(!texts.contains(&"ratio of links"), "{texts:?}");
        plot.panels.clear();
        assert!(plot.to_svg().ends_with("</svg>\n"));
    }
}
