//! Advice as people and programs read it.

use super::{Advice, CacheAdvice, Judged};
use crate::output::{Align, Table, csv_text, json_text};
use crate::output::{BarPlot, Report, ReportFile, Series};
use std::io;

const TITLE: &str = "Tables for a trace";

/// What the figures are of.
const JUDGED: &str = "\
Chosen on the first half, judged on the second: nanoseconds of a lookup are of the median of seven runs, with \
the median distance of the runs from it; links are walked by a lookup in the mean, there and if chance spread the keys.";

impl Advice {
    /// Two rows for each cache: the table that a mount has now, and the one that was chosen, if that is
    /// another.
    #[must_use]
    pub fn table(&self) -> Table {
        let text = ["cache", "which", "table"].map(|title| (title, Align::Left));
        let numbers = ["ns", "links", "links by chance"].map(|title| (title, Align::Right));
        let mut table = Table::new(text.into_iter().chain(numbers));
        for advice in &self.caches {
            let cache = advice.cache.as_str();
            table.push(row(cache, "today", &advice.today));
            if advice.is_another() {
                table.push(row(cache, "best", &advice.best));
            }
        }
        table
    }

    /// One line for each cache, with a head.
    ///
    /// # Errors
    /// Where the figures cannot be written as CSV, which is our own mistake.
    pub fn to_csv(&self) -> io::Result<String> {
        let head = [
            "cache",
            "function",
            "bits",
            "links",
            "chance_links",
            "lookup_ns",
            "mad_ns",
            "today_function",
            "today_bits",
            "today_links",
            "today_chance_links",
            "today_lookup_ns",
            "today_mad_ns",
            "lookups",
            "gain_links",
            "gain_links_low",
            "gain_links_high",
            "gain_time",
            "certainty",
            "is_worth_it",
        ];
        let line = |advice: &CacheAdvice| {
            let mut line = vec![advice.cache.as_str().to_owned()];
            let known =
                |figure: Option<f64>| figure.map_or_else(String::new, |one| one.to_string());
            for table in [advice.best, advice.today] {
                line.extend([table.function.to_string(), table.bits.to_string()]);
                line.extend([table.links, table.chance_links].map(|links| links.to_string()));
                line.extend([table.lookup_ns, table.mad_ns].map(known));
            }
            let gain = advice.gain_links;
            line.push(advice.lookups.to_string());
            line.extend([Some(gain.value), gain.low, gain.high].map(known));
            line.extend([advice.gain_time, Some(advice.certainty)].map(known));
            line.push(advice.is_worth_it.to_string());
            line
        };
        let lines = self.caches.iter().map(line);
        csv_text([head.map(str::to_owned).to_vec()].into_iter().chain(lines))
    }

    /// Everything as JSON.
    ///
    /// # Errors
    /// Where the figures cannot be written as JSON, which is our own mistake.
    pub fn to_json(&self) -> io::Result<String> {
        json_text(self)
    }

    /// The advice as files: `tune.md`, `.html`, `.csv`, `.json` and a plot.
    ///
    /// # Errors
    /// As [`Self::to_csv`] and [`Self::to_json`].
    pub fn report(&self) -> io::Result<Vec<ReportFile>> {
        let markdown = format!(
            "# {TITLE}\n\n{}, {} bytes of memory. {JUDGED}\n\n{}\n\
             ![links of a lookup](links.svg)\n\n{}",
            self.source,
            self.memory_bytes,
            self.table().to_markdown(),
            self.summary()
        );
        let report = Report {
            name: "tune",
            title: TITLE,
            markdown,
            csv: self.to_csv()?,
            json: self.to_json()?,
            plots: vec![ReportFile {
                name: "links.svg".to_owned(),
                content: self.plot().to_svg(),
            }],
        };
        Ok(report.into_files())
    }

    fn plot(&self) -> BarPlot {
        let series = |name: &str, value: fn(&CacheAdvice) -> f64| Series {
            name: name.to_owned(),
            values: self.caches.iter().map(value).collect(),
        };
        let caches = self.caches.iter();
        BarPlot {
            title: "Links of a lookup, in the second half of the trace".to_owned(),
            value: "links".to_owned(),
            groups: caches
                .map(|advice| advice.cache.as_str().to_owned())
                .collect(),
            series: vec![
                series("best", |advice| advice.best.links),
                series("today", |advice| advice.today.links),
                series("chance", |advice| advice.best.chance_links),
            ],
        }
    }
}

fn row(cache: &str, which: &str, table: &Judged) -> Vec<String> {
    let time = table.lookup_ns.zip(table.mad_ns);
    vec![
        cache.to_owned(),
        which.to_owned(),
        format!("{}/{}", table.function, table.bits),
        time.map_or_else(|| "-".to_owned(), |(ns, mad)| format!("{ns:.1} ±{mad:.1}")),
        format!("{:.3}", table.links),
        format!("{:.3}", table.chance_links),
    ]
}
