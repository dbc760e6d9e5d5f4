//! The text that Prometheus reads: one list of all figures, with their names, kinds and
//! explanations.

use larder::{
    AttributeStats, CacheStats, DeviceStats, MbCacheStats, ReadaheadStats, RecordingStats, Stats,
    WritingStats,
};
use std::fmt::Write;

/// A name and its value, as in `cache="page"`.
type Label<'a> = (&'a str, &'a str);

/// A figure of `T`.
struct Figure<T> {
    /// A `counter` only increases, so that rates are meaningful. A `gauge` increases and decreases.
    kind: &'static str,
    name: &'static str,
    help: &'static str,
    /// Returns the value; `None` if it is unknown.
    value: fn(&T) -> Option<u64>,
}

/// Builds a table of figures. The name of a figure is the prefix and its field. If the name is not
/// a field, its value follows `=`.
macro_rules! figures {
    (@value $field:ident) => { |of| of.$field.into() };
    (@value $name:ident $value:expr) => { $value };
    ($prefix:literal $($kind:ident $name:ident $(= $value:expr)?, $help:literal;)*) => {
        &[$(Figure {
            kind: stringify!($kind),
            name: concat!($prefix, stringify!($name)),
            help: $help,
            value: figures!(@value $name $($value)?),
        }),*]
    };
}

const MOUNT: &[Figure<Stats>] = figures! { "larder_"
    gauge cache_size_bytes, "The memory budget of all caches.";
};

const CACHES: &[Figure<CacheStats>] = figures! { "larder_cache_"
    gauge buckets, "Buckets of the hash table; none of trees.";
    gauge objects, "Objects held.";
    counter inserted, "Objects inserted; those not held any more were evicted or removed.";
    gauge capacity, "Objects that fit.";
    counter lookups, "Lookups.";
    counter hits, "Lookups that found their object.";
    counter links_on_hits, "Links walked by lookups that hit.";
    counter links_on_misses, "Links walked by lookups that missed.";
    gauge longest_chain, "Objects in the longest chain, or on the way to the deepest page of trees.";
    gauge bytes, "Memory used: contents, slots and buckets.";
};

const READAHEAD: &[Figure<ReadaheadStats>] = figures! { "larder_readahead_"
    gauge max_bytes, "The largest window, as set.";
    gauge threads = |of| Some(of.threads as u64), "Threads that read ahead.";
    counter windows, "Windows read ahead.";
    counter pages_ahead, "Pages read before anyone asked for them.";
    counter pages_used, "Of the pages read ahead, those that were used.";
    counter pages_wasted, "Of the pages read ahead, those evicted before use.";
};

const DEVICE: &[Figure<DeviceStats>] = figures! { "larder_device_"
    counter reads, "Device reads.";
    counter read_bytes = |of| Some(of.bytes), "Bytes read.";
    counter writes, "Device writes.";
    counter written_bytes, "Bytes written.";
    counter flushes, "Flushes.";
};

const WRITING: &[Figure<WritingStats>] = figures! { "larder_writing_"
    gauge dirty_bytes, "Content that is not on the device yet.";
    gauge dirty_metadata_bytes, "Metadata that is not in its place on the device yet.";
    gauge read_only = |of| Some(of.read_only_because.is_some().into()),
        "1 if something failed and nothing is written any more.";
};

const RECORDING: &[Figure<RecordingStats>] = figures! { "larder_recording_"
    gauge events, "Events in the trace, or about to be written.";
    counter lost, "Events that are not in the trace.";
    gauge failed = |of| Some(of.failure.is_some().into()),
        "1 if the trace cannot be written any more.";
};

const ATTRIBUTES: &[Figure<AttributeStats>] = figures! { "larder_attributes_"
    counter shares, "Attributes for which a block or inode was there already.";
    gauge saved_bytes, "Space on the image that sharing saves now.";
};

