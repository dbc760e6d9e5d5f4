//! The recording of a mount: `--record`.

use larder::{OpenOptions, Stats};
use larder_console::{Failure, Result};
use larder_trace::{Error, Overflow, TableInfo, TraceRecorder};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file of a recording whose mount is not served yet. It is empty, and removed when this is
/// dropped.
pub(crate) struct PendingFile(Option<PathBuf>);

impl PendingFile {
    /// Keeps the file, because the mount is served.
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

/// A recording in progress. When it is dropped, the trace contains what was recorded until then.
pub(crate) struct Recording {
    path: PathBuf,
    recorder: TraceRecorder,
}

impl Recording {
    /// Starts to record the cache operations of `image` to a new file at `path`, which must not be
    /// inside `mountpoint`.
    pub(crate) fn start(path: &Path, image: &Path, mountpoint: &Path) -> Result<Self> {
        // Programs with other working directories receive this path.
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
        // A mount continues even if its recording fails.
        match TraceRecorder::start(&path, &source, Overflow::Lose) {
            Ok(recorder) => Ok(Self { path, recorder }),
            Err(error) => Err(cannot_record(&path, &error)),
        }
    }

    /// Returns a guard for the file until the mount is served.
    pub(crate) fn pending_file(&self) -> PendingFile {
        PendingFile(Some(self.path.clone()))
    }

    /// Records a volume that is opened with `options`.
    pub(crate) fn attach(&self, options: &mut OpenOptions) {
        options.tape = Some(self.recorder.tape());
    }

    /// Writes the description of the recorded tables to the trace. Trees are not hash tables, so they
    /// are left out.
    pub(crate) fn describe(&self, stats: &Stats) {
        let tables = stats.caches().into_iter().filter(|(_, of)| of.buckets > 0);
        let described = tables.map(|(cache, of)| {
            let function = of.finder.to_string();
            let bits = of.buckets.ilog2();
            (cache, TableInfo { function, bits })
        });
        self.recorder.set_tables(described.collect());
    }

    /// Ends the recording, and reports lost events. Returns the reason if it had ended early.
    pub(crate) fn finish(self) -> Option<String> {
        let Self { path, recorder } = self;
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
