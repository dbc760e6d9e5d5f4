//! Reads a trace, of Larder or of another program, as a workload.
//!
//! # Model
//! Each lookup becomes an access, whether it hit in the recorded cache or not. An insertion is ignored: a page that
//! was read ahead is first accessed when a program reads it. A removal becomes a removal, and an eviction is ignored.
//! Recordings of the kernel, and those of version 1, do not distinguish removals from evictions. So the recorded cache
//! must have had room for all objects, or [`Loading::ignores_removals`] must be set.

use super::Error;
use super::workload::{TraceOrigin, Workload, WorkloadBuilder};
use crate::trace::import::{decompressed, detect, head, import};
use crate::trace::{Tolerance, TraceReader};
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{Batch, TraceEvent};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

/// Size of a read in bytes.
const BUFFER_BYTES: usize = 1 << 18;

/// The maximum number of events of a trace, which are all in memory: 48 bytes each.
const MAX_EVENTS: usize = 1 << 28;

/// How a trace is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// The caches whose lookups are accesses. If empty: pages and buffers, which share the frames; for a trace that
    /// has neither, all caches.
    pub caches: Vec<CacheKind>,
    /// Whether removals are ignored.
    pub ignores_removals: bool,
}

/// The key of an object: of one kind of cache on one device.
type Key = (CacheKind, u32, HashKey);

/// Reads the trace at `path`, in Larder's format or in a format that can be imported. A file that gzip or zstd
/// compressed is decompressed.
///
/// # Errors
/// Returns an error if the file cannot be read, or has no lookups in the requested caches.
pub fn load(path: &Path, loading: &Loading) -> Result<Workload, Error> {
    let failed = |source: crate::trace::Error| Error::Trace {
        path: path.to_owned(),
        source,
    };
    let sha256 = checksum(path).map_err(|error| failed(error.into()))?;
    let Some((format, events)) = read(path).map_err(failed)? else {
        return Err(Error::UnknownFormat(path.to_owned()));
    };
    let has = |cache: CacheKind| {
        events
            .iter()
            .any(|event| is_lookup(event) && event.cache == cache)
    };
    let caches = match &loading.caches[..] {
        [] if has(CacheKind::Page) || has(CacheKind::Buffer) => {
            vec![CacheKind::Page, CacheKind::Buffer]
        }
        [] => CacheKind::ALL.to_vec(),
        caches => caches.to_vec(),
    };
    let mut builder = WorkloadBuilder::default();
    for event in events.iter().filter(|event| caches.contains(&event.cache)) {
        match event.operation {
            Operation::Lookup { .. } if !builder.access(key(event)) => {
                return Err(Error::TooLong(path.to_owned()));
            }
            Operation::Remove if !loading.ignores_removals => builder.remove(&key(event)),
            _ => {}
        }
    }
    let name = path.file_name().unwrap_or(path.as_os_str());
    let workload = builder.finish(TraceOrigin {
        name: name.to_string_lossy().into_owned(),
        format,
        sha256,
    });
    if workload.accesses == 0 {
        let names: Vec<_> = caches.iter().map(|cache| cache.as_str()).collect();
        return Err(Error::NoLookups {
            path: path.to_owned(),
            caches: names.join(", "),
        });
    }
    Ok(workload)
}

fn is_lookup(event: &TraceEvent) -> bool {
    matches!(event.operation, Operation::Lookup { .. })
}

fn key(event: &TraceEvent) -> Key {
    (event.cache, event.device, event.key())
}

/// Reads the events of a file in the order of their times, and returns the name of its format. Returns `None` if the
/// format is not known.
fn read(path: &Path) -> Result<Option<(String, Vec<TraceEvent>)>, crate::trace::Error> {
    const PARQUET: &[u8] = b"PAR1";
    let file = File::open(path)?;
    let reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut reader = decompressed(reader)?;
    let head = head(&mut reader)?;
    let mut events = Vec::new();
    if head.starts_with(PARQUET) {
        let mut reader = TraceReader::open(path, Tolerance::Whole)?;
        let mut batch = Batch::default();
        while reader.read(&mut batch)? {
            events.extend(batch.events());
            check_length(&events)?;
        }
        // The threads of a mount write their events in blocks.
        events.sort_by_key(|event| event.time_ns);
        return Ok(Some(("larder".to_owned(), events)));
    }
    let Some(format) = detect(&head) else {
        return Ok(None);
    };
    import(format, None, reader, &mut |event| {
        events.push(event);
        check_length(&events)?;
        Ok(())
    })?;
    Ok(Some((format.to_string(), events)))
}

fn check_length(events: &[TraceEvent]) -> io::Result<()> {
    if events.len() > MAX_EVENTS {
        let what = format!("the trace has more than {MAX_EVENTS} events");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(())
}

/// Returns the SHA-256 of a file, in hexadecimal digits.
fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Sha256::new();
    let mut bytes = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut bytes)? {
            0 => break,
            len => sum.update(&bytes[..len]),
        }
    }
    Ok(sum.finalize().iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
