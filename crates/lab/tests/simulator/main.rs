//! Tests of the simulator: counts are consistent, the same seed gives the same result, no reader
//! waits forever, and known properties of each policy are visible.

mod behaviour;
mod determinism;
mod properties;
mod support;
mod thrashing;
mod writing;
