//! The benches of `larder create` with a tiny plan. The test checks that each side makes an image with all files, and that
//! times are reported.

use std::sync::atomic::AtomicBool;

use larder_benches::create::{Plan, Results, Run, Side};
use larder_benches::origin::{self, Origin};
use larder_benches::peer::Programs;
use larder_testkit::{Requirement, report_skipped, skip};

#[test]
fn each_side_is_measured_and_makes_an_image_of_the_tree() {
    let tools = ["mke2fs", "tune2fs", "resize2fs", "e2fsck", "tar"];
    if skip(&tools.map(Requirement::Tool)) {
        return;
    }
    let programs = Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into());
    if programs.larder.is_none() {
        return report_skipped("the larder binary was not built");
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = Plan::tiny();
    let run = Run {
        plan: &plan,
        sides: &Side::ALL,
        programs: &programs,
        folder: folder.path(),
        interrupted: &AtomicBool::new(false),
        progress: |_| {},
    };
    let outcome = run.measure().unwrap();
    let results = Results {
        origin: Origin::now(),
        plan: plan.clone(),
        outcome,
    };
    assert_eq!(results.outcome.failures, Vec::<String>::new());
    for side in Side::ALL {
        assert!(results.median(side) > Some(0.0), "{}", side.name());
    }
    let path = results.save(folder.path()).unwrap();
    let (newest, read) = origin::newest(folder.path(), "-create", |_: &Results| true).unwrap();
    assert_eq!(newest, path);
    assert_eq!(read.page(), results.page());
}
