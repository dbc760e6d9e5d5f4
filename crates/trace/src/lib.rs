//! Traces: operations of caches in a Parquet file, one event in each row.
//!
//! # Model
//! `perf record`, for the tables of caches: recorded once ([`TraceRecorder`] records Larder's own
//! caches), readable by any Parquet reader, replayed any number of times.
//!
//! # Layout
//!
//! ```text
//! PAR1 | row group | checkpoint | row group | checkpoint | ... | footer | PAR1
//! ```
//!
//! The columns are those of [`columns`]. A [`checkpoint`] describes the row group before it. If the
//! writer was killed, the trace has no footer, but it can be read up to its last complete row group.
//! Readers of Parquet start at the footer and do not see checkpoints. Footer and checkpoints contain
//! the CRC-32C of row groups, and one of their own. Damage is reported as an error, and damaged data
//! is not decoded.
//!
//! # Cost
//! The writer keeps one row group of 512 Ki rows and its pages in memory, about 50 MB regardless of
//! the length of the trace, and one kilobyte for each row group.

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
