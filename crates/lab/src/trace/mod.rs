//! Traces: reads the format of [`larder_trace`], imports recordings of other programs, and records
//! the kernel.
//!
//! # Cost
//! A reader uses memory for one row group and its pages, some 50 MB, whatever the length of the
//! trace, and a kilobyte for each row group.

mod checkpoint;
mod columns;
mod error;
pub mod export;
mod footer;
pub mod import;
mod info;
pub mod kernel;
mod losses;
mod reader;
mod row_group;
mod salvage;
mod summary;

pub use error::Error;
pub use losses::Losses;
pub use reader::{Tolerance, TraceReader};
pub use salvage::salvage;
pub use summary::TraceSummary;
