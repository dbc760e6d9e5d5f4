//! Reads a trace, of Larder or of another program, as a workload.
//!
//! # Model
//! Each lookup becomes an access, whether it hit in the recorded cache or not. An insertion is ignored: a page that
//! was read ahead is first accessed when a program reads it. A removal is a step of the workload, but an eviction is
//! ignored. Recordings of the kernel, and those of version 1, do not distinguish removals from evictions. So the
//! recorded cache must have had room for all objects, or [`Loading::ignores_removals`] must be set.
//!
//! # Cost
//! The steps of an import are added to the workload while the file is read. The lookups and removals of a recording are sorted
//! by time in memory, 48 bytes each. A workload has a limited size ([`WorkloadLimits`]), because a short file can describe
//! many accesses.

use super::Error;
use super::workload::{TraceOrigin, Workload, WorkloadBuilder, WorkloadLimits};
use crate::trace::import::{decompressed, detect, head, import};
use crate::trace::{Losses, Tolerance, TraceReader};
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

/// How a trace is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// The caches whose lookups are accesses. If empty: pages and buffers, which share the frames; for a trace that
    /// has neither, all caches.
    pub caches: Vec<CacheKind>,
    /// Whether removals are ignored.
    pub ignores_removals: bool,
}

/// The key of an object: its cache, its device, and its key in this cache.
type Key = (CacheKind, u32, HashKey);

/// Reads the trace at `path`, in Larder's format or in a format that can be imported. A file that is compressed with
/// gzip or zstd is decompressed.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large, or has no lookups in the requested caches.
pub fn load(path: &Path, loading: &Loading) -> Result<Workload, Error> {
    load_within(path, loading, WorkloadLimits::DEFAULT)
}

fn load_within(path: &Path, loading: &Loading, limits: WorkloadLimits) -> Result<Workload, Error> {
    let failed = |source: crate::trace::Error| Error::Trace {
        path: path.to_owned(),
        source,
    };
    let sha256 = checksum(path).map_err(|error| failed(error.into()))?;
    let mut collector = Collector::new(loading, limits);
    let read = read(path, &mut collector);
    if collector.is_too_large {
        return Err(Error::TooLarge {
            path: path.to_owned(),
            steps: limits.steps,
            objects: limits.objects,
        });
    }
    let Some((format, losses)) = read.map_err(failed)? else {
        return Err(Error::UnknownFormat(path.to_owned()));
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    let workload = collector.builder.finish(TraceOrigin {
        name: name.to_string_lossy().into_owned(),
        format,
        sha256,
        losses,
    });
    if workload.accesses == 0 {
        let names: Vec<_> = collector
            .caches
            .iter()
            .map(|cache| cache.as_str())
            .collect();
        return Err(Error::NoLookups {
            path: path.to_owned(),
            caches: names.join(", "),
        });
    }
    Ok(workload)
}

/// Collects the steps of the caches whose lookups are accesses.
struct Collector<'l> {
    loading: &'l Loading,
    limits: WorkloadLimits,
    caches: Vec<CacheKind>,
    builder: WorkloadBuilder<Key>,
    is_too_large: bool,
}

impl<'l> Collector<'l> {
    fn new(loading: &'l Loading, limits: WorkloadLimits) -> Self {
        let caches = match &loading.caches[..] {
            [] => &CacheKind::ALL[..],
            caches => caches,
        };
        Self {
            loading,
            limits,
            caches: caches.to_vec(),
            builder: WorkloadBuilder::with_limits(limits),
            is_too_large: false,
        }
    }

    /// Adds an event. Returns an error if the workload would be too large.
    fn add(&mut self, event: &TraceEvent) -> io::Result<()> {
        const FRAMES: [CacheKind; 2] = [CacheKind::Page, CacheKind::Buffer];
        let is_lookup = matches!(event.operation, Operation::Lookup { .. });
        let is_default = self.loading.caches.is_empty() && self.caches != FRAMES;
        if is_default && is_lookup && FRAMES.contains(&event.cache) {
            // In a trace with lookups of pages or buffers, other caches do not count. Their steps are discarded.
            self.caches = FRAMES.to_vec();
            self.builder = WorkloadBuilder::with_limits(self.limits);
        }
        if !self.caches.contains(&event.cache) {
            return Ok(());
        }
        let is_added = match event.operation {
            Operation::Lookup { .. } => self.builder.access(key(event)),
            Operation::Remove if !self.loading.ignores_removals => self.builder.remove(&key(event)),
            _ => true,
        };
        self.check(is_added)
    }

    fn check(&mut self, is_small_enough: bool) -> io::Result<()> {
        self.is_too_large |= !is_small_enough;
        if is_small_enough {
            Ok(())
        } else {
            Err(io::ErrorKind::FileTooLarge.into())
        }
    }
}

fn key(event: &TraceEvent) -> Key {
    (event.cache, event.device, event.key())
}

/// Adds the events of a file in the order of their times, and returns the name of its format and the losses. Returns
/// `None` if the format is not known.
fn read(
    path: &Path,
    collector: &mut Collector<'_>,
) -> Result<Option<(String, Losses)>, crate::trace::Error> {
    const PARQUET: &[u8] = b"PAR1";
    let file = File::open(path)?;
    let reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut reader = decompressed(reader)?;
    let head = head(&mut reader)?;
    if head.starts_with(PARQUET) {
        let losses = read_recorded(path, collector)?;
        return Ok(Some(("larder".to_owned(), losses)));
    }
    let Some(format) = detect(&head) else {
        return Ok(None);
    };
    import(
        format,
        None,
        reader,
        &mut |event| Ok(collector.add(&event)?),
    )?;
    Ok(Some((format.to_string(), Losses::default())))
}

/// Adds the events of a trace in Larder's format.
fn read_recorded(
    path: &Path,
    collector: &mut Collector<'_>,
) -> Result<Losses, crate::trace::Error> {
    let mut reader = TraceReader::open(path, Tolerance::Whole)?;
    let mut batch = Batch::default();
    let mut events: Vec<TraceEvent> = Vec::new();
    let is_step = |event: &TraceEvent| {
        matches!(
            event.operation,
            Operation::Lookup { .. } | Operation::Remove
        )
    };
    while reader.read(&mut batch)? {
        events.extend(batch.events().filter(is_step));
        collector.check(events.len() <= collector.limits.steps)?;
    }
    // The threads of a mount write their events in blocks, so the events of different threads are not in order.
    events.sort_by_key(|event| event.time_ns);
    for event in &events {
        collector.add(event)?;
    }
    Ok(reader.losses())
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WorkloadLimits = WorkloadLimits {
        steps: 1000,
        objects: 100,
    };

    fn loaded(content: &str) -> Result<Workload, Error> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        load_within(file.path(), &Loading::default(), LIMITS)
    }

    #[test]
    fn short_file_with_too_many_accesses_or_objects_is_refused() {
        // Each line is a request of the traces of ARC: the first block and the number of blocks.
        let workload = loaded(&"0 100 0 0\n".repeat(10)).unwrap();
        assert_eq!((workload.accesses, workload.objects), (1000, 100));
        for content in [
            "0 100 0 0\n".repeat(11),
            "0 101 0 0\n".to_owned(),
            "0 524288 0 0\n".repeat(500),
        ] {
            let error = loaded(&content).unwrap_err();
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("more than 1000 accesses or more than 100 objects"),
                "{text}"
            );
        }
    }
}
