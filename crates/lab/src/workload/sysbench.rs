//! The workloads of sysbench: its file test, and the reads that `MySQL` issues for its transactions.
//!
//! `fileio` is `--file-test-mode=rndrw` with the defaults of sysbench 0.4: three reads for every two
//! writes, of random blocks of the whole set of files. Every file is flushed after every 100
//! requests, and again at the end. Its threads draw from one sequence and share the descriptors.
//!
//! `oltp` is `--test=oltp --oltp-read-only` as seen by the underlying file. A transaction looks up 10 rows
//! and 4 ranges of 100 rows. Rows are stored in the order of their ids on pages of 16 KiB. A range that
//! does not end on its first page continues on the next one, which is the second consecutive read that Wu
//! 2007 describes. Ids are drawn with sysbench's default distribution (`special`): three in four from the
//! middle hundredth of the table, the others from a bell curve over the whole table. Inner pages of the
//! index are omitted, because they are always cached. `MySQL`'s own buffer pool is omitted, because it is
//! small (8 MiB by default).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::chance::generator;
use super::kind::{BYTES, COUNT, JobContext, Kind, TIME};
use super::parameters::{ParameterInfo, Parameters};
use super::{Jobs, OpenFileId, Operation, ReaderJob};

const THREADS: ParameterInfo = COUNT
    .named(
        "threads",
        1,
        "number of threads, which share the open files",
    )
    .within(1, 4096);

/// The workloads of this file.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "fileio",
        about: "sysbench's fileio: random reads and writes in the ratio 3:2, and flushes",
        parameters: &[
            THREADS,
            COUNT.named("requests", 10_000, "total number of reads and writes"),
            BYTES
                .named("request", 64 << 10, "size of a request")
                .within(1, 64 << 20),
            BYTES.named("total", 4 << 30, "total size of the files"),
            COUNT
                .named("files", 128, "number of files")
                .within(1, 65536),
            COUNT
                .named(
                    "flush",
                    100,
                    "number of requests between two flushes of all files; 0 = never",
                )
                .within(0, 1_000_000_000),
        ],
        file_sizes: |values| {
            let size_bytes = file_bytes(values);
            (0..values.get("files")).map(|_| size_bytes).collect()
        },
        jobs: file_io,
    },
    Kind {
        name: "oltp",
        about: "sysbench's read-only transactions: random reads of 4 pages, some parts of the file \
                more often than others, sometimes two consecutive reads",
        parameters: &[
            THREADS,
            COUNT.named("transactions", 10_000, "total number of transactions"),
            BYTES
                .named("file", 2400 << 20, "size of the table")
                .within(1 << 20, 1 << 40),
            COUNT.named("rows", 10_000_000, "number of rows in the table"),
            COUNT
                .named("selects", 10, "number of row lookups in a transaction")
                .within(0, 1000),
            COUNT
                .named("ranges", 4, "number of range lookups in a transaction")
                .within(0, 1000),
            COUNT
                .named("range", 100, "number of rows in a range")
                .within(1, 1_000_000),
            TIME.named(
                "query",
                150_000,
                "time spent on each row or range in addition to reading",
            ),
        ],
        file_sizes: |values| vec![values.get("file")],
        jobs: oltp,
    },
];

/// Draws operations from a source that several readers share.
pub(super) fn drawn<S: Iterator<Item = Operation> + 'static>(
    source: &Rc<RefCell<S>>,
) -> impl Iterator<Item = Operation> + 'static {
    let source = Rc::clone(source);
    std::iter::from_fn(move || source.borrow_mut().next())
}

fn file_bytes(values: &Parameters) -> u64 {
    (values.get("total") / values.get("files")).max(1)
}

/// The sequence of requests of `fileio`.
struct FileIo {
    random: Pcg64Mcg,
    /// Number of blocks of a file, at least 1.
    file_blocks: u64,
    request_bytes: u64,
    files: u32,
    requests_left: u64,
    flush_every: u64,
    reads: u64,
    writes: u64,
    /// The next file to flush, while files are being flushed.
    flushing: Option<u32>,
    is_flushed: bool,
}

impl FileIo {
    /// Returns the flush of the next file, while files are being flushed.
    fn next_flush(&mut self) -> Option<Operation> {
        let file = self.flushing?;
        self.flushing = (file + 1 < self.files).then_some(file + 1);
        Some(Operation::Flush {
            file: OpenFileId(file),
        })
    }
}

