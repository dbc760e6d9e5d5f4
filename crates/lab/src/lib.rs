//! The lab: experiments with the code of Larder's caches and readahead. Some run in virtual time
//! ([`simulator`], [`contention`]); others are timed on this machine ([`xattr_bench`], [`sdm`]).

#![forbid(unsafe_code)]

pub mod advise;
pub mod cells;
pub mod compare;
mod comparison_report;
mod concurrent;
mod contention;
pub mod eviction;
pub mod hash;
pub mod operations;
pub mod output;
mod published;
pub mod readahead_replay;
pub mod reproduce;
pub mod run_report;
pub mod sdm;
pub mod simulator;
mod statistics;
pub mod trace;
pub mod tune;
pub mod verify;
pub mod workload;
pub mod xattr_bench;
