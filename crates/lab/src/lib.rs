//! The lab: experiments with the code of Larder's caches and readahead. Some run in virtual time
//! ([`simulator`], [`contention`]); others are timed on this machine ([`xattr_bench`], [`sdm`]).

#![forbid(unsafe_code)]

pub mod compare;
mod comparison_report;
mod concurrent;
mod contention;
pub mod hash;
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
