//! A refresh as a line of JSON.

use super::change::{CacheChange, Change};
use crate::json;
use larder::{CacheKind, Stats};
use larder_console::Result;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates: Option<Rates>,
    stats: &'a Stats,
    histogram: json::Histogram,
}

#[derive(Debug, Serialize)]
struct Rates {
    page: CacheRates,
    buffer: CacheRates,
    dentry: CacheRates,
    inode: CacheRates,
    readahead: ReadaheadRates,
    device: DeviceRates,
}

#[derive(Debug, Serialize)]
struct CacheRates {
    lookups_s: Option<f64>,
    hit_rate: Option<f64>,
    links_per_hit: Option<f64>,
    links_per_miss: Option<f64>,
    inserted_s: Option<f64>,
    removed_s: Option<f64>,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "each is in a second")]
struct ReadaheadRates {
    windows_s: Option<f64>,
    pages_ahead_s: Option<f64>,
    pages_used_s: Option<f64>,
    pages_wasted_s: Option<f64>,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "each is in a second")]
struct DeviceRates {
    reads_s: Option<f64>,
    bytes_s: Option<f64>,
    writes_s: Option<f64>,
    written_bytes_s: Option<f64>,
    flushes_s: Option<f64>,
}

impl From<CacheChange> for CacheRates {
    fn from(change: CacheChange) -> Self {
        Self {
            lookups_s: change.rate,
            hit_rate: change.hit_rate,
            links_per_hit: change.links_per_hit,
            links_per_miss: change.links_per_miss,
            inserted_s: change.came,
            removed_s: change.went,
        }
    }
}

impl Rates {
    fn of(change: &Change<'_>) -> Self {
        Self {
            page: change.cache(CacheKind::Page).into(),
            buffer: change.cache(CacheKind::Buffer).into(),
            dentry: change.cache(CacheKind::Dentry).into(),
            inode: change.cache(CacheKind::Inode).into(),
            readahead: ReadaheadRates {
                windows_s: change.rate(|stats| stats.readahead.windows),
                pages_ahead_s: change.rate(|stats| stats.readahead.pages_ahead),
                pages_used_s: change.rate(|stats| stats.readahead.pages_used),
                pages_wasted_s: change.rate(|stats| stats.readahead.pages_wasted),
            },
            device: DeviceRates {
                reads_s: change.rate(|stats| stats.device.reads),
                bytes_s: change.rate(|stats| stats.device.bytes),
                writes_s: change.rate(|stats| stats.device.writes),
                written_bytes_s: change.rate(|stats| stats.device.written_bytes),
                flushes_s: change.rate(|stats| stats.device.flushes),
            },
        }
    }
}

impl<'a> Line<'a> {
    fn of(change: &Change<'a>) -> Self {
        let elapsed = change.elapsed();
        Self {
            elapsed_s: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            rates: elapsed.map(|_| Rates::of(change)),
            stats: &change.now.stats,
            histogram: json::Histogram::new(&change.now.report),
        }
    }
}

pub(super) fn print(change: &Change<'_>) -> Result<()> {
    let line = Line::of(change);
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &line).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;
    use serde_json::Value;
    use std::time::Duration;

    fn json(change: &Change<'_>) -> Value {
        serde_json::to_value(Line::of(change)).unwrap()
    }

    #[test]
    fn line_of_json_has_rates_once_there_is_something_to_compare_with() {
        let (before, mut now) = (sample(0, "dentry"), sample(2, "dentry"));
        now.at = before.at + Duration::from_secs(2);
        let line = json(&Change::new(None, &now));
        assert!(line.get("rates").is_none() && line.get("elapsed_s").is_none());
        assert_eq!(line["histogram"]["rows"][1]["buckets"], 82_000);
        assert_eq!(line["histogram"]["rows"][16]["length"], Value::Null);
        let line = json(&Change::new(Some(&before), &now));
        assert_eq!(line["elapsed_s"], 2.0);
        assert_eq!(line["rates"]["page"]["lookups_s"], 1_000_000.0);
        assert_eq!(line["rates"]["page"]["hit_rate"], 0.9999);
        assert_eq!(line["rates"]["page"]["inserted_s"], 1000.0);
        assert_eq!(line["rates"]["page"]["removed_s"], 1000.0);
        assert_eq!(line["rates"]["inode"]["hit_rate"], Value::Null);
        assert_eq!(line["stats"]["dentry"]["longest_chain"], 12);
    }
}
