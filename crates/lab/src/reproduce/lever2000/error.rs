//! Errors of a reproduction.

use crate::{hash, operations};
use larder_instruments::mke2fs;
use larder_instruments::simulated::UnknownModel;
use std::io;

/// Errors of a reproduction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image cannot be created.
    #[error(transparent)]
    Mke2fs(#[from] mke2fs::Error),
    /// The image cannot be read.
    #[error("cannot read the image for the volume: {0}")]
    Image(io::Error),
    /// A script's result differs from the recorded one.
    #[error(transparent)]
    Operations(#[from] operations::Error),
    /// The volume failed.
    #[error("the volume failed: {0}")]
    Volume(#[from] larder::Error),
    /// Keys for the constant of 64 bits cannot be generated, or recorded keys cannot be replayed.
    #[error(transparent)]
    Keys(#[from] hash::Error),
    /// A device cannot be simulated.
    #[error(transparent)]
    Device(UnknownModel),
    /// The executable file of this program cannot be read.
    #[error("cannot read the file of this program: {0}")]
    Program(io::Error),
    /// Text is not the JSON of a report on this document.
    #[error("not the JSON of a report on lever2000 by this version: {0}")]
    Json(#[from] serde_json::Error),
    /// The measurements in the JSON of a report are not those of this program's tables, or contradict each other.
    #[error("the measurements cannot be judged: {0}")]
    Measurements(String),
    /// The state of an interrupted reproduction cannot be read or written.
    #[error("cannot keep the state of the reproduction: {0}")]
    State(io::Error),
}
