//! The text that Prometheus reads: one list of all figures, with their names, kinds and explanations.

use larder::{
    AttributeStats, CacheStats, DeviceStats, MbCacheStats, ReadaheadStats, RecordingStats, Stats,
    WritingStats,
};
use std::fmt::Write;

/// A name and its value, as in `cache="page"`.
type Label<'a> = (&'a str, &'a str);

/// What a scraper may do with a metric's values.
#[derive(Clone, Copy)]
enum Kind {
    /// Only grows: rates make sense.
    Counter,
    /// Goes up and down.
    Gauge,
}
use Kind::{Counter, Gauge};

/// A figure of `T`: its name, its kind, what it tells, and how it is had; `None` where it is not known.
type Figure<T> = (&'static str, Kind, &'static str, fn(&T) -> Option<u64>);

const CACHES: [Figure<CacheStats>; 10] = [
    (
        "larder_cache_buckets",
        Gauge,
        "Buckets of the hash table; none of trees.",
        |c| Some(c.buckets),
    ),
    ("larder_cache_objects", Gauge, "Objects held.", |c| {
        Some(c.objects)
    }),
    (
        "larder_cache_inserted_total",
        Counter,
        "Objects inserted; those not held any more were evicted or removed.",
        |c| Some(c.inserted),
    ),
    ("larder_cache_capacity", Gauge, "Objects that fit.", |c| {
        Some(c.capacity)
    }),
    ("larder_cache_lookups_total", Counter, "Lookups.", |c| {
        Some(c.lookups)
    }),
    (
        "larder_cache_hits_total",
        Counter,
        "Lookups that found their object.",
        |c| Some(c.hits),
    ),
    (
        "larder_cache_links_on_hits_total",
        Counter,
        "Links walked by lookups that hit.",
        |c| Some(c.links_on_hits),
    ),
    (
        "larder_cache_links_on_misses_total",
        Counter,
        "Links walked by lookups that missed.",
        |c| Some(c.links_on_misses),
    ),
    (
        "larder_cache_longest_chain",
        Gauge,
        "Objects in the longest chain, or on the way to the deepest page of trees.",
        |c| c.longest_chain,
    ),
    (
        "larder_cache_bytes",
        Gauge,
        "Memory used: contents, slots and buckets.",
        |c| Some(c.bytes),
    ),
];

const READAHEAD: [Figure<ReadaheadStats>; 6] = [
    (
        "larder_readahead_max_bytes",
        Gauge,
        "The largest window, as set.",
        |r| Some(r.max_bytes),
    ),
    (
        "larder_readahead_threads",
        Gauge,
        "Threads that read ahead.",
        |r| Some(r.threads as u64),
    ),
    (
        "larder_readahead_windows_total",
        Counter,
        "Windows read ahead.",
        |r| Some(r.windows),
    ),
    (
        "larder_readahead_pages_ahead_total",
        Counter,
        "Pages read before anyone asked for them.",
        |r| Some(r.pages_ahead),
    ),
    (
        "larder_readahead_pages_used_total",
        Counter,
        "Of the pages read ahead, those that were used.",
        |r| Some(r.pages_used),
    ),
    (
        "larder_readahead_pages_wasted_total",
        Counter,
        "Of the pages read ahead, those evicted before use.",
        |r| Some(r.pages_wasted),
    ),
];

const DEVICE: [Figure<DeviceStats>; 5] = [
    ("larder_device_reads_total", Counter, "Device reads.", |d| {
        Some(d.reads)
    }),
    (
        "larder_device_read_bytes_total",
        Counter,
        "Bytes read.",
        |d| Some(d.bytes),
    ),
    (
        "larder_device_writes_total",
        Counter,
        "Device writes.",
        |d| Some(d.writes),
    ),
    (
        "larder_device_written_bytes_total",
        Counter,
        "Bytes written.",
        |d| Some(d.written_bytes),
    ),
    ("larder_device_flushes_total", Counter, "Flushes.", |d| {
        Some(d.flushes)
    }),
];

const WRITING: [Figure<WritingStats>; 3] = [
    (
        "larder_writing_dirty_bytes",
        Gauge,
        "Content that is not on the device yet.",
        |w| Some(w.dirty_bytes),
    ),
    (
        "larder_writing_dirty_metadata_bytes",
        Gauge,
        "Metadata that is not in its place on the device yet.",
        |w| Some(w.dirty_metadata_bytes),
    ),
    (
        "larder_writing_read_only",
        Gauge,
        "1 if something failed and nothing is written any more.",
        |w| Some(w.read_only_because.is_some().into()),
    ),
];

