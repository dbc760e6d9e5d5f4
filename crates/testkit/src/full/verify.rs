//! Comparisons with the model, and the choice of the calls after which they are made.

use super::{FILES, FILLER, FileNo, Session, Target};
use crate::seed::mix;
use rustix::io::Errno;

impl<T: Target> Session<T> {
    /// Handles a call that completed. Compares the files after about half of these calls only, because each
    /// comparison fills the caches.
    pub(super) fn done(&mut self, files: &[FileNo]) -> Result<(), String> {
        self.tally.done += 1;
        let filling = files == [FILLER];
        if filling || mix(u64::from(self.number)).is_multiple_of(2) {
            return Ok(());
        }
        files.iter().try_for_each(|file| self.compare(*file))
    }

    /// Handles a call that failed. The call needs `need_bytes` of space, or none if `needs_none`.
    pub(super) fn refused(
        &mut self,
        errno: Errno,
        needs_none: bool,
        need_bytes: u64,
    ) -> Result<(), String> {
        if errno != Errno::NOSPC {
            return Err(errno.to_string());
        }
        self.tally.refused += 1;
        self.must_be_full("the call was refused", needs_none, need_bytes)?;
        self.compare_after_failure()
            .map_err(|what| format!("after a refused call: {what}"))
    }

    /// Checks that the result `how` was legitimate: the image is full, and the call needed space.
    pub(super) fn must_be_full(
        &self,
        how: &str,
        needs_none: bool,
        need_bytes: u64,
    ) -> Result<(), String> {
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

    /// Compares the files as cached, and every other time also as stored on the image. The comparison of the
    /// filler takes longest, so the filler is compared only every fourth time.
    pub(super) fn compare_after_failure(&self) -> Result<(), String> {
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

    /// Drops the clean pages of the file from the caches, and compares the file. If it had no dirty pages, it is
    /// compared as stored on the image.
    pub(super) fn evict(&self, file: FileNo) -> Result<(), String> {
        self.target.evict(file).map_err(|errno| errno.to_string())?;
        self.compare(file)
            .map_err(|what| format!("after an eviction: {what}"))
    }

    pub(super) fn compare_all(&self) -> Result<(), String> {
        FILES.into_iter().try_for_each(|file| self.compare(file))
    }

    fn compare(&self, file: FileNo) -> Result<(), String> {
        let found = self
            .target
            .content(file)
            .map_err(|errno| format!("cannot read {file:?}: {errno}"))?;
        self.files.expect(file, &found)
    }

    /// Checks that the files would survive a loss of power at this time.
    pub(super) fn survives(&self, files: &[FileNo]) -> Result<(), String> {
        let Some(left) = self.target.after_power_cut() else {
            return Ok(());
        };
        let left = left.map_err(|what| format!("after a power cut: {what}"))?;
        for file in files {
            let found = left.content(*file);
            let found = found
                .map_err(|errno| format!("cannot read {file:?} after a power cut: {errno}"))?;
            self.files
                .expect(*file, &found)
                .map_err(|what| format!("after a power cut: {what}"))?;
        }
        Ok(())
    }
}
