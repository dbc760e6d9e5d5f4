//! Writes a trace of pages with a given length, to measure how long its replay takes.
//!
//! `cargo run --release -p larder-lab --example long_trace -- FILE EVENTS OBJECTS`
//!
//! Objects are inserted and read in runs, and occasionally one is removed and inserted again. There
//! are never more than `OBJECTS`, whatever the number of `EVENTS`.

mod support;

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Error;
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use std::process::ExitCode;

/// Number of pages of a file.
const FILE_PAGES: u64 = 256;

/// Number of consecutive pages in a run.
const RUN_PAGES: u64 = 16;

/// One run in this many begins with a page that is removed and inserted again.
const CHURN_EVERY: u64 = 8;

fn main() -> ExitCode {
    support::run("long_trace", write)
}

fn write(path: &Path, events: u64, objects: u64) -> Result<(), Error> {
    let info = TraceInfo {
        source: format!("{events} generated events of {objects} pages"),
        records_changes: true,
        ..TraceInfo::default()
    };
    let mut writer = TraceWriter::create(path, &info)?;
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let coming = (0..objects).map(|page| (page, Operation::Insert));
    let runs = (0_u64..).flat_map(|run| {
        let first = random.random_range(0..objects);
        let leaves = run % CHURN_EVERY == 0;
        let change = [Operation::Remove, Operation::Insert].map(|operation| (first, operation));
        let read = (first..objects.min(first + RUN_PAGES))
            .map(|page| (page, Operation::Lookup { hit: true }));
        change.into_iter().filter(move |_| leaves).chain(read)
    });
    let all = (0..events).zip(coming.chain(runs));
    for (number, (page, operation)) in all {
        writer.push(&TraceEvent {
            time_ns: number * 100,
            cache: CacheKind::Page,
            operation,
            device: 8 << 20 | 1,
            inode: 12 + page / FILE_PAGES,
            index: page % FILE_PAGES,
            name_hash: 0,
        })?;
    }
    Ok(writer.finish()?)
}
