//! What a volume that is served tells to other processes.
//!
//! - [`Mount`] asks the server of a mount what its caches did, over its statistics socket;
//!   [`Listener`] is the server's end.
//! - [`Metrics`] serves the same figures to Prometheus, [`exposition`] writes them.
//!
//! How the volume is served is not known here: a mount is a device number, an owner and a place.

#![forbid(unsafe_code)]

mod error;
mod metrics;
mod stats;

pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use metrics::http;
pub use metrics::{Exporter, Metrics, exposition};
pub use stats::{Answer, Closing, Listener, Mount, Question};
