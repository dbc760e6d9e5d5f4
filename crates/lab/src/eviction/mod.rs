//! Compares replacement policies on recorded traces: the clock of Larder's frames with policies of the
//! literature and with the optimum.
//!
//! # Model
//! A trace becomes a [`Workload`]: accesses to numbered objects, and removals. Each policy runs on each workload
//! with caches of several sizes, and the misses are counted. A policy is a cache without contents ([`Policy`]).
//! All objects have the same size. `docs/design/eviction.md` describes the method and the results.
//!
//! # Cost
//! An access takes some 20 ns. A workload takes 12 bytes for each access; a policy takes up to 32 bytes for each
//! object of the workload.
//!
//! # Tests
//! Each policy is compared with a simple model that follows its description (`models.rs`). In addition, Belady's policy
//! is compared with all possible evictions, and the clock of the frames with the page cache itself.
//! `crates/lab-cli/tests/eviction.rs` compares the policies with libCacheSim.

mod access;
mod arc;
mod belady;
mod clock;
mod error;
mod frames;
mod frequency;
mod lists;
mod load;
mod lru;
#[cfg(test)]
mod models;
mod policy;
mod report;
mod sieve;
mod size;
mod small_main;
mod study;
mod summary;
mod w_tiny_lfu;
mod workload;

pub use access::{Access, NEVER, Object, Policy};
pub use error::Error;
pub use load::{Loading, load};
pub use policy::{PolicyName, UnknownPolicy};
pub use size::{CacheSize, Sizes};
pub use study::{Cell, Study, cells, study};
pub use summary::{PolicySummary, Verdict};
pub use workload::{Step, TraceOrigin, Workload, WorkloadBuilder};
