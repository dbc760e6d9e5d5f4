//! The reproduction of Wu 2007: small, so that it runs with the tests, and beside the report that
//! is published.

use larder_lab::reproduce::results::Wu2007;
use larder_lab::reproduce::{Size, cpu_counts, thrashing_course, wu2007};
use larder_readahead::PolicyName;
use serde_json::Value;

const SMALL: Size = Size {
    divisor: 256,
    seed: 2007,
};

fn small() -> Wu2007 {
    wu2007(SMALL, |_, _| {}).unwrap()
}

#[test]
fn reproduction_of_one_seed_is_the_same_to_the_byte() {
    let results = small();
    assert_eq!(results.report().unwrap(), small().report().unwrap());
    let other = wu2007(Size { seed: 1, ..SMALL }, |_, _| {});
    assert_ne!(results.report().unwrap(), other.unwrap().report().unwrap());
}

#[test]
fn reproduction_fills_every_row() {
    let results = small();
    for table in &results.tables {
        for row in &table.rows {
            let ours = row.ours;
            for figure in [ours.legacy, ours.ondemand, ours.modern] {
                let label = &row.label;
                assert!(figure.is_finite() && figure > 0.0, "{label}: {figure}");
            }
        }
    }
    assert_eq!(results.cpu.len(), 5);
    assert_eq!(results.thrashing.len(), 3);
}

#[test]
fn progress_ends_with_every_run() {
    let last = std::sync::Mutex::new((0, 0));
    let told = |done: usize, total: usize| {
        let mut last = last.lock().unwrap();
        *last = (*last).max((done, total));
    };
    wu2007(SMALL, told).unwrap();
    let (done, total) = *last.lock().unwrap();
    assert!(total > 90 && done == total, "{done} of {total}");
}

/// At the document's own size: 128 MB of memory and 200 streams.
#[test]
fn thrashing_streams_get_much_more_under_ondemand_than_under_legacy() {
    let size = Size {
        divisor: 1,
        seed: 2007,
    };
    let course = |policy| thrashing_course(policy, size).unwrap();
    let (legacy, ondemand) = (course(PolicyName::Legacy), course(PolicyName::OnDemand));
    let [legacy_mb_s, legacy_kb] = legacy.means_above(100);
    let [ondemand_mb_s, ondemand_kb] = ondemand.means_above(100);
    assert!(
        ondemand_mb_s > 2.0 * legacy_mb_s,
        "{ondemand_mb_s} MB/s against {legacy_mb_s}"
    );
    assert!(
        ondemand_kb > 4.0 * legacy_kb,
        "{ondemand_kb} KB a read against {legacy_kb}"
    );
    assert!(ondemand.max_throughput_mb_s() > 1.5 * legacy.max_throughput_mb_s());
}

/// The counts depend on no device, and are cheap enough to be made again.
#[test]
fn published_counts_are_what_the_code_counts() {
    let report = include_str!("../../../docs/reproduce/wu2007.json");
    let report: Value = serde_json::from_str(report).unwrap();
    let size = Size {
        divisor: 1,
        seed: report["seed"].as_u64().unwrap(),
    };
    assert_eq!(report["divisor"], 1);
    for policy in [PolicyName::Legacy, PolicyName::OnDemand, PolicyName::Modern] {
        let counts = cpu_counts(policy, size).unwrap();
        let published = report["cpu"].as_array().unwrap();
        assert_eq!(published.len(), counts.len());
        for (published, counted) in published.iter().zip(&counts) {
            assert_eq!(
                published[policy.as_str()],
                serde_json::to_value(counted).unwrap(),
                "{policy}, {}: print it again with `larder lab reproduce wu2007`",
                published["case"]
            );
        }
    }
}
