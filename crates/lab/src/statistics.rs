//! Statistics over several runs.

mod bootstrap;
mod figures;
mod interval;

pub(crate) use bootstrap::percentile_range;
pub use figures::{Figures, deviation, mean, median};
pub use interval::Interval;
