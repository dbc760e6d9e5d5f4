//! Plots as SVG text. The viewer supplies the fonts, so plotting needs no font library.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{
    Area, FONT, Failure, Head, LABEL_SIZE, Point, Sample, bar, draw, label_style, line, marker,
    text_width,
};
use super::style::{Style, styles};

/// Height of a line plot without its head.
const LINES_HEIGHT: u32 = 360;

/// A named series of values.
#[derive(Clone, Debug)]
pub struct Series<T> {
    /// Name in the legend.
    pub name: String,
    /// The values or points.
    pub values: Vec<T>,
}

impl<T> Series<T> {
    pub fn new(name: impl Into<String>, values: impl IntoIterator<Item = T>) -> Self {
        Self {
            name: name.into(),
            values: values.into_iter().collect(),
        }
    }
}

/// The mapping from values to positions on both axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear. Both axes of a line plot begin at 0.
    Linear,
    /// Logarithmic. In a line plot, x doubles from point to point, and y is positive and extends over
    /// decades. There are few points, so each has a marker.
    Logarithmic,
    /// Logarithmic in x, with any values, and linear in y, which begins at 0.
    LogarithmicX,
    /// Logarithmic in x, with any values, and linear in y, which need not begin at 0, so that small differences are
    /// visible. Points have markers, as with [`Scale::Logarithmic`].
    FittedY,
}

/// Lines with a common x axis.
#[derive(Clone, Debug)]
pub struct LinePlot {
    /// The title above the plot.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x: String,
    /// Label of the y axis, with its unit.
    pub y: String,
    /// Scale of both axes.
    pub scale: Scale,
    /// Points as (x, y), in the order in which they are connected.
    pub series: Vec<Series<(f64, f64)>>,
}

/// Groups of bars, one below the other, so that long group names fit.
#[derive(Clone, Debug)]
pub struct BarPlot {
    /// The title above the plot.
    pub title: String,
    /// The quantity that the bars show, with its unit.
    pub value: String,
    /// The names of the groups.
    pub groups: Vec<String>,
    /// The series, each with one value for each group.
    pub series: Vec<Series<f64>>,
}

impl LinePlot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let sample = match self.scale {
            Scale::Linear | Scale::LogarithmicX => Sample::Line,
            Scale::Logarithmic | Scale::FittedY => Sample::MarkedLine,
        };
        let head = head(&self.title, &self.series, sample);
        draw(LINES_HEIGHT + head.height(), |root| {
            self.draw(&head.draw(root)?)
        })
    }

    fn draw(&self, root: &Area<'_>) -> Result<(), Failure> {
        let points = || self.series.iter().flat_map(|series| &series.values);
        let (xs, ys) = (points().map(|(x, _)| *x), points().map(|(_, y)| *y));
        match self.scale {
            Scale::Linear => {
                let (x_max, y_max) = (upper(xs), upper(ys));
                let labels = [&|x| plain(x, x_max), &|y| plain(y, y_max)] as Labels<'_>;
                self.draw_lines(root, 0.0..x_max, 0.0..y_max, labels)
            }
            Scale::LogarithmicX => {
                let (x, y_max) = (padded(xs), upper(ys));
                let labels = [&|x| plain(x, x), &|y| plain(y, y_max)] as Labels<'_>;
                self.draw_lines(root, x.log_scale().base(2.0), 0.0..y_max, labels)
            }
            Scale::Logarithmic => {
                let (x, y) = (padded(xs), decades(ys));
                let labels = [&|x| plain(x, x), &|y| plain(y, y)] as Labels<'_>;
                self.draw_lines(root, x.log_scale().base(2.0), y.log_scale(), labels)
            }
            Scale::FittedY => {
                let (x, y) = (padded(xs), fitted(ys));
                let labels =
                    [&|x| plain(x, x), &|value| plain(value, y.end - y.start)] as Labels<'_>;
                self.draw_lines(root, x.log_scale(), y.clone(), labels)
            }
        }
    }

    fn draw_lines<X, Y>(
        &self,
        root: &Area<'_>,
        x: X,
        y: Y,
        labels: Labels<'_>,
    ) -> Result<(), Failure>
    where
        X: AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>,
        Y: AsRangedCoord<Value = f64, CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>>,
    {
        let mut builder = ChartBuilder::on(root);
        builder
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(72);
        let mut chart = builder.build_cartesian_2d(x, y)?;
        let [x_label, y_label] = labels;
        chart
            .configure_mesh()
            .x_desc(&*self.x)
            .y_desc(&*self.y)
            .label_style((FONT, LABEL_SIZE))
            .axis_desc_style((FONT, LABEL_SIZE))
            .x_label_formatter(&|x| x_label(*x))
            .y_label_formatter(&|y| y_label(*y))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (series, style) in styled(&self.series) {
            let points = series.values.iter().map(|point| chart.backend_coord(point));
            let points: Vec<Point> = points.map(|point| relative(root, point)).collect();
            line(root, style, points.clone())?;
            if matches!(self.scale, Scale::Logarithmic | Scale::FittedY) {
                points
                    .into_iter()
                    .try_for_each(|point| marker(root, style, point))?;
            }
        }
        Ok(())
    }
}

