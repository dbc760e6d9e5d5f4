//! Functions that the programs `larder` and `larder-lab` share: they parse sizes and counts, and print
//! failures, names, times and JSON.

#![forbid(unsafe_code)]

mod cache;
pub mod count;
mod failure;
mod json;
pub mod logging;
pub mod name;
pub mod size;
pub mod time;
mod usage;

pub use cache::Cache;
pub use failure::{Failure, Result, tell_error, tell_hint, tell_note, tell_warning};
pub use json::write_json;
pub use usage::tell_usage;
