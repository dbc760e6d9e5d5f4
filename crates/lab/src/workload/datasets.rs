//! Workloads with many records or many files, each read completely.

use std::cell::RefCell;
use std::rc::Rc;

use super::chance::{Permutation, mix};
use super::kind::{BYTES, COUNT, JobContext, Kind};
use super::parameters::Parameters;
use super::sysbench::drawn;
use super::{Jobs, Operation, ReaderJob};

/// The workloads of this file.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "ml-epoch",
        about: "training workers that read a file of records of 100 to 200 KiB; each epoch reads \
                all records in a different random order",
        parameters: &[
            BYTES
                .named("file", 8 << 30, "size of the file")
                .within(RECORD_BYTES, 1 << 40),
            COUNT
                .named(
                    "workers",
                    8,
                    "number of threads, each of which reads the next record",
                )
                .within(1, 4096),
            COUNT
                .named("epochs", 1, "number of times that each record is read")
                .within(1, 1000),
        ],
        file_sizes: |values| vec![values.get("file")],
        jobs: ml_epoch,
    },
    Kind {
        name: "tar",
        about: "one reader of many files, one after the other",
        parameters: &[
            COUNT
                .named("files", 1000, "number of files")
                .within(1, 1_000_000),
            BYTES
                .named("size", 64 << 10, "mean size of a file; most are smaller")
                .within(1, 1 << 30),
            BYTES
                .named("request", 10 << 10, "size of a request")
                .within(1, 64 << 20),
        ],
        // Independent of the seed of the run: all runs have the same files.
        file_sizes: |values| {
            (0..values.get("files"))
                .map(|file| tar_size(values, file))
                .collect()
        },
        jobs: tar,
    },
];

/// Mean size of a record.
const RECORD_BYTES: u64 = 150 << 10;
/// Each record starts less than this number of bytes after its evenly spaced position. A record is
/// therefore longer or shorter than the mean by less than this number.
const SHIFT_BYTES: u64 = 50 << 10;

/// Returns the offset of record `number`.
fn record_start(number: u64) -> u64 {
    if number == 0 {
        return 0;
    }
    number * RECORD_BYTES + mix(number) % SHIFT_BYTES
}

fn ml_epoch(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let file_bytes = values.get("file");
    let records = file_bytes.div_ceil(RECORD_BYTES);
    let seed = context.seed;
    let operations = (0..values.get("epochs")).flat_map(move |epoch| {
        let order = Permutation::new(records, mix(seed ^ mix(epoch)));
        (0..records).map(move |place| {
            let record = order.at(place);
            let start = record_start(record);
            Operation::read(0, start, record_start(record + 1) - start)
        })
    });
    let source = Rc::new(RefCell::new(operations));
    let workers = (0..values.get("workers")).map(|_| ReaderJob::new(drawn(&source)));
    context.jobs(1, workers.collect())
}

/// Returns the size of a file: half of the files have up to half the mean, a quarter up to the
/// mean, the others up to four and a half times the mean.
fn tar_size(values: &Parameters, file: u64) -> u64 {
    let mean_bytes = values.get("size");
    let chance = mix(file ^ 0x7461_7266_696c_6573);
    let (least, most) = match chance % 4 {
        0 | 1 => (0, 1),
        2 => (1, 2),
        _ => (2, 9),
    };
    let (least, most) = (mean_bytes * least / 2, mean_bytes * most / 2);
    least + 1 + mix(chance) % (most - least).max(1)
}

fn tar(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let request_bytes = values.get("request");
    let sizes: Vec<u64> = (0..values.get("files"))
        .map(|file| tar_size(values, file))
        .collect();
    let operations = (0..).zip(sizes).flat_map(move |(file, size_bytes)| {
        (0..size_bytes.div_ceil(request_bytes)).map(move |request| {
            let offset_bytes = request * request_bytes;
            Operation::read(
                file,
                offset_bytes,
                request_bytes.min(size_bytes - offset_bytes),
            )
        })
    });
    Jobs::new(context.files.to_vec(), vec![ReaderJob::new(operations)])
}
