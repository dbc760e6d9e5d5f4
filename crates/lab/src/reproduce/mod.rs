//! Reproduces published tables, and compares them with measurements or simulations made here:
//! [`lever2000`] (hash functions), [`wu2007`] (readahead) and [`kara2016`] (mbcache).
//!
//! Each report begins with a page (`front_page`) of all findings: claims, published effects beside ours, and
//! verdicts. Tables follow, then the method, with the criterion of each finding, then the limits, and then what
//! changed since the last version. [`finding`] defines how findings are judged.

pub mod finding;
mod front_page;
pub mod kara2016;
pub mod lever2000;
pub mod program;
pub mod state;
pub mod wu2007;
