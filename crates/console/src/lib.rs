//! What the programs `larder` and `larder-lab` share: how they read sizes and counts, and how they
//! print failures, names, times and JSON.

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
