//! `sysbench --test=oltp --oltp-read-only`, simulated with reads that were recorded from a database server.
//!
//! `scripts/record-oltp` makes the recording `oltp.bin`: for each query of each transaction, the number of its reads
//! (one byte), and the number of the database page of each read (three bytes, little-endian).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use larder_readahead::PolicyName;
use rand::Rng;

use super::machine::{Size, machine};
use crate::run_report::as_f64;
use crate::simulator::Error;
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
`sysbench --test=oltp --oltp-table-size=10000000 --oltp-read-only` on MySQL. The reads were recorded from MariaDB \
10.11 with InnoDB, under the `oltp_read_only` of sysbench 1.0.20 with one thread and the default distribution of 2007 \
(`special`), on a table of the published size (10,000,000 rows, 2.4 GB). The buffer pool had 8 MB, the default of 2007. \
`scripts/record-oltp` repeats the recording: 15,000 transactions of 14 queries, with 20.6 reads of 16 KiB for each \
transaction. Threads share 10,000, 5,000 or 2,000 consecutive transactions of the recording, and read through one open \
file, as the server does. Each seed starts at a different transaction; the last transaction of the recording is \
followed by the first. Each query takes 100 µs in addition to its reads. Each run starts with an empty page cache. The \
reads are those of one thread; with more threads, the misses in the buffer pool would differ slightly. MySQL 5 also had \
a random read-ahead of its own, which MariaDB does not use by default.";

const RECORDING: &[u8] = include_bytes!("oltp.bin");
/// The size of the table's file.
const FILE_BYTES: u64 = 2_399_141_888;
const PAGE_BYTES: u64 = 16 << 10;
const QUERIES: usize = 14;
const QUERY: Duration = Duration::from_micros(100);

/// The database pages that each query of each transaction reads.
static TRANSACTIONS: LazyLock<Vec<[Vec<u64>; QUERIES]>> = LazyLock::new(|| {
    let mut bytes = RECORDING.iter();
    let mut next = || bytes.next().map(|byte| u64::from(*byte));
    let mut transactions = Vec::new();
    while let Some(count) = next() {
        let mut count = Some(count);
        transactions.push(std::array::from_fn(|_| {
            let count = count.take().or_else(&mut next);
            let count = count.expect("the recording ends with a transaction");
            let mut byte = || next().expect("the recording contains each page");
            (0..count)
                .map(|_| byte() | byte() << 8 | byte() << 16)
                .collect()
        }));
    }
    transactions
});

/// Returns the transactions per second.
pub(super) fn measure(
    policy: PolicyName,
    size: Size,
    transactions: u32,
    threads: u32,
) -> Result<f64, Error> {
    let transactions = size.of(u64::from(transactions));
    let mut machine = machine(policy, size)?;
    let open_files = machine.add_files(&[size.of(FILE_BYTES).next_multiple_of(PAGE_BYTES)])?;
    let first = size.random(3).random_range(0..TRANSACTIONS.len());
    let recorded = TRANSACTIONS.iter().cycle().skip(first);
    let recorded = Rc::new(RefCell::new(recorded));
    let left = Rc::new(Cell::new(transactions));
    let readers = (0..threads).map(|_| {
        let (recorded, left) = (Rc::clone(&recorded), Rc::clone(&left));
        let transactions = std::iter::from_fn(move || {
            left.set(left.get().checked_sub(1)?);
            let queries = recorded.borrow_mut().next()?;
            Some(operations(queries, size))
        });
        ReaderJob::new(transactions.flatten())
    });
    let report = machine.run(Jobs::new(open_files, readers.collect()));
    Ok(as_f64(transactions) / report.elapsed.as_secs_f64())
}

/// Returns the operations of one transaction. If the file is scaled down, page numbers are divided by the same
/// divisor as its size.
fn operations(queries: &[Vec<u64>; QUERIES], size: Size) -> Vec<Operation> {
    let page = |page: &u64| {
        let offset_bytes = page / size.divisor.max(1) * PAGE_BYTES;
        Operation::read(0, offset_bytes, PAGE_BYTES)
    };
    let queries = queries.iter().flat_map(|pages| {
        let reads = pages.iter().map(page);
        reads.chain([Operation::Think(QUERY)])
    });
    queries.collect()
}

#[cfg(test)]
mod tests {
    use super::super::machine::Scheduler;
    use super::*;

    const SIZE: Size = Size {
        divisor: 1,
        seed: 1,
        scheduler: Scheduler::Deadline,
    };

    /// The properties that the document reports of the database's reads: mostly 4 pages at random places, sometimes two
    /// in a row, and some parts that are more often read than others.
    #[test]
    fn recorded_reads_have_the_properties_that_the_document_reports() {
        assert_eq!(TRANSACTIONS.len(), 15_000);
        let queries = || TRANSACTIONS.iter().flatten();
        let reads: usize = queries().map(Vec::len).sum();
        let single = queries().filter(|pages| pages.len() == 1).count();
        assert!(single * 2 > queries().count(), "{single}");
        let in_a_row = queries().flat_map(|pages| pages.windows(2));
        let in_a_row = in_a_row.filter(|pair| pair[1] == pair[0] + 1).count();
        assert!((reads / 6..reads / 3).contains(&in_a_row), "{in_a_row}");
        // The hottest hundredth of the file.
        let hundredth = FILE_BYTES / PAGE_BYTES / 100;
        let mut parts = [0; 101];
        for page in queries().flatten() {
            parts[usize::try_from(page / hundredth).unwrap()] += 1;
        }
        let hottest = parts.into_iter().max().unwrap();
        assert!(hottest * 4 > reads, "{hottest} of {reads}");
    }

    #[test]
    fn reads_of_a_transaction_are_within_the_file() {
        for divisor in [1, 8, 256] {
            let size = Size { divisor, ..SIZE };
            let file_bytes = size.of(FILE_BYTES).next_multiple_of(PAGE_BYTES);
            for queries in TRANSACTIONS.iter().take(500) {
                let operations = operations(queries, size);
                let pauses = operations.iter();
                let pauses = pauses.filter(|operation| matches!(operation, Operation::Think(_)));
                assert_eq!(pauses.count(), QUERIES);
                for operation in operations {
                    if let Operation::Read { offset_bytes, .. } = operation {
                        assert!(offset_bytes + PAGE_BYTES <= file_bytes, "{offset_bytes}");
                    }
                }
            }
        }
    }
}
