//! Formats the metrics as the text that Prometheus reads. The tables in this file define the name, the kind
//! and the explanation of each metric.

use larder::{
    AttributeStats, CacheStats, DeviceStats, MbCacheStats, ReadaheadStats, RecordingStats,
    ServerCounts, Stats, TreeReadaheadStats, WritingStats,
};
use std::fmt::Write;

/// The name and the value of a label, as in `cache="page"`.
type Label<'a> = (&'a str, &'a str);

/// A metric, and how its value is read from a `T`.
struct Metric<T> {
    /// A `counter` only increases, so that rates are meaningful. A `gauge` increases and decreases.
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    /// Returns the value, or `None` if it is unknown.
    value: fn(&T) -> Option<u64>,
}

/// Builds a table of metrics. The full name of a metric consists of the prefix and a name. If `T` has a
/// field with this name, the value is the value of the field. Otherwise the name is followed by `=` and a
/// function that returns the value.
macro_rules! metrics {
    (@value $field:ident) => { |of| of.$field.into() };
    (@value $name:ident $value:expr) => { $value };
    ($prefix:literal $($kind:ident $name:ident $(= $value:expr)?, $help:literal;)*) => {
        &[$(Metric {
            kind: stringify!($kind),
            name: concat!($prefix, stringify!($name)),
            help: $help,
            value: metrics!(@value $name $($value)?),
        }),*]
    };
}

const MOUNT: &[Metric<Stats>] = metrics! { "larder_"
    gauge cache_size_bytes, "Memory budget of all caches, in bytes.";
};

const CACHES: &[Metric<CacheStats>] = metrics! { "larder_cache_"
    gauge buckets, "Buckets of the hash table; 0 for trees.";
    gauge objects, "Objects in the cache.";
    counter inserted, "Objects inserted, including those that were evicted or removed later.";
    gauge capacity, "Maximum number of objects.";
    counter lookups, "Lookups.";
    counter hits, "Lookups that found the object.";
    counter by_reference, "Hits that found their object by a reference, without the table.";
    counter links_on_hits, "Links walked by lookups that hit.";
    counter links_on_misses, "Links walked by lookups that missed.";
    gauge longest_chain, "Objects in the longest chain, or on the path to the deepest page of trees.";
    gauge bytes, "Memory used by contents, slots, buckets and references to inodes, in bytes.";
};

const READAHEAD: &[Metric<ReadaheadStats>] = metrics! { "larder_readahead_"
    gauge max_bytes, "Configured maximum window, in bytes.";
    counter windows, "Windows read ahead.";
    counter pages_ahead, "Pages read before they were requested.";
    counter pages_used, "Pages read ahead and then used.";
    counter pages_wasted, "Pages read ahead and evicted before use.";
};

const TREES: &[Metric<TreeReadaheadStats>] = metrics! { "larder_tree_readahead_"
    counter directories_ahead, "Directories read before they were listed.";
    counter directories_used, "Directories read ahead and then listed.";
};

const DEVICE: &[Metric<DeviceStats>] = metrics! { "larder_device_"
    counter reads, "Device reads.";
    counter read_bytes = |of| Some(of.bytes), "Bytes read.";
    counter writes, "Device writes.";
    counter written_bytes, "Bytes written.";
    counter flushes, "Flushes.";
};

const SERVER: &[Metric<ServerCounts>] = metrics! { "larder_server_"
    counter requests, "Requests to the server, including repeated ones.";
    counter repeated, "Requests that repeated a failed one.";
    counter failed, "Reads that failed, because no attempt was successful in time.";
    counter fetched_bytes, "Bytes that the server sent.";
    counter ahead_bytes, "Bytes that were fetched before a program waited for them.";
    counter profile_bytes, "Bytes that were fetched for a profile, or read from a pack.";
    counter profile_used_bytes, "Bytes that were fetched for a profile and then read.";
    counter memory_bytes, "Bytes read from fetched parts in memory, not from the server.";
    counter disk_bytes, "Bytes read from the disk cache, not from the server.";
    counter busy_ns, "Time in which at least one request was in flight, in nanoseconds.";
    gauge latency_p50_us = |of| of.latency_p50_us,
        "Upper bound of the median time to the head of a reply, in microseconds.";
    gauge latency_p99_us = |of| of.latency_p99_us,
        "Upper bound of the 99th percentile of the time to the head of a reply, in microseconds.";
};

const WRITING: &[Metric<WritingStats>] = metrics! { "larder_writing_"
    gauge dirty_bytes, "Dirty content, in bytes.";
    gauge dirty_metadata_bytes, "Dirty metadata, in bytes.";
    counter commits, "Committed transactions.";
    counter committed_blocks, "Metadata blocks in committed transactions.";
    counter commit_ns, "Total time of the commits, in nanoseconds.";
    gauge read_only = |of| Some(of.read_only_because.is_some().into()),
        "1 if the mount became read-only after an error.";
};

