//! Provides the statistics and metrics of a mounted volume to other processes.
//!
//! - The server of a mount runs a [`Listener`] on a Unix socket, the statistics socket. Other processes
//!   query the socket with [`Mount`].
//! - [`Metrics`] serves the same statistics to Prometheus over HTTP; [`exposition`] formats them.
//!
//! This crate does not depend on FUSE: a mount is identified by its device number and its owner. Its mount
//! point is used only in messages.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! use larder_observe::{Metrics, exposition};
//! use std::net::SocketAddr;
//! use std::sync::Arc;
//!
//! let fs = larder::open(&image)?;
//! assert!(!fs.exists("/etc")?);
//! let stats = fs.volume().stats();
//! let text = exposition(&stats, Some("/mnt"), &[]);
//! let lookups = "larder_cache_lookups_total{cache=\"dentry\"}";
//! assert!(text.contains(&format!("{lookups} {}\n", stats.dentry.lookups)));
//!
//! // Serve the same metrics at http://127.0.0.1:PORT/metrics until `exporter` is dropped.
//! let metrics = Metrics::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
//! println!("http://{}/metrics", metrics.address());
//! let volume = Arc::downgrade(fs.volume());
//! let exporter = metrics.serve(move || Some(volume.upgrade()?.counts()))?;
//! # drop(exporter);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod error;
mod metrics;
mod stats;

pub use error::{Error, Result};
#[cfg(fuzzing)]
pub use metrics::http;
pub use metrics::{Exporter, Metrics, exposition};
pub use stats::{Answer, Closing, Listener, Mount, Question};
