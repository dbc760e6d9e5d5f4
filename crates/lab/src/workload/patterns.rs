//! Workloads with one or a few readers on one file: sequential, backward, strided, random, written,
//! mapped.

use super::chance::{Permutation, mix};
use super::kind::{BYTES, COUNT, JobContext, Kind};
use super::parameters::{ParameterInfo, Parameters};
use super::{Jobs, OpenFileId, Operation, ReaderJob};
use crate::simulator::PAGE_BYTES;

const FILE: ParameterInfo = BYTES.named("file", 1 << 30, "size of the file");
const REQUEST: ParameterInfo = BYTES
    .named("request", 64 << 10, "size of a request")
    .within(1, 64 << 20);
const REQUESTS: ParameterInfo =
    COUNT.named("requests", 10_000, "number of requests of each thread");
const THREADS: ParameterInfo = COUNT
    .named(
        "threads",
        1,
        "number of threads, each with its own open file",
    )
    .within(1, 4096);

/// The workloads of this file.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "sequential",
        about: "one reader, from start to end",
        parameters: &[FILE, REQUEST],
        file_sizes: one_file,
        jobs: |values, context| {
            by_place(values, context, Operation::read, |place, records| {
                (place < records).then_some(place)
            })
        },
    },
    Kind {
        name: "reread",
        about: "one reader, from start to end, twice",
        parameters: &[FILE, REQUEST],
        file_sizes: one_file,
        jobs: |values, context| {
            by_place(values, context, Operation::read, |place, records| {
                (place < 2 * records).then(|| place % records)
            })
        },
    },
    Kind {
        name: "reverse",
        about: "one reader, from the last request to the first (iozone's reverse read)",
        parameters: &[FILE, REQUEST],
        file_sizes: one_file,
        jobs: |values, context| {
            by_place(values, context, Operation::read, |place, records| {
                (records - 1).checked_sub(place)
            })
        },
    },
    Kind {
        name: "stride",
        about: "one reader of every 17th request; each pass starts one request later, until all \
                are read (iozone's stride read)",
        parameters: &[
            FILE,
            REQUEST,
            COUNT
                .named("stride", 17, "distance between two reads, in requests")
                .within(1, 1 << 20),
            COUNT
                .named("passes", 1 << 20, "number of passes, at most the stride")
                .within(1, 1 << 20),
        ],
        file_sizes: one_file,
        jobs: stride,
    },
    Kind {
        name: "random",
        about: "readers in random order; no request is repeated before all are read",
        parameters: &[
            FILE,
            BYTES
                .named("request", 4 << 10, "size of a request")
                .within(1, 64 << 20),
            REQUESTS,
            THREADS,
        ],
        file_sizes: one_file,
        jobs: |values, context| random(values, context, |_| Operation::read),
    },
    Kind {
        name: "mixed",
        about: "threads in random order: every second one writes, the others read (iozone's mixed \
                workload; a single thread only reads)",
        parameters: &[FILE, REQUEST, REQUESTS, THREADS],
        file_sizes: one_file,
        jobs: |values, context| {
            random(values, context, |thread| match thread % 2 {
                0 => Operation::read,
                _ => Operation::write,
            })
        },
    },
    Kind {
        name: "seqwrite",
        about: "one writer, from start to end",
        parameters: &[FILE, REQUEST, FLUSH],
        file_sizes: one_file,
        jobs: |values, context| {
            flushed(
                values,
                by_place(values, context, Operation::write, |place, records| {
                    (place < records).then_some(place)
                }),
            )
        },
    },
    Kind {
        name: "rndwrite",
        about: "writers in random order; no request is repeated before all are written",
        parameters: &[FILE, REQUEST, REQUESTS, THREADS, FLUSH],
        file_sizes: one_file,
        jobs: |values, context| flushed(values, random(values, context, |_| Operation::write)),
    },
    Kind {
        name: "mmap",
        about: "one reader of a mapping; each access to a page is a fault",
        parameters: &[
            FILE,
            COUNT.named("faults", 100_000, "number of page faults"),
            COUNT
                .named("random", 1, "1 = random order, 0 = sequential order")
                .within(0, 1),
        ],
        file_sizes: one_file,
        jobs: mapped,
    },
];

const FLUSH: ParameterInfo = COUNT
    .named("flush", 0, "1 = each thread flushes the file at the end")
    .within(0, 1);

type MakeOperation = fn(u32, u64, u64) -> Operation;

fn one_file(values: &Parameters) -> Vec<u64> {
    vec![values.get("file")]
}

/// Returns the number of requests in the file. The last one may be short.
fn records(values: &Parameters) -> u64 {
    values.get("file").div_ceil(values.get("request"))
}

/// Creates one thread. It calls `record_at` for the places 0, 1, 2, ..., each with the number of
/// records, and requests the record that is returned. It ends when `record_at` returns `None`.
fn by_place(
    values: &Parameters,
    context: &JobContext<'_>,
    make: MakeOperation,
    record_at: impl Fn(u64, u64) -> Option<u64> + 'static,
) -> Jobs {
    let (request_bytes, records) = (values.get("request"), records(values));
    let operations = (0..)
        .map_while(move |place| record_at(place, records))
        .map(move |record| make(0, record * request_bytes, request_bytes));
    context.jobs(1, vec![ReaderJob::new(operations)])
}

fn stride(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let (request_bytes, records) = (values.get("request"), records(values));
    let stride = values.get("stride");
    let operations = (0..stride.min(values.get("passes")))
        .flat_map(move |first| (first..records).step_by(usize::try_from(stride).unwrap_or(1)))
        .map(move |record| Operation::read(0, record * request_bytes, request_bytes));
    context.jobs(1, vec![ReaderJob::new(operations)])
}

fn random(values: &Parameters, context: &JobContext<'_>, make: fn(u64) -> MakeOperation) -> Jobs {
    let (request_bytes, records) = (values.get("request"), records(values));
    let requests = values.get("requests");
    let threads = values.get("threads");
    let readers = (0..threads).zip(0..).map(|(number, open_file)| {
        let order = Permutation::new(records, mix(context.seed ^ mix(number)));
        let make = make(number);
        ReaderJob::new((0..requests).map(move |place| {
            let offset_bytes = order.at(place) * request_bytes;
            make(open_file, offset_bytes, request_bytes)
        }))
    });
    context.jobs(threads, readers.collect())
}

/// Appends a flush at the end of each thread, if requested.
fn flushed(values: &Parameters, jobs: Jobs) -> Jobs {
    if values.get("flush") == 0 {
        return jobs;
    }
    let readers = jobs.readers.into_iter().zip(0..).map(|(reader, number)| {
        let flush = Operation::Flush {
            file: OpenFileId(number),
        };
        ReaderJob {
            operations: Box::new(reader.operations.chain([flush])),
            ..reader
        }
    });
    Jobs {
        readers: readers.collect(),
        ..jobs
    }
}

fn mapped(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let pages = values.get("file").div_ceil(PAGE_BYTES);
    let order = Permutation::new(pages, context.seed);
    let is_random = values.get("random") == 1;
    let operations = (0..values.get("faults")).map(move |place| {
        let page = if is_random {
            order.at(place)
        } else {
            place % pages
        };
        Operation::Fault {
            file: OpenFileId(0),
            offset_bytes: page * PAGE_BYTES,
        }
    });
    context.jobs(1, vec![ReaderJob::new(operations)])
}
