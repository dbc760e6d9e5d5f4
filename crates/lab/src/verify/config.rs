//! The parameters of a verification.

use std::ffi::OsString;
use std::path::PathBuf;

/// What the host has cached when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temperature {
    /// Nothing of the image: its pages are evicted before each run. The caches of the mount are empty.
    Cold,
    /// The parts of the image that the command reads: before the measured runs, the command runs once with each set of
    /// options. The caches of the mount are empty.
    Warm,
}

/// The parameters of a verification.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// The program `larder`.
    pub larder: PathBuf,
    /// The image. It is not changed.
    pub image: PathBuf,
    /// The command and its arguments. It runs in the mount, whose path is also in the variable `LARDER_MOUNT`.
    pub command: Vec<OsString>,
    /// The current mount options, as for `-o`.
    pub current: Vec<String>,
    /// The recommended mount options.
    pub recommended: Vec<String>,
    /// The number of pairs of runs.
    pub pairs: usize,
    /// What the host has cached when a run begins.
    pub temperature: Temperature,
    /// The directory for the mount point and the overlays.
    pub scratch: PathBuf,
}

/// Returns the options as text.
pub(super) fn listed(options: &[String]) -> String {
    if options.is_empty() {
        "defaults".to_owned()
    } else {
        options.join(",")
    }
}
