//! Records the units that are read from an image, and writes them to a profile.

use super::error::Result;
use super::format::Profile;
use super::limits::MAX_UNITS;
use super::pending::Pending;
use crate::{UNIT_BYTES, Version};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A recording. [`Recorder::finish`] writes the profile. If it is not called, an older profile stays as it is.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    /// The image, without secrets, and its version.
    object: OnceLock<(String, Version)>,
    uses: Mutex<Uses>,
}

#[derive(Debug, Default)]
struct Uses {
    seen: HashSet<u64>,
    /// The units in the order of their first use.
    units: Vec<u64>,
}

impl Recorder {
    /// Starts a recording for a profile at `path`.
    ///
    /// # Errors
    /// [`Error::Io`](super::Error::Io) if the directory cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        // The process may change its directory.
        let path = std::path::absolute(path)?;
        // Fail now, and not after the mount.
        drop(Pending::create(&path)?);
        Ok(Self {
            path,
            object: OnceLock::new(),
            uses: Mutex::default(),
        })
    }

    /// Returns the path of the profile.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the image that is recorded: its URL without secrets, and its version.
    pub(crate) fn set_object(&self, image: String, version: Version) {
        // A recorder belongs to one device.
        let _ = self.object.set((image, version));
    }

    /// Records a read of `range_bytes` of the object.
    pub(crate) fn record(&self, range_bytes: &Range<u64>) {
        let mut uses = self.uses.lock();
        for unit in range_bytes.start / UNIT_BYTES..range_bytes.end.div_ceil(UNIT_BYTES) {
            if uses.units.len() == MAX_UNITS {
                return;
            }
            if uses.seen.insert(unit) {
                uses.units.push(unit);
            }
        }
    }

    /// Writes the profile of all reads until now. Does nothing if no image was opened.
    ///
    /// # Errors
    /// [`Error::Io`](super::Error::Io), [`Error::Damaged`](super::Error::Damaged).
    pub fn finish(&self) -> Result<()> {
        let Some((image, version)) = self.object.get() else {
            return Ok(());
        };
        let units = self.uses.lock().units.clone();
        if units.len() == MAX_UNITS {
            tracing::warn!("the profile has only the first {MAX_UNITS} units that were read");
        }
        let text = Profile::new(image, version.clone(), units).to_text()?;
        Pending::create(&self.path)?.replace(|mut file| Ok(file.write_all(text.as_bytes())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn version() -> Version {
        Version {
            etag: Some("\"a\"".to_owned()),
            modified_seconds: 0,
            size_bytes: 1 << 30,
        }
    }

    fn files_in(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn profile_has_each_unit_once_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        let recorder = Recorder::create(&path).unwrap();
        recorder.set_object("https://host/x".to_owned(), version());
        for range in [
            9 * UNIT_BYTES..9 * UNIT_BYTES + 1,
            0..10,
            UNIT_BYTES - 1..3 * UNIT_BYTES,
            5..6,
        ] {
            recorder.record(&range);
        }
        recorder.finish().unwrap();
        drop(recorder);
        let profile = Profile::parse(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(profile.units(), [9, 0, 1, 2]);
        assert_eq!(profile.version(), &version());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(files_in(folder.path()), 1);
    }

    #[test]
    fn unfinished_recording_keeps_the_older_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile");
        fs::write(&path, "older").unwrap();
        let recorder = Recorder::create(&path).unwrap();
        recorder.finish().unwrap();
        recorder.set_object("x".to_owned(), version());
        recorder.record(&(0..1));
        drop(recorder);
        assert_eq!(fs::read(&path).unwrap(), b"older");
        assert_eq!(files_in(folder.path()), 1);
        let missing = folder.path().join("missing/profile");
        assert!(Recorder::create(&missing).is_err());
    }

    #[test]
    fn recording_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let recorder = Recorder::create(&folder.path().join("profile")).unwrap();
        recorder.record(&(0..u64::MAX / 2));
        assert_eq!(recorder.uses.lock().units.len(), MAX_UNITS);
    }
}
