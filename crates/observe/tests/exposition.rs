//! The text of the metrics.

use larder::{AttributeStats, RecordingStats, Stats, WritingStats};
use larder_observe::exposition;
use serde_json::Value;

/// Replaces all numbers in `value` by consecutive numbers, so that no two are the same.
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

/// Returns statistics whose numbers are 1001, 1002 and so on, and the count of these numbers.
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
fn metric_has_one_type_line_before_its_samples() {
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
fn read_only_volume_has_no_write_metrics_and_no_unmeasured_chains() {
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
fn tables_info_shows_the_configured_tables() {
    let mut stats = Stats::default();
    stats.tables = "D+page=rbtree".parse().unwrap();
    let text = exposition(&stats, "/mnt", &[]);
    let expected = "\nlarder_tables_info{tables=\"D+page=rbtree\"} 1\n";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn label_values_are_escaped() {
    let labels = [("mountpoint", "/a \"b\"\\c\nd")];
    let text = exposition(&Stats::default(), "/a", &labels);
    let expected = r#"larder_device_reads_total{mountpoint="/a \"b\"\\c\nd"} 0"#;
    assert!(text.lines().any(|line| line == expected), "{text}");
    let expected = r#"larder_cache_hits_total{mountpoint="/a \"b\"\\c\nd",cache="page"} 0"#;
    assert!(text.lines().any(|line| line == expected), "{text}");
}
