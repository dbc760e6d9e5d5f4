//! Traces: reads the format of [`larder_trace`], imports recordings of other programs, and records
//! the kernel and the keys of tables outside of the caches.
//!
//! # Cost
//! A reader uses about 50 MB for one decoded row group, and a kilobyte for the metadata of each row group.

mod checked_pages;
mod checkpoint;
mod code_pages;
mod column;
mod columns;
mod error;
pub mod export;
mod file_columns;
mod footer;
pub mod import;
mod info;
pub mod kernel;
mod losses;
mod name_codes;
pub mod procfs;
mod reader;
mod row_group;
mod salvage;
mod summary;
mod think_times;

pub use error::Error;
pub use losses::Losses;
pub use reader::{Tolerance, TraceReader};
pub use salvage::salvage;
pub use summary::{CacheEvents, FileEvents, TraceSummary};
pub use think_times::{Reader, ThinkTimes};
