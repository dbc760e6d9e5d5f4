//! Serves all counts of [`Stats`](larder::Stats) to Prometheus, as text over HTTP.
//!
//! # Model
//! `GET /metrics` returns the metrics in Prometheus' text exposition format 0.0.4. The name of a metric
//! is derived from the key of the same count in the JSON of the statistics socket. For example,
//! `page.lookups` becomes `larder_cache_lookups_total{cache="page"}`.
//!
//! # Invariants
//! 1. A client that can connect can read the metrics and nothing else. No request changes anything or
//!    reads a file.
//! 2. The counts are read at most once a second, even if there are more requests. The time for this does not depend on
//!    the sizes of the caches: no hash table is visited.
//! 3. No client receives names of files or programs, or paths of the host.
//! 4. A client that sends slowly, sends nothing or sends without end does not delay other clients. Such
//!    a client uses one descriptor and 16 KiB of memory for at most 5 seconds.

mod exporter;
mod exposition;
pub mod http;
mod text;

pub use exporter::{Exporter, Metrics};
pub use exposition::exposition;
