//! The table bench with a tiny plan: every side finds all keys, and all results are reported.

use std::sync::atomic::AtomicBool;

use larder_benches::hash_table::plan::Plan;
use larder_benches::hash_table::recorded::missing;
use larder_benches::hash_table::report;
use larder_benches::hash_table::results::Results;
use larder_benches::hash_table::run::{Case, Measured, Run};
use larder_benches::hash_table::side::Side;
use larder_benches::origin::Origin;
use larder_testkit::report_skipped;

/// Measures `plan`, with every side in every case.
fn measure(plan: &Plan, interrupted: bool) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let run = Run {
        plan,
        cases: &Case::all(),
        sides: &Side::ALL,
        folder: folder.path(),
        interrupted: &AtomicBool::new(interrupted),
        progress: |_| {},
    };
    run.measure()
}

#[test]
fn every_side_finds_all_keys_and_is_reported_in_each_supported_case() {
    let plan = Plan::tiny();
    // Fails if a side finds a wrong value.
    let measured = measure(&plan, false).unwrap();
    let results = Results::new(Origin::now(), plan.clone(), measured);
    let page = report::page(&results);
    println!("{page}");
    for case in Case::all() {
        if let Some(reason) = missing().filter(|_| case.workload.recorded().is_some()) {
            report_skipped(format_args!("{}: {reason}", case.name()));
            continue;
        }
        for side in Side::ALL {
            let rate = results.rate(case, side);
            let what = format!("{} of {}", case.name(), side.name());
            assert_eq!(rate.is_some(), case.allows(side), "{what}");
            assert!(rate.is_none_or(|rate| rate > 0.0), "{what}: {rate:?}");
        }
        assert!(page.contains(&format!("| {} |", case.name())), "{page}");
    }

    let folder = tempfile::tempdir().unwrap();
    let saved = results.save(folder.path()).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(saved).unwrap()).unwrap();
    let samples = json["samples"].as_array().unwrap();
    assert_eq!(samples.len() % plan.rounds, 0, "{json}");
}

#[test]
fn interrupted_run_ends_at_once() {
    let measured = measure(&Plan::tiny(), true);
    assert_eq!(measured.unwrap_err().to_string(), "interrupted");
}
