//! The processor's side: what each policy is asked, and how often a page is looked up.

use larder_readahead::PolicyName;
use rand::seq::SliceRandom;
use rand_distr::{Distribution, LogNormal};

use super::machine::{Size, instant_machine, reader};
use super::results::CpuCounts;
use crate::run_report::RunReport;
use crate::simulator::{Error, FileId, Simulator};
use crate::workload::{Jobs, OpenFileId, Operation};

pub(super) const SETUP: &str = "\
## CPU cost, counted

The document gives the change in speed of five ways to read that do not wait for a disk, and \
explains it by calls into readahead and by lookups in the page cache. Here both are counted, on a \
device that takes no time. Lookups by the reader include the second one, of a page that was \
missing at first; lookups by readahead are those of pages that it might bring in, and those by \
which it looks for its own history. Fewer calls and lookups are expected where the document \
became faster, more where it became slower. Counts are not times: the direction alone is judged, \
with no noise.

The sparse file is 1 GB that is not cached, the hot one 256 MB that is. The random reads take each \
page once, so that they miss as the document's do. `/lib` is 2,000 files \
whose sizes are drawn around 16 KB (log-normally, sigma 1.3, at most 4 MB), read 10 KB at a time \
as tar does.

";

const PAGE_BYTES: u64 = 4096;
const SPARSE_BYTES: u64 = 1 << 30;
const HOT_BYTES: u64 = 256 << 20;
const LIB_FILES: u64 = 2000;
const LIB_MEDIAN_BYTES: f64 = 16384.0;
const LIB_SIGMA: f64 = 1.3;
const LIB_MAX_BYTES: f64 = 4_194_304.0;
const TAR_RECORD_BYTES: u64 = 10 << 10;

/// The five cases of processor time in the published order, counted under `policy`.
///
/// # Errors
/// [`Error`] if a simulated machine cannot be made.
pub fn measure(policy: PolicyName, size: Size) -> Result<Vec<CpuCounts>, Error> {
    Ok(vec![
        cold(policy, size, |pages, _| {
            Box::new((0..pages).map(|page| read(0, page * PAGE_BYTES, PAGE_BYTES)))
        })?,
        hot(policy, size, 1)?,
        hot(policy, size, 256)?,
        tar(policy, size)?,
        cold(policy, size, |pages, size| {
            let mut order: Vec<u64> = (0..pages).collect();
            order.shuffle(&mut size.random(4));
            let order = order.into_iter();
            Box::new(order.map(|page| read(0, page * PAGE_BYTES, PAGE_BYTES)))
        })?,
    ])
}

type Operations = Box<dyn Iterator<Item = Operation>>;

/// Reads of a file that is not cached.
fn cold(
    policy: PolicyName,
    size: Size,
    reads: fn(u64, Size) -> Operations,
) -> Result<CpuCounts, Error> {
    let bytes = size.of(SPARSE_BYTES);
    let mut machine = instant_machine(policy, size)?;
    let files = machine.add_files(&[bytes])?;
    Ok(run(&mut machine, &files, reads(bytes / PAGE_BYTES, size)))
}

/// Sequential reads of a file that is cached whole.
fn hot(policy: PolicyName, size: Size, request_pages: u64) -> Result<CpuCounts, Error> {
    let bytes = size.of(HOT_BYTES);
    let mut machine = instant_machine(policy, size)?;
    let files = machine.add_files(&[bytes])?;
    run(&mut machine, &files, in_order(0, bytes, 256 * PAGE_BYTES));
    let request_bytes = request_pages * PAGE_BYTES;
    Ok(run(&mut machine, &files, in_order(0, bytes, request_bytes)))
}

/// Many small cached files, one after the other.
fn tar(policy: PolicyName, size: Size) -> Result<CpuCounts, Error> {
    let distribution =
        LogNormal::new(LIB_MEDIAN_BYTES.ln(), LIB_SIGMA).expect("the deviation is finite");
    let mut random = size.random(5);
    let sizes: Vec<u64> = (0..size.of(LIB_FILES))
        .map(|_| whole(distribution.sample(&mut random).clamp(1.0, LIB_MAX_BYTES)))
        .collect();
    let mut machine = instant_machine(policy, size)?;
    let files = machine.add_files(&sizes)?;
    let mut all = || {
        let sizes = sizes.clone().into_iter().zip(0..);
        let reads = sizes.flat_map(|(bytes, file)| in_order(file, bytes, TAR_RECORD_BYTES));
        run(&mut machine, &files, Box::new(reads))
    };
    all();
    Ok(all())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a size of a file"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

fn in_order(file: u32, bytes: u64, request_bytes: u64) -> Operations {
    let requests = bytes.div_ceil(request_bytes);
    Box::new((0..requests).map(move |request| read(file, request * request_bytes, request_bytes)))
}

fn read(file: u32, offset_bytes: u64, len_bytes: u64) -> Operation {
    Operation::Read {
        file: OpenFileId(file),
        offset_bytes,
        len_bytes,
    }
}

fn run(machine: &mut Simulator, files: &[FileId], operations: Operations) -> CpuCounts {
    let report = machine.run(Jobs {
        open_files: files.to_vec(),
        readers: vec![reader(operations)],
        stop_after: None,
    });
    counts(&report)
}

fn counts(report: &RunReport) -> CpuCounts {
    let pages = &report.pages;
    CpuCounts {
        readahead_calls: pages.readahead_calls,
        page_lookups: pages.page_lookups + pages.lookups_after_miss,
        insert_lookups: pages.insert_lookups + pages.policy_lookups,
    }
}
