//! A trace that a command writes.

use larder::CacheKind;
use larder_console::{Failure, Result};
use larder_lab::trace::Error;
use larder_trace::{FilePath, FileRead, TraceEvent, TraceInfo, TraceWriter};
use serde::{Serialize, Serializer};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A trace that is being written, and its number of rows.
#[derive(Debug)]
pub(super) struct TraceOutput {
    writer: TraceWriter,
    rows: Rows,
}

/// Number of rows of each cache, and of reads of files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rows {
    caches: [u64; CacheKind::ALL.len()],
    reads: u64,
}

impl TraceOutput {
    /// Creates the trace at `path`, which is the value of `option`.
    pub(super) fn create(option: &str, path: &Path, info: &TraceInfo) -> Result<Self> {
        let writer = TraceWriter::create(path, info)
            .map_err(|error| creation_failure(option, path, &error.into()))?;
        Ok(Self {
            writer,
            rows: Rows::default(),
        })
    }

    pub(super) fn push(&mut self, event: &TraceEvent) -> Result<(), Error> {
        self.rows.caches[event.cache as usize] += 1;
        Ok(self.writer.push(event)?)
    }

    pub(super) fn push_read(&mut self, read: &FileRead) -> Result<(), Error> {
        self.rows.reads += 1;
        Ok(self.writer.push_read(read)?)
    }

    pub(super) fn push_path(&mut self, path: &FilePath) -> Result<(), Error> {
        Ok(self.writer.push_path(path)?)
    }

    /// Makes the rows readable for other processes, a few seconds after they were added.
    pub(super) fn end_pass(&mut self) -> Result<(), Error> {
        Ok(self.writer.write_aged_row_group()?)
    }

    /// Finishes the trace, with the number of `lost` events.
    pub(super) fn finish(mut self, lost: u64) -> Result<Rows, Error> {
        self.writer.info_mut().lost = lost;
        self.writer.finish()?;
        Ok(self.rows)
    }
}

impl Rows {
    pub(super) fn is_empty(self) -> bool {
        self.by_name().all(|(_, rows)| rows == 0)
    }

    fn by_name(self) -> impl Iterator<Item = (&'static str, u64)> {
        let caches = CacheKind::ALL.into_iter().zip(self.caches);
        let caches = caches.map(|(cache, rows)| (cache.as_str(), rows));
        caches.chain([("read", self.reads)])
    }

    /// Formats the numbers for people as `page 12, …`, without caches that have no rows.
    pub(super) fn to_text(self) -> String {
        let some = self.by_name().filter(|(_, rows)| *rows > 0);
        let texts: Vec<String> = some.map(|(name, rows)| format!("{name} {rows}")).collect();
        if texts.is_empty() {
            "none".to_owned()
        } else {
            texts.join(", ")
        }
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_name())
    }
}

/// Returns the release of the running kernel.
pub(super) fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Returns the present time as traces store it: in seconds since 1970.
pub(super) fn now_unix_s() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// Returns the failure for a file at `path`, the value of `option`, that cannot be created.
pub(super) fn creation_failure(option: &str, path: &Path, error: &Error) -> Failure {
    let message = format!("cannot write {}: {error}", path.display());
    let exists = matches!(error, Error::Io(error) if error.kind() == io::ErrorKind::AlreadyExists);
    let hint = if exists {
        format!("{option} must name a new file: existing recordings are not overwritten")
    } else {
        format!("{option} must name a file in a writable directory")
    };
    Failure::with_hint(message, hint)
}
