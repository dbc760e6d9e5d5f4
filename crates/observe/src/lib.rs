//! Provides the statistics and metrics of a mounted volume to other processes.
//!
//! - The server of a mount runs a [`Listener`] on a Unix socket, the statistics socket. Other processes
//!   query the socket with [`Mount`].
//! - [`Metrics`] serves the same statistics to Prometheus over HTTP; [`exposition`] formats them.
//!
//! This crate does not depend on FUSE: a mount is identified by its device number and its owner. Its mount
//! point is used only in messages.

#![forbid(unsafe_code)]

mod error;
mod metrics;
mod stats;

pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use metrics::http;
pub use metrics::{Exporter, Metrics, exposition};
pub use stats::{Answer, Closing, Listener, Mount, Question};
