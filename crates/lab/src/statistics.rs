//! Statistics over several runs.

mod bootstrap;
mod figures;
mod interval;

pub(crate) use bootstrap::percentile_range;
pub use figures::{Figures, deviation, geometric_mean, mean, median};
pub use interval::Interval;