const RECORDING: &[Metric<RecordingStats>] = metrics! { "larder_recording_"
    gauge events, "Events in the trace, or about to be written to it.";
    counter lost, "Events that are missing in the trace.";
    gauge failed = |of| Some(of.failure.is_some().into()),
        "1 if the recording ended after an error.";
};

const ATTRIBUTES: &[Metric<AttributeStats>] = metrics! { "larder_attributes_"
    counter shares, "Uses of an existing attribute block or value inode instead of a new one.";
    gauge saved_bytes, "Space on the image that sharing saves at present, in bytes.";
};

const MBCACHES: &[Metric<MbCacheStats>] = metrics! { "larder_mbcache_"
    gauge entries, "Entries.";
    gauge limit_entries, "Maximum number of entries.";
    gauge buckets, "Buckets.";
    gauge entry_bytes, "Memory for each entry, excluding buckets, in bytes.";
    gauge bytes, "Memory used by entries and buckets, in bytes.";
    counter lookups, "Lookups of a key.";
    counter hits, "Lookups that found an entry.";
    counter inserted, "Entries inserted.";
    counter dropped_by_limit, "Entries evicted because the cache was full.";
    counter dropped_by_shrinker, "Entries evicted because memory was short.";
};

/// Returns all metrics of the mount at `mountpoint`, in the text exposition format 0.0.4. Every sample gets
/// `labels`, which distinguish mounts if a collector reads the texts of several mounts.
#[must_use]
pub fn exposition(stats: &Stats, mountpoint: &str, labels: &[Label]) -> String {
    let mut text = Text {
        out: String::with_capacity(16 << 10),
        labels,
    };
    let mount = [("path", mountpoint), ("version", env!("CARGO_PKG_VERSION"))];
    text.info(
        "larder_mount_info",
        "The mount point, and the version of Larder.",
        &[&mount],
    );
    text.metrics(MOUNT, &[(&[], stats)]);
    let tables = stats.tables.to_string();
    let help = "The configured tables of the caches.";
    text.info("larder_tables_info", help, &[&[("tables", &tables)]]);
    let finders = stats.caches().map(|(_, cache)| cache.finder.to_string());
    let found = std::iter::zip(stats.caches(), &finders)
        .map(|((kind, _), finder)| [("cache", kind.as_str()), ("finder", finder)]);
    let found: Vec<_> = found.collect();
    let found: Vec<_> = found.iter().map(|labels| &labels[..]).collect();
    text.info(
        "larder_cache_info",
        "The search structure of each cache.",
        &found,
    );
    let caches = stats
        .caches()
        .map(|(kind, cache)| ([("cache", kind.as_str())], cache));
    text.metrics(
        CACHES,
        &caches.each_ref().map(|(label, cache)| (&label[..], *cache)),
    );
    let policy = [("policy", stats.readahead.policy.as_str())];
    text.info("larder_readahead_info", "The readahead policy.", &[&policy]);
    text.metrics(READAHEAD, &[(&[], &stats.readahead)]);
    if let Some(trees) = &stats.tree_readahead {
        text.metrics(TREES, &[(&[], trees)]);
    }
    text.metrics(DEVICE, &[(&[], &stats.device)]);
    if let Some(server) = &stats.server {
        text.metrics(SERVER, &[(&[], server)]);
    }
    if let Some(writing) = &stats.writing {
        text.metrics(WRITING, &[(&[], writing)]);
    }
    if let Some(recording) = &stats.recording {
        let file = [("file", &*recording.file)];
        let help = "The file of the trace.";
        text.info("larder_recording_info", help, &[&file]);
        text.metrics(RECORDING, &[(&[], recording)]);
    }
    if let Some(attributes) = &stats.attributes {
        let variant = [("variant", attributes.variant.as_str())];
        let help = "The cache that finds equal attributes.";
        text.info("larder_attributes_info", help, &[&variant]);
        text.metrics(ATTRIBUTES, &[(&[], attributes)]);
        let of_what = [
            (&[("of", "blocks")][..], &attributes.blocks),
            (&[("of", "inodes")], &attributes.inodes),
        ];
        text.metrics(MBCACHES, &of_what);
    }
    text.out
}

/// The text to which metrics are written. Writing to a string cannot fail, so the results are ignored.
struct Text<'a> {
    out: String,
    labels: &'a [Label<'a>],
}

impl Text<'_> {
    /// Writes a metric whose information is only in the labels of its samples.
    fn info(&mut self, name: &str, help: &str, samples: &[&[Label]]) {
        self.head(name, "gauge", help);
        for labels in samples {
            self.sample(name, labels, 1);
        }
    }

    /// Writes each of `metrics`, with a sample for each source in `sources`. The labels of a source
    /// distinguish its samples. A metric whose value is unknown for all sources is omitted.
    fn metrics<T>(&mut self, metrics: &[Metric<T>], sources: &[(&[Label], &T)]) {
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
            for (at, (labels, value)) in samples.enumerate() {
                if at == 0 {
                    self.head(&name, metric.kind, metric.help);
                }
                self.sample(&name, labels, value);
            }
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
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

/// Returns a label's value with backslashes, double quotes and line feeds escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
