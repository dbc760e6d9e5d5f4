//! A sequence of steps on a target, with every outcome compared with the model.

use super::{FILES, FILLER, FileNo, Files, Limits, Step, Tally, Target};
use crate::operation::fill_content;
use larder::Fallocate;
use rustix::io::Errno;
use std::ops::Range;

/// The lengths that [`Step::Fill`] tries in turn, before single clusters.
const FILL_BYTES: [u64; 3] = [512 << 10, 64 << 10, 16 << 10];

/// A target and its expected content.
#[derive(Debug)]
pub struct Session<T> {
    /// The target.
    pub target: T,
    /// The expected content.
    pub files: Files,
    /// Counts of calls so far.
    pub tally: Tally,
    pub(super) limits: Limits,
    /// The number of the current step.
    pub(super) number: u32,
    /// The space that was available while all files were empty.
    empty_bytes: u64,
}

impl<T: Target> Session<T> {
    /// Creates the files in an empty file system.
    ///
    /// # Errors
    /// Fails if the target does.
    pub fn new(mut target: T, limits: Limits) -> Result<Self, String> {
        let failed = |errno| format!("cannot create the files: {errno}");
        for file in FILES {
            target.create(file).map_err(failed)?;
        }
        let empty_bytes = target.available_bytes().map_err(failed)?;
        Ok(Self {
            target,
            files: Files::new(limits),
            tally: Tally::default(),
            limits,
            number: 0,
            empty_bytes,
        })
    }

    /// Performs the steps, and compares everything at the end: from the caches, and after a remount.
    ///
    /// # Errors
    /// Returns the first step with a wrong outcome.
    pub fn run(&mut self, steps: &[Step]) -> Result<(), String> {
        for step in steps {
            self.perform(step)
                .map_err(|what| format!("step {} {step:?}: {what}", self.number))?;
            self.number += 1;
        }
        self.compare_all()
            .map_err(|what| format!("at the end: {what}"))?;
        self.target.remount()?;
        self.compare_all()
            .map_err(|what| format!("after the final remount: {what}"))
    }

    /// Removes everything. All space must be available again.
    ///
    /// # Errors
    /// Fails if some space is still missing, or if the target fails.
    pub fn empty(&mut self) -> Result<(), String> {
        for file in FILES {
            self.remove(file)
                .map_err(|what| format!("cannot remove {file:?} at the end: {what}"))?;
        }
        let failed = |errno| format!("after removing everything: {errno}");
        self.target.sync_all().map_err(failed)?;
        let available = self.target.available_bytes().map_err(failed)?;
        if available < self.empty_bytes {
            return Err(format!(
                "{available} bytes are available after removing everything, but {} were available at the start",
                self.empty_bytes
            ));
        }
        Ok(())
    }