impl Iterator for FileIo {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if let Some(flush) = self.next_flush() {
            return Some(flush);
        }
        if self.requests_left == 0 {
            if self.is_flushed || self.flush_every == 0 {
                return None;
            }
            self.is_flushed = true;
            self.flushing = Some(0);
            return self.next_flush();
        }
        self.requests_left -= 1;
        let file = self.random.random_range(0..self.files);
        let offset_bytes = self.random.random_range(0..self.file_blocks) * self.request_bytes;
        let len_bytes = self.request_bytes;
        // The closest approximation to three reads in five requests.
        let is_read = self.reads * 2 <= self.writes * 3;
        if is_read {
            self.reads += 1;
        } else {
            self.writes += 1;
        }
        let done = self.reads + self.writes;
        if self.flush_every > 0 && done.is_multiple_of(self.flush_every) && self.requests_left > 0 {
            self.flushing = Some(0);
        }
        Some(if is_read {
            Operation::read(file, offset_bytes, len_bytes)
        } else {
            Operation::write(file, offset_bytes, len_bytes)
        })
    }
}

fn file_io(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let request_bytes = values.get("request");
    let source = Rc::new(RefCell::new(FileIo {
        random: generator(context.seed, 0),
        file_blocks: (file_bytes(values) / request_bytes).max(1),
        request_bytes,
        files: u32::try_from(values.get("files")).unwrap_or(u32::MAX),
        requests_left: values.get("requests"),
        flush_every: values.get("flush"),
        reads: 0,
        writes: 0,
        flushing: None,
        is_flushed: false,
    }));
    let readers = (0..values.get("threads")).map(|_| ReaderJob::new(drawn(&source)));
    Jobs::new(context.files.to_vec(), readers.collect())
}

/// Returns a row below `rows`, drawn from sysbench's `special` distribution.
pub(crate) fn special_row(random: &mut impl Rng, rows: u64) -> u64 {
    /// In percent: the probability that a row is in the hot part, and the size of that part.
    const HOT_SHARE_PCT: u32 = 75;
    const HOT_PART_PCT: u64 = 1;
    /// Number of random numbers whose mean forms the bell curve.
    const TERMS: u64 = 12;
    if random.random_range(0..100) < HOT_SHARE_PCT {
        let hot_rows = (rows * HOT_PART_PCT / 100).max(1);
        return (rows - hot_rows) / 2 + random.random_range(0..hot_rows);
    }
    let sum: u64 = (0..TERMS).map(|_| random.random_range(0..rows)).sum();
    sum / TERMS
}

/// Size of a page of `InnoDB`.
const DATABASE_PAGE_BYTES: u64 = 16 << 10;

/// The layout of a table, and the distribution of its requested rows.
#[derive(Clone, Copy)]
struct Table {
    file_bytes: u64,
    rows: u64,
}

impl Table {
    /// Returns the database page that contains the start of a row.
    fn page_of(self, row: u64) -> u64 {
        let offset = u128::from(row.min(self.rows - 1)) * u128::from(self.file_bytes)
            / u128::from(self.rows);
        u64::try_from(offset).unwrap_or(u64::MAX) / DATABASE_PAGE_BYTES
    }

    /// Reads the pages of `rows` rows starting with `first`, one after the other.
    fn read(self, first: u64, rows: u64) -> impl Iterator<Item = Operation> {
        let pages = self.page_of(first)..=self.page_of(first + rows - 1);
        pages.map(|page| Operation::read(0, page * DATABASE_PAGE_BYTES, DATABASE_PAGE_BYTES))
    }
}

fn oltp(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let table = Table {
        file_bytes: values.get("file"),
        rows: values.get("rows"),
    };
    let think = Operation::Think(Duration::from_nanos(values.get("query")));
    let (selects, range_rows) = (values.get("selects"), values.get("range"));
    let queries = selects + values.get("ranges");
    let transactions_left = Rc::new(RefCell::new(values.get("transactions")));
    let readers = (0..values.get("threads")).map(|number| {
        let mut random = generator(context.seed, number);
        let transactions_left = Rc::clone(&transactions_left);
        let transactions = std::iter::from_fn(move || {
            let mut left = transactions_left.borrow_mut();
            *left = left.checked_sub(1)?;
            Some(0..queries)
        });
        // One read at a time: a range may cover all of a large table.
        ReaderJob::new(transactions.flatten().flat_map(move |query| {
            let rows = if query < selects { 1 } else { range_rows };
            let first = special_row(&mut random, table.rows);
            table.read(first, rows).chain([think])
        }))
    });
    context.jobs(1, readers.collect())
}
