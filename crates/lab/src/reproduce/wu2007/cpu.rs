//! Counts the processor's work: calls of each policy, and lookups of pages.

use larder_readahead::PolicyName;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, LogNormal};

use super::machine::{Size, instant_machine};
use super::results::CpuCounts;
use crate::simulator::{Error, FileId, Simulator};
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
## CPU cost, counted

The document gives the change in speed for five ways to read that do not wait for a disk, and \
explains it by the calls into readahead and the lookups in the page cache. Here both are counted, \
on a device that takes no time. Lookups by the reader include the second lookup of a page that was \
missing. Lookups by readahead are those of pages that it may read, and those with which it \
searches its own history. The expectation is fewer calls and lookups where the document reports a \
speed-up, and more where it reports a slow-down. Counts are not times: only the direction is \
judged, and there is no noise. `larder lab reproduce wu2007 --timed` also times the same cases on \
the machine on which it runs, and writes a separate report, `wu2007-timed.md`, which differs from \
run to run.

The sparse file has 1 GB, and is not cached; the hot file has 256 MB, and is cached. The random \
reads read each page once, so that they miss, as in the document. `/lib` is 2,000 files with \
random sizes around 16 KB (log-normal, sigma 1.3, at most 4 MB), read 10 KB at a time as by tar.

";

const PAGE_BYTES: u64 = 4096;
const SPARSE_BYTES: u64 = 1 << 30;
const HOT_BYTES: u64 = 256 << 20;
const LIB_FILES: u64 = 2000;
const LIB_MEDIAN_BYTES: f64 = 16384.0;
const LIB_SIGMA: f64 = 1.3;
const LIB_MAX_BYTES: f64 = 4_194_304.0;
const TAR_RECORD_BYTES: u64 = 10 << 10;

/// One case: the files to read, and the order of reads.
pub(super) struct ReadCase {
    /// Sizes of the files.
    pub(super) file_bytes: Vec<u64>,
    /// Whether all pages are cached before the case begins.
    pub(super) is_hot: bool,
    /// Size of the requests in which each file is read from start to end, one file after the other.
    pub(super) request_bytes: u64,
    /// If set, these pages of the first file are read one by one, and no other file is read.
    pub(super) order: Option<Vec<u64>>,
}

/// Returns the cases in the published order.
pub(super) fn cases(size: Size) -> [ReadCase; 5] {
    let sparse_bytes = size.of(SPARSE_BYTES);
    let mut order: Vec<u64> = (0..sparse_bytes / PAGE_BYTES).collect();
    order.shuffle(&mut size.random(4));
    let sparse = |order| ReadCase {
        file_bytes: vec![sparse_bytes],
        is_hot: false,
        request_bytes: PAGE_BYTES,
        order,
    };
    let hot = |file_bytes, request_bytes| ReadCase {
        file_bytes,
        is_hot: true,
        request_bytes,
        order: None,
    };
    [
        sparse(None),
        hot(vec![size.of(HOT_BYTES)], PAGE_BYTES),
        hot(vec![size.of(HOT_BYTES)], 256 * PAGE_BYTES),
        hot(lib(size), TAR_RECORD_BYTES),
        sparse(Some(order)),
    ]
}

/// Returns the sizes of the files of `/lib`.
fn lib(size: Size) -> Vec<u64> {
    let distribution =
        LogNormal::new(LIB_MEDIAN_BYTES.ln(), LIB_SIGMA).expect("the deviation is finite");
    let mut random = size.random(5);
    (0..size.of(LIB_FILES))
        .map(|_| whole(distribution.sample(&mut random).clamp(1.0, LIB_MAX_BYTES)))
        .collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a size of a file"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

/// Counts the five cases of processor time under `policy`, in the published order.
///
/// # Errors
/// Returns an error if a simulated machine cannot be created.
pub fn measure(policy: PolicyName, size: Size) -> Result<Vec<CpuCounts>, Error> {
    cases(size)
        .iter()
        .map(|case| {
            let mut machine = instant_machine(policy, size)?;
            let files = machine.add_files(&case.file_bytes)?;
            if case.is_hot {
                run(&mut machine, &files, in_order(case, 256 * PAGE_BYTES));
            }
            let operations = match &case.order {
                Some(order) => {
                    let pages = order.clone().into_iter();
                    Box::new(pages.map(|page| Operation::read(0, page * PAGE_BYTES, PAGE_BYTES)))
                }
                None => in_order(case, case.request_bytes),
            };
            Ok(run(&mut machine, &files, operations))
        })
        .collect()
}

type Operations = Box<dyn Iterator<Item = Operation>>;

/// Returns reads of every file from start to end, one after the other.
fn in_order(case: &ReadCase, request_bytes: u64) -> Operations {
    let files = case.file_bytes.clone().into_iter().zip(0..);
    Box::new(files.flat_map(move |(bytes, file)| {
        let requests = 0..bytes.div_ceil(request_bytes);
        requests.map(move |request| Operation::read(file, request * request_bytes, request_bytes))
    }))
}

fn run(machine: &mut Simulator, files: &[FileId], operations: Operations) -> CpuCounts {
    let readers = vec![ReaderJob::new(operations)];
    let pages = machine.run(Jobs::new(files.to_vec(), readers)).pages;
    CpuCounts {
        readahead_calls: pages.readahead_calls,
        page_lookups: pages.page_lookups + pages.lookups_after_miss,
        insert_lookups: pages.insert_lookups + pages.policy_lookups,
    }
}
