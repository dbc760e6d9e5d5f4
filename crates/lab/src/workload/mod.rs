//! Workloads by name: the operations of readers, with parameters.
//!
//! The syntax of a workload is `NAME` or `NAME:parameter=value,parameter=value`, as in
//! `interleaved:streams=64,request=64K,file=1G`. Omitted parameters have default values. Random
//! numbers depend on the seed that is passed to [`Workload::jobs`]. Operations are generated on
//! demand, so that a workload on a large file needs no more memory than one on a small file.

pub(crate) mod chance;
mod datasets;
mod error;
mod job;
mod kind;
mod parameters;
mod patterns;
mod streams;
pub(crate) mod sysbench;

pub use error::WorkloadError;
pub use job::{Jobs, OpenFileId, Operation, ReaderJob};
pub use parameters::ParameterInfo;

use std::fmt;
use std::str::FromStr;

use crate::simulator::FileId;
use kind::{JobContext, Kind};
use parameters::Parameters;

/// Returns all kinds, in the order of `--help`.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    [
        patterns::KINDS,
        streams::KINDS,
        sysbench::KINDS,
        datasets::KINDS,
    ]
    .into_iter()
    .flatten()
}

/// A workload: its name and the values of its parameters.
#[derive(Clone, Debug)]
pub struct Workload {
    kind: &'static Kind,
    values: Parameters,
}

/// The description of a kind of workload.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInfo {
    /// The name of the kind, as in `--workload NAME`.
    pub name: &'static str,
    /// The description of the kind, in one line.
    pub about: &'static str,
    /// The parameters of the kind.
    pub parameters: &'static [ParameterInfo],
}

impl Workload {
    /// Parses a workload, as in `interleaved:streams=64,request=64K,file=1G`.
    ///
    /// # Errors
    /// Returns [`WorkloadError`], which lists the existing names.
    pub fn named(text: &str) -> Result<Self, WorkloadError> {
        let (name, values) = match text.split_once(':') {
            Some((name, values)) => (name, Some(values)),
            None => (text, None),
        };
        let Some(kind) = kinds().find(|kind| kind.name == name) else {
            let known: Vec<&str> = kinds().map(|kind| kind.name).collect();
            return Err(WorkloadError::UnknownWorkload {
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        let values = match values {
            Some(values) => Parameters::parse(kind.name, kind.parameters, values)?,
            None => Parameters::defaults(kind.parameters),
        };
        Ok(Self { kind, values })
    }

    /// Returns all kinds of workloads.
    pub fn all() -> impl Iterator<Item = WorkloadInfo> {
        kinds().map(|kind| WorkloadInfo {
            name: kind.name,
            about: kind.about,
            parameters: kind.parameters,
        })
    }

    /// Returns the name of the workload.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Returns the sizes of the files that the workload needs, in bytes.
    #[must_use]
    pub fn file_sizes(&self) -> Vec<u64> {
        (self.kind.file_sizes)(&self.values)
    }

    /// Returns the readers of the workload, on `files` of at least the required sizes, with random
    /// numbers from `seed`.
    ///
    /// # Panics
    /// Panics if there are fewer files than the workload needs.
    #[must_use]
    pub fn jobs(&self, files: &[FileId], seed: u64) -> Jobs {
        let needed = self.file_sizes().len();
        assert!(
            files.len() >= needed,
            "`{self}` needs {needed} files, and there are {}",
            files.len()
        );
        let context = JobContext {
            files: &files[..needed],
            seed,
        };
        (self.kind.jobs)(&self.values, &context)
    }
}

/// Writes the name, and the values of all parameters.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name, self.values)
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        Self::named(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_of_each_workload_parses_to_the_same_values() {
        for info in Workload::all() {
            let workload = Workload::named(info.name).unwrap();
            let again = Workload::named(&workload.to_string()).unwrap();
            assert_eq!(workload.values, again.values, "{workload}");
            for parameter in info.parameters {
                let (least, most) = parameter.range;
                let is_within = (least..=most).contains(&parameter.default);
                assert!(is_within, "{} of {}", parameter.name, info.name);
            }
        }
    }

    #[test]
    fn names_of_workloads_are_unique() {
        let mut names: Vec<_> = kinds().map(|kind| kind.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn invalid_workload_is_refused_with_the_valid_names_or_values() {
        let message = |text: &str| Workload::named(text).unwrap_err().to_string();
        assert!(message("sequentail").contains("available: sequential, reread"));
        assert_eq!(
            message("sequential:fille=1G"),
            "workload `sequential` has no parameter `fille`; available: file, request"
        );
        assert_eq!(
            message("sequential:file=big"),
            "`sequential:file=big`: expected a size such as 64K or 1G"
        );
        assert_eq!(
            message("random:threads=0"),
            "`random:threads=0`: the value must be from 1 to 4096"
        );
        assert_eq!(
            message("random:threads"),
            "`random:threads=`: expected a number such as 64"
        );
        assert_eq!(
            message("sequential:file=1G,request=4K,file=2G"),
            "workload `sequential`: parameter `file` is given twice"
        );
        for text in ["sequential:", "sequential:file=1G,", "sequential:,file=1G"] {
            assert_eq!(
                message(text),
                "workload `sequential` has an empty parameter; use NAME=VALUE with one of these names: \
                 file, request"
            );
        }
        for name in ["interleaved", "shared"] {
            assert_eq!(
                message(&format!("{name}:streams=64,file=1")),
                format!(
                    "`{name}:file=1` is less than a page for each of streams=64: the value must be at \
                     least 256K"
                )
            );
        }
        assert!(Workload::named("interleaved:streams=64,file=256K").is_ok());
    }
}
