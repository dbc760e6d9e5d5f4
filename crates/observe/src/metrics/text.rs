//! Writes metrics as lines of the text exposition format 0.0.4.

use larder::LatencyStats;
use std::fmt::{Display, Write};

/// The name and the value of a label, as in `cache="page"`.
pub(super) type Label<'a> = (&'a str, &'a str);

/// A metric, and how its value is read from a `T`.
pub(super) struct Metric<T> {
    /// A `counter` only increases, so that rates are meaningful. A `gauge` increases and decreases.
    pub kind: &'static str,
    pub name: &'static str,
    pub help: &'static str,
    /// Returns the value, or `None` if it is unknown.
    pub value: fn(&T) -> Option<u64>,
}

/// The binary logarithms of the upper limits of the buckets of a histogram, in nanoseconds: from 1 µs to 17 s.
const BUCKET_BITS: std::ops::RangeInclusive<u32> = 10..=34;

/// The text to which metrics are written. Writing to a string cannot fail, so the results are ignored.
pub(super) struct Text<'a> {
    out: String,
    labels: &'a [Label<'a>],
}

impl<'a> Text<'a> {
    /// Creates an empty text. Every sample gets `labels`.
    pub(super) fn new(labels: &'a [Label<'a>]) -> Self {
        Self {
            out: String::with_capacity(32 << 10),
            labels,
        }
    }

    pub(super) fn into_string(self) -> String {
        self.out
    }

    /// Writes a metric whose information is only in the labels of its samples.
    pub(super) fn info(&mut self, name: &str, help: &str, samples: &[&[Label]]) {
        self.head(name, "gauge", help);
        for labels in samples {
            self.sample(name, labels, 1);
        }
    }

    /// Writes each of `metrics`, with a sample for each source in `sources`. The labels of a source
    /// distinguish its samples. A metric whose value is unknown for all sources is omitted.
    pub(super) fn metrics<T>(&mut self, metrics: &[Metric<T>], sources: &[(&[Label], &T)]) {
        for metric in metrics {
            let suffix = if metric.kind == "counter" {
                "_total"
            } else {
                ""
            };
            let name = format!("{}{suffix}", metric.name);
            let samples = sources
                .iter()
                .filter_map(|(labels, of)| Some((*labels, (metric.value)(of)?)));
            self.samples(&name, (metric.kind, metric.help), samples);
        }
    }

    /// Writes a counter with the full name `name`. Omits it if there are no samples.
    pub(super) fn counter<'l, L: AsRef<[Label<'l>]>>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl Iterator<Item = (L, u64)>,
    ) {
        self.samples(name, ("counter", help), samples);
    }

    fn samples<'l, L: AsRef<[Label<'l>]>>(
        &mut self,
        name: &str,
        (kind, help): (&str, &str),
        samples: impl Iterator<Item = (L, u64)>,
    ) {
        for (at, (labels, value)) in samples.enumerate() {
            if at == 0 {
                self.head(name, kind, help);
            }
            self.sample(name, labels.as_ref(), value);
        }
    }

    /// Writes a time with the full name `name`: a counter or a gauge, depending on the name. Omits it if the time is
    /// unknown.
    pub(super) fn seconds(&mut self, name: &str, help: &str, ns: Option<u64>) {
        if let Some(ns) = ns {
            let is_counter = name.ends_with("_total");
            self.head(name, if is_counter { "counter" } else { "gauge" }, help);
            self.sample(name, &[], seconds(ns));
        }
    }

    /// Writes a histogram of durations in seconds. The labels of a source distinguish its samples. Omits the
    /// histogram if there are no sources.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sources: &[(&[Label], &LatencyStats)],
    ) {
        if sources.is_empty() {
            return;
        }
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (labels, latency) in sources {
            let limits = BUCKET_BITS.map(|bits| 1 << bits);
            let within = limits.map(|ns| (seconds(ns), latency.count_within(ns)));
            let all = ("+Inf".to_owned(), latency.count);
            for (limit, count) in within.chain([all]) {
                let labels: Vec<_> = labels.iter().copied().chain([("le", &*limit)]).collect();
                self.sample(&bucket, &labels, count);
            }
            self.sample(&format!("{name}_sum"), labels, seconds(latency.total_ns));
            self.sample(&format!("{name}_count"), labels, latency.count);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[Label], value: impl Display) {
        self.out.push_str(name);
        for (at, (label, value)) in self.labels.iter().chain(labels).enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.out, "{open}{label}=\"{}\"", escaped(value));
        }
        let close = if self.labels.is_empty() && labels.is_empty() {
            ""
        } else {
            "}"
        };
        let _ = writeln!(self.out, "{close} {value}");
    }
}

/// Returns nanoseconds as seconds, without zeros at the end.
fn seconds(ns: u64) -> String {
    let (whole, part) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let text = format!("{whole}.{part:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a label's value with backslashes, double quotes and line feeds escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_zeros_at_the_end() {
        for (ns, text) in [
            (0, "0"),
            (1, "0.000000001"),
            (1024, "0.000001024"),
            (1_500_000_000, "1.5"),
            (20_000_000_000, "20"),
        ] {
            assert_eq!(seconds(ns), text);
        }
    }
}
