//! Plots as SVG text. Fonts are the viewer's, so no font library is needed to draw one.

use std::fmt;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colour::colours;

const WIDTH: u32 = 900;
/// Title and legend.
const HEAD_HEIGHT: u32 = 60;
const FONT: &str = "sans-serif";
const TITLE_SIZE: u32 = 20;
const LABEL_SIZE: u32 = 14;

/// One named set of figures.
#[derive(Clone, Debug)]
pub struct Series<T> {
    /// As the legend shows it.
    pub name: String,
    /// The figures.
    pub values: Vec<T>,
}

/// Lines over a common x axis.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// Above the plot.
    pub title: String,
    /// What x counts, with its unit.
    pub x: String,
    /// What y counts, with its unit.
    pub y: String,
    /// Points as (x, y), in the order in which they are joined.
    pub series: Vec<Series<(f64, f64)>>,
}

/// Groups of bars, one below the other, so that long names of groups fit.
#[derive(Clone, Debug)]
pub struct BarPlot {
    /// Above the plot.
    pub title: String,
    /// What the bars count, with its unit.
    pub value: String,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// One value for each group.
    pub series: Vec<Series<f64>>,
}

impl LinePlot {
    /// The plot as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        draw(420, |root| self.draw(root))
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), Failure> {
        let points = || self.series.iter().flat_map(|series| &series.values);
        let x_max = upper(points().map(|(x, _)| *x));
        let y_max = upper(points().map(|(_, y)| *y));
        let root = head(root, &self.title, &self.series)?;
        let mut builder = ChartBuilder::on(&root);
        builder
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(72);
        let mut chart = builder.build_cartesian_2d(0.0..x_max, 0.0..y_max)?;
        chart
            .configure_mesh()
            .x_desc(&*self.x)
            .y_desc(&*self.y)
            .label_style((FONT, LABEL_SIZE))
            .axis_desc_style((FONT, LABEL_SIZE))
            .x_label_formatter(&|x| plain(*x))
            .y_label_formatter(&|y| plain(*y))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (series, colour) in coloured(&self.series) {
            let points = series.values.iter().copied();
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        Ok(())
    }
}

impl BarPlot {
    /// The plot as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let bars = u32::try_from(self.groups.len() * (self.series.len() + 1)).unwrap_or(u32::MAX);
        let height = bars.saturating_mul(11).clamp(120, 4000) + 140;
        draw(height, |root| self.draw(root))
    }

    #[expect(clippy::cast_precision_loss, reason = "a plot has a few hundred bars")]
    fn draw(&self, root: &Area<'_>) -> Result<(), Failure> {
        let value_max = upper(self.series.iter().flat_map(|s| &s.values).copied());
        let groups = self.groups.len() as f64;
        let longest = self.groups.iter().map(|name| name.chars().count()).max();
        let label_area = 30 + 8 * u32::try_from(longest.unwrap_or(0)).unwrap_or(40).min(40);
        let root = head(root, &self.title, &self.series)?;
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(24)
            .x_label_area_size(44)
            .y_label_area_size(label_area)
            .build_cartesian_2d(0.0..value_max, groups..0.0)?;
        chart
            .configure_mesh()
            .x_desc(&*self.value)
            .label_style((FONT, LABEL_SIZE))
            .axis_desc_style((FONT, LABEL_SIZE))
            .x_label_formatter(&|x| plain(*x))
            .y_labels(0)
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .draw()?;
        let thickness = 0.84 / self.series.len().max(1) as f64;
        for (at, (series, colour)) in coloured(&self.series).enumerate() {
            let top = |group: usize| group as f64 + 0.08 + at as f64 * thickness;
            chart.draw_series(series.values.iter().enumerate().map(|(group, value)| {
                let corners = [(0.0, top(group)), (*value, top(group) + thickness)];
                Rectangle::new(corners, colour.filled())
            }))?;
        }
        let style = label_style().pos(Pos::new(HPos::Right, VPos::Center));
        for (group, name) in self.groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(0.0, group as f64 + 0.5));
            root.draw_text(name, &style, root_relative(&root, (x - 8, y)))?;
        }
        Ok(())
    }
}

