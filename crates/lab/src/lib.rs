//! The lab: examines caches and readahead with the real code, either in virtual time
//! ([`simulator`], [`contention`]), or timed on this machine ([`xattr_bench`], [`sdm`]).

#![forbid(unsafe_code)]

pub mod compare;
mod comparison_report;
mod concurrent;
mod contention;
pub mod hash;
pub mod mke2fs;
pub mod operations;
pub mod output;
mod published;
pub mod reproduce;
pub mod run_report;
pub mod sdm;
pub mod simulator;
mod statistics;
pub mod trace;
pub mod tune;
pub mod workload;
pub mod xattr_bench;
