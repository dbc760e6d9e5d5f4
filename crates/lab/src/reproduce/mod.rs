//! Reproduces the experiments of three publications, and compares the results with the published ones:
//! [`lever2000`] (hash functions), [`wu2007`] (readahead) and [`kara2016`] (mbcache).
//!
//! Each report states, before its results, the criterion by which a result agrees with the publication.
//! [`finding`] defines how findings are judged.

pub mod finding;
pub mod kara2016;
pub mod lever2000;
pub mod wu2007;
