//! Traces: reads the format of [`larder_trace`], imports recordings of other programs, and records
//! the kernel and the keys of tables outside of the caches.
//!
//! # Cost
//! A reader uses about 50 MB for one decoded row group, and a kilobyte for the metadata of each row group.

mod checkpoint;
mod columns;
mod error;
pub mod export;
mod footer;
pub mod import;
mod info;
pub mod kernel;
mod losses;
pub mod procfs;
mod reader;
mod row_group;
mod salvage;
mod summary;

pub use error::Error;
pub use losses::Losses;
pub use reader::{Tolerance, TraceReader};
pub use salvage::salvage;
pub use summary::TraceSummary;
