//! Devices that only tests need; those that count, record or fail are in larder-block.

mod patched;
mod pattern;

pub use patched::PatchedDevice;
pub use pattern::{PatternDevice, fill_pattern, pattern_at};
