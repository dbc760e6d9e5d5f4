//! Metrics for Prometheus: all that [`Stats`](larder::Stats) counts, as text over HTTP.
//!
//! # Model
//! Prometheus' text exposition format 0.0.4, by `GET /metrics`. A metric is named after the key of the
//! figure in the JSON of the statistics socket: `page.lookups` is `larder_cache_lookups_total{cache="page"}`.
//!
//! # Invariants
//! 1. Whoever can connect may ask, and nothing else: a request changes nothing, and names no file.
//! 2. The buckets of the caches are looked at once a second at most, however many ask.
//! 3. A client that is slow, silent or endless holds up no other; what it holds is a descriptor and
//!    16 KiB for 5 seconds.

mod exporter;
mod exposition;
pub mod http;

pub use exporter::{Exporter, Metrics};
pub use exposition::exposition;
