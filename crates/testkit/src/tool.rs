//! External tools of tests.

pub use larder_instruments::tool::{Error, Tool, find};
use std::path::{Path, PathBuf};

/// Returns the Python with the packages that `make python-tools` installs, or else the system's Python.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/python/bin/python");
    if own.exists() {
        Some(own)
    } else {
        find("python3")
    }
}
