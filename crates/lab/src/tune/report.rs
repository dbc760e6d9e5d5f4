//! Advice as people and programs read it.

use super::{Advice, CacheAdvice, Judged};
use crate::hash::cache_name;
use crate::output::{Align, Table, csv_text, json_text, significant};
use crate::output::{BarPlot, Report, ReportFile, Series};
use larder_cache::tape::CacheKind;
use std::fmt::Write as _;
use std::io;

const TITLE: &str = "Tables for a trace";

impl Advice {
    /// One row for each cache.
    #[must_use]
    pub fn table(&self) -> Table {
        let text = ["cache", "today", "best"].map(|title| (title, Align::Left));
        let numbers = [
            "ns",
            "ns",
            "links",
            "links",
            "ideal",
            "time",
            "sure",
            "links saved",
        ];
        let numbers = numbers.map(|title| (title, Align::Right));
        let mut table = Table::new(
            text.into_iter()
                .chain(numbers)
                .chain([("change", Align::Left)]),
        );
        for advice in &self.caches {
            table.push(row(advice));
        }
        table
    }

    /// What is recommended, in words.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if !self.losses.are_none() {
            let _ = writeln!(text, "Incomplete: {}.", self.losses);
        }
        if let Some(shrinking) = &self.shrinking {
            let added = shrinking
                .misses_eager
                .saturating_sub(shrinking.misses_normal);
            let what = if added == 0 {
                "adds no misses here, and needs no deciding".to_owned()
            } else {
                format!(
                    "saves {:.1} ns a lookup and adds {added} misses to {} lookups: it pays where a \
                     miss costs less than {:.0} ns. It is taken to cost {:.0} ns, a read of a disk, \
                     which was not measured",
                    shrinking.saved_ns,
                    shrinking.lookups,
                    shrinking.break_even_ns.unwrap_or(f64::INFINITY),
                    shrinking.assumed_miss_ns
                )
            };
            let _ = writeln!(text, "Half as many names (shrink=eager) {what}.");
        }
        for advice in &self.caches {
            let cache = cache_name(advice.cache);
            if advice.gain_links.low.is_none() {
                let _ = writeln!(
                    text,
                    "Too short to be sure of the {cache} cache: {} lookups in the second half.",
                    advice.lookups
                );
            }
            if advice.cache == CacheKind::Dentry {
                let _ = writeln!(
                    text,
                    "For the mount's function of names, which has a secret, stands {}; all names are in \
                     one table, as large as that of short names.",
                    advice.today.function
                );
            }
        }
        let changes_names =
            |advice: &CacheAdvice| advice.is_worth_it && advice.cache == CacheKind::Dentry;
        if self.caches.iter().any(changes_names) {
            text.push_str(
                "Beware: names made to share a bucket can flood any function of dentries but larder's.\n",
            );
        }
        let _ = writeln!(text, "\nMount with: -o {}", self.mount_option);
        text
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
            "lookup_ns",
            "today_function",
            "today_bits",
            "today_links",
            "today_lookup_ns",
            "ideal_links",
            "lookups",
            "gain_links",
            "gain_links_low",
            "gain_links_high",
            "gain_time",
            "certainty",
            "is_worth_it",
        ];
        let line = |advice: &CacheAdvice| {
            let mut line = vec![cache_name(advice.cache).to_owned()];
            for table in [advice.best, advice.today] {
                line.extend([table.function.to_string(), table.bits.to_string()]);
                let time = table.lookup_ns.map(|time| time.to_string());
                line.extend([table.links.to_string(), time.unwrap_or_default()]);
            }
            let gain = advice.gain_links;
            let known =
                |figure: Option<f64>| figure.map_or_else(String::new, |one| one.to_string());
            line.extend([advice.ideal_links.to_string(), advice.lookups.to_string()]);
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
            "# {TITLE}\n\n{}, {} bytes of memory. Chosen on the first half, judged on the second.\n\n{}\n\
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
                .map(|advice| cache_name(advice.cache).to_owned())
                .collect(),
            series: vec![
                series("best", |advice| advice.best.links),
                series("today", |advice| advice.today.links),
                series("ideal", |advice| advice.ideal_links),
            ],
        }
    }
}

fn row(advice: &CacheAdvice) -> Vec<String> {
    let name = |table: &Judged| format!("{}/{}", table.function, table.bits);
    let time = |table: &Judged| significant(table.lookup_ns.unwrap_or(f64::NAN));
    let percent = |share: f64| format!("{:+.1}%", share * 100.0);
    let gain = advice.gain_links;
    vec![
        cache_name(advice.cache).to_owned(),
        name(&advice.today),
        name(&advice.best),
        time(&advice.today),
        time(&advice.best),
        format!("{:.3}", advice.today.links),
        format!("{:.3}", advice.best.links),
        format!("{:.3}", advice.ideal_links),
        advice
            .gain_time
            .map_or_else(|| "-".to_owned(), |gain| percent(-gain)),
        format!("{:.0}%", advice.certainty * 100.0),
        match (gain.low, gain.high) {
            (Some(low), Some(high)) => {
                format!(
                    "{} ({} to {})",
                    percent(gain.value),
                    percent(low),
                    percent(high)
                )
            }
            _ => format!("{} (too short to be sure)", percent(gain.value)),
        },
        if advice.is_worth_it { "yes" } else { "no" }.to_owned(),
    ]
}
