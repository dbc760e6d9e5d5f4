//! Invented values.

use super::super::change::Change;
use super::super::history::History;
use super::super::poller::Sample;
use larder::block::LatencyHistogram;
use larder::{
    AttributeStats, BusyProcess, CacheStats, HistogramReport, HotFile, HotStats, LatencyStats,
    Load, MountTransport, OperationStats, PolicyName, RequestStats, Stats, WritingStats,
};
use std::time::{Duration, Instant};

/// Returns the values `seconds` after the first sample.
pub(in super::super) fn sample(seconds: u64, cache: &str) -> Sample {
    let counted = |a_second: u64| a_second * (seconds + 100);
    let mut stats = Stats::default();
    stats.cache_size_bytes = 1 << 30;
    stats.page = CacheStats {
        buckets: 262_144,
        objects: 200_000,
        inserted: 200_000 + counted(1000),
        capacity: 262_144,
        lookups: counted(1_000_000),
        hits: counted(999_900),
        links_on_hits: counted(1_299_870),
        links_on_misses: counted(80),
        longest_chain: Some(7),
        bytes: 800 << 20,
        ..CacheStats::default()
    };
    stats.dentry = CacheStats {
        objects: 1000,
        capacity: 1000,
        lookups: counted(10),
        hits: counted(8),
        links_on_hits: counted(18),
        links_on_misses: counted(1),
        longest_chain: Some(12),
        bytes: 1 << 20,
        ..CacheStats::default()
    };
    stats.readahead.policy = PolicyName::OnDemand;
    stats.readahead.max_bytes = 1 << 20;
    stats.readahead.windows = counted(3);
    stats.readahead.pages_ahead = counted(300);
    stats.readahead.pages_used = counted(290) - seconds * 90;
    stats.readahead.pages_wasted = counted(10) + seconds * 290;
    stats.device.reads = counted(4);
    stats.device.bytes = counted(1_300_000);
    stats.device.writes = seconds;
    stats.device.written_bytes = seconds << 20;
    stats.writing = Some(WritingStats {
        dirty_bytes: 3 << 19,
        ..WritingStats::default()
    });
    stats.attributes = Some(AttributeStats {
        shares: 1234,
        saved_bytes: 1234 << 12,
        ..AttributeStats::default()
    });
    Sample {
        at: Instant::now() + Duration::from_secs(seconds),
        stats,
        report: report(cache),
    }
}

/// Returns a histogram of 262144 buckets with 200000 objects, slightly worse than random.
fn report(cache: &str) -> HistogramReport {
    let text = format!(
        r#"{{"cache": "{cache}",
            "counts": {{"hits": 0, "misses": 0, "links_on_hits": 0, "links_on_misses": 0}},
            "histogram": {{"buckets": {{"0": 130000, "1": 82000, "2": 36144, "3": 10000, "4": 2500,
                "5": 1000, "6": 400, "7": 100}}}},
            "poisson": [122230.5, 93254.0, 35573.7, 9046.9, 1725.5, 263.3, 33.5, 3.6, 0.3, 0, 0, 0,
                0, 0, 0, 0, 0]}}"#
    );
    serde_json::from_str(&text).unwrap()
}

/// Returns the values of [`sample`], with those of a mount that is busy with requests.
pub(in super::super) fn busy(seconds: u64) -> Sample {
    let mut sample = sample(seconds, "page");
    let stats = &mut sample.stats;
    stats.transport = Some(MountTransport::IoUring);
    stats.device.read_latency = latency(seconds, &[(80_000, 300), (150_000, 90), (2_000_000, 8)]);
    stats.device.write_latency = latency(seconds, &[(40_000, 20), (900_000, 2)]);
    stats.device.flush_latency = latency(seconds, &[(3_000_000, 1)]);
    stats.writing = Some(WritingStats {
        dirty_bytes: 3 << 19,
        dirty_metadata_bytes: 600 << 10,
        commits: 50 + 2 * seconds,
        committed_blocks: 900 + 30 * seconds,
        commit_latency: latency(seconds, &[(1_500_000, 3), (9_000_000, 1)]),
        sync_commits: 40 + seconds,
        timed_commits: 10 + seconds,
        logged_blocks: 1000 + 40 * seconds,
        checkpoints: 5 + seconds,
        checkpoint_latency: latency(seconds, &[(12_000_000, 1)]),
        waiting_handles: 1,
        handle_wait_latency: latency(seconds, &[(250_000_000, 1)]),
        ..WritingStats::default()
    });
    stats.requests = Some(requests(seconds));
    stats.hot = Some(hot());
    sample
}

