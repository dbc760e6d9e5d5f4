//! The readahead benches on a tiny image. The test asserts what is read, but no times.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use larder_benches::origin::Origin;
use larder_benches::peer::Programs;
use larder_benches::readahead::case::{Case, Pattern, Workload};
use larder_benches::readahead::peer::Peer;
use larder_benches::readahead::plan::Disk;
use larder_benches::readahead::plan::{Plan, REQUEST_BYTES};
use larder_benches::readahead::report;
use larder_benches::readahead::results::{Results, Sample};
use larder_benches::readahead::run::{Run, missing};
use larder_readahead::PolicyName;
use larder_testkit::report_skipped;

/// A limit for what is read besides the content: the journal, directories and extent maps, and readahead
/// past the end of a file.
const OVERHEAD_BYTES: u64 = 4 << 20;

const PEERS: [Peer; 5] = [
    Peer::Kernel,
    Peer::Larder,
    Peer::Policy(PolicyName::Off),
    Peer::Policy(PolicyName::Modern),
    Peer::ExactLegacy,
];

fn programs() -> Programs {
    Programs::beside(env!("CARGO_BIN_EXE_larder-benches").into())
}

/// Tests run one at a time: the resources of a concurrent test would look like leftovers.
static ALONE: Mutex<()> = Mutex::new(());

/// Measures `cases`, and checks that nothing remains afterwards.
fn run(plan: &Plan, cases: Vec<Case>) -> Results {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Loop devices need a disk, and the default directory for temporary files may be in memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let work = folder.path().join("work");
    let interrupted = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let sides = (cases, PEERS.to_vec());
    let run = Run::new(plan.clone(), programs(), sides, &work, interrupted, |_| {}).unwrap();
    let outcome = run.measure();
    drop(run);
    assert_eq!(outcome.failures, Vec::<String>::new());
    assert_nothing_left(&work);
    let results = Results::new(Origin::now(), plan.clone(), started, outcome);
    let page = report::page(&results);
    println!("{page}");
    for (_, case) in results.cases() {
        assert!(page.contains(&format!("| {case} |")), "{page}");
    }
    let saved = results.save(folder.path()).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    let saved_samples = json["samples"].as_array().unwrap().len();
    assert_eq!(saved_samples, results.outcome.samples.len());
    results
}

fn assert_nothing_left(work: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(work.to_str().unwrap()), "{mounts}");
    assert_eq!(std::fs::read_dir(work).unwrap().count(), 0);
    let own = format!("larder-bench-{}-", std::process::id());
    for hierarchy in ["", "memory", "blkio"] {
        let folder = Path::new("/sys/fs/cgroup").join(hierarchy);
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            assert!(!name.starts_with(&own), "{name} was not removed");
        }
    }
}

/// Checks that each side has one measurement of `case`, and passes it to `check`. Skips a side that cannot
/// be measured here.
fn each_peer(results: &Results, case: Case, check: impl Fn(Peer, &Sample)) {
    for peer in PEERS {
        if !case.workload.is_measured_on(peer) {
            continue;
        }
        let samples: Vec<&Sample> = results.of(&case.name(), peer).collect();
        if samples.is_empty() {
            report_skipped(format_args!("{} of {}", case.name(), peer.name()));
            continue;
        }
        assert_eq!(samples.len(), 1);
        assert!(samples[0].seconds > 0.0);
        check(peer, samples[0]);
    }
    let kernel = results.of(&case.name(), Peer::Kernel).count();
    let skipped = results
        .outcome
        .skipped
        .iter()
        .any(|line| line.contains("cases that use"));
    assert!(kernel == 1 || skipped, "{} was not measured", case.name());
}

#[test]
fn readers_of_a_tiny_file_read_it_once_from_the_device() {
    if let Some(reason) = missing() {
        return report_skipped(reason);
    }
    let plan = Plan::tiny();
    let on = |workload, disk| Case { workload, disk };
    let once = [
        on(Workload::Fio(Pattern::Read), Disk::Fast),
        on(Workload::Fio(Pattern::Pread), Disk::Slow),
        on(Workload::Interleaved, Disk::Fast),
        on(Workload::InterleavedOneDescriptor, Disk::Fast),
    ];
    let others = [
        on(Workload::Fio(Pattern::Reverse), Disk::Fast),
        on(Workload::Fio(Pattern::Stride), Disk::Fast),
        on(Workload::Fio(Pattern::Random), Disk::Fast),
        on(Workload::Fio(Pattern::Mixed), Disk::Fast),
        on(Workload::Sysbench(2), Disk::Fast),
    ];
    let results = run(&plan, [&once[..], &others].concat());
    for case in once {
        each_peer(&results, case, |peer, sample| {
            let what = format!("{} of {}: {sample:?}", case.name(), peer.name());
            assert_eq!(sample.bytes, plan.fast.sequential_bytes, "{what}");
            assert!(sample.device.bytes >= sample.bytes, "{what}");
            assert!(
                sample.device.bytes <= sample.bytes + OVERHEAD_BYTES,
                "{what}"
            );
            if peer == Peer::Policy(PolicyName::Off) {
                assert!(sample.device.mean_bytes() <= REQUEST_BYTES, "{what}");
            }
        });
    }
    each_peer(&results, once[0], |peer, sample| {
        if peer != Peer::Policy(PolicyName::Off) {
            let mean_bytes = sample.device.mean_bytes();
            assert!(
                mean_bytes > 2 * REQUEST_BYTES,
                "{}: {sample:?}",
                peer.name()
            );
        }
    });
    for case in others {
        each_peer(&results, case, |_, sample| assert!(sample.bytes > 0));
    }
}

#[test]
fn streams_on_a_tiny_image_are_measured_second_by_second() {
    if let Some(reason) = missing() {
        return report_skipped(reason);
    }
    let plan = Plan::tiny();
    let cases = [
        (Workload::Streams, Disk::Fast),
        (Workload::Thrashing, Disk::Slow),
    ]
    .map(|(workload, disk)| Case { workload, disk });
    let results = run(&plan, cases.to_vec());
    for case in cases {
        each_peer(&results, case, |_, sample| {
            assert_eq!(sample.bytes, sample.bytes_by_second.iter().sum::<u64>());
            let read = sample.device_by_second.last().unwrap();
            assert!(
                (1..=sample.device.reads).contains(&read.reads),
                "{sample:?}"
            );
            assert!(sample.max_megabytes_per_second() > Some(0.0), "{sample:?}");
        });
    }
    // All streams together cannot exceed their rate limit.
    each_peer(&results, cases[1], |_, sample| {
        let most = u64::from(plan.streams) * plan.paced.bytes_per_second;
        let requests = u64::from(plan.streams) * plan.paced.request_bytes;
        let mut bytes = 0;
        for (seconds, more) in (1..).zip(&sample.bytes_by_second) {
            bytes += more;
            assert!(bytes <= most * seconds + requests, "{sample:?}");
        }
    });
}

#[test]
fn transactions_of_a_tiny_database_are_read_through_the_mount() {
    if let Some(reason) = missing() {
        return report_skipped(reason);
    }
    let plan = Plan::tiny();
    let case = Case {
        workload: Workload::Oltp(2),
        disk: Disk::Slow,
    };
    let results = run(&plan, vec![case]);
    each_peer(&results, case, |_, sample| {
        assert_eq!(sample.transactions, Some(plan.oltp.transactions));
        assert!(sample.device.reads > 0, "{sample:?}");
        assert!(sample.transactions_per_second() > Some(0.0), "{sample:?}");
    });
}
