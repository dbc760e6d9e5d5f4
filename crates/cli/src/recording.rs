//! Records the cache operations of a mount to a trace, for the option `--record`.

use larder::{MbCacheStats, OpenOptions, Stats};
use larder_console::{Failure, Result};
use larder_trace::{AttributeInfo, Error, MountInfo, TableInfo, TraceRecorder};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A guard for the trace file until the mount is served. Dropping the guard removes the file, which may
/// already contain events of the failed mount.
pub(crate) struct PendingFile(Option<PathBuf>);

impl PendingFile {
    /// Consumes the guard and keeps the file. This is called when the mount is served.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
}

/// The parameters of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordRequest {
    /// The trace.
    pub path: PathBuf,
    /// Whether the paths of files are recorded.
    pub with_paths: bool,
    /// The mount options that the trace stores.
    pub options: Vec<String>,
}

/// A recording in progress. Dropping it ends the recording; the trace contains all events recorded before.
pub(crate) struct Recording {
    path: PathBuf,
    recorder: TraceRecorder,
    /// The mount options that the trace stores.
    options: Vec<String>,
}

impl Recording {
    /// Starts a recording of the cache operations of `image`. Creates the trace file at `path`, which must not
    /// exist and must not be inside `mountpoint`.
    pub(crate) fn start(request: &RecordRequest, image: &Path, mountpoint: &Path) -> Result<Self> {
        let path = &request.path;
        // The path is made absolute because programs with other working directories, such as larder stats,
        // receive it.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if is_inside(&path, mountpoint) {
            return Err(Failure::with_hint(
                format!(
                    "{} would be inside the mount that it records",
                    path.display()
                ),
                "--record must name a new file outside the mount point",
            ));
        }
        let source = format!("mount of {}", image.display());
        // Events that cannot be written in time are lost, so that the mount never waits for the recording.
        let parameters = larder_trace::Recording {
            with_paths: request.with_paths,
            ..larder_trace::Recording::lossy()
        };
        match TraceRecorder::start(&path, &source, parameters) {
            Ok(recorder) => Ok(Self {
                path,
                recorder,
                options: request.options.clone(),
            }),
            Err(error) => Err(cannot_record(&path, &error)),
        }
    }

    /// Returns a guard that removes the trace file if the mount fails.
    pub(crate) fn pending_file(&self) -> PendingFile {
        PendingFile(Some(self.path.clone()))
    }

    /// Changes `options` so that the volume that is opened with them is recorded.
    pub(crate) fn attach(&self, options: &mut OpenOptions) {
        options.tape = Some(self.recorder.tape());
    }

    /// Writes the settings of the mount, and the hash function and the size of each recorded hash table to the trace.
    /// Omits caches with trees.
    pub(crate) fn describe(&self, stats: &Stats) {
        let tables = stats.caches().into_iter().filter(|(_, of)| of.buckets > 0);
        let described = tables.map(|(cache, of)| {
            let function = of.finder.to_string();
            let bits = of.buckets.ilog2();
            (cache, TableInfo { function, bits })
        });
        self.recorder.set_tables(described.collect());
        self.recorder.set_mount(MountInfo {
            options: self.options.clone(),
            cache_bytes: stats.cache_size_bytes,
            readahead: stats.readahead.policy.to_string(),
            readahead_max_bytes: stats.readahead.max_bytes,
        });
    }

    /// Ends the recording, and logs the number of recorded and lost events. `stats` are the statistics at the end of the
    /// mount, if they are known. If the recording failed before, returns the reason.
    pub(crate) fn finish(self, stats: Option<&Stats>) -> Option<String> {
        if let Some(attributes) = stats.and_then(|stats| stats.attributes) {
            let caches = [attributes.blocks, attributes.inodes];
            let sum = |count: fn(&MbCacheStats) -> u64| -> u64 { caches.iter().map(count).sum() };
            self.recorder.set_attributes(AttributeInfo {
                variant: attributes.variant.to_string(),
                lookups: sum(|cache| cache.lookups),
                hits: sum(|cache| cache.hits),
                shares: attributes.shares,
                evicted: sum(|cache| cache.dropped_by_limit + cache.dropped_by_shrinker),
            });
        }
        let Self { path, recorder, .. } = self;
        let (path, tape) = (path.display(), recorder.tape());
        let recorded = match recorder.finish() {
            Ok(recorded) => recorded,
            Err(error) => {
                let alarm = tape.stats().and_then(|stats| stats.alarm());
                return Some(alarm.unwrap_or_else(|| error.to_string()));
            }
        };
        tracing::info!("events recorded to {path}: {}", recorded.events);
        if recorded.lost > 0 {
            tracing::warn!(
                "events arrived faster than {path} could be written: {} lost, {} recorded",
                recorded.lost,
                recorded.events
            );
        }
        None
    }
}

/// Returns whether a new file at `path` would be inside `folder`.
fn is_inside(path: &Path, folder: &Path) -> bool {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    parent
        .zip(folder.canonicalize().ok())
        .is_some_and(|(parent, folder)| parent.starts_with(folder))
}

fn cannot_record(path: &Path, error: &Error) -> Failure {
    let message = format!("cannot record to {}: {error}", path.display());
    let hint = match error {
        Error::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            "--record must name a new file: existing files are not overwritten"
        }
        Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            "free space, or record to another disk"
        }
        _ => "--record must name a new file in a writable directory",
    };
    Failure::with_hint(message, hint)
}
