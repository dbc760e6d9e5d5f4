//! Tests the reproduction of Wu 2007: a small one, and the published report.

use std::sync::{LazyLock, Mutex};

use larder_lab::output::Report as _;
use larder_lab::reproduce::wu2007::{Scheduler, Size, Wu2007, cpu_counts, reproduce};
use larder_readahead::PolicyName;
use serde_json::Value;

const SMALL: Size = Size {
    divisor: 256,
    seed: 2007,
    scheduler: Scheduler::Deadline,
};

/// A small reproduction. Thrashing is not scaled: its streams and its memory always have the document's sizes.
static RESULTS: LazyLock<Wu2007> = LazyLock::new(|| {
    let progress = |done: usize, total: usize| {
        let mut last = PROGRESS.lock().unwrap();
        *last = (*last).max((done, total));
    };
    reproduce(SMALL, 1, progress).unwrap()
});

/// The largest number of finished runs that [`RESULTS`] reported, and the total.
static PROGRESS: Mutex<(usize, usize)> = Mutex::new((0, 0));

/// The committed report.
static PUBLISHED: LazyLock<Value> = LazyLock::new(|| {
    let report = include_str!("../../../docs/reproduce/wu2007.json");
    serde_json::from_str(report).unwrap()
});

const OUTDATED_REPORT: &str =
    "docs/reproduce differs from the results of the code: run `make reproduce`";

#[test]
fn reproduction_is_deterministic_for_one_seed() {
    let results = &RESULTS;
    let again = reproduce(SMALL, 1, |_, _| {}).unwrap();
    assert_eq!(results.report().unwrap(), again.report().unwrap());
    let other = reproduce(Size { seed: 1, ..SMALL }, 1, |_, _| {});
    assert_ne!(results.report().unwrap(), other.unwrap().report().unwrap());
}

#[test]
fn reproduction_fills_every_row() {
    let results = &RESULTS;
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
fn progress_ends_with_the_total_of_runs() {
    LazyLock::force(&RESULTS);
    let (done, total) = *PROGRESS.lock().unwrap();
    assert!(total > 90 && done == total, "{done} of {total}");
}

#[test]
fn thrashing_streams_are_much_faster_under_ondemand_than_under_legacy() {
    let [legacy, ondemand, _] = &*RESULTS.thrashing else {
        panic!("there are three policies");
    };
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
    let gain = RESULTS.thrashing_gain.expect("the run is long enough");
    assert!(gain.largest.throughput.gain.value > 3.0, "{gain:?}");
}

/// The report states that congestion is the cause of the recovery.
#[test]
fn legacy_recovers_from_thrashing_only_with_a_congested_queue() {
    let [modelled, never_congested, ..] = &*RESULTS.thrashing_variants else {
        panic!("there are five machines");
    };
    let (with, without) = (modelled.legacy, never_congested.legacy);
    assert!(
        with.final_throughput_mb_s > 1.4 * with.mean_throughput_mb_s,
        "{with:?}"
    );
    assert!(
        without.final_throughput_mb_s < 1.1 * without.mean_throughput_mb_s,
        "{without:?}"
    );
    let (with, without) = (modelled.ondemand, never_congested.ondemand);
    let change = with.mean_throughput_mb_s / without.mean_throughput_mb_s - 1.0;
    assert!(change.abs() < 0.05, "{with:?} {without:?}");
}

/// Only the courses and the machines are results of the first seed alone.
#[test]
fn published_thrashing_equals_the_measurement() {
    assert_eq!(PUBLISHED["seed"], SMALL.seed);
    // Serialized and parsed like the published results, since parsing may round.
    let measured: Value = serde_json::from_str(&serde_json::to_string(&*RESULTS).unwrap()).unwrap();
    for part in ["thrashing", "thrashing_variants"] {
        assert!(
            PUBLISHED[part] == measured[part],
            "{part}: {OUTDATED_REPORT}"
        );
    }
}

/// The counts do not depend on a device, and are cheap to reproduce.
#[test]
fn published_counts_equal_the_measurement() {
    let size = Size {
        divisor: 1,
        seed: PUBLISHED["seed"].as_u64().unwrap(),
        scheduler: Scheduler::Deadline,
    };
    assert_eq!(PUBLISHED["divisor"], 1);
    for policy in [PolicyName::Legacy, PolicyName::OnDemand, PolicyName::Modern] {
        let counts = cpu_counts(policy, size).unwrap();
        let published = PUBLISHED["cpu"].as_array().unwrap();
        assert_eq!(published.len(), counts.len());
        for (published, counted) in published.iter().zip(&counts) {
            assert_eq!(
                published[policy.as_str()],
                serde_json::to_value(counted).unwrap(),
                "{policy}, {}: {OUTDATED_REPORT}",
                published["case"]
            );
        }
    }
}
