//! The text of the metrics.

use larder::block::{LatencyHistogram, ServerCounts};
use larder::{
    AttributeStats, BusyProcess, HotFile, HotStats, LatencyStats, MountTransport, OperationStats,
    RecordingStats, RequestStats, Stats, WritingStats,
};
use larder_observe::exposition;
use serde_json::Value;
use std::time::Duration;

/// Replaces all numbers in `value` by consecutive numbers, so that no two are the same. Latencies stay as they are.
fn number(value: &mut Value, next: &mut u64) {
    match value {
        Value::Number(figure) => {
            *next += 1;
            *figure = (*next).into();
        }
        Value::Object(fields) if fields.contains_key("p50_ns") => {}
        // The histogram of the commits contains the time `commit_ns`.
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(key, _)| *key != "commit_ns")
            .for_each(|(_, field)| number(field, next)),
        _ => {}
    }
}

/// Returns statistics whose numbers are 1001, 1002 and so on, and the count of these numbers.
fn numbered() -> (Stats, u64) {
    let mut stats = Stats::default();
    stats.attributes = Some(AttributeStats::default());
    stats.writing = Some(WritingStats::default());
    stats.recording = Some(RecordingStats::default());
    let mut json = serde_json::to_value(stats).unwrap();
    let mut last = 1000;
    number(&mut json, &mut last);
    (serde_json::from_value(json).unwrap(), last - 1000)
}

#[test]
fn every_figure_of_the_statistics_is_one_sample() {
    let (stats, count) = numbered();
    assert!(count > 60, "{count} figures");
    let text = exposition(&stats, Some("/mnt"), &[]);
    for figure in 1001..=1000 + count {
        let value = format!(" {figure}");
        let samples = text.lines().filter(|line| line.ends_with(&value));
        assert_eq!(samples.count(), 1, "{figure} in {stats:#?}\n{text}");
    }
}

#[test]
fn metric_has_one_type_line_before_its_samples() {
    let mut stats = numbered().0;
    stats.requests = Some(requests());
    let text = exposition(&stats, Some("/mnt"), &[]);
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
            assert_eq!(
                name.ends_with("_duration_seconds"),
                rest.ends_with(" histogram"),
                "{rest}"
            );
            explained.push(name);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let is_sample = |of: &&str| {
                let suffix = name.strip_prefix(of);
                matches!(suffix, Some("" | "_bucket" | "_sum" | "_count"))
            };
            assert!(explained.last().is_some_and(is_sample), "{line}");
        }
    }
}

