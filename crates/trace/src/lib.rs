//! Traces: what caches were asked, kept in a Parquet file, a row an event.
//!
//! # Model
//! `perf record`, for the tables of caches: recorded once ([`TraceRecorder`] from our own caches),
//! read by anything that reads Parquet, replayed as often as one likes.
//!
//! # Layout
//!
//! ```text
//! PAR1 | row group | checkpoint | row group | checkpoint | ... | footer | PAR1
//! ```
//!
//! The columns are those of [`columns`]. A [`checkpoint`] describes the row group in front of it, so
//! that a trace whose writer was killed, and which has no footer, can be read up to the last whole
//! row group. Readers of Parquet start from the footer and see no checkpoints. Footer and checkpoints
//! have the CRC-32C of row groups, and one of their own: what was damaged is told, not decoded.
//!
//! # Cost
//! Writing keeps one row group of 512 Ki rows and its pages, some 50 MB, however long the
//! trace is, and a kilobyte for each row group.

#![forbid(unsafe_code)]

mod batch;
pub mod checkpoint;
pub mod columns;
mod error;
mod event;
pub mod footer;
pub mod info;
mod lanes;
mod recorder;
mod writer;

pub use batch::Batch;
pub use error::Error;
pub use event::TraceEvent;
pub use info::{TableInfo, TraceInfo};
pub use lanes::Overflow;
pub use recorder::{Recorded, TraceRecorder};
pub use writer::{ROW_GROUP_ROWS, TraceWriter};
