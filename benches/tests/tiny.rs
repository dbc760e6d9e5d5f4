//! The whole harness on a tiny tree. The test asserts counts, but no times.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use larder_benches::measure::Measure;
use larder_benches::origin::Origin;
use larder_benches::peer::{Peer, Programs};
use larder_benches::plan::Plan;
use larder_benches::report;
use larder_benches::requests;
use larder_benches::results::{Results, Samples};
use larder_benches::run::Run;
use larder_benches::uring::Uring;
use larder_benches::user::User;
use larder_fuse::Transport;
use tempfile::TempDir;

/// A run changes a setting of the kernel, so only one run takes place at a time.
static RUNNING: Mutex<()> = Mutex::new(());

fn programs() -> Programs {
    Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into())
}

fn run(measures: &[Measure], plan: &Plan) -> Samples {
    run_in(&tempfile::tempdir().unwrap(), measures, plan)
}

fn run_in(folder: &TempDir, measures: &[Measure], plan: &Plan) -> Samples {
    // Another user must be able to access the image.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let work = folder.path().join("work");
    let interrupted = Arc::new(AtomicBool::new(false));
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let setting = uring_setting();
    let mut run = Run::new(
        plan.clone(),
        programs(),
        measures.to_vec(),
        &work,
        interrupted,
        |_| {},
    )
    .unwrap();
    let samples = run.measure();
    drop(run);
    assert_eq!(uring_setting(), setting);
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts.contains(folder.path().to_str().unwrap()),
        "{mounts}"
    );
    assert_eq!(
        std::fs::read_dir(&work).unwrap().count(),
        0,
        "files are left in the work directory"
    );
    let results = Results::new(Origin::now(), plan, measures, &samples);
    let saved = results.save(folder.path()).unwrap();
    let stored: Results = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    assert_eq!(stored.measures.len(), measures.len());
    let table = report::page(&stored);
    assert_eq!(table, report::page(&results));
    println!("{table}");
    for measure in measures {
        assert!(table.contains(measure.name()), "{table}");
    }
    samples
}

/// Returns the kernel's setting that offers `io_uring` to FUSE servers, or `None` if the kernel has no
/// such setting.
fn uring_setting() -> Option<String> {
    std::fs::read_to_string(Transport::URING_PARAMETER).ok()
}

/// Returns whether `measure` has processor times.
fn has_processor_time(measure: Measure) -> bool {
    !measure.is_in_process()
        && (!measure.is_of_device_path() || measure == Measure::Interleaved64Mount)
        && !measure.is_of_requests()
        && !matches!(
            measure,
            Measure::Database
                | Measure::Extents
                | Measure::StatAfterWrite
                | Measure::StatAfterRename
                | Measure::StatAfterUnlink
        )
}

/// Checks that each side that can be measured here has one positive value per run, and that the others
/// report a reason.
fn assert_counts(samples: &Samples, measures: &[Measure], plan: &Plan) {
    assert_eq!(samples.failures, Vec::<String>::new());
    let programs = programs();
    for measure in measures {
        let as_user = *measure == Measure::SequentialUnprivileged;
        for peer in measure.peers() {
            let needs = if *peer == Peer::Syscall {
                Peer::Kernel
            } else {
                *peer
            };
            if programs.missing(needs).is_some()
                || (as_user && User::Nobody.missing().is_some())
                || (measure.is_of_requests() && requests::missing().is_some())
            {
                larder_testkit::report_skipped(format_args!(
                    "{} of {}",
                    measure.name(),
                    peer.name()
                ));
                continue;
            }
            let values = samples.of(*measure, *peer);
            assert_eq!(
                values.len(),
                plan.runs,
                "{} of {}",
                measure.name(),
                peer.name()
            );
            let seconds = samples.processor_seconds(*measure, *peer);
            if has_processor_time(*measure) {
                assert_eq!(seconds.len(), plan.runs);
            }
            // The kernel may answer all calls from its caches.
            let may_be_zero = measure.is_of_requests();
            let is_valid = |value: f64| value > 0.0 || (may_be_zero && value >= 0.0);
            assert!(
                values
                    .iter()
                    .all(|value| is_valid(*value) && value.is_finite())
            );
            // The clock of processor time has a resolution of 10 ms.
            assert!(
                seconds
                    .iter()
                    .all(|value| *value >= 0.0 && value.is_finite())
            );
        }
    }
}