const RECORDING: [Figure<RecordingStats>; 3] = [
    (
        "larder_recording_events",
        Gauge,
        "Events in the trace, or about to be written.",
        |r| Some(r.events),
    ),
    (
        "larder_recording_lost_total",
        Counter,
        "Events that are not in the trace.",
        |r| Some(r.lost),
    ),
    (
        "larder_recording_failed",
        Gauge,
        "1 if the trace cannot be written any more.",
        |r| Some(r.failure.is_some().into()),
    ),
];

const ATTRIBUTES: [Figure<AttributeStats>; 2] = [
    (
        "larder_attributes_shares_total",
        Counter,
        "Attributes for which a block or inode was there already.",
        |a| Some(a.shares),
    ),
    (
        "larder_attributes_saved_bytes",
        Gauge,
        "Space on the image that sharing saves now.",
        |a| Some(a.saved_bytes),
    ),
];

const MBCACHES: [Figure<MbCacheStats>; 10] = [
    ("larder_mbcache_entries", Gauge, "Entries.", |m| {
        Some(m.entries)
    }),
    (
        "larder_mbcache_limit_entries",
        Gauge,
        "Entries at most.",
        |m| Some(m.limit_entries),
    ),
    ("larder_mbcache_buckets", Gauge, "Buckets.", |m| {
        Some(m.buckets)
    }),
    (
        "larder_mbcache_entry_bytes",
        Gauge,
        "Memory that an entry takes, buckets apart.",
        |m| Some(m.entry_bytes),
    ),
    (
        "larder_mbcache_bytes",
        Gauge,
        "Memory used: entries and buckets.",
        |m| Some(m.bytes),
    ),
    (
        "larder_mbcache_lookups_total",
        Counter,
        "Searches for a key.",
        |m| Some(m.lookups),
    ),
    (
        "larder_mbcache_hits_total",
        Counter,
        "Searches that found an entry.",
        |m| Some(m.hits),
    ),
    (
        "larder_mbcache_inserted_total",
        Counter,
        "Entries inserted.",
        |m| Some(m.inserted),
    ),
    (
        "larder_mbcache_dropped_by_limit_total",
        Counter,
        "Entries that went because there were too many.",
        |m| Some(m.dropped_by_limit),
    ),
    (
        "larder_mbcache_dropped_by_shrinker_total",
        Counter,
        "Entries that went because memory was short.",
        |m| Some(m.dropped_by_shrinker),
    ),
];

/// All figures of the mount at `mountpoint`, in the text exposition format 0.0.4. Every sample has
/// `labels`, which keep mounts apart whose texts are read together.
#[must_use]
pub fn exposition(stats: &Stats, mountpoint: &str, labels: &[Label]) -> String {
    let mut text = Text {
        out: String::with_capacity(16 << 10),
        labels,
    };
    let version = env!("CARGO_PKG_VERSION");
    text.info(
        "larder_mount_info",
        "The mount.",
        &[&[("path", mountpoint), ("version", version)]],
    );
    let size = |stats: &Stats| Some(stats.cache_size_bytes);
    let help = "The memory budget of all caches.";
    text.figures(
        &[("larder_cache_size_bytes", Gauge, help, size)],
        &[(&[], stats)],
    );
    let tables = stats.tables.to_string();
    text.info(
        "larder_tables_info",
        "The tables of the caches, as the mount was told.",
        &[&[("tables", &tables)]],
    );
    let finders = stats.caches().map(|(_, cache)| cache.finder.to_string());
    let found: Vec<_> = std::iter::zip(stats.caches(), &finders)
        .map(|((kind, _), finder)| [("cache", kind.as_str()), ("finder", &**finder)])
        .collect();
    let found: Vec<_> = found.iter().map(|labels| &labels[..]).collect();
    text.info("larder_cache_info", "What finds the objects.", &found);
    let caches = stats
        .caches()
        .map(|(kind, cache)| ([("cache", kind.as_str())], cache));
    text.figures(
        &CACHES,
        &caches.each_ref().map(|(label, cache)| (&label[..], *cache)),
    );
    let readahead = &stats.readahead;
    let policy = readahead.policy.as_str();
    text.info(
        "larder_readahead_info",
        "How readahead is set.",
        &[&[("policy", policy)]],
    );
    text.figures(&READAHEAD, &[(&[], readahead)]);
    text.figures(&DEVICE, &[(&[], &stats.device)]);
    if let Some(writing) = &stats.writing {
        text.figures(&WRITING, &[(&[], writing)]);
    }
    if let Some(recording) = &stats.recording {
        let file = [("file", &*recording.file)];
        text.info(
            "larder_recording_info",
            "The trace that is recorded.",
            &[&file],
        );
        text.figures(&RECORDING, &[(&[], recording)]);
    }
    if let Some(attributes) = &stats.attributes {
        let variant = attributes.variant.as_str();
        text.info(
            "larder_attributes_info",
            "What finds equal ones.",
            &[&[("variant", variant)]],
        );
        text.figures(&ATTRIBUTES, &[(&[], attributes)]);
        let (blocks, inodes) = (&attributes.blocks, &attributes.inodes);
        let of_what = [
            (&[("of", "blocks")][..], blocks),
            (&[("of", "inodes")], inodes),
        ];
        text.figures(&MBCACHES, &of_what);
    }
    text.out
}

