//! The dashboard for Grafana and the alerts for Prometheus use only metrics and labels that exist.
//!
//! `make real-use STEPS=prometheus` runs their queries. This test finds a renamed metric without Prometheus.

use larder::block::ServerCounts;
use larder::{OperationStats, RequestStats, Stats, WritingStats};
use larder_observe::exposition;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DASHBOARD: &str = include_str!("../../../packaging/grafana/larder.json");
const RULES: &str = include_str!("../../../packaging/prometheus/larder.rules.yml");

const RULES_TEST: &str = include_str!("../../../packaging/prometheus/larder.rules.test.yml");

/// The labels that Prometheus adds to each series, and those that the configuration adds.
const TARGET_LABELS: [&str; 3] = ["job", "instance", "mount"];

/// Returns the labels of each metric that a mount can have over HTTP.
fn known_metrics() -> BTreeMap<String, BTreeSet<String>> {
    let mut stats = Stats::default();
    stats.writing = Some(WritingStats::default());
    stats.server = Some(ServerCounts {
        latency_p50_us: Some(1),
        latency_p99_us: Some(1),
        ..ServerCounts::default()
    });
    let operation = OperationStats {
        operation: "read".to_owned(),
        errnos: [("EIO".to_owned(), 1)].into(),
        ..OperationStats::default()
    };
    stats.requests = Some(RequestStats {
        waiting: Some(0),
        operations: vec![operation],
        ..RequestStats::default()
    });
    let text = exposition(&stats, None, &[]);
    let mut metrics = BTreeMap::<String, BTreeSet<String>>::new();
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = sample.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let names = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        metrics.entry(name.to_owned()).or_default().extend(names);
    }
    metrics
}

/// Returns the words of a query that are names of metrics.
fn metrics_in(query: &str) -> BTreeSet<&str> {
    query
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("larder_"))
        .collect()
}

/// Returns the labels that a legend such as `{{operation}} {{errno}}` shows.
fn labels_in(legend: &str) -> impl Iterator<Item = &str> {
    let parts = legend.split("{{").skip(1);
    parts.map(|part| part.split("}}").next().unwrap().trim())
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().unwrap()
}

#[test]
fn every_query_of_the_dashboard_uses_existing_metrics() {
    let known = known_metrics();
    let dashboard = dashboard();
    let mut used = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let metrics = metrics_in(query);
            assert!(!metrics.is_empty(), "{title}: {query}");
            for metric in &metrics {
                assert!(known.contains_key(*metric), "{title}: no metric {metric}");
            }
            for label in labels_in(target["legendFormat"].as_str().unwrap()) {
                let exists = TARGET_LABELS.contains(&label)
                    || metrics.iter().any(|metric| known[*metric].contains(label));
                assert!(exists, "{title}: no label {label}");
            }
            used.extend(metrics.into_iter().map(str::to_owned));
        }
    }
    assert!(used.len() > 30, "{used:?}");
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let query = variable["definition"].as_str().unwrap_or_default();
        let missing = metrics_in(query)
            .into_iter()
            .find(|metric| !known.contains_key(*metric));
        assert_eq!(missing, None, "{query}");
    }
}

#[test]
fn every_alert_uses_existing_metrics() {
    let known = known_metrics();
    let metrics = metrics_in(RULES);
    assert!(metrics.len() > 5, "{metrics:?}");
    for metric in metrics {
        assert!(known.contains_key(metric), "no metric {metric}");
    }
}

/// The counter of an error appears when the first error occurs. Therefore `rate` and `increase` do not include the
/// first error.
#[test]
fn panels_of_errors_show_the_first_error_and_are_tested() {
    let dashboard = dashboard();
    let targets = panels(&dashboard)
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let queries = targets.map(|target| target["expr"].as_str().unwrap());
    let of_errors: Vec<_> = queries
        .filter(|query| query.contains("larder_fuse_errors_total"))
        .collect();
    assert_eq!(of_errors.len(), 2);
    for query in of_errors {
        assert!(query.contains(" unless "), "{query}");
        let variables = ["$job", "$instance", "$mount"];
        let query = variables
            .iter()
            .fold(query.to_owned(), |query, name| query.replace(name, ".*"))
            .replace("$__rate_interval", "4m");
        assert!(RULES_TEST.contains(&query), "no test of {query}");
    }
}

#[test]
fn panels_of_the_dashboard_have_ids_units_and_places_of_their_own() {
    let dashboard = dashboard();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (x, y, w, h) = (place("x"), place("y"), place("w"), place("h"));
        assert!(x + w <= 24, "{title}");
        for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| (row, column))) {
            assert!(cells.insert(cell), "{title} covers another panel");
        }
        if panel["type"] != "row" {
            assert!(
                panel["fieldConfig"]["defaults"]["unit"].is_string(),
                "{title}"
            );
            assert!(!panel["description"].as_str().unwrap().is_empty());
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}
