//! The times of one run.

use serde::Serialize;

/// The times of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// From the start to the end of the command, in seconds.
    pub wall_s: f64,
    /// Processor time of the command and its children, in seconds.
    pub command_processor_s: f64,
    /// Processor time of the server, in seconds.
    pub server_processor_s: f64,
    /// From the end of the command to the end of the server, in seconds.
    pub unmount_s: f64,
}
