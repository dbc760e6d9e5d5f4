//! The published results of Wu 2007, Kara 2016 and Lever 2000, as printed, for comparison with measurements.
//!
//! Each table is a CSV file in this directory. Wu 2007 is the change description "readahead:
//! on-demand readahead logic" of Linux 2.6.23: it compares 2.6.20 (here `legacy`) with the same
//! kernel with on-demand readahead (`ondemand`). Kara 2016 is the letter "ext\[24\]: `MBCache`
//! rewrite" to linux-ext4 (version 3, 22 February 2016): it compares the cache of shared attribute
//! blocks before and after the rewrite, with three eviction orders, and without a cache. Lever 2000
//! is "Linux Kernel Hash Table Behavior: Analysis and Improvements": it compares functions and
//! sizes of the hash tables of Linux 2.2.5.
//!
//! Tests: the documents also contain sums, averages and percentages. Tests compute them from these tables,
//! and compare them with the printed ones.

pub mod kara2016;
pub mod lever2000;
mod table;
mod wu2007;

pub use wu2007::{Pair, ThrashingRow, aio_stress, cpu, fileio, iozone, oltp, thrashing};
