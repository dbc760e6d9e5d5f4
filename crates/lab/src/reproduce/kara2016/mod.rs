//! The table of Kara 2016, measured again, simulated, and judged beside the published one.

pub mod findings;
pub mod grid;
pub mod verdict;
