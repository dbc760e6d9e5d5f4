//! `sysbench --test=oltp --oltp-read-only`, as the read pattern that the document describes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use larder_readahead::PolicyName;
use rand_pcg::Pcg64Mcg;

use super::machine::{Size, machine};
use crate::run_report::as_f64;
use crate::simulator::Error;
use crate::workload::sysbench::special_row;
use crate::workload::{Jobs, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
`sysbench --test=oltp --oltp-table-size=10000000 --oltp-read-only` on MySQL. The simulation has no \
MySQL. It uses the pattern of reads that the document describes, completed with the defaults of \
sysbench. Threads share 10,000, 5,000 or 2,000 transactions of 14 queries on one open file of 2.4 \
GB (ten million rows, 66 in each database page of 16 KiB). Ten queries read the page of one row: a \
random read of 4 pages. Four queries read a hundred rows: two or three consecutive database pages. \
Rows are chosen as sysbench does by default: three in four from the hundredth in the middle of the \
table, one in four as the mean of twelve random rows, so that some parts are read more often than \
others. Each query takes 100 µs in addition to its reads. Each run starts with an empty cache. The \
buffers of MySQL are not simulated.";

const ROWS: u64 = 10_000_000;
const ROWS_PER_PAGE: u64 = 66;
const PAGE_BYTES: u64 = 16 << 10;
const POINT_QUERIES: u32 = 10;
const RANGE_QUERIES: u32 = 4;
const RANGE_ROWS: u64 = 100;
const QUERY: Duration = Duration::from_micros(100);

/// Returns the transactions per second.
pub(super) fn measure(
    policy: PolicyName,
    size: Size,
    transactions: u32,
    threads: u32,
) -> Result<f64, Error> {
    let rows = size.of(ROWS);
    let transactions = size.of(u64::from(transactions));
    let mut machine = machine(policy, size)?;
    let open_files = machine.add_files(&[(rows / ROWS_PER_PAGE + 1) * PAGE_BYTES])?;
    let random = Rc::new(RefCell::new(size.random(3)));
    let left = Rc::new(Cell::new(transactions));
    let readers = (0..threads).map(|_| {
        let (random, left) = (Rc::clone(&random), Rc::clone(&left));
        let transactions = std::iter::from_fn(move || {
            left.set(left.get().checked_sub(1)?);
            Some(transaction(&mut random.borrow_mut(), rows))
        });
        ReaderJob::new(transactions.flatten())
    });
    let report = machine.run(Jobs::new(open_files, readers.collect()));
    Ok(as_f64(transactions) / report.elapsed.as_secs_f64())
}

/// Returns the operations of one transaction.
fn transaction(random: &mut Pcg64Mcg, rows: u64) -> Vec<Operation> {
    let mut operations = Vec::new();
    let queries = [1].repeat(POINT_QUERIES as usize);
    let ranges = [RANGE_ROWS].repeat(RANGE_QUERIES as usize);
    for row_count in queries.into_iter().chain(ranges) {
        let first = special_row(random, rows);
        let last = (first + row_count - 1).min(rows - 1);
        for page in first / ROWS_PER_PAGE..=last / ROWS_PER_PAGE {
            operations.push(Operation::read(0, page * PAGE_BYTES, PAGE_BYTES));
        }
        operations.push(Operation::Think(QUERY));
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> Size {
        Size {
            divisor: 1,
            seed: 1,
        }
    }

    #[test]
    fn three_in_four_rows_are_special_and_all_are_in_the_table() {
        let mut random = size().random(3);
        let rows: Vec<u64> = (0..10_000)
            .map(|_| special_row(&mut random, ROWS))
            .collect();
        let special = rows
            .iter()
            .filter(|row| (4_950_000..5_050_000).contains(*row))
            .count();
        assert!((7400..8200).contains(&special), "{special}");
        assert!(rows.iter().all(|row| *row < ROWS));
    }

    #[test]
    fn transaction_reads_single_pages_and_short_runs() {
        let operations = transaction(&mut size().random(3), ROWS);
        let reads = operations
            .iter()
            .filter(|o| matches!(o, Operation::Read { .. }))
            .count();
        assert!((18..=22).contains(&reads), "{reads}");
        assert_eq!(operations.len() - reads, 14);
    }

    #[test]
    fn table_of_few_rows_is_supported() {
        let mut random = size().random(3);
        for rows in 1..200 {
            assert!(special_row(&mut random, rows) < rows);
            transaction(&mut random, rows);
        }
    }
}
