//! The published tables, made again in the simulator and judged beside the published figures.

pub mod criterion;
