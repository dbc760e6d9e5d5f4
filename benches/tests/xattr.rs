//! The benches of setxattr(2) with a tiny plan. The tests check that attributes are set, that images are
//! clean, and that times are reported.

use std::sync::atomic::AtomicBool;

use larder_benches::origin::Origin;
use larder_benches::peer::Programs;
use larder_benches::xattr::plan::Plan;
use larder_benches::xattr::report;
use larder_benches::xattr::results::Results;
use larder_benches::xattr::run::{Run, missing, name};
use larder_benches::xattr::side::Side;
use larder_testkit::report_skipped;

#[test]
fn attributes_set_by_processes_are_measured_on_each_side_and_leave_clean_images() {
    if let Some(reason) = missing() {
        return report_skipped(reason);
    }
    let programs = Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into());
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::tiny();
    let cases = plan.cases();
    let run = Run {
        plan: &plan,
        cases: &cases,
        programs: &programs,
        folder: folder.path(),
        interrupted: &AtomicBool::new(false),
        progress: |_| {},
    };
    let results = Results::new(Origin::now(), plan.clone(), run.measure());
    assert_eq!(results.outcome.failures, Vec::<String>::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts.contains(folder.path().to_str().unwrap()),
        "{mounts}"
    );

    let page = report::page(&results);
    println!("{page}");
    for side in Side::ALL {
        if let Some(reason) = programs.missing(side.peer()) {
            report_skipped(format_args!("{}: {reason}", side.name()));
            continue;
        }
        for case in &cases {
            let microseconds = results.microseconds(*case, side);
            let what = format!("{} of {}", name(*case), side.name());
            assert!(microseconds > Some(0.0), "{what}: {microseconds:?}");
        }
    }
    for case in &cases {
        assert!(
            page.contains(&format!("\n| {} | ", case.processes)),
            "{page}"
        );
    }
    let saved = std::fs::read(results.save(folder.path()).unwrap()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&saved).unwrap();
    assert_eq!(
        json["samples"].as_array().unwrap().len(),
        results.outcome.samples.len()
    );
}