/// The series, each with its colour.
fn coloured<T>(series: &[Series<T>]) -> impl Iterator<Item = (&Series<T>, RGBColor)> {
    let names = series.iter().map(|series| &*series.name);
    series.iter().zip(colours(names))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Drawing into a string fails only by a mistake of ours.
struct Failure(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for Failure {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn draw(height: u32, on: impl FnOnce(&Area<'_>) -> Result<(), Failure>) -> String {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)
        .map_err(Failure::from)
        .and_then(|()| on(&root))
        .and_then(|()| root.present().map_err(Failure::from))
        .expect("drawing into a string does not fail");
    drop(root);
    svg
}

fn label_style() -> TextStyle<'static> {
    (FONT, LABEL_SIZE).into_font().color(&BLACK)
}

/// A place of the whole picture, as a place of the area that texts are drawn in.
fn root_relative(area: &Area<'_>, (x, y): (i32, i32)) -> (i32, i32) {
    let (left, top) = area.get_base_pixel();
    (x - left, y - top)
}

/// Draws the title and, below it, the legend in one line, and gives the area that is left.
fn head<'a, T>(root: &Area<'a>, title: &str, series: &[Series<T>]) -> Result<Area<'a>, Failure> {
    let (area, rest) = root.split_vertically(HEAD_HEIGHT);
    let centre = Pos::new(HPos::Center, VPos::Top);
    let style = (FONT, TITLE_SIZE).into_font().color(&BLACK).pos(centre);
    let middle = i32::try_from(WIDTH / 2).unwrap_or(0);
    area.draw_text(title, &style, (middle, 10))?;
    let mut x = 24;
    for (series, colour) in coloured(series) {
        area.draw(&Rectangle::new([(x, 42), (x + 14, 54)], colour.filled()))?;
        area.draw_text(&series.name, &label_style(), (x + 20, 41))?;
        x += 48 + 8 * i32::try_from(series.name.chars().count()).unwrap_or(0);
    }
    Ok(rest)
}

/// The end of an axis: a little above the largest value, and never empty.
fn upper(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

/// A label of an axis, with no more decimals than it needs.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> LinePlot {
        LinePlot {
            title: "Throughput <1>".into(),
            x: "streams".into(),
            y: "MB/s".into(),
            series: vec![
                Series {
                    name: "legacy".into(),
                    values: vec![(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)],
                },
                Series {
                    name: "ondemand".into(),
                    values: vec![(0.0, 1.0), (1.0, 30.0), (2.0, 31.0)],
                },
            ],
        }
    }

    #[test]
    fn line_plot_names_its_axes_and_series() {
        let svg = lines().to_svg();
        assert!(svg.starts_with("<svg"), "{svg}");
        for text in [
            "streams",
            "MB/s",
            "legacy",
            "ondemand",
            "Throughput &lt;1&gt;",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg, lines().to_svg());
    }

    #[test]
    fn plot_of_nothing_is_an_empty_picture() {
        let plot = LinePlot {
            series: Vec::new(),
            ..lines()
        };
        assert!(plot.to_svg().ends_with("</svg>\n"));
        let bars = BarPlot {
            title: "none".into(),
            value: "KB/s".into(),
            groups: Vec::new(),
            series: Vec::new(),
        };
        assert!(bars.to_svg().contains("none"));
    }

    #[test]
    fn bar_plot_names_each_group_and_draws_each_bar() {
        let bars = BarPlot {
            title: "iozone".into(),
            value: "KB/s".into(),
            groups: vec!["Initial write".into(), "Read".into()],
            series: vec![
                Series {
                    name: "published".into(),
                    values: vec![1.0, 2.0],
                },
                Series {
                    name: "ours".into(),
                    values: vec![1.5, f64::NAN],
                },
            ],
        };
        let svg = bars.to_svg();
        for text in ["Initial write", "Read", "published", "ours", "KB/s"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
