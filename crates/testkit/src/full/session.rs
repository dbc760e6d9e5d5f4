//! A sequence of steps on a target, with every outcome held against the model.

use super::{FILES, FILLER, FileNo, Files, Limits, Step, Target};
use crate::operation::fill_content;
use crate::seed::mix;
use larder::Fallocate;
use rustix::io::Errno;
use std::fmt;
use std::ops::Range;

/// Lengths that are tried in turn by [`Step::Fill`], before single clusters.
const FILL_BYTES: [u64; 3] = [512 << 10, 64 << 10, 16 << 10];

/// What happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that did all they were to do.
    pub done: u32,
    /// Writes and copies with a short count.
    pub short: u32,
    /// Calls that failed for want of space.
    pub refused: u32,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.done += other.done;
        self.short += other.short;
        self.refused += other.refused;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            done,
            short,
            refused,
        } = self;
        write!(f, "{done} done, {short} short, {refused} refused")
    }
}

/// A target and what it must hold.
#[derive(Debug)]
pub struct Session<T> {
    /// The target.
    pub target: T,
    /// What it must hold.
    pub files: Files,
    /// What happened so far.
    pub tally: Tally,
    limits: Limits,
    number: u32,
    empty_bytes: u64,
}

impl<T: Target> Session<T> {
    /// Makes the files in an empty file system.
    ///
    /// # Errors
    /// If that fails.
    pub fn new(mut target: T, limits: Limits) -> Result<Self, String> {
        let failed = |errno| format!("making the files: {errno}");
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

    /// Takes the steps, and compares everything at the end: as it is cached, and remounted.
    ///
    /// # Errors
    /// The first step whose outcome is not what it must be.
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
            .map_err(|what| format!("remounted at the end: {what}"))
    }

    /// Removes everything: all space must be available again.
    ///
    /// # Errors
    /// If it is not.
    pub fn empty(&mut self) -> Result<(), String> {
        for file in FILES {
            self.remove(file)
                .map_err(|what| format!("removing {file:?} at the end: {what}"))?;
        }
        let failed = |errno| format!("after removing everything: {errno}");
        self.target.sync_all().map_err(failed)?;
        let available = self.target.available_bytes().map_err(failed)?;
        if available < self.empty_bytes {
            return Err(format!(
                "{available} bytes are available after removing everything, {} were before",
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
            Step::Free { len_bytes } => {
                let size_bytes = self.files.size_bytes(FILLER);
                self.truncate(FILLER, size_bytes.saturating_sub(len_bytes))
            }
            Step::Remove { file } => self.remove(file),
            Step::Sync { file } => {
                self.target.sync(file).map_err(|errno| errno.to_string())?;
                self.survives(&[file])
            }
            Step::SyncAll => {
                self.target.sync_all().map_err(|errno| errno.to_string())?;
                self.survives(&FILES)
            }
            Step::Evict { file } => self.evict(file),
            Step::Remount => {
                self.target.remount()?;
                self.compare_all()
            }
        }
    }

    /// Writes, and returns how much.
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
                    let short = format!("{count} bytes written");
                    self.must_be_full(&short, has_space, 1)?;
                    self.compare_after_failure()
                        .map_err(|what| format!("{short}: {what}"))?;
                }
                Ok(count as u64)
            }
            Ok(count) => Err(format!("{count} bytes written of {len}")),
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
            // A short count is no failure: whoever copies goes on.
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
            Ok(count) => Err(format!("{count} bytes copied of {len}")),
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

    fn evict(&self, file: FileNo) -> Result<(), String> {
        self.target.evict(file).map_err(|errno| errno.to_string())?;
        self.compare(file)
            .map_err(|what| format!("evicted: {what}"))
    }

    /// A call did all it was to do. Half of these are looked at, so that some go on with what is
    /// in no cache.
    fn done(&mut self, files: &[FileNo]) -> Result<(), String> {
        self.tally.done += 1;
        let filling = files == [FILLER];
        if filling || mix(u64::from(self.number)).is_multiple_of(2) {
            return Ok(());
        }
        files.iter().try_for_each(|file| self.compare(*file))
    }

    /// A call that needs `need_bytes`, or none if `needs_none`, failed.
    fn refused(&mut self, errno: Errno, needs_none: bool, need_bytes: u64) -> Result<(), String> {
        if errno != Errno::NOSPC {
            return Err(errno.to_string());
        }
        self.tally.refused += 1;
        self.must_be_full("refused", needs_none, need_bytes)?;
        self.compare_after_failure()
            .map_err(|what| format!("refused: {what}"))
    }

    fn must_be_full(&self, how: &str, needs_none: bool, need_bytes: u64) -> Result<(), String> {
        if needs_none {
            return Err(format!("{how}, although it needs no more space"));
        }
        let available = self
            .target
            .available_bytes()
            .map_err(|errno| errno.to_string())?;
        let cluster_bytes = self.limits.cluster_bytes;
        let clusters = need_bytes.div_ceil(cluster_bytes);
        let slack_bytes = self.target.slack_bytes(cluster_bytes);
        let enough_bytes = (clusters + clusters / 16) * cluster_bytes + slack_bytes;
        if available >= enough_bytes {
            return Err(format!(
                "{how}, although {available} bytes are available, and {enough_bytes} are enough"
            ));
        }
        Ok(())
    }

    /// Compares everything as it is cached, and every other time as it is on the image too. The
    /// filler, which takes longest, is compared every fourth time.
    fn compare_after_failure(&self) -> Result<(), String> {
        let random = mix(u64::from(self.number));
        let with_filler = random & 0b1100 == 0;
        let mut files = FILES
            .into_iter()
            .filter(|file| with_filler || *file != FILLER);
        if random & 0b10 == 0 {
            return files.try_for_each(|file| self.compare(file));
        }
        files.try_for_each(|file| {
            self.compare(file)?;
            self.evict(file)
        })
    }

    fn compare_all(&self) -> Result<(), String> {
        FILES.into_iter().try_for_each(|file| self.compare(file))
    }

    fn compare(&self, file: FileNo) -> Result<(), String> {
        let found = self
            .target
            .content(file)
            .map_err(|errno| format!("reading {file:?}: {errno}"))?;
        self.files.expect(file, &found)
    }

    /// That the files would be there if the power failed now.
    fn survives(&self, files: &[FileNo]) -> Result<(), String> {
        let Some(left) = self.target.after_power_cut() else {
            return Ok(());
        };
        let left = left.map_err(|what| format!("after a power cut: {what}"))?;
        for file in files {
            let found = left.content(*file);
            let found = found.map_err(|errno| format!("{file:?} after a power cut: {errno}"))?;
            self.files
                .expect(*file, &found)
                .map_err(|what| format!("after a power cut: {what}"))?;
        }
        Ok(())
    }
}
