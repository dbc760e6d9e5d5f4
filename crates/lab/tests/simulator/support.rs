//! Simulators, readers, and checks for every run.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use larder_instruments::simulated::DeviceModel;
use larder_lab::run_report::RunReport;
use larder_lab::simulator::{CpuModel, FileId, PAGE_BYTES, Simulator, SimulatorConfig};
use larder_lab::workload::{Jobs, OpenFileId, Operation, ReaderJob, Workload};
use larder_readahead::PolicyName;

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// Returns a machine with windows of up to 1 MiB.
pub fn simulator(policy: PolicyName, device: &str, memory_bytes: u64) -> Simulator {
    Simulator::new(SimulatorConfig {
        policy,
        device: *DeviceModel::named(device).unwrap(),
        memory_bytes,
        readahead_max_bytes: MIB,
        seed: 7,
        cpu: CpuModel::default(),
    })
    .unwrap()
}

/// Returns a thread that begins immediately and executes its operations without pauses.
pub fn thread(operations: impl IntoIterator<Item = Operation> + 'static) -> ReaderJob {
    ReaderJob {
        start: Duration::ZERO,
        interval: Duration::ZERO,
        operations: Box::new(operations.into_iter()),
    }
}

pub fn read(file: u32, offset_bytes: u64, len_bytes: u64) -> Operation {
    Operation::Read {
        file: OpenFileId(file),
        offset_bytes,
        len_bytes,
    }
}

pub fn write(file: u32, offset_bytes: u64, len_bytes: u64) -> Operation {
    Operation::Write {
        file: OpenFileId(file),
        offset_bytes,
        len_bytes,
    }
}

pub fn flush(file: u32) -> Operation {
    Operation::Flush {
        file: OpenFileId(file),
    }
}

/// Returns sequential reads of the first `len_bytes` of a file.
pub fn sequential(file: u32, len_bytes: u64, request_bytes: u64) -> Vec<Operation> {
    (0..len_bytes / request_bytes)
        .map(|number| read(file, number * request_bytes, request_bytes))
        .collect()
}

/// Returns readers on `files`, each opened once.
pub fn jobs(files: &[FileId], readers: Vec<ReaderJob>) -> Jobs {
    Jobs {
        open_files: files.to_vec(),
        readers,
        stop_after: None,
    }
}

/// The operations that readers have drawn so far.
#[derive(Debug, Default)]
struct Requested {
    requests: Cell<u64>,
    pages: Cell<u64>,
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
}

impl Requested {
    /// Records an operation on a file of `size_bytes`.
    fn note(&self, operation: Operation, size_bytes: impl Fn(OpenFileId) -> u64) {
        let add = |cell: &Cell<u64>, more| cell.set(cell.get() + more);
        let within = |file, offset_bytes: u64, len_bytes: u64| {
            let end_bytes = (offset_bytes + len_bytes).min(size_bytes(file));
            let offset_bytes = offset_bytes.min(end_bytes);
            let pages = if offset_bytes == end_bytes {
                0
            } else {
                (end_bytes - 1) / PAGE_BYTES - offset_bytes / PAGE_BYTES + 1
            };
            (end_bytes - offset_bytes, pages)
        };
        match operation {
            Operation::Think(_) => return,
            Operation::Read {
                file,
                offset_bytes,
                len_bytes,
            } => {
                let (bytes, pages) = within(file, offset_bytes, len_bytes);
                add(&self.read_bytes, bytes);
                add(&self.pages, pages);
            }
            Operation::Fault { file, offset_bytes } => {
                let start_bytes = offset_bytes / PAGE_BYTES * PAGE_BYTES;
                let (bytes, pages) = within(file, start_bytes, PAGE_BYTES);
                add(&self.read_bytes, bytes);
                add(&self.pages, pages);
            }
            Operation::Write {
                file,
                offset_bytes,
                len_bytes,
            } => add(&self.written_bytes, within(file, offset_bytes, len_bytes).0),
            Operation::Flush { .. } | Operation::Evict { .. } => {}
        }
        add(&self.requests, 1);
    }
}

/// Runs `jobs` on files of these sizes, and verifies that each reader received all requested data
/// and that the counts are consistent.
pub fn run_checked(simulator: &mut Simulator, jobs: Jobs, sizes_bytes: &[u64]) -> RunReport {
    let requested = Rc::new(Requested::default());
    let size_of: Rc<[u64]> = sizes_bytes.into();
    let readers = jobs.readers.into_iter().map(|reader| {
        let (requested, size_of) = (Rc::clone(&requested), Rc::clone(&size_of));
        ReaderJob {
            operations: Box::new(reader.operations.inspect(move |operation| {
                requested.note(*operation, |file| size_of[file.0 as usize]);
            })),
            ..reader
        }
    });
    let open_files = jobs.open_files.clone();
    let report = simulator.run(Jobs {
        readers: readers.collect(),
        ..jobs
    });
    assert_eq!(report.requests, requested.requests.get(), "requests");
    assert_eq!(report.bytes_read, requested.read_bytes.get(), "bytes read");
    assert_eq!(
        report.bytes_written,
        requested.written_bytes.get(),
        "written"
    );
    let pages = report.pages;
    assert_eq!(pages.page_lookups, requested.pages.get(), "lookups");
    assert_eq!(pages.page_hits + pages.page_misses, pages.page_lookups);
    assert!(pages.page_misses_in_flight <= pages.page_misses);
    if report.policy == PolicyName::Off {
        assert_eq!(pages.pages_ahead, 0, "pages read ahead with policy off");
    }
    check_pages(simulator, &open_files);
    report
}

/// Verifies that every page that was read ahead was used, was evicted, or is still cached and
/// unused. This empties the cache.
fn check_pages(simulator: &mut Simulator, files: &[FileId]) {
    simulator.sync();
    let frames = simulator.config().memory_bytes / PAGE_BYTES;
    assert!(
        simulator.cached_pages() <= frames.max(1),
        "more pages are cached than fit"
    );
    let before = simulator.counts();
    let unused = before.pages_ahead - before.pages_used - before.pages_wasted;
    assert!(
        unused <= simulator.cached_pages(),
        "unused pages are not cached"
    );
    // Pages that are dropped unused count as wasted.
    for file in files {
        simulator.evict(*file);
    }
    assert_eq!(simulator.cached_pages(), 0, "pages are dirty or in flight");
    let after = simulator.counts();
    assert_eq!(after.pages_used, before.pages_used);
    assert_eq!(after.pages_wasted, before.pages_wasted + unused);
    assert_eq!(after.pages_ahead, after.pages_used + after.pages_wasted);
    simulator.check_invariants();
}

/// Runs a workload by name on a cold cache, with the checks of [`run_checked`].
pub fn run_named(workload: &str, policy: PolicyName, device: &str, memory_bytes: u64) -> RunReport {
    let workload = Workload::named(workload).unwrap();
    let mut simulator = simulator(policy, device, memory_bytes);
    let sizes = workload.file_sizes();
    let files = simulator.add_files(&sizes).unwrap();
    let jobs = workload.jobs(&files, 7);
    let opened = |file: &FileId| sizes[files.iter().position(|other| other == file).unwrap()];
    let open_sizes: Vec<u64> = jobs.open_files.iter().map(opened).collect();
    run_checked(&mut simulator, jobs, &open_sizes)
}
