//! Functions shared by the programs `larder` and `larder-lab`. They parse sizes and counts, print failures, names,
//! times and JSON, and complete command lines.
//!
//! ```
//! use larder_console::{name, size};
//!
//! assert_eq!(size::parse("64M"), Ok(64 << 20));
//! assert_eq!(name::escaped(b"new\nline"), "new\\nline");
//! ```

#![forbid(unsafe_code)]

mod cache;
pub mod complete;
pub mod count;
mod failure;
mod json;
pub mod logging;
pub mod name;
pub mod size;
pub mod time;
mod usage;

pub use cache::Cache;
pub use failure::{Failure, Result, print_error, print_hint, print_note, print_warning};
pub use json::{write_json, write_json_line};
pub use usage::print_usage;
