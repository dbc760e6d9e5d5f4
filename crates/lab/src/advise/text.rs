//! Formats the advice as text for a terminal.

use super::Advice;
use super::readahead::size;
use super::recommendation::{Change, share};
use crate::output::{Table, counted, duration};
use crate::run_report::as_f64;
use crate::statistics::Interval;
use std::time::Duration;

impl Advice {
    /// Returns a line that describes the trace.
    #[must_use]
    pub fn headline(&self) -> String {
        format!(
            "{}: {} in {}, on {}",
            self.trace,
            counted(self.events, "event", "events"),
            time(as_f64(self.recommendation.recording_ns)),
            self.device
        )
    }

    /// Returns the recommendation as a sentence or two.
    #[must_use]
    pub fn verdict(&self) -> String {
        let recommendation = &self.recommendation;
        if recommendation.recording_ns == 0 {
            return "No recommendation: the trace has no times.".to_owned();
        }
        if recommendation.keeps_current() {
            let now = recommendation.mount_option();
            let now = now.map_or_else(
                || "the default options".to_owned(),
                |option| format!("-o {option}"),
            );
            return format!(
                "Keep the current options ({now}): no change is predicted to save 1% of the recording."
            );
        }
        format!(
            "Mount with: -o {}\nThis is predicted to save {}.",
            recommendation.mount_option().unwrap_or_default(),
            saving(recommendation.saved_ns, recommendation.recording_ns)
        )
    }

    /// Returns a table with one row for each part of the configuration.
    #[must_use]
    pub fn changes_table(&self) -> Table {
        let mut table = Table::new("part | recommended | predicted saving | reason");
        for change in &self.recommendation.changes {
            table.push(row(change, self.recommendation.recording_ns));
        }
        table
    }

    /// Returns a table with one row for each cache.
    #[must_use]
    pub fn cache_table(&self) -> Table {
        let now = size(self.memory.current.cache_size_bytes);
        let mut table = Table::new("cache | lookups: | missed:").with_numbers([
            format!("misses with {now}"),
            format!("objects with {now}"),
            "least misses".to_owned(),
            "knee".to_owned(),
            "largest useful".to_owned(),
        ]);
        for curve in &self.caches {
            table.push([
                curve.cache.as_str().to_owned(),
                curve.lookups.to_string(),
                crate::output::text_or(curve.recorded_misses, "-"),
                format!("{:.0}", curve.current_misses),
                curve.current_objects.to_string(),
                format!("{:.0}", curve.least_misses),
                curve.knee_objects.to_string(),
                curve.useful_objects.to_string(),
            ]);
        }
        table
    }

    /// Returns a table with one row for each simulated policy; `None` if there were no reads.
    #[must_use]
    pub fn readahead_table(&self) -> Option<Table> {
        let times = self.readahead.as_ref()?;
        let mut table = Table::new("policy | largest window: | time of reads: | pages wasted:");
        for one in &times.policies {
            table.push([
                one.policy.to_string(),
                size(one.readahead_max_bytes),
                time(one.read_s * 1e9),
                one.pages_wasted.to_string(),
            ]);
        }
        Some(table)
    }
}

fn row(change: &Change, recording_ns: u64) -> [String; 4] {
    let option = if change.is_recommended() {
        change.options.join(",")
    } else {
        "keep".to_owned()
    };
    let saved = change.saved_ns;
    let saved = saved.map_or_else(|| "unknown".to_owned(), |saved| saving(saved, recording_ns));
    [change.part.to_owned(), option, saved, change.reason.clone()]
}

/// Formats a saving: its time, its interval, and its share of the recording.
fn saving(saved_ns: Interval, recording_ns: u64) -> String {
    let percent = share(saved_ns, recording_ns).map(|share| 100.0 * share);
    match saved_ns
        .low
        .zip(saved_ns.high)
        .zip(percent.low.zip(percent.high))
    {
        Some(((low, high), (low_percent, high_percent))) => format!(
            "{} ({} to {}), {:.1}% ({low_percent:.1}% to {high_percent:.1}%) of the recording",
            time(saved_ns.value),
            time(low),
            time(high),
            percent.value
        ),
        None => format!(
            "{}, {:.1}% of the recording, with an unknown interval",
            time(saved_ns.value),
            percent.value
        ),
    }
}

/// Formats a time in nanoseconds, which may be negative.
fn time(ns: f64) -> String {
    let text = duration(Duration::from_secs_f64(ns.abs().min(1e18) / 1e9));
    if ns <= -1.0 { format!("-{text}") } else { text }
}
