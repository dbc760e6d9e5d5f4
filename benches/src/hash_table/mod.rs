//! Larder's table compared with concurrent maps of other crates, and with one that is not concurrent.
//!
//! | side | what it is |
//! |---|---|
//! | larder | Larder's table, a lookup that copies the value |
//! | larder-pin | the same table, a lookup that pins the entry and releases it |
//! | larder-ahead | the same table, a lookup that copies the value, with prefetches for the following lookups |
//! | larder-uncounted | the same table, a lookup that pins the entry without updating the counters: the difference from `larder-pin` is the cost of counting |
//! | dashmap, papaya, scc-index, scc-map | the peers, with foldhash |
//! | hashbrown | a map for one thread, with foldhash |
//!
//! All maps have the same keys of 16 bytes and values of 4 bytes, and room for all keys from the start. The
//! workloads are in [`keys`], and those from a trace in [`recorded`]. In a map with guards, one guard is held
//! for a whole batch of lookups. The order of the sides rotates from round to round. Each thread of a side is
//! bound to its own processor. The sides are compared by processor time, which other processes disturb less
//! than wall time.
//!
//! Each measurement without removals checks its results: that every key was found, and the sum of the
//! values.

mod draws;
pub mod keys;
pub mod maps;
pub mod plan;
pub mod recorded;
pub mod report;
pub mod results;
pub mod run;
pub mod side;
