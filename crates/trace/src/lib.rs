//! Traces: Parquet files with the lookups, insertions and removals in caches and the reads of files, one event in each
//! row.
//!
//! # Model
//! `perf record`, for the tables of caches. [`TraceRecorder`] records the caches of a mount. Any reader of
//! Parquet can read a trace, and the lab can replay it with any hash function.
//!
//! # Layout
//!
//! ```text
//! PAR1 | row group | checkpoint | row group | checkpoint | ... | footer | PAR1
//! ```
//!
//! [`columns`] describes the columns. Each [`checkpoint`] describes the row group before it. If the writer
//! is killed, the trace has no footer, but the checkpoints make it readable up to the last complete row
//! group. Readers of Parquet start at the footer and do not see the checkpoints. The footer and each
//! checkpoint contain the CRC-32C of the row groups that they describe, and a CRC-32C of themselves. Damage
//! is reported as an error, and damaged data is not decoded.
//!
//! While a trace is written, its writer holds an exclusive flock(2) on the file. A reader that finds the lock held knows
//! that the missing footer is not a loss, and reads the complete row groups.
//!
//! # Cost
//! The writer keeps one row group of 512 Ki rows in memory, as rows and as encoded pages. This takes about 50
//! MB for a trace of any length, plus one kilobyte for each row group that was written.
//!
//! # Example
//! A trace of the caches of a volume:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let image = dir.path().join("disk.img");
//! # let trace = dir.path().join("trace.parquet");
//! # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
//! use larder_trace::{Recording, TraceRecorder};
//!
//! let recorder = TraceRecorder::start(&trace, "disk.img", Recording::lossy())?;
//! let fs = larder::OpenOptions::new()
//!     .tape(Some(recorder.tape()))
//!     .open(&image)?;
//! assert!(!fs.exists("/etc")?);
//! drop(fs);
//! let recorded = recorder.finish()?;
//! println!("{} events, {} lost", recorded.events, recorded.lost);
//! # let reader = larder_lab::trace::TraceReader::open(&trace, larder_lab::trace::Tolerance::Whole)?;
//! # assert_eq!(reader.rows(), recorded.events);
//! # assert!(recorded.events > 0);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod batch;
pub mod checkpoint;
pub mod columns;
mod encode;
mod error;
mod event;
pub mod footer;
pub mod info;
mod lanes;
mod paths;
mod recorder;
mod writer;

pub use batch::{Batch, FileRow};
pub use error::Error;
pub use event::{FilePath, FileRead, Row, TraceEvent};
pub use info::{AttributeInfo, MountInfo, TableInfo, TraceInfo};
pub use lanes::Overflow;
pub use recorder::{Recorded, Recording, TraceRecorder};
pub use writer::{ROW_GROUP_AGE, ROW_GROUP_ROWS, TraceWriter};