/// Returns the latencies `seconds` after the first sample. `durations` lists times in nanoseconds,
/// each with the number of its occurrences per second.
fn latency(seconds: u64, durations: &[(u64, u64)]) -> LatencyStats {
    let histogram = LatencyHistogram::default();
    for (ns, times) in durations {
        for _ in 0..times * (seconds + 1) {
            histogram.record(Duration::from_nanos(*ns));
        }
    }
    histogram.stats()
}

fn requests(seconds: u64) -> RequestStats {
    let operation = |name: &str, bytes, durations: &[(u64, u64)], errnos: &[(&str, u64)]| {
        let latency = latency(seconds, durations);
        OperationStats {
            operation: name.to_owned(),
            requests: latency.count,
            errors: errnos.iter().map(|(_, count)| count).sum(),
            errnos: errnos
                .iter()
                .map(|(errno, count)| ((*errno).to_owned(), *count))
                .collect(),
            bytes: bytes * (seconds + 1),
            idle_ns: 1_000_000,
            latency,
        }
    };
    let operations = vec![
        operation(
            "lookup",
            0,
            &[(1500, 40), (3000, 30), (41_000, 2)],
            &[("ENOENT", 12)],
        ),
        operation("getattr", 0, &[(900, 25)], &[]),
        operation(
            "read",
            4 << 20,
            &[(70_000, 30), (160_000, 9), (2_100_000, 1)],
            &[("EIO", 1), ("EINTR", 3)],
        ),
        operation("write", 1 << 20, &[(50_000, 8)], &[]),
        operation("copy_file_range", 1 << 16, &[(1_300_000_000, 1)], &[]),
    ];
    RequestStats {
        start_ns: 7,
        uptime_ns: 100_000_000_000 + seconds * 1_000_000_000,
        idle_ns: Some(1_000_000),
        requests: operations.iter().map(|operation| operation.requests).sum(),
        errors: operations.iter().map(|operation| operation.errors).sum(),
        waiting: Some(3),
        operations,
    }
}

/// Returns files and processes, some with names that would change the state of a terminal.
fn hot() -> HotStats {
    let load = |requests, requests_per_s, read_bytes_per_s| Load {
        requests,
        requests_per_s,
        read_bytes_per_s,
        written_bytes_per_s: read_bytes_per_s / 4.0,
    };
    let file = |ino, path: Option<&str>, load| HotFile {
        ino,
        path: path.map(str::to_owned),
        path_hex: None,
        load,
    };
    let process = |pid, name: Option<&str>, is_running, load| BusyProcess {
        pid,
        name: name.map(str::to_owned),
        is_running,
        load,
    };
    let deep = "/usr/share/postgresql/15/extension/a-directory/with-a-long-name/data-file.sql";
    let mut raw = file(14, Some("/bad\u{fffd}name"), load(2, 0.5, 0.0));
    raw.path_hex = Some("2f626164ff6e616d65".to_owned());
    HotStats {
        files: vec![
            file(4711, Some(deep), load(12_345, 120.5, 2_684_354.6)),
            file(12, Some("/evil\u{1b}[2J\nname"), load(401, 20.5, 65_536.0)),
            file(13, None, load(7, 3.0, 0.0)),
            raw,
        ],
        processes: vec![
            process(4711, Some("postgres"), true, load(9000, 100.0, 2_684_354.6)),
            process(812, Some("sh\u{1b}[31m"), false, load(40, 20.0, 65_536.0)),
            process(0, None, true, load(12, 4.0, 4096.0)),
        ],
    }
}

/// Returns the history of `refreshes` in which the load rises and falls.
pub(super) fn history(refreshes: u64) -> History {
    let mut history = History::default();
    let (first, second) = (busy(0), busy(1));
    for refresh in 0..refreshes {
        let step = usize::try_from(refresh % 14).unwrap();
        let wave = [0, 1, 3, 6, 10, 15, 20, 24, 26, 24, 19, 13, 8, 4][step];
        let (before, mut now) = (first.clone(), second.clone());
        now.at = before.at + Duration::from_secs(1);
        now.stats.page.lookups += wave * 100_000;
        now.stats.page.hits += wave * 99_000;
        now.stats.dentry.lookups += wave;
        now.stats.device.reads += wave * 3;
        now.stats.device.bytes += wave << 20;
        now.stats.device.writes += wave / 2;
        now.stats.device.written_bytes += wave << 19;
        now.stats.device.flushes += wave / 10;
        now.stats.readahead.pages_ahead += wave * 40;
        if let Some(requests) = &mut now.stats.requests {
            requests.requests += wave * 50;
            requests.errors += wave / 8;
            requests.waiting = Some(wave / 6);
        }
        if let Some(writing) = &mut now.stats.writing {
            writing.dirty_bytes = wave << 18;
            writing.dirty_metadata_bytes = wave << 14;
            writing.commits += wave / 5;
            writing.waiting_handles = wave / 12;
        }
        history.push(&Change::new(Some(&before), &now));
    }
    history
}