#[test]
fn mounts_on_a_tiny_tree_are_measured_and_released() {
    let measures = [
        Measure::ColdFind,
        Measure::WarmFind,
        Measure::ColdTar,
        Measure::WarmTar,
        Measure::Sequential,
        Measure::SequentialUnprivileged,
        Measure::Random,
    ];
    let plan = Plan::tiny();
    let samples = run(&measures, &plan);
    assert_counts(&samples, &measures, &plan);
}

#[test]
fn writing_on_a_tiny_plan_is_measured_and_leaves_clean_images() {
    let measures = [
        Measure::Untar,
        Measure::Copy,
        Measure::Chmod,
        Measure::Remove,
        Measure::Append,
        Measure::SetXattr,
        Measure::StatAfterWrite,
        Measure::StatAfterWriteRequests,
        Measure::StatAfterRename,
        Measure::StatAfterRenameRequests,
        Measure::StatAfterUnlink,
        Measure::StatAfterUnlinkRequests,
        Measure::WriteSequential,
        Measure::OverwriteRandom,
        Measure::FsyncFiles,
        Measure::FsyncFiles16,
        Measure::Extents,
    ];
    let plan = Plan::tiny();
    let samples = run(&measures, &plan);
    assert_counts(&samples, &measures, &plan);
    // At most one request for the file, and one for its directory.
    for measure in measures.into_iter().filter(|one| one.is_of_requests()) {
        for peer in [Peer::Larder, Peer::LarderDev] {
            for requests in samples.of(measure, peer) {
                assert!(*requests <= 2.0, "{}: {requests}", measure.name());
            }
        }
    }
}

#[test]
fn uring_setting_is_restored() {
    if let Some(reason) = Uring::missing() {
        return larder_testkit::report_skipped(reason);
    }
    let _running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let setting = uring_setting();
    let uring = Uring::enable();
    assert_eq!(uring_setting().as_deref(), Some("Y\n"));
    drop(uring);
    assert_eq!(uring_setting(), setting);
}

#[test]
fn library_on_a_tiny_tree_is_measured_with_system_calls() {
    let measures = [
        Measure::PageRead,
        Measure::Lookup,
        Measure::Bookkeeping,
        Measure::Decision,
    ];
    let plan = Plan {
        runs: 2,
        ..Plan::tiny()
    };
    let samples = run(&measures, &plan);
    assert_counts(&samples, &measures, &plan);
}

#[test]
fn device_path_on_a_tiny_tree_is_measured_and_its_requests_are_counted() {
    let measures = [
        Measure::ColdRandom4,
        Measure::ColdRandom64,
        Measure::Interleaved64,
        Measure::Interleaved64Mount,
        Measure::SequentialInProcess,
        Measure::Checkpoint,
        Measure::CheckpointRequests,
        Measure::ThreadsAtRest,
    ];
    let plan = Plan::tiny();
    // Direct I/O needs a disk, and the default directory for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let samples = run_in(&folder, &measures, &plan);
    assert_counts(&samples, &measures, &plan);
    // A checkpoint of scattered blocks takes several writes, but fewer than the journal has blocks.
    let journal_blocks = f64::from(plan.checkpoint_journal_mib) * 256.0;
    for peer in [Peer::Volume, Peer::Direct] {
        for requests in samples.of(Measure::CheckpointRequests, peer) {
            assert!((16.0..journal_blocks).contains(requests), "{requests}");
        }
    }
    for threads in samples.of(Measure::ThreadsAtRest, Peer::LarderDev) {
        assert!(*threads >= 1.0);
    }
}