/// A text being written. That writing to a string fails cannot be: its results are dropped.
struct Text<'a> {
    out: String,
    labels: &'a [Label<'a>],
}

impl Text<'_> {
    /// A metric that says something by the labels of its samples alone.
    fn info(&mut self, name: &str, help: &str, samples: &[&[Label]]) {
        self.head(name, Gauge, help);
        for labels in samples {
            self.sample(name, labels, 1);
        }
    }

    /// Each figure of all `those`, which their labels tell apart. One that is not known of any is left out.
    fn figures<T>(&mut self, figures: &[Figure<T>], those: &[(&[Label], &T)]) {
        for (name, kind, help, value) in figures {
            let samples = those
                .iter()
                .filter_map(|(labels, of)| Some((*labels, value(of)?)));
            for (at, (labels, value)) in samples.enumerate() {
                if at == 0 {
                    self.head(name, *kind, help);
                }
                self.sample(name, labels, value);
            }
        }
    }

    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Counter => "counter",
            Gauge => "gauge",
        };
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[Label], value: u64) {
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

/// A label's value, in which three characters mean something else.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Counts up through all numbers in `value`, so that no two are the same.
    fn number(value: &mut Value, next: &mut u64) {
        match value {
            Value::Number(figure) => {
                *next += 1;
                *figure = (*next).into();
            }
            Value::Object(fields) => fields.values_mut().for_each(|field| number(field, next)),
            _ => {}
        }
    }

    /// Statistics in which every number is another one, from 1001 on, and how many there are.
    fn numbered() -> (Stats, u64) {
        let mut stats = Stats::default();
        stats.attributes = Some(AttributeStats::default());
        stats.writing = Some(WritingStats::default());
        stats.recording = Some(RecordingStats::default());
        for cache in [
            &mut stats.page,
            &mut stats.buffer,
            &mut stats.dentry,
            &mut stats.inode,
        ] {
            cache.longest_chain = Some(0);
        }
        let mut json = serde_json::to_value(stats).unwrap();
        let mut last = 1000;
        number(&mut json, &mut last);
        (serde_json::from_value(json).unwrap(), last - 1000)
    }

    #[test]
    fn every_figure_of_the_statistics_is_one_sample() {
        let (stats, count) = numbered();
        assert!(count > 60, "{count} figures");
        let text = exposition(&stats, "/mnt", &[]);
        for figure in 1001..=1000 + count {
            let value = format!(" {figure}");
            let samples = text.lines().filter(|line| line.ends_with(&value));
            assert_eq!(samples.count(), 1, "{figure} in {stats:#?}\n{text}");
        }
    }

    #[test]
    fn metric_is_explained_once_before_its_samples() {
        let text = exposition(&numbered().0, "/mnt", &[]);
        let mut explained = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().unwrap();
                assert!(!explained.contains(&name), "{name} twice");
                assert_eq!(
                    name.ends_with("_total"),
                    rest.ends_with(" counter"),
                    "{rest}"
                );
                explained.push(name);
            } else if !line.starts_with('#') {
                let name = line.split(['{', ' ']).next().unwrap();
                assert_eq!(explained.last(), Some(&name), "{line}");
            }
        }
    }

    #[test]
    fn read_only_volume_has_no_metrics_of_writing_nor_chains_that_nobody_looked_at() {
        let text = exposition(&Stats::default(), "/mnt", &[]);
        for absent in [
            "writing",
            "recording",
            "attributes",
            "mbcache",
            "longest_chain",
        ] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert!(
            text.contains("\nlarder_cache_lookups_total{cache=\"page\"} 0\n"),
            "{text}"
        );
        assert!(text.contains("\nlarder_device_reads_total 0\n"), "{text}");
    }

    #[test]
    fn tables_are_those_that_were_chosen() {
        let mut stats = Stats::default();
        stats.tables = "D+page=rbtree".parse().unwrap();
        let text = exposition(&stats, "/mnt", &[]);
        let expected = "\nlarder_tables_info{tables=\"D+page=rbtree\"} 1\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn labels_keep_what_means_something_else_apart() {
        let labels = [("mountpoint", "/a \"b\"\\c\nd")];
        let text = exposition(&Stats::default(), "/a", &labels);
        let expected = r#"larder_device_reads_total{mountpoint="/a \"b\"\\c\nd"} 0"#;
        assert!(text.lines().any(|line| line == expected), "{text}");
        let expected = r#"larder_cache_hits_total{mountpoint="/a \"b\"\\c\nd",cache="page"} 0"#;
        assert!(text.lines().any(|line| line == expected), "{text}");
    }
}