    fn perform(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write {
                file,
                offset_bytes,
                len_bytes,
                direct,
            } => self
                .write(file, offset_bytes, u64::from(len_bytes), direct)
                .map(drop),
            Step::Truncate { file, size_bytes } => self.truncate(file, size_bytes),
            Step::Range {
                file,
                mode,
                offset_bytes,
                len_bytes,
            } => self.range(file, mode, &(offset_bytes..offset_bytes + len_bytes)),
            Step::Copy {
                from,
                from_bytes,
                to,
                to_bytes,
                len_bytes,
            } => self.copy((from, from_bytes), (to, to_bytes), len_bytes),
            Step::Fill => self.fill(),
            Step::Free(len_bytes) => {
                let size_bytes = self.files.size_bytes(FILLER);
                self.truncate(FILLER, size_bytes.saturating_sub(len_bytes))
            }
            Step::Remove(file) => self.remove(file),
            Step::Sync(file) => {
                self.target.sync(file).map_err(|errno| errno.to_string())?;
                self.survives(&[file])
            }
            Step::SyncAll => {
                self.target.sync_all().map_err(|errno| errno.to_string())?;
                self.survives(&FILES)
            }
            Step::Evict(file) => self.evict(file),
            Step::Remount => {
                self.target.remount()?;
                self.compare_all()
            }
        }
    }

    /// Writes, and returns the number of bytes written.
    fn write(&mut self, file: FileNo, at: u64, len: u64, direct: bool) -> Result<u64, String> {
        let mut buf = vec![0; usize::try_from(len).unwrap_or(0)];
        fill_content(self.number, at, &mut buf);
        let has_space = self.files.has_space(file, &(at..at + len));
        match self.target.write(file, &buf, at, direct) {
            Ok(count) if (1..=buf.len()).contains(&count) => {
                self.files.write(file, &buf[..count], at);
                if count == buf.len() {
                    self.done(&[file])?;
                } else {
                    self.tally.short += 1;
                    let short = format!("only {count} of {len} bytes were written");
                    self.must_be_full(&short, has_space, 1)?;
                    self.compare_after_failure()
                        .map_err(|what| format!("{short}: {what}"))?;
                }
                Ok(count as u64)
            }
            Ok(count) => Err(format!("{count} of {len} bytes were written")),
            Err(errno) => self.refused(errno, has_space, 1).map(|()| 0),
        }
    }

    fn truncate(&mut self, file: FileNo, size_bytes: u64) -> Result<(), String> {
        let frees = size_bytes <= self.files.size_bytes(file);
        let needs_none = frees || !self.limits.inline_data;
        match self.target.truncate(file, size_bytes) {
            Ok(()) => {
                self.files.truncate(file, size_bytes);
                self.done(&[file])
            }
            Err(errno) => self.refused(errno, needs_none, 1),
        }
    }

    fn range(&mut self, file: FileNo, mode: Fallocate, bytes: &Range<u64>) -> Result<(), String> {
        if !self.files.can_move(file, mode, bytes) {
            return Ok(());
        }
        let (needs_none, need_bytes) = match mode {
            Fallocate::PunchHole => (true, 0),
            Fallocate::Allocate { .. } => {
                (self.files.has_space(file, bytes), bytes.end - bytes.start)
            }
            Fallocate::ZeroRange { .. } => (false, bytes.end - bytes.start),
            Fallocate::Collapse | Fallocate::Insert => (false, 0),
        };
        match self
            .target
            .range(file, mode, bytes.start, bytes.end - bytes.start)
        {
            Ok(()) => {
                self.files.range(file, mode, bytes);
                self.done(&[file])
            }
            Err(Errno::OPNOTSUPP) if !self.limits.extents && mode != Fallocate::PunchHole => {
                self.compare_after_failure()
            }
            Err(errno) => self.refused(errno, needs_none, need_bytes),
        }
    }

    fn copy(&mut self, from: (FileNo, u64), to: (FileNo, u64), len: u64) -> Result<(), String> {
        let left = self.files.size_bytes(from.0).saturating_sub(from.1);
        let len = len.min(left);
        let overlaps = from.1 < to.1 + len && to.1 < from.1 + len;
        if from.0 == to.0 && overlaps {
            return Ok(());
        }
        let has_space = self.files.has_space(to.0, &(to.1..to.1 + len));
        match self.target.copy(from, to, len) {
            // copy_file_range(2) may copy fewer bytes for any reason.
            Ok(count) if count <= len && (count > 0 || len == 0) => {
                if count > 0 {
                    let bytes = self.files.bytes(from.0, &(from.1..from.1 + count));
                    self.files.write(to.0, &bytes, to.1);
                }
                if count < len {
                    self.tally.short += 1;
                }
                self.done(&[from.0, to.0])
            }
            Ok(count) => Err(format!("{count} of {len} bytes were copied")),
            Err(errno) => self.refused(errno, has_space, 1),
        }
    }

    fn fill(&mut self) -> Result<(), String> {
        for len in FILL_BYTES.into_iter().chain([self.limits.cluster_bytes]) {
            let mut written = len;
            while written == len {
                let end_bytes = self.files.size_bytes(FILLER);
                written = self.write(FILLER, end_bytes, len, false)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, file: FileNo) -> Result<(), String> {
        let failed = |errno: Errno| errno.to_string();
        self.target.remove(file).map_err(failed)?;
        self.files.remove(file);
        self.target.create(file).map_err(failed)?;
        self.done(&[file])
    }
}
