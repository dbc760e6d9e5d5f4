//! `aio-stress -l -s4096 -r128 -t1`, with `-o1` (sequential read) and `-o3` (random read).

use larder_readahead::PolicyName;
use rand::Rng;

use super::machine::{Size, machine};
use crate::simulator::Error;
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
`aio-stress -l -s4096 -r128 -t1`, `-o1` and `-o3`, on the image of a DVD: one thread reads 4096 MB \
in records of 128 KiB in order, and then the same number of records at random places. Asynchronous \
reads through the page cache are served one after the other, as in 2007. Each test starts with an \
empty cache, because the published random reads take longer than they would with a warm one.";

const FILE_BYTES: u64 = 4096 << 20;
const RECORD_BYTES: u64 = 128 << 10;

/// Returns the seconds for the sequential and for the random reads.
pub(super) fn measure(policy: PolicyName, size: Size) -> Result<Vec<f64>, Error> {
    let records = size.of(FILE_BYTES) / RECORD_BYTES;
    let mut random = size.random(2);
    let sequential = seconds(policy, size, 0..records)?;
    let at_random = seconds(
        policy,
        size,
        (0..records).map(move |_| random.random_range(0..records)),
    )?;
    Ok(vec![sequential, at_random])
}

fn seconds(
    policy: PolicyName,
    size: Size,
    records: impl Iterator<Item = u64> + 'static,
) -> Result<f64, Error> {
    let mut machine = machine(policy, size)?;
    let open_files = machine.add_files(&[size.of(FILE_BYTES)])?;
    let reads = records.map(|record| Operation::read(0, record * RECORD_BYTES, RECORD_BYTES));
    let report = machine.run(Jobs::new(open_files, vec![ReaderJob::new(reads)]));
    Ok(report.elapsed.as_secs_f64())
}
