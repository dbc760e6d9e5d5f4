//! Workloads by name: what readers do, with parameters.

mod job;

pub use job::{Jobs, OpenFileId, Operation, ReaderJob};

use std::fmt;
use std::str::FromStr;

use crate::simulator::FileId;

/// A workload: its name and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    name: &'static str,
}

/// What there is to know of one kind of workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// Its name, as in `--workload NAME`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [ParameterInfo],
}

/// What there is to know of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParameterInfo {
    /// Its name, as in `NAME:name=value`.
    pub name: &'static str,
    /// Its value by default.
    pub default: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
}

/// A workload is not written as it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("no workload is named `{name}`; there are: {known}")]
    UnknownWorkload {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}

impl Workload {
    /// The workload that `text` names, as in `interleaved:streams=64,request=64K,file=1G`.
    ///
    /// # Errors
    /// [`WorkloadError`], which lists what there is.
    pub fn named(text: &str) -> Result<Self, WorkloadError> {
        Err(WorkloadError::UnknownWorkload {
            name: text.to_owned(),
            known: String::new(),
        })
    }

    /// All kinds of workloads.
    #[must_use]
    pub fn all() -> impl Iterator<Item = &'static WorkloadInfo> {
        [].iter()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The sizes of the files that it needs, in bytes.
    #[must_use]
    pub fn file_sizes(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Its readers, on `files` of at least the sizes that it needs, with chance from `seed`.
    #[must_use]
    pub fn jobs(&self, files: &[FileId], _seed: u64) -> Jobs {
        Jobs {
            open_files: files.to_vec(),
            readers: Vec::new(),
            stop_after: None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        Self::named(text)
    }
}
