//! Devices that only tests need. The devices that count, record or fail are in `larder-instruments`.

mod gated;
mod patched;
mod pattern;

pub use gated::{GatedDevice, Stopped, StoppedDevice};
pub use patched::PatchedDevice;
pub use pattern::{PatternDevice, fill_pattern, pattern_at};
