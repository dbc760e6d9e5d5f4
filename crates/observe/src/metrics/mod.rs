//! Metrics for Prometheus: all counts of [`Stats`](larder::Stats), as text over HTTP.
//!
//! # Model
//! Prometheus' text exposition format 0.0.4, by `GET /metrics`. A metric is named after the key of
//! the figure in the JSON of the statistics socket: `page.lookups` is
//! `larder_cache_lookups_total{cache="page"}`.
//!
//! # Invariants
//! 1. A client that can connect may read the metrics, and nothing else: a request changes nothing,
//!    and names no file.
//! 2. The buckets of the caches are visited at most once a second, however many requests there are.
//! 3. A client that is slow, silent or endless does not delay others. It uses one descriptor and 16
//!    KiB for 5 seconds.

mod exporter;
mod exposition;
pub mod http;

pub use exporter::{Exporter, Metrics};
pub use exposition::exposition;