impl BarPlot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let bars = u32::try_from(self.groups.len() * (self.series.len() + 1)).unwrap_or(u32::MAX);
        let height = bars.saturating_mul(11).clamp(120, 4000) + 80;
        let head = head(&self.title, &self.series, Sample::Bar);
        draw(height + head.height(), |root| self.draw(&head.draw(root)?))
    }

    #[expect(clippy::cast_precision_loss, reason = "a plot has a few hundred bars")]
    fn draw(&self, root: &Area<'_>) -> Result<(), Failure> {
        let value_max = upper(self.series.iter().flat_map(|s| &s.values).copied());
        let groups = self.groups.len() as f64;
        let longest = self.groups.iter().map(|name| text_width(name)).max();
        let label_area = 30 + longest.unwrap_or(0).clamp(0, 450);
        let mut chart = ChartBuilder::on(root)
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
            .x_label_formatter(&|x| plain(*x, value_max))
            .y_labels(0)
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .draw()?;
        let thickness = 0.84 / self.series.len().max(1) as f64;
        for (at, (series, style)) in styled(&self.series).enumerate() {
            let top = |group: usize| group as f64 + 0.08 + at as f64 * thickness;
            for (group, value) in series.values.iter().enumerate() {
                if value.is_finite() {
                    let corners = [(0.0, top(group)), (*value, top(group) + thickness)];
                    let corners =
                        corners.map(|corner| relative(root, chart.backend_coord(&corner)));
                    bar(root, style, corners)?;
                }
            }
        }
        for (group, name) in self.groups.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(0.0, group as f64 + 0.5));
            root.draw_text(name, &label_style(HPos::Right), relative(root, (x - 8, y)))?;
        }
        Ok(())
    }
}

/// Returns the series, each with its style.
fn styled<T>(series: &[Series<T>]) -> impl Iterator<Item = (&Series<T>, Style)> {
    let names = series.iter().map(|series| &*series.name);
    series.iter().zip(styles(names))
}

fn head<'a, T>(title: &'a str, series: &'a [Series<T>], sample: Sample) -> Head<'a> {
    let entries = styled(series).map(|(series, style)| (&*series.name, style));
    Head::new(title, entries, sample)
}

/// Formatters of the labels on the x axis and on the y axis.
type Labels<'a> = [&'a dyn Fn(f64) -> String; 2];

/// Converts a position in the whole picture to one in the area.
fn relative(area: &Area<'_>, (x, y): Point) -> Point {
    let (left, top) = area.get_base_pixel();
    (x - left, y - top)
}

/// Returns the end of an axis: slightly above the largest value, and never zero.
fn upper(values: impl Iterator<Item = f64>) -> f64 {
    let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if most > 0.0 { most * 1.05 } else { 1.0 }
}

/// Returns the ends of an axis that has room for all values and their markers.
fn fitted(values: impl Iterator<Item = f64>) -> Range<f64> {
    let values = values.filter(|value| value.is_finite());
    let both = values.map(|value| (value, value));
    let ends = both.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let (least, most) = ends.unwrap_or((0.0, 1.0));
    let margin = ((most - least) * 0.05).max(most.abs() * 0.001 + 0.001);
    least - margin..most + margin
}

/// Returns the ends of a logarithmic axis, with room for markers around the first and the last
/// value.
fn padded(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = ends(values);
    least / 1.1..most * 1.1
}

/// Returns the ends of a logarithmic axis at whole decades, so that it has labels. The ends are
/// slightly outside of the decades, since a computed power may be rounded in either direction.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = ends(values);
    let (from, to) = (least.log10().floor(), most.log10().ceil());
    10_f64.powf(from) * 0.999..10_f64.powf(to.max(from + 1.0)) * 1.001
}

/// Returns the smallest and the largest positive value; 1 if there are none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values = values.filter(|value| value.is_finite() && *value > 0.0);
    let both = values.map(|value| (value, value));
    both.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
        .unwrap_or((1.0, 1.0))
}

