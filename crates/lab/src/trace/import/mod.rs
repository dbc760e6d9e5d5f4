//! Imports.

mod lines;
mod skipped;
pub mod strace;

pub use skipped::{Skipped, SkippedLines};
