//! Workloads with many concurrent sequential readers.

use std::time::Duration;

use super::kind::{BYTES, COUNT, JobContext, Kind, TIME};
use super::parameters::{ParameterInfo, Parameters};
use super::{Jobs, Operation, ReaderJob};
use crate::simulator::PAGE_BYTES;

const STREAMS: ParameterInfo = COUNT
    .named("streams", 64, "number of sequential readers")
    .within(1, 16384);
const REQUEST: ParameterInfo = BYTES
    .named("request", 64 << 10, "size of a request")
    .within(1, 64 << 20);
const FILE: ParameterInfo = BYTES.named("file", 1 << 30, "size of the file");
const SHARED_FILE: ParameterInfo = FILE.page_for_each("streams");

/// The workloads of this file.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "interleaved",
        about: "readers of one file; each one reads its own part sequentially through its own open \
                file",
        parameters: &[STREAMS, REQUEST, SHARED_FILE],
        file_sizes: |values| vec![values.get("file")],
        jobs: |values, context| interleaved(values, context, false),
    },
    Kind {
        name: "shared",
        about: "as interleaved, but through one open file, whose readahead state they share",
        parameters: &[STREAMS, REQUEST, SHARED_FILE],
        file_sizes: |values| vec![values.get("file")],
        jobs: |values, context| interleaved(values, context, true),
    },
    Kind {
        name: "cursors",
        about: "one reader, which visits positions in one open file in turn; each visit reads on \
                sequentially from the end of the last visit to this position",
        parameters: &[
            COUNT
                .named("cursors", 16, "number of positions")
                .within(1, 16384),
            BYTES
                .named("visit", 1 << 20, "bytes that a visit reads")
                .within(1, 1 << 30),
            BYTES
                .named("request", 128 << 10, "size of a request")
                .within(1, 64 << 20),
            FILE.page_for_each("cursors"),
        ],
        file_sizes: |values| vec![values.get("file")],
        jobs: cursors,
    },
    Kind {
        name: "streams",
        about: "readers of separate files at a limited rate, which start one after the other; all \
                stop one stagger after the last start (they thrash if memory is too small)",
        parameters: &[
            STREAMS.named("streams", 200, "number of readers at the end"),
            BYTES.named(
                "rate",
                100 << 10,
                "rate of each reader in bytes per second, if the device can deliver it",
            ),
            REQUEST.named("request", 4 << 10, "size of a request"),
            TIME.named(
                "stagger",
                1_000_000_000,
                "time between the starts of two readers",
            ),
            FILE.named(
                "file",
                32 << 20,
                "size of each file, which is read again from its start after its end",
            ),
        ],
        file_sizes: |values| {
            (0..values.get("streams"))
                .map(|_| values.get("file"))
                .collect()
        },
        jobs: paced,
    },
];

/// Returns the requests of one reader, of `len_bytes` from `start_bytes`.
fn requests(
    file: u32,
    start_bytes: u64,
    len_bytes: u64,
    request_bytes: u64,
) -> impl Iterator<Item = Operation> + Clone + 'static {
    (0..len_bytes.div_ceil(request_bytes)).map(move |number| {
        let at_bytes = number * request_bytes;
        let len_bytes = request_bytes.min(len_bytes - at_bytes);
        Operation::read(file, start_bytes + at_bytes, len_bytes)
    })
}

fn interleaved(values: &Parameters, context: &JobContext<'_>, is_shared: bool) -> Jobs {
    let (streams, file_bytes) = (values.get("streams"), values.get("file"));
    // Each reader has whole pages; the last one reads the remainder.
    let part_bytes = (file_bytes / streams).next_multiple_of(PAGE_BYTES);
    let readers = (0..streams).zip(0..).map(|(number, open_file)| {
        let start_bytes = (number * part_bytes).min(file_bytes);
        let end_bytes = (start_bytes + part_bytes).min(file_bytes);
        ReaderJob::new(requests(
            if is_shared { 0 } else { open_file },
            start_bytes,
            end_bytes - start_bytes,
            values.get("request"),
        ))
    });
    context.jobs(if is_shared { 1 } else { streams }, readers.collect())
}

fn cursors(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let (cursors, file_bytes) = (values.get("cursors"), values.get("file"));
    let (visit_bytes, request_bytes) = (values.get("visit"), values.get("request"));
    let part_bytes = (file_bytes / cursors).next_multiple_of(PAGE_BYTES);
    let operations = (0..part_bytes.div_ceil(visit_bytes)).flat_map(move |visit| {
        (0..cursors).flat_map(move |cursor| {
            let part_start_bytes = (cursor * part_bytes).min(file_bytes);
            let part_end_bytes = (part_start_bytes + part_bytes).min(file_bytes);
            let start_bytes = (part_start_bytes + visit * visit_bytes).min(part_end_bytes);
            let end_bytes = (start_bytes + visit_bytes).min(part_end_bytes);
            requests(0, start_bytes, end_bytes - start_bytes, request_bytes)
        })
    });
    context.jobs(1, vec![ReaderJob::new(operations)])
}

fn paced(values: &Parameters, context: &JobContext<'_>) -> Jobs {
    let (request_bytes, rate_bytes) = (values.get("request"), values.get("rate"));
    let interval_ns = u128::from(request_bytes) * 1_000_000_000 / u128::from(rate_bytes);
    let interval = Duration::from_nanos(u64::try_from(interval_ns).unwrap_or(u64::MAX));
    let stagger = Duration::from_nanos(values.get("stagger"));
    let readers = (0..).zip(context.files).map(|(number, _)| ReaderJob {
        start: stagger * number,
        interval,
        operations: Box::new(requests(number, 0, values.get("file"), request_bytes).cycle()),
    });
    let readers: Vec<_> = readers.collect();
    let count = u32::try_from(readers.len()).unwrap_or(u32::MAX);
    Jobs {
        open_files: context.files.to_vec(),
        readers,
        stop_after: Some((stagger * count).max(Duration::from_secs(1))),
    }
}
