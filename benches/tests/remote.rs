//! The benches of images at URLs with a tiny plan. The test checks that each side reads what the image contains, and
//! that each measure has a value. It asserts counts, but no times.

use std::sync::atomic::AtomicBool;

use larder_benches::origin::Origin;
use larder_benches::peer::Programs;
use larder_benches::remote::measure::{Measure, Side};
use larder_benches::remote::network::Network;
use larder_benches::remote::plan::Plan;
use larder_benches::remote::report;
use larder_benches::remote::results::Results;
use larder_benches::remote::run::{Group, Run, missing};
use larder_testkit::report_skipped;

#[test]
fn mounts_of_a_url_are_measured_over_links_and_released() {
    let programs = Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into());
    if let Some(reason) = missing(programs.larder.as_deref()) {
        return report_skipped(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::tiny();
    let run = Run {
        plan: &plan,
        groups: &Group::ALL,
        programs: &programs,
        work: &folder.path().join("work"),
        interrupted: &AtomicBool::new(false),
        progress: |_| {},
    };
    let outcome = run.measure().unwrap();
    assert_eq!(outcome.failures, Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts.contains(folder.path().to_str().unwrap()),
        "{mounts}"
    );
    let left = std::fs::read_dir(folder.path().join("work")).unwrap();
    assert_eq!(left.count(), 0);

    let results = Results {
        origin: Origin::now(),
        plan,
        outcome,
    };
    let page = report::page(&results);
    println!("{page}");
    assert!(page.contains("prove nothing"));
    let value = |measure, side| results.value(measure, Network::B, side);
    for measure in Measure::ALL {
        assert!(
            page.contains(&format!("| `{}` |", measure.name())),
            "{page}"
        );
    }
    assert_eq!(value(Measure::MountWaves, Side::Larder), Some(1.0));
    assert_eq!(value(Measure::DataRequests, Side::LarderDisk), Some(0.0));
    // Each page of a random read is sent, at least.
    assert!(value(Measure::RandomBytes, Side::Larder) >= Some(1.0));
    assert!(value(Measure::PythonUsed, Side::LarderProfile) > Some(0.0));
    let saved = std::fs::read(results.save(folder.path()).unwrap()).unwrap();
    let stored: Results = serde_json::from_slice(&saved).unwrap();
    assert_eq!(report::page(&stored), page);
}
