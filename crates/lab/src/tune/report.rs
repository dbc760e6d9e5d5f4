//! Output of the recommendations: Markdown, a table for the terminal, CSV and a plot.

use super::{Advice, CacheAdvice, SecondHalfResult};
use crate::output::{BarPlot, Report, ReportFile, Series, Table, csv_text, text_or};
use std::io;

/// Explanation of the columns.
const ABOUT_COLUMNS: &str = "\
Tables are selected in the first half of the trace, and measured in the second. The time of a lookup is the \
median of seven runs, with their median absolute deviation. Links are the mean number of entries that a lookup \
compares with its key; links by chance are the expected mean if the keys were distributed at random.";

impl Advice {
    /// Returns a table with one or two rows for each cache: the table that a mount uses by default, and the
    /// selected table if it differs.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table =
            Table::new("cache | choice | table | ns/lookup: | links/lookup: | links by chance:");
        for advice in &self.caches {
            let cache = advice.cache.as_str();
            table.push(row(cache, "current", &advice.current));
            if advice.differs_from_current() {
                table.push(row(cache, "selected", &advice.selected));
            }
        }
        table
    }

    fn plot(&self) -> BarPlot {
        let series =
            |name, value: fn(&CacheAdvice) -> f64| Series::new(name, self.caches.iter().map(value));
        let caches = self.caches.iter();
        BarPlot {
            title: "Links of a lookup in the second half of the trace".to_owned(),
            value: "links".to_owned(),
            groups: caches
                .map(|advice| advice.cache.as_str().to_owned())
                .collect(),
            series: vec![
                series("selected", |advice| advice.selected.links),
                series("current", |advice| advice.current.links),
                series("chance", |advice| advice.selected.chance_links),
            ],
        }
    }
}

impl Report for Advice {
    const NAME: &'static str = "tune";
    const TITLE: &'static str = "Tables for a trace";

    fn body(&self) -> String {
        format!(
            "{}, {} bytes of memory. {ABOUT_COLUMNS}\n\n{}\n![links of a lookup](links.svg)\n\n{}",
            self.source,
            self.memory_bytes,
            self.table().to_markdown(),
            self.summary()
        )
    }

    /// Returns one line for each cache.
    fn to_csv(&self) -> io::Result<String> {
        let head = "cache,function,bits,links,chance_links,lookup_ns,mad_ns,today_function,today_bits,\
                    today_links,today_chance_links,today_lookup_ns,today_mad_ns,lookups,gain_links,\
                    gain_links_low,gain_links_high,gain_time,certainty,is_worth_it";
        let known = |figure: Option<f64>| text_or(figure, "");
        let line = |advice: &CacheAdvice| {
            let mut line = vec![advice.cache.as_str().to_owned()];
            for table in [advice.selected, advice.current] {
                line.extend([table.function.to_string(), table.bits.to_string()]);
                line.extend([table.links, table.chance_links].map(|links| links.to_string()));
                line.extend([table.lookup_ns, table.mad_ns].map(known));
            }
            let gain = advice.gain_links;
            line.push(advice.lookups.to_string());
            line.extend([Some(gain.value), gain.low, gain.high].map(known));
            line.extend([advice.gain_time, Some(advice.faster_share)].map(known));
            line.push(advice.is_worth_it.to_string());
            line
        };
        csv_text(head, self.caches.iter().map(line))
    }

    fn plots(&self) -> Vec<ReportFile> {
        vec![ReportFile::new("links.svg", self.plot().to_svg())]
    }
}

fn row(cache: &str, choice: &str, table: &SecondHalfResult) -> [String; 6] {
    let time = table.lookup_ns.zip(table.mad_ns);
    [
        cache.to_owned(),
        choice.to_owned(),
        format!("{}/{}", table.function, table.bits),
        time.map_or_else(|| "-".to_owned(), |(ns, mad)| format!("{ns:.1} ±{mad:.1}")),
        format!("{:.3}", table.links),
        format!("{:.3}", table.chance_links),
    ]
}
