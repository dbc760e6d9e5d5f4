//! `iozone -c -t1 -s 4096m -r 64k`, twice.
//!
//! One process executes iozone's throughput tests in iozone's order, with 64 KiB records on one
//! file. [`Test`] describes each of them. Between two tests iozone syncs, which is not timed.

use larder_readahead::PolicyName;
use rand::Rng;

use super::machine::{Size, machine};
use crate::run_report::as_f64;
use crate::simulator::{Error, FileId, Simulator};
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
`iozone -c -t1 -s 4096m -r 64k`: one process runs the eleven tests of iozone in their order, on a \
file of 4 GB in records of 64 KiB. All tests run on one machine, so each starts with the cache \
that the previous one left. Iozone syncs between tests, which is not timed. The stride read reads \
every 17th record, and starts one record later in each pass, until it has read as many records as \
the file has. Random reads and writes use as many records as the file has, each drawn from all \
records; all tests of a run use the same ones. With one process, the mixed workload repeats the \
random read, with the cache that a random read has left. The second run starts with a new file in \
the same place, and draws its own random numbers; iozone would use the same numbers again. The six \
tests before the random ones use no random numbers, so their second run is not an independent \
measurement.";

const FILE_BYTES: u64 = 4 << 30;
const RECORD_BYTES: u64 = 64 << 10;
/// Distance between two reads of the stride test, in records.
const STRIDE_RECORDS: u64 = 17;

/// The access pattern of one of iozone's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Write,
    Read,
    Reverse,
    Stride,
    RandomRead,
    RandomWrite,
}

/// The tests in the order of a run.
const TESTS: [(&str, Test); 11] = [
    ("Initial write", Test::Write),
    ("Rewrite", Test::Write),
    ("Read", Test::Read),
    ("Re-read", Test::Read),
    ("Reverse Read", Test::Reverse),
    ("Stride read", Test::Stride),
    ("Random read", Test::RandomRead),
    ("Mixed workload", Test::RandomRead),
    ("Random write", Test::RandomWrite),
    ("Pwrite", Test::Write),
    ("Pread", Test::Read),
];

/// Returns the KB/s of each test in both runs under `policy`, in the order of the published table.
pub(super) fn measure(policy: PolicyName, size: Size) -> Result<Vec<f64>, Error> {
    let file_bytes = size.of(FILE_BYTES);
    let mut machine = machine(policy, size)?;
    let file = machine.add_files(&[file_bytes])?[0];
    let mut figures = Vec::new();
    for run in 1..=2 {
        // The file is new: none of it is cached.
        machine.evict(file);
        for (_, test) in TESTS {
            let operations = operations(test, size, run);
            figures.push(kb_per_second(&mut machine, file, operations));
        }
    }
    Ok(figures)
}

/// Returns the names of the tests, to verify that the published table has the same ones.
#[cfg(test)]
pub(super) fn test_names() -> impl Iterator<Item = &'static str> {
    TESTS.iter().map(|(name, _)| *name)
}

fn kb_per_second(machine: &mut Simulator, file: FileId, operations: Operations) -> f64 {
    let report = machine.run(Jobs::new(vec![file], vec![ReaderJob::new(operations)]));
    machine.sync();
    let kb = as_f64(report.bytes_read + report.bytes_written) / 1024.0;
    kb / report.elapsed.as_secs_f64()
}

type Operations = Box<dyn Iterator<Item = Operation>>;

fn operations(test: Test, size: Size, run: u32) -> Operations {
    let records = size.of(FILE_BYTES) / RECORD_BYTES;
    match test {
        Test::Write => Box::new((0..records).map(write)),
        Test::Read => Box::new((0..records).map(read)),
        Test::Reverse => Box::new((0..records).rev().map(read)),
        Test::Stride => Box::new(stride(records).map(read)),
        Test::RandomRead => Box::new(drawn(records, size, run).map(read)),
        Test::RandomWrite => Box::new(drawn(records, size, run).map(write)),
    }
}

fn read(record: u64) -> Operation {
    Operation::read(0, record * RECORD_BYTES, RECORD_BYTES)
}

fn write(record: u64) -> Operation {
    Operation::write(0, record * RECORD_BYTES, RECORD_BYTES)
}

/// Returns as many records as the file has, each one stride after the previous one. After the end
/// of the file, a new pass starts one record after the start of the previous pass.
fn stride(records: u64) -> impl Iterator<Item = u64> {
    let passes = (0..records).cycle();
    passes
        .flat_map(move |first| {
            let steps = usize::try_from(STRIDE_RECORDS).expect("17 fits");
            (first..records).step_by(steps)
        })
        .take(usize::try_from(records).unwrap_or(usize::MAX))
}

/// Returns as many random records as the file has, each drawn from all records. All tests of a run
/// use the same records.
fn drawn(records: u64, size: Size, run: u32) -> impl Iterator<Item = u64> {
    let mut random = size.random(0x200 + u64::from(run));
    (0..records).map(move |_| random.random_range(0..records))
}

#[cfg(test)]
mod tests {
    use super::super::machine::Scheduler;
    use super::*;

    #[test]
    fn tests_are_those_of_the_published_table_in_its_order() {
        let published: Vec<String> = crate::published::iozone()
            .into_iter()
            .map(|row| row.test)
            .collect();
        let ours: Vec<&str> = test_names().chain(test_names()).collect();
        assert_eq!(ours, published);
    }

    #[test]
    fn stride_visits_each_record_about_once() {
        let visited: Vec<u64> = stride(100).collect();
        assert_eq!(visited.len(), 100);
        assert_eq!(visited[..8], [0, 17, 34, 51, 68, 85, 1, 18]);
        let distinct: std::collections::BTreeSet<_> = visited.iter().collect();
        assert!(distinct.len() > 95, "{distinct:?}");
    }

    #[test]
    fn random_records_are_in_the_file_and_equal_in_each_test_of_a_run() {
        let size = Size {
            divisor: 1,
            seed: 1,
            scheduler: Scheduler::Deadline,
        };
        let records: Vec<u64> = drawn(1000, size, 1).collect();
        assert_eq!(records, drawn(1000, size, 1).collect::<Vec<_>>());
        assert_ne!(records, drawn(1000, size, 2).collect::<Vec<_>>());
        assert_eq!(records.len(), 1000);
        assert!(records.iter().all(|record| *record < 1000));
    }
}
