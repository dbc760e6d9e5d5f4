//! The table beside concurrent maps of other crates, and one that is not concurrent.
//!
//! | side | what it is |
//! |---|---|
//! | larder | our table, a lookup that copies |
//! | larder-pin | the same table, a lookup that pins the entry and lets it go |
//! | larder-ahead | the same table, lookups that are told ahead of what comes next |
//! | larder-uncounted | the same table, a lookup that pins and counts nothing: what `larder-pin` takes more is counting |
//! | dashmap, papaya, scc-index, scc-map | the peers, with foldhash |
//! | hashbrown | a map for one thread, with foldhash |
//!
//! All have the same keys of 16 bytes, values of 4 bytes, and room for all of them from the start. The
//! workloads are in [`keys`], those that were recorded in [`recorded`]. What a guard can be held for, it is held for: a whole batch of lookups.
//! Rounds go through the sides in a rotating order; each side's threads are bound to processors of
//! their own. What is compared is processor time, which other processes disturb less than the clock
//! on the wall.
//!
//! Each batch checks what it found: the sum of the values, and that no key was missed.

pub mod keys;
pub mod maps;
pub mod plan;
pub mod recorded;
pub mod report;
pub mod results;
pub mod run;
pub mod side;
