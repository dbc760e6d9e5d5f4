//! Statistics and metrics of a served volume, for other processes.
//!
//! - [`Mount`] asks the server of a mount what its caches did, over its statistics socket;
//!   [`Listener`] is the server's end.
//! - [`Metrics`] serves the same figures to Prometheus; [`exposition`] formats them.
//!
//! This crate does not know how the volume is served: a device number, an owner and a mount point
//! identify a mount.

#![forbid(unsafe_code)]

mod error;
mod metrics;
mod stats;

pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use metrics::http;
pub use metrics::{Exporter, Metrics, exposition};
pub use stats::{Answer, Closing, Listener, Mount, Question};
