//! Writes a trace of all caches with a given length, to measure how long `larder lab advise` takes.
//!
//! `cargo run --release -p larder-lab --example advise_trace -- FILE EVENTS OBJECTS`
//!
//! Half of the lookups are runs of pages of random files, the others are names, inodes and blocks. Popular files
//! are read more often: the popularity of the files is distributed as in Zipf's law. There are up to `OBJECTS`
//! different pages.

mod support;

use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Error;
use larder_trace::{TraceEvent, TraceInfo, TraceWriter};
use rand::SeedableRng;
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;
use std::path::Path;
use std::process::ExitCode;

/// Number of pages of a file, which are read one after the other.
const FILE_PAGES: u64 = 16;

fn main() -> ExitCode {
    support::run("advise_trace", write)
}

fn write(path: &Path, events: u64, objects: u64) -> Result<(), Error> {
    let info = TraceInfo {
        source: format!("{events} generated events of {objects} pages"),
        ..TraceInfo::default()
    };
    let mut writer = TraceWriter::create(path, &info)?;
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let files = u32::try_from(objects / FILE_PAGES)
        .unwrap_or(u32::MAX)
        .max(1);
    let Ok(popularity) = Zipf::new(f64::from(files), 0.8) else {
        return Ok(writer.finish()?);
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank"
    )]
    let runs = (0_u64..).flat_map(|_| {
        let file = popularity.sample(&mut random) as u64;
        let names = [
            (CacheKind::Dentry, file, 0),
            (CacheKind::Inode, file, 0),
            (CacheKind::Buffer, file / 16, 0),
        ];
        let pages = (0..FILE_PAGES).map(move |page| (CacheKind::Page, file, page));
        names
            .into_iter()
            .cycle()
            .take(FILE_PAGES as usize)
            .chain(pages)
    });
    for (number, (cache, file, page)) in (0..events).zip(runs) {
        let (inode, index, name_hash) = match cache {
            CacheKind::Page => (file, page, 0),
            CacheKind::Buffer => (0, file, 0),
            CacheKind::Dentry => (0, file / 64, file),
            CacheKind::Inode => (file, 0, 0),
        };
        writer.push(&TraceEvent {
            time_ns: number * 10_000,
            cache,
            operation: Operation::Lookup { hit: false },
            device: 8 << 20 | 1,
            inode,
            index,
            name_hash,
        })?;
    }
    Ok(writer.finish()?)
}
