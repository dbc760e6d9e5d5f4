//! The journal (jbd2).

mod overlay;

pub use overlay::{Overlay, OverlayEntry, RangeEdit};
