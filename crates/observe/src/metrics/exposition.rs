//! Formats the metrics as the text that Prometheus reads. The tables in this file define the name, the kind
//! and the explanation of each metric.

use super::text::{Label, Metric, Text};
use larder::{
    AttributeStats, CacheStats, DeviceStats, LatencyStats, MbCacheStats, OperationStats,
    ReadaheadStats, RecordingStats, RequestStats, ServerCounts, Stats, TreeReadaheadStats,
    WritingStats,
};

/// Builds a table of [`Metric<T>`](Metric). The full name of a metric is the prefix followed by the name in the
/// table. Its value is the field of `T` with the name in the table. If `T` has no such field, the name is
/// followed by `=` and a function that returns the value.
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
};

const WRITING: &[Metric<WritingStats>] = metrics! { "larder_writing_"
    gauge dirty_bytes, "Dirty content, in bytes.";
    gauge dirty_metadata_bytes, "Dirty metadata, in bytes.";
    counter commits, "Committed transactions.";
    counter committed_blocks, "Metadata blocks in committed transactions.";
    counter sync_commits, "Commits for fsync(2), sync(2), -o sync or the unmount.";
    counter timed_commits, "Commits of transactions that were 5 seconds old.";
    counter space_commits, "Commits for space in a transaction, in the log or on the image.";
    counter logged_blocks, "Blocks written to the log: copies of blocks, and descriptor, revoke and commit blocks.";
    counter checkpoints, "Checkpoints, which write committed blocks to their final locations.";
    gauge waiting_handles, "Changes that currently wait for a commit or a checkpoint.";
    gauge read_only = |of| Some(of.read_only_because.is_some().into()),
        "1 if the mount became read-only after an error.";
};

const REQUESTS: &[Metric<RequestStats>] = metrics! { "larder_fuse_"
    gauge waiting_requests = |of| of.waiting,
        "Requests without an answer, including those that the kernel has not sent yet.";
};

const OPERATIONS: &[Metric<OperationStats>] = metrics! { "larder_fuse_"
    counter requests, "Answered requests of the kernel.";
    counter bytes, "Content that requests read or wrote, in bytes.";
};

const RECORDING: &[Metric<RecordingStats>] = metrics! { "larder_recording_"
    gauge events, "Events in the trace, or about to be written to it.";
    counter lost, "Events that were lost and are not in the trace.";
    gauge failed = |of| Some(of.failure.is_some().into()),
        "1 if the recording ended after an error.";
};

