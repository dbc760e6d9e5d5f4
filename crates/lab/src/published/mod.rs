//! Figures of the published documents, as they were printed, to be shown beside ours.
//!
//! One CSV file a table, beside this file. Wu 2007 is the change description "readahead:
//! on-demand readahead logic" of Linux 2.6.23: 2.6.20 (here `legacy`) against the same with
//! on-demand readahead (`ondemand`). Kara 2016 is the letter "ext\[24\]: `MBCache` rewrite" to
//! linux-ext4 (version 3, 22 February 2016): the cache of shared attribute blocks before and after,
//! with three orders of eviction, and without one. Lever 2000 is "Linux Kernel Hash Table Behavior:
//! Analysis and Improvements": functions and sizes of the hash tables of Linux 2.2.5.
//!
//! Tests: the copies are held to the sums, averages and percentages that the document prints too.

pub mod kara2016;
pub mod lever2000;
mod wu2007;

use serde::de::DeserializeOwned;

pub use wu2007::{Pair, ThrashingRow, aio_stress, cpu, fileio, iozone, oltp, thrashing};

/// The rows of one of the files beside this one, which are part of the program.
fn rows<T: DeserializeOwned>(text: &str) -> Vec<T> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("a table that is compiled in is well-formed")
}
