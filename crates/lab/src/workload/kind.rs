//! The definition of a kind of workload, and helpers for these definitions.

use super::parameters::{ParameterInfo, Parameters, Unit};
use super::{Jobs, ReaderJob};
use crate::simulator::FileId;

/// A kind of workload.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) parameters: &'static [ParameterInfo],
    /// Returns the sizes of the files that the workload needs.
    pub(super) file_sizes: fn(&Parameters) -> Vec<u64>,
    /// Returns the readers of the workload.
    pub(super) jobs: fn(&Parameters, &JobContext<'_>) -> Jobs,
}

/// The files on which the readers operate.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobContext<'a> {
    pub(super) files: &'a [FileId],
    pub(super) seed: u64,
}

impl JobContext<'_> {
    /// Creates readers on the first file, which is opened `opens` times.
    pub(super) fn jobs(&self, opens: u64, readers: Vec<ReaderJob>) -> Jobs {
        Jobs::new((0..opens).map(|_| self.files[0]).collect(), readers)
    }
}

/// A size in bytes, of up to 1 TiB.
pub(super) const BYTES: ParameterInfo = ParameterInfo {
    name: "",
    unit: Unit::Bytes,
    default: 1,
    range: (1, 1 << 40),
    page_for_each: None,
    about: "",
};

/// A number of up to 10^9.
pub(super) const COUNT: ParameterInfo = ParameterInfo {
    unit: Unit::Count,
    range: (1, 1_000_000_000),
    ..BYTES
};

/// A time of up to one day.
pub(super) const TIME: ParameterInfo = ParameterInfo {
    unit: Unit::Time,
    default: 0,
    range: (0, 86_400_000_000_000),
    ..BYTES
};

impl ParameterInfo {
    /// Returns a copy of this parameter with that name, default and description.
    pub(super) const fn named(self, name: &'static str, default: u64, about: &'static str) -> Self {
        Self {
            name,
            default,
            about,
            ..self
        }
    }

    /// Returns a copy of this parameter with that range.
    pub(super) const fn within(self, least: u64, most: u64) -> Self {
        Self {
            range: (least, most),
            ..self
        }
    }

    /// Returns a copy of this parameter that requires at least a page for each of the parameter
    /// `sharers`.
    pub(super) const fn page_for_each(self, sharers: &'static str) -> Self {
        Self {
            page_for_each: Some(sharers),
            ..self
        }
    }
}
