//! The simulator: what a run counts adds up, one seed gives one result, no reader waits for ever,
//! and what is known of each policy shows.

mod behaviour;
mod determinism;
mod properties;
mod support;
mod thrashing;
mod writing;
