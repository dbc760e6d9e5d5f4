//! The lab: replays what caches and readahead do, in virtual time, with the real code.

#![forbid(unsafe_code)]

pub mod compare;
mod comparison_report;
pub mod contention;
pub mod output;
pub mod published;
pub mod reproduce;
pub mod run_report;
pub mod simulator;
pub mod workload;
pub mod xattr_bench;