/// Formats a label of an axis that ends at `end`, with no more decimals than necessary. Labels are
/// about a tenth of the axis apart, so two digits after the first digit of `end` distinguish them.
fn plain(value: f64, end: f64) -> String {
    let mut decimals = 2;
    let mut end = end.abs();
    while end > 0.0 && end < 1.0 && decimals < 12 {
        end *= 10.0;
        decimals += 1;
    }
    let text = format!("{value:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::picture::{expect_texts_inside, texts};
    use super::super::style::STYLES;
    use super::*;

    fn lines() -> LinePlot {
        LinePlot {
            title: "Throughput <1>".into(),
            x: "streams".into(),
            y: "MB/s".into(),
            scale: Scale::Linear,
            series: vec![
                Series::new("legacy", [(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]),
                Series::new("ondemand", [(0.0, 1.0), (1.0, 30.0), (2.0, 31.0)]),
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
    fn labels_of_a_short_axis_differ() {
        for most in [0.002, 0.0073, 0.5, 3.0] {
            let mut plot = lines();
            plot.series[0].values = vec![(1000.0, 0.0), (2000.0, most)];
            plot.series.truncate(1);
            let svg = plot.to_svg();
            let mut labels: Vec<&str> = texts(&svg)
                .into_iter()
                .filter(|text| text.parse::<f64>().is_ok())
                .collect();
            let all = labels.len();
            labels.sort_unstable();
            labels.dedup();
            // Both axes begin at 0.
            assert!(all > 10 && labels.len() + 1 == all, "{most}: {labels:?}");
        }
    }

    #[test]
    fn logarithmic_plot_labels_doubled_x_and_decades_of_y_and_marks_points() {
        let mut plot = LinePlot {
            scale: Scale::Logarithmic,
            ..lines()
        };
        plot.series.truncate(1);
        plot.series[0].values = (0..7).map(|n| (f64::from(1 << n), 0.02)).collect();
        plot.series[0].values[6].1 = 61.0;
        let svg = plot.to_svg();
        let texts = texts(&svg);
        for label in [
            "1", "2", "4", "8", "16", "32", "64", "0.01", "0.1", "10", "100",
        ] {
            assert!(texts.contains(&label), "{label}: {texts:?}");
        }
        expect_texts_inside(&svg);
        // One marker for each point, and one in the legend.
        assert_eq!(svg.matches("<polygon").count(), 7 + 1);
        plot.series.clear();
        assert!(plot.to_svg().ends_with("</svg>\n"));
    }

    #[test]
    fn plot_with_logarithmic_x_begins_at_zero_y_and_has_no_markers() {
        let mut plot = LinePlot {
            scale: Scale::LogarithmicX,
            ..lines()
        };
        plot.series.truncate(1);
        plot.series[0].values = vec![(1.0, 0.8), (16.0, 0.5), (256.0, 0.1)];
        let svg = plot.to_svg();
        let texts = texts(&svg);
        for label in ["0", "1", "16", "256"] {
            assert!(texts.contains(&label), "{label}: {texts:?}");
        }
        expect_texts_inside(&svg);
        assert_eq!(svg.matches("<polygon").count(), 0);
    }

    #[test]
    fn plot_with_fitted_y_labels_decades_of_x() {
        let mut plot = LinePlot {
            scale: Scale::FittedY,
            ..lines()
        };
        plot.series[0].values = vec![(0.1, 97.0), (1.0, 98.5), (40.0, 103.0)];
        plot.series.truncate(1);
        let svg = plot.to_svg();
        let texts = texts(&svg);
        for label in ["0.1", "1", "10", "98", "103"] {
            assert!(texts.contains(&label), "{label}: {texts:?}");
        }
        assert!(!texts.contains(&"0"), "{texts:?}");
        assert_eq!(svg.matches("<polygon").count(), 3 + 1);
        expect_texts_inside(&svg);
        plot.series.clear();
        assert!(plot.to_svg().ends_with("</svg>\n"));
    }

    #[test]
    fn legend_names_every_series_and_each_line_differs() {
        let names: Vec<String> = (0..STYLES).map(|n| format!("function-{n}")).collect();
        let series = names
            .iter()
            .map(|name| Series::new(name, [(1.0, 2.0), (2.0, 1.0)]));
        let plot = LinePlot {
            series: series.collect(),
            ..lines()
        };
        let svg = plot.to_svg();
        let texts = texts(&svg);
        for name in &names {
            assert!(texts.contains(&&**name), "{name}");
        }
        expect_texts_inside(&svg);
        let styles: Vec<Style> = styled(&plot.series).map(|(_, style)| style).collect();
        for (at, style) in styles.iter().enumerate() {
            assert!(!styles[at + 1..].contains(style), "{}", names[at]);
        }
    }

    #[test]
    fn plot_without_series_is_empty() {
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
                Series::new("published", [1.0, 2.0]),
                Series::new("larder", [1.5, f64::NAN]),
            ],
        };
        let svg = bars.to_svg();
        for text in ["Initial write", "Read", "published", "larder", "KB/s"] {
            assert!(svg.contains(text), "{text}");
        }
        let long = BarPlot {
            groups: vec!["a test whose name has many more words than usual".into(); 2],
            ..bars
        };
        for svg in [svg, long.to_svg()] {
            expect_texts_inside(&svg);
        }
    }
}
