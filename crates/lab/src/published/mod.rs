//! Figures of the published documents, as they were printed, to be shown beside ours.
//!
//! One CSV file a table, beside this file. Wu 2007 is the change description "readahead:
//! on-demand readahead logic" of Linux 2.6.23: 2.6.20 (here `legacy`) against the same with
//! on-demand readahead (`ondemand`).
//!
//! Tests: the copies are held to the sums, averages and percentages that the document prints too.

mod wu2007;

pub use wu2007::{
    AioStressRow, CpuRow, FileIoRow, IozoneRow, OltpRow, Pair, ThrashingRow, aio_stress, cpu,
    fileio, iozone, oltp, thrashing,
};