const ATTRIBUTES: &[Metric<AttributeStats>] = metrics! { "larder_attributes_"
    counter shares, "Uses of an existing attribute block or value inode instead of a new one.";
    gauge saved_bytes, "Image space currently saved by sharing attributes, in bytes.";
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

/// Returns all metrics of a mount, in the text exposition format 0.0.4. Every sample gets `labels`, which distinguish
/// mounts if a collector reads the texts of several mounts.
///
/// The metrics contain no names of files in the image and no names of programs. Only if `mountpoint` is given, they
/// contain paths of the host: the mount point and the file of a recording.
#[must_use]
pub fn exposition(stats: &Stats, mountpoint: Option<&str>, labels: &[Label]) -> String {
    let mut text = Text::new(labels);
    mount(&mut text, stats, mountpoint);
    caches(&mut text, stats);
    let policy = [("policy", stats.readahead.policy.as_str())];
    text.info("larder_readahead_info", "The readahead policy.", &[&policy]);
    text.metrics(READAHEAD, &[(&[], &stats.readahead)]);
    if let Some(trees) = &stats.tree_readahead {
        text.metrics(TREES, &[(&[], trees)]);
    }
    device(&mut text, &stats.device);
    if let Some(server) = &stats.server {
        self::server(&mut text, server);
    }
    if let Some(writing) = &stats.writing {
        self::writing(&mut text, writing);
    }
    if let Some(requests) = &stats.requests {
        self::requests(&mut text, requests);
    }
    if let Some(recording) = &stats.recording {
        if mountpoint.is_some() {
            let file = [("file", &*recording.file)];
            let help = "The file of the trace.";
            text.info("larder_recording_info", help, &[&file]);
        }
        text.metrics(RECORDING, &[(&[], recording)]);
    }
    if let Some(attributes) = &stats.attributes {
        self::attributes(&mut text, attributes);
    }
    text.into_string()
}

fn mount(text: &mut Text, stats: &Stats, mountpoint: Option<&str>) {
    let mut labels = vec![("version", env!("CARGO_PKG_VERSION"))];
    labels.extend(mountpoint.map(|path| ("path", path)));
    labels.extend(
        stats
            .transport
            .map(|transport| ("transport", transport.as_str())),
    );
    let help = "The version of Larder, and the transport of requests.";
    text.info("larder_mount_info", help, &[&labels]);
    text.metrics(MOUNT, &[(&[], stats)]);
    let tables = stats.tables.to_string();
    let help = "The configured tables of the caches.";
    text.info("larder_tables_info", help, &[&[("tables", &tables)]]);
}

fn caches(text: &mut Text, stats: &Stats) {
    let finders = stats.caches().map(|(_, cache)| cache.finder.to_string());
    let found = std::iter::zip(stats.caches(), &finders)
        .map(|((kind, _), finder)| [("cache", kind.as_str()), ("finder", finder)]);
    let found: Vec<_> = found.collect();
    let found: Vec<_> = found.iter().map(|labels| &labels[..]).collect();
    let help = "The search structure of each cache.";
    text.info("larder_cache_info", help, &found);
    let caches = stats
        .caches()
        .map(|(kind, cache)| ([("cache", kind.as_str())], cache));
    text.metrics(
        CACHES,
        &caches.each_ref().map(|(label, cache)| (&label[..], *cache)),
    );
}

fn device(text: &mut Text, device: &DeviceStats) {
    text.metrics(DEVICE, &[(&[], device)]);
    text.histogram(
        "larder_device_request_duration_seconds",
        "Durations of device requests, from the submission to the completion.",
        &[
            (&[("operation", "read")], &device.read_latency),
            (&[("operation", "write")], &device.write_latency),
            (&[("operation", "flush")], &device.flush_latency),
        ],
    );
}

fn server(text: &mut Text, server: &ServerCounts) {
    text.metrics(SERVER, &[(&[], server)]);
    let times = [
        (
            "larder_server_busy_seconds_total",
            "Time in which at least one request was in flight.",
            Some(server.busy_ns),
        ),
        (
            "larder_server_latency_p50_seconds",
            "Upper bound of the median time to the head of a reply.",
            server.latency_p50_us.map(|us| us.saturating_mul(1000)),
        ),
        (
            "larder_server_latency_p99_seconds",
            "Upper bound of the 99th percentile of the time to the head of a reply.",
            server.latency_p99_us.map(|us| us.saturating_mul(1000)),
        ),
    ];
    for (name, help, ns) in times {
        text.seconds(name, help, ns);
    }
}

fn writing(text: &mut Text, writing: &WritingStats) {
    text.metrics(WRITING, &[(&[], writing)]);
    let histograms: [(&str, &str, &LatencyStats); 3] = [
        (
            "larder_writing_commit_duration_seconds",
            "Durations of the commits.",
            &writing.commit_latency,
        ),
        (
            "larder_writing_checkpoint_duration_seconds",
            "Durations of the checkpoints.",
            &writing.checkpoint_latency,
        ),
        (
            "larder_writing_handle_wait_duration_seconds",
            "Times for which changes waited for a commit or a checkpoint.",
            &writing.handle_wait_latency,
        ),
    ];
    for (name, help, latency) in histograms {
        text.histogram(name, help, &[(&[], latency)]);
    }
}

fn requests(text: &mut Text, requests: &RequestStats) {
    text.metrics(REQUESTS, &[(&[], requests)]);
    let seconds = [
        (
            "larder_fuse_uptime_seconds",
            "Time since the mount.",
            Some(requests.uptime_ns),
        ),
        (
            "larder_fuse_idle_seconds",
            "Time since the last request of a program.",
            requests.idle_ns,
        ),
    ];
    for (name, help, ns) in seconds {
        text.seconds(name, help, ns);
    }
    let names = requests.operations.iter();
    let names: Vec<_> = names.map(|one| [("operation", &*one.operation)]).collect();
    let operations = || std::iter::zip(&names, &requests.operations);
    let all: Vec<_> = operations().map(|(label, one)| (&label[..], one)).collect();
    text.metrics(OPERATIONS, &all);
    let errors = requests.operations.iter().flat_map(|one| {
        let errnos = one.errnos.iter();
        errnos.map(move |(errno, count)| {
            (
                [("operation", &*one.operation), ("errno", &**errno)],
                *count,
            )
        })
    });
    let help = "Requests whose answer was an error.";
    text.counter("larder_fuse_errors_total", help, errors);
    let latencies: Vec<_> = operations()
        .map(|(label, one)| (&label[..], &one.latency))
        .collect();
    text.histogram(
        "larder_fuse_request_duration_seconds",
        "Times from the arrival of requests in the server to their answers.",
        &latencies,
    );
}

fn attributes(text: &mut Text, attributes: &AttributeStats) {
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
