//! Statistics and metrics of a served volume, for other processes.
//!
//! - [`Mount`] queries the statistics of a mount from its server, over its statistics socket.
//!   [`Listener`] is the server's end.
//! - [`Metrics`] serves the same statistics to Prometheus; [`exposition`] formats them.
//!
//! This crate is independent of how the volume is served: a device number, an owner and a mount
//! point identify a mount.

#![forbid(unsafe_code)]

mod error;
mod metrics;
mod stats;

pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use metrics::http;
pub use metrics::{Exporter, Metrics, exposition};
pub use stats::{Answer, Closing, Listener, Mount, Question};
