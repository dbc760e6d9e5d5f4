//! The bench of the Python package with a tiny plan. The test checks that each side reads all files.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use larder_benches::origin::Origin;
use larder_benches::peer::Programs;
use larder_benches::python::plan::{Plan, Side, Workload};
use larder_benches::python::report;
use larder_benches::python::results::Results;
use larder_benches::python::run::{Run, version};
use larder_testkit::report_skipped;

/// The interpreter of `make python-test`, with the package.
const PYTHON: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/tools/python/bin/python"
);

#[test]
fn each_side_reads_the_same_files() {
    let python = Path::new(PYTHON);
    if !python.is_file() || version(python).is_err() {
        return report_skipped("the Python package is not installed; run make python-test");
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::tiny();
    let run = Run {
        plan: &plan,
        workloads: &Workload::ALL,
        programs: &Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into()),
        python,
        folder: folder.path(),
        interrupted: &AtomicBool::new(false),
        progress: |_| {},
    };
    let results = Results {
        origin: Origin::now(),
        python: version(python).unwrap(),
        plan: plan.clone(),
        outcome: run.measure().unwrap(),
    };
    assert_eq!(results.outcome.failures, Vec::<String>::new());
    println!("{}", report::page(&results));
    let expected = (Side::ALL.len() - results.outcome.skipped.len()) * Workload::ALL.len();
    assert_eq!(results.outcome.samples.len(), expected);
    let saved = std::fs::read(results.save(folder.path()).unwrap()).unwrap();
    let read: Results = serde_json::from_slice(&saved).unwrap();
    assert_eq!(report::table(&read), report::table(&results));
}
