//! External tools of tests.

pub use larder_instruments::tool::{Error, Tool, find};
use std::path::{Path, PathBuf};

/// The folder in which the Makefile installs tools.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools");

/// Returns the Python with the packages that `make python-tools` installs, or else the system's Python.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let own = Path::new(FOLDER).join("python/bin/python");
    if own.exists() {
        Some(own)
    } else {
        find("python3")
    }
}

/// Returns a server that `make test-servers` installs for this project only.
#[must_use]
pub fn of_project(name: &str) -> Option<PathBuf> {
    let folders = ["bin", "moto/bin"].map(|folder| Path::new(FOLDER).join(folder));
    let mut paths = folders.iter().map(|folder| folder.join(name));
    paths.find(|path| path.exists())
}
