//! Compares hash functions on the keys that caches look up: replays a trace with each function, and counts and
//! times the lookups.
//!
//! # Model
//! "One should always test with actual data before deciding on a hash function" (Lever 2000). The events of a
//! [`Source`] (a trace, or generated keys) are read once to compute the properties that do not depend on the
//! function ([`Survey`]). Then they are replayed for each function and table size, in the table
//! implementation that the caches use ([`replay()`]). [`HashReport`] compares the results. A link is an entry
//! that a lookup compares with its key.

mod cache_report;
mod capacity;
mod choice;
mod combination;
mod completion;
pub mod constant;
pub(crate) mod cost;
mod counters;
mod error;
mod index;
mod keys;
mod plots;
mod ranks;
mod replay;
mod report;
mod row;
mod segments;
mod source;
mod step;
mod survey;
mod sweep;
mod timing;
mod trees;

pub use capacity::capacity_of;
pub(crate) use choice::own_function;
pub use choice::{Functions, Sizes};
pub use combination::Combination;
pub use error::Error;
pub use keys::{KeyKind, Keys};
pub(crate) use replay::BUCKET_BYTES;
pub use report::HashReport;
pub(crate) use row::Row;
pub use row::p_value;
pub use segments::SEGMENTS;
pub(crate) use segments::segment_end;
pub(crate) use source::Prefix;
pub use source::{BatchConsumer, Capacity, Source, TraceFile, Wanted};
pub use survey::Survey;
pub use sweep::{Outcome, Surveys, replay, survey, survey_from};
pub(crate) use timing::{LookupTime, Timing};
