//! Reads a trace in batches.
//!
//! # Traces that are being recorded
//! A recorder holds a lock on its file until the trace is complete. If the lock is held and the footer is missing, the
//! reader reads the row groups that are complete when it opens the file. These do not change any more.

use super::columns::Columns;
use super::footer::Footer;
use super::row_group::{RowGroup, Rows};
use super::{Error, Losses, checkpoint, footer};
use crate::output::counted;
use larder_trace::footer::MAGIC;
use larder_trace::{Batch, TraceInfo};
use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// How a reader handles an incomplete or damaged trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tolerance {
    /// An incomplete or damaged trace is an error.
    Whole,
    /// The trace is read up to its first damaged or missing row group.
    UpToLastRowGroup,
}

/// A trace that is being read.
#[derive(Debug)]
pub struct TraceReader {
    file: Arc<File>,
    info: TraceInfo,
    columns: Columns,
    tolerance: Tolerance,
    shortened: Option<String>,
    is_being_recorded: bool,
    is_summed: bool,
    row_groups: VecDeque<RowGroup>,
    /// The number of the first remaining row group.
    next: usize,
    rows: Option<Rows>,
}

impl TraceReader {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// Returns an error if the file is not a trace, or has an unsupported version or compression. Also returns
    /// an error if the footer is missing or damaged, unless `tolerance` accepts this and there is an intact row
    /// group. The footer of a trace that is being recorded may be missing.
    pub fn open(path: &Path, tolerance: Tolerance) -> Result<Self, Error> {
        Self::of(File::open(path)?, tolerance)
    }

    /// Opens the trace in `file`.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn of(file: File, tolerance: Tolerance) -> Result<Self, Error> {
        let Described {
            footer,
            shortened,
            is_being_recorded,
        } = describe(&file, tolerance)?;
        let mut info = footer.info;
        info.is_cut_short |= shortened.is_some();
        Ok(Self {
            file: Arc::new(file),
            info,
            columns: footer.columns,
            tolerance,
            shortened,
            is_being_recorded,
            is_summed: footer.row_groups.iter().all(|group| group.sum.is_some()),
            row_groups: footer.row_groups.into(),
            next: 0,
            rows: None,
        })
    }

    /// Returns the metadata of the recording.
    #[must_use]
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Returns whether the trace was being recorded when it was opened. The reader then has the row groups that were
    /// complete at that time.
    #[must_use]
    pub fn is_being_recorded(&self) -> bool {
        self.is_being_recorded
    }

    /// Returns the reason why the end of the trace is missing, or `None` if nothing is missing so far. Only a
    /// reader that tolerates damage, or a reader of a trace that is being recorded, has a reason. A damaged row
    /// group is detected only when it is read.
    #[must_use]
    pub fn shortened(&self) -> Option<&str> {
        self.shortened.as_deref()
    }

    /// Returns the known losses. A damaged row group is detected only when it is read.
    #[must_use]
    pub fn losses(&self) -> Losses {
        Losses {
            events: self.info.lost,
            is_cut_short: self.info.is_cut_short,
            reason: self.shortened.clone(),
        }
    }

    /// Returns whether all row groups have checksums, so that damage is detected. Row groups that other
    /// programs wrote have no checksums.
    #[must_use]
    pub fn is_summed(&self) -> bool {
        self.is_summed
    }

    /// Returns the number of row groups that have not been opened.
    #[must_use]
    pub fn row_groups(&self) -> usize {
        self.row_groups.len()
    }

    /// Returns the number of rows that remain to be read.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let begun = self.rows.as_ref().map_or(0, |rows| rows.left() as u64);
        let whole = self.row_groups.iter().map(RowGroup::rows);
        whole.fold(begun, u64::saturating_add)
    }

    /// Returns the number of rows of caches that remain to be read, before the first one is read. Returns `None` if it is
    /// unknown, because another program wrote the trace.
    #[must_use]
    pub fn cache_rows(&self) -> Option<u64> {
        let is_known = self.is_summed || !self.columns.has_files();
        is_known.then(|| self.rows().saturating_sub(self.info.file_rows))
    }

    /// Replaces the content of `batch` by the next events. Returns false at the end of the trace.
    ///
    /// # Errors
    /// Returns an error if a row group is damaged. A reader that tolerates damage returns false instead.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Error> {
        batch.clear();
        let read = decoded(|| self.read_next(batch)).map_err(|reason| Error::RowGroup {
            row_group: self.next.saturating_sub(1),
            reason,
        });
        if read.is_err() {
            batch.clear();
            self.rows = None;
        }
        match read {
            Err(error) if self.tolerance == Tolerance::UpToLastRowGroup => {
                let later = self.row_groups.len() as u64;
                self.shortened = Some(format!(
                    "{error}; {} not read",
                    counted(later, "later row group was", "later row groups were")
                ));
                self.row_groups.clear();
                self.info.is_cut_short = true;
                Ok(false)
            }
            read => read,
        }
    }

    fn read_next(&mut self, batch: &mut Batch) -> Result<bool, String> {
        loop {
            if let Some(rows) = self.rows.as_mut().filter(|rows| rows.left() > 0) {
                rows.read(batch)?;
                return Ok(true);
            }
            self.rows = None;
            let Some(row_group) = self.row_groups.pop_front() else {
                return Ok(false);
            };
            self.next += 1;
            self.rows = Some(row_group.open(&self.file, self.columns)?);
        }
    }
}

/// Returns the result of `read`, and converts a panic to an error. Parquet's decoder panics on some damaged
/// pages. Such pages reach the decoder only if their row group has no checksum.
fn decoded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("the pages cannot be decoded".to_owned()))
}

/// The description of a trace that was opened.
struct Described {
    footer: Footer,
    /// The reason why the end of the trace is missing, or `None` if nothing is missing.
    shortened: Option<String>,
    is_being_recorded: bool,
}

/// Reads the footer. If the footer is missing or damaged, reads the checkpoints instead, if `tolerance` accepts this or
/// the trace is being recorded.
fn describe(file: &File, tolerance: Tolerance) -> Result<Described, Error> {
    // The recorder first writes the footer, and then releases the lock.
    let is_locked = is_locked(file);
    let mut magic = [0; MAGIC.len()];
    match file.read_exact_at(&mut magic, 0) {
        Ok(()) if magic == *MAGIC => {}
        Ok(()) => return Err(Error::NotParquet),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Error::NotParquet);
        }
        Err(error) => return Err(error.into()),
    }
    let why = match footer::read(file) {
        Ok(Some(footer)) => {
            return Ok(Described {
                footer,
                shortened: None,
                is_being_recorded: false,
            });
        }
        Ok(None) => Error::CutShort,
        Err(damage @ Error::Damaged(_)) => damage,
        Err(error) => return Err(error),
    };
    if tolerance == Tolerance::Whole && !is_locked {
        return Err(why);
    }
    let (checkpoints, end) = match checkpoint::find_all(file) {
        Err(Error::NothingWhole) if is_locked => return Err(Error::NothingYet),
        found => found?,
    };
    let whole = checkpoints.into_iter().reduce(Footer::with_following);
    let shortened = if is_locked {
        "it is still being recorded".to_owned()
    } else {
        let unread = file.metadata()?.len().saturating_sub(end);
        format!("{why}; {unread} bytes after the last complete row group were not read")
    };
    Ok(Described {
        footer: whole.ok_or(Error::NothingWhole)?,
        shortened: Some(shortened),
        is_being_recorded: is_locked,
    })
}

/// Returns whether a recorder holds the lock of the file.
fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // If this fails, the lock is released when the file is closed.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}