const MBCACHES: &[Figure<MbCacheStats>] = figures! { "larder_mbcache_"
    gauge entries, "Entries.";
    gauge limit_entries, "Entries at most.";
    gauge buckets, "Buckets.";
    gauge entry_bytes, "Memory that an entry takes, buckets apart.";
    gauge bytes, "Memory used: entries and buckets.";
    counter lookups, "Searches for a key.";
    counter hits, "Searches that found an entry.";
    counter inserted, "Entries inserted.";
    counter dropped_by_limit, "Entries that went because there were too many.";
    counter dropped_by_shrinker, "Entries that went because memory was short.";
};

/// Returns all figures of the mount at `mountpoint`, in the text exposition format 0.0.4. Every
/// sample has `labels`, which distinguish mounts whose texts are read together.
#[must_use]
pub fn exposition(stats: &Stats, mountpoint: &str, labels: &[Label]) -> String {
    let mut text = Text {
        out: String::with_capacity(16 << 10),
        labels,
    };
    let mount = [("path", mountpoint), ("version", env!("CARGO_PKG_VERSION"))];
    text.info("larder_mount_info", "The mount.", &[&mount]);
    text.figures(MOUNT, &[(&[], stats)]);
    let tables = stats.tables.to_string();
    let help = "The tables of the caches, as the mount was told.";
    text.info("larder_tables_info", help, &[&[("tables", &tables)]]);
    let finders = stats.caches().map(|(_, cache)| cache.finder.to_string());
    let found = std::iter::zip(stats.caches(), &finders)
        .map(|((kind, _), finder)| [("cache", kind.as_str()), ("finder", finder)]);
    let found: Vec<_> = found.collect();
    let found: Vec<_> = found.iter().map(|labels| &labels[..]).collect();
    text.info("larder_cache_info", "What finds the objects.", &found);
    let caches = stats
        .caches()
        .map(|(kind, cache)| ([("cache", kind.as_str())], cache));
    text.figures(
        CACHES,
        &caches.each_ref().map(|(label, cache)| (&label[..], *cache)),
    );
    let policy = [("policy", stats.readahead.policy.as_str())];
    text.info("larder_readahead_info", "How readahead is set.", &[&policy]);
    text.figures(READAHEAD, &[(&[], &stats.readahead)]);
    text.figures(DEVICE, &[(&[], &stats.device)]);
    if let Some(writing) = &stats.writing {
        text.figures(WRITING, &[(&[], writing)]);
    }
    if let Some(recording) = &stats.recording {
        let file = [("file", &*recording.file)];
        let help = "The trace that is recorded.";
        text.info("larder_recording_info", help, &[&file]);
        text.figures(RECORDING, &[(&[], recording)]);
    }
    if let Some(attributes) = &stats.attributes {
        let variant = [("variant", attributes.variant.as_str())];
        let help = "What finds equal ones.";
        text.info("larder_attributes_info", help, &[&variant]);
        text.figures(ATTRIBUTES, &[(&[], attributes)]);
        let of_what = [
            (&[("of", "blocks")][..], &attributes.blocks),
            (&[("of", "inodes")], &attributes.inodes),
        ];
        text.figures(MBCACHES, &of_what);
    }
    text.out
}

/// A text that is written. Writing to a string cannot fail, so the results are ignored.
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

    /// Writes each figure for all `those`, which their labels distinguish. A figure that is unknown
    /// for all of them is omitted.
    fn figures<T>(&mut self, figures: &[Figure<T>], those: &[(&[Label], &T)]) {
        for figure in figures {
            let suffix = if figure.kind == "counter" {
                "_total"
            } else {
                ""
            };
            let name = format!("{}{suffix}", figure.name);
            let samples = those
                .iter()
                .filter_map(|(labels, of)| Some((*labels, (figure.value)(of)?)));
            for (at, (labels, value)) in samples.enumerate() {
                if at == 0 {
                    self.head(&name, figure.kind, figure.help);
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

/// Returns a label's value with its three special characters escaped.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
