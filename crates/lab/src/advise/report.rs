//! Formats the advice as a page in Markdown with plots of the curves, and as CSV.

use super::Advice;
use super::cache_curve::{CacheCurve, CurvePoint};
use crate::output::{LinePlot, Report, ReportFile, Scale, Series, csv_text, text_or};
use crate::run_report::as_f64;
use crate::tune::ABOUT_COLUMNS;
use larder_cache::tape::CacheKind;
use std::fmt::Write as _;
use std::io;

impl CacheCurve {
    /// Returns a plot of the curve.
    fn plot(&self) -> LinePlot {
        let series = |name, value: fn(&CurvePoint) -> f64| {
            Series::new(
                name,
                self.points
                    .iter()
                    .map(|point| (as_f64(point.objects), value(point))),
            )
        };
        let mut all = vec![
            series("clock, as on a mount", |point| point.clock),
            series("LRU", |point| point.lru),
        ];
        if !self.is_exact {
            all.push(series("LRU, lower end", |point| point.low));
            all.push(series("LRU, upper end", |point| point.high));
        }
        LinePlot {
            title: format!("Misses of the {} cache", self.cache.as_str()),
            x: format!("size of the cache, in {}", objects(self.cache)),
            y: "miss ratio".to_owned(),
            scale: Scale::LogarithmicX,
            series: all,
        }
    }

    fn plot_name(&self) -> String {
        format!("misses-{}.svg", self.cache.as_str())
    }
}

/// Returns the name of the objects of a cache, in the plural.
pub(super) fn objects(cache: CacheKind) -> &'static str {
    match cache {
        CacheKind::Page => "pages of 4 KiB",
        CacheKind::Buffer => "blocks",
        CacheKind::Dentry => "names",
        CacheKind::Inode => "inodes",
    }
}

/// The name of the plot of the memory.
const MEMORY_PLOT: &str = "memory.svg";

impl Advice {
    /// Returns a plot of the time of all misses for each size of the memory.
    fn memory_plot(&self) -> LinePlot {
        let mebibytes = |bytes: u64| as_f64(bytes) / as_f64(1 << 20);
        let points = self.memory.sizes.iter();
        let points = points.map(|one| (mebibytes(one.cache_size_bytes), one.miss_ns / 1e9));
        LinePlot {
            title: "Predicted time of all misses".to_owned(),
            x: "cache_size, in MiB".to_owned(),
            y: "seconds of the recording".to_owned(),
            scale: Scale::LogarithmicX,
            series: vec![Series::new("misses", points)],
        }
    }
}

impl Report for Advice {
    const NAME: &'static str = "advise";
    const TITLE: &'static str = "Options for a recorded workload";

    fn body(&self) -> String {
        let mut body = format!(
            "{}\n\n{}\n\n## Recommendation\n\n{}\n## Memory\n\n![time of misses]({MEMORY_PLOT})\n\n## Caches\n\n{}\n",
            self.headline(),
            self.verdict(),
            self.changes_table().to_markdown(),
            self.cache_table().to_markdown()
        );
        // Writing to a string does not fail.
        for curve in &self.caches {
            let _ = writeln!(body, "![misses]({})\n", curve.plot_name());
        }
        if let Some(table) = self.readahead_table() {
            let _ = writeln!(body, "## Readahead\n\n{}", table.to_markdown());
        }
        if let Some(tables) = &self.tables {
            let table = tables.table().to_markdown();
            let _ = writeln!(
                body,
                "## Tables\n\n{ABOUT_COLUMNS}\n\n{table}\n{}",
                tables.summary()
            );
        }
        body.push_str("## Notes\n\n");
        for note in &self.notes {
            let _ = writeln!(body, "- {note}");
        }
        body
    }

    /// Returns the points of all curves, one on each line.
    fn to_csv(&self) -> io::Result<String> {
        let head = "cache,objects,lru,low,high,clock,recorded_misses,lookups";
        let lines = self.caches.iter().flat_map(|curve| {
            curve.points.iter().map(|point| {
                let mut line = vec![curve.cache.as_str().to_owned(), point.objects.to_string()];
                line.extend(
                    [point.lru, point.low, point.high, point.clock].map(|value| value.to_string()),
                );
                line.push(text_or(curve.recorded_misses, ""));
                line.push(curve.lookups.to_string());
                line
            })
        });
        csv_text(head, lines)
    }

    fn plots(&self) -> Vec<ReportFile> {
        let curves = self.caches.iter();
        let curves = curves.map(|curve| ReportFile::new(curve.plot_name(), curve.plot().to_svg()));
        let memory = ReportFile::new(MEMORY_PLOT, self.memory_plot().to_svg());
        std::iter::once(memory).chain(curves).collect()
    }
}
