//! What is compared, and when.

use super::{FILES, FILLER, FileNo, Session, Target};
use crate::seed::mix;
use rustix::io::Errno;

impl<T: Target> Session<T> {
    /// A call did all it was to do. Only half of these are followed by a comparison, which would
    /// otherwise bring everything into the caches.
    pub(super) fn done(&mut self, files: &[FileNo]) -> Result<(), String> {
        self.tally.done += 1;
        let filling = files == [FILLER];
        if filling || mix(u64::from(self.number)).is_multiple_of(2) {
            return Ok(());
        }
        files.iter().try_for_each(|file| self.compare(*file))
    }

    /// A call that needs `need_bytes`, or none if `needs_none`, failed.
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
        self.must_be_full("refused", needs_none, need_bytes)?;
        self.compare_after_failure()
            .map_err(|what| format!("refused: {what}"))
    }

    /// That what was `how` may have been so: the image is full, and space was needed.
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

    /// Compares everything as it is cached, and every other time as it is on the image too. The
    /// filler, which takes longest, is compared every fourth time.
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

    /// Compares the file as it is on the image, if nothing of it is dirty.
    pub(super) fn evict(&self, file: FileNo) -> Result<(), String> {
        self.target.evict(file).map_err(|errno| errno.to_string())?;
        self.compare(file)
            .map_err(|what| format!("evicted: {what}"))
    }

    pub(super) fn compare_all(&self) -> Result<(), String> {
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
    pub(super) fn survives(&self, files: &[FileNo]) -> Result<(), String> {
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
