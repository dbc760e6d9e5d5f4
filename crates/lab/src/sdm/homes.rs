//! The directories of a run: one that all users share, and a home for each user.

use super::Error;
use super::program::{TextFile, shared_headers};
use super::script::{Outcome, Script};
use super::texts::macros;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory that all users share, next to their homes.
pub(super) const SHARED: &str = "shared";

/// The directories of a run, which are removed on drop.
#[derive(Debug)]
pub(super) struct Homes {
    root: PathBuf,
}

impl Homes {
    /// Creates the directories in `parent`, with the initial files of all `scripts`.
    pub(super) fn new(parent: &Path, seed: u64, scripts: &[Script]) -> Result<Self, Error> {
        let root = parent.join(format!("larder-sdm-{}", std::process::id()));
        fs::create_dir(&root).map_err(|source| failed("create the directory", &root, source))?;
        let homes = Self { root };
        let shared: Vec<_> = shared_headers(seed).chain([macros()]).collect();
        homes.write(SHARED, &shared)?;
        for (user, script) in (0..).zip(scripts) {
            let home = home_name(user);
            homes.write(&home, &script.files)?;
            let temporary = homes.root.join(home).join("tmp");
            fs::create_dir(&temporary)
                .map_err(|source| failed("create the directory", &temporary, source))?;
        }
        Ok(homes)
    }

    /// Returns the directory that contains the shared directory and the homes.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a user's home.
    pub(super) fn home(&self, user: u32) -> PathBuf {
        self.root.join(home_name(user))
    }

    /// Verifies the results of a user's script.
    pub(super) fn check(&self, user: u32, outcomes: &[Outcome]) -> Result<(), Error> {
        for Outcome { path, expected } in outcomes {
            let file = self.home(user).join(path);
            let found = match fs::read(&file) {
                Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(source) => return Err(failed("read", &file, source)),
            };
            if !expected.is_met_by(found.as_deref()) {
                let found = found.map_or("the file does not exist".to_owned(), |text| {
                    let beginning: String = text.chars().take(60).collect();
                    format!("the file begins with {beginning:?}")
                });
                let path = path.clone();
                return Err(Error::Wrong { user, path, found });
            }
        }
        Ok(())
    }

    /// Removes the directories.
    pub(super) fn remove(&self) -> Result<(), Error> {
        fs::remove_dir_all(&self.root)
            .map_err(|source| failed("remove the directory", &self.root, source))
    }

    fn write(&self, folder: &str, files: &[TextFile]) -> Result<(), Error> {
        for (path, content) in files {
            let path = self.root.join(folder).join(path);
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)
                    .map_err(|source| failed("create the directory", folder, source))?;
            }
            fs::write(&path, content).map_err(|source| failed("write", &path, source))?;
        }
        Ok(())
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        // After a successful run, the directories have already been removed. After a failed run, the error of
        // the run is reported, so an error of the removal is ignored.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Returns the name of a user's home.
pub(super) fn home_name(user: u32) -> String {
    format!("user{user}")
}

pub(super) fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::File { what, path, source }
}