#[test]
fn read_only_volume_has_no_write_metrics() {
    let text = exposition(&Stats::default(), Some("/mnt"), &[]);
    for absent in ["writing", "recording", "attributes", "mbcache"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    assert!(
        text.contains("\nlarder_cache_lookups_total{cache=\"page\"} 0\n"),
        "{text}"
    );
    assert!(text.contains("\nlarder_device_reads_total 0\n"), "{text}");
}

#[test]
fn times_are_in_seconds_and_sizes_in_bytes() {
    let mut stats = numbered().0;
    stats.requests = Some(requests());
    stats.server = Some(ServerCounts {
        busy_ns: 1_500_000_000,
        latency_p50_us: Some(250),
        latency_p99_us: Some(2_000_000),
        ..ServerCounts::default()
    });
    let text = exposition(&stats, Some("/mnt"), &[]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let other = name.split('_').find(|word| {
            [
                "ns", "us", "ms", "s", "minutes", "kib", "kb", "mib", "percent",
            ]
            .contains(word)
        });
        assert_eq!(other, None, "{name}");
    }
    for sample in [
        "larder_server_busy_seconds_total 1.5",
        "larder_server_latency_p50_seconds 0.00025",
        "larder_server_latency_p99_seconds 2",
    ] {
        assert!(
            text.lines().any(|line| line == sample),
            "{sample} in {text}"
        );
    }
    assert!(text.contains("# TYPE larder_server_busy_seconds_total counter\n"));
}

#[test]
fn tables_info_shows_the_configured_tables() {
    let mut stats = Stats::default();
    stats.tables = "D+page=rbtree".parse().unwrap();
    let text = exposition(&stats, Some("/mnt"), &[]);
    let expected = "\nlarder_tables_info{tables=\"D+page=rbtree\"} 1\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn label_values_are_escaped() {
    let labels = [("mountpoint", "/a \"b\"\\c\nd")];
    let text = exposition(&Stats::default(), Some("/a"), &labels);
    let expected = r#"larder_device_reads_total{mountpoint="/a \"b\"\\c\nd"} 0"#;
    assert!(text.lines().any(|line| line == expected), "{text}");
    let expected = r#"larder_cache_hits_total{mountpoint="/a \"b\"\\c\nd",cache="page"} 0"#;
    assert!(text.lines().any(|line| line == expected), "{text}");
}

/// Returns the statistics of durations in microseconds.
fn latency(durations_us: &[u64]) -> LatencyStats {
    let histogram = LatencyHistogram::default();
    for us in durations_us {
        histogram.record(Duration::from_micros(*us));
    }
    histogram.stats()
}

fn requests() -> RequestStats {
    let operation = |name: &str, latency: LatencyStats| OperationStats {
        operation: name.to_owned(),
        requests: latency.count,
        latency,
        ..OperationStats::default()
    };
    let lookup = OperationStats {
        errors: 3,
        errnos: [("EIO".to_owned(), 2), ("ENOENT".to_owned(), 1)].into(),
        ..operation("lookup", latency(&[1, 3, 5000]))
    };
    let read = OperationStats {
        bytes: 8192,
        ..operation("read", latency(&[2_000_000, 100_000_000]))
    };
    RequestStats {
        start_ns: 1,
        uptime_ns: 61_500_000_000,
        idle_ns: Some(250_000_000),
        requests: 5,
        errors: 3,
        waiting: Some(4),
        operations: vec![lookup, read],
    }
}

#[test]
fn requests_are_shown_by_operation_and_error() {
    let mut stats = Stats::default();
    stats.requests = Some(requests());
    let text = exposition(&stats, None, &[]);
    for expected in [
        "larder_fuse_waiting_requests 4",
        "larder_fuse_uptime_seconds 61.5",
        "larder_fuse_idle_seconds 0.25",
        r#"larder_fuse_requests_total{operation="lookup"} 3"#,
        r#"larder_fuse_requests_total{operation="read"} 2"#,
        r#"larder_fuse_bytes_total{operation="read"} 8192"#,
        r#"larder_fuse_errors_total{operation="lookup",errno="EIO"} 2"#,
        r#"larder_fuse_errors_total{operation="lookup",errno="ENOENT"} 1"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="lookup",le="0.000001024"} 1"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="lookup",le="0.000002048"} 1"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="lookup",le="0.000004096"} 2"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="lookup",le="+Inf"} 3"#,
        r#"larder_fuse_request_duration_seconds_sum{operation="lookup"} 0.005004"#,
        r#"larder_fuse_request_duration_seconds_count{operation="lookup"} 3"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="read",le="17.179869184"} 1"#,
        r#"larder_fuse_request_duration_seconds_bucket{operation="read",le="+Inf"} 2"#,
        r#"larder_fuse_request_duration_seconds_sum{operation="read"} 102"#,
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[test]
fn durations_of_the_device_and_the_journal_are_histograms() {
    let mut stats = Stats::default();
    stats.device.read_latency = latency(&[100]);
    stats.device.flush_latency = latency(&[100, 200]);
    stats.writing = Some(WritingStats {
        commit_latency: latency(&[3000]),
        checkpoint_latency: latency(&[1, 2, 3, 4]),
        handle_wait_latency: latency(&[10, 20, 30]),
        ..WritingStats::default()
    });
    let text = exposition(&stats, None, &[("host", "a")]);
    for expected in [
        r#"larder_device_request_duration_seconds_count{host="a",operation="read"} 1"#,
        r#"larder_device_request_duration_seconds_count{host="a",operation="write"} 0"#,
        r#"larder_device_request_duration_seconds_sum{host="a",operation="flush"} 0.0003"#,
        r#"larder_writing_commit_duration_seconds_sum{host="a"} 0.003"#,
        r#"larder_writing_checkpoint_duration_seconds_count{host="a"} 4"#,
        r#"larder_writing_handle_wait_duration_seconds_count{host="a"} 3"#,
        r#"larder_writing_handle_wait_duration_seconds_bucket{host="a",le="0.000016384"} 1"#,
    ] {
        assert!(
            text.lines().any(|line| line == expected),
            "{expected}\n{text}"
        );
    }
}

#[test]
fn names_of_files_and_programs_are_never_shown() {
    let mut stats = Stats::default();
    stats.requests = Some(requests());
    stats.transport = Some(MountTransport::IoUring);
    stats.recording = Some(RecordingStats {
        file: "/var/secret-trace".to_owned(),
        ..RecordingStats::default()
    });
    stats.hot = Some(HotStats {
        files: vec![HotFile {
            path: Some("/secret-file".to_owned()),
            path_hex: Some("2f7365637265742d66696c65".to_owned()),
            ..HotFile::default()
        }],
        processes: vec![BusyProcess {
            pid: 4711,
            name: Some("secret-program".to_owned()),
            ..BusyProcess::default()
        }],
    });
    let of_owner = exposition(&stats, Some("/mnt/secret-mount"), &[]);
    for hidden in ["secret-file", "secret-program", "4711", "2f7365"] {
        assert!(!of_owner.contains(hidden), "{hidden} in {of_owner}");
    }
    for shown in ["/mnt/secret-mount", "/var/secret-trace"] {
        assert!(of_owner.contains(shown), "{shown} not in {of_owner}");
    }
    // Over HTTP, the mount point is not given. No label contains a path then.
    let over_http = exposition(&stats, None, &[]);
    let samples = over_http.lines().filter(|line| !line.starts_with('#'));
    for sample in samples {
        assert!(
            !sample.contains("secret") && !sample.contains('/'),
            "{sample}"
        );
    }
}
