//! Hash functions under the keys that caches really see: replayed from a trace, measured, compared.
//!
//! # Model
//! "One should always test with actual data before deciding on a hash function" (Lever 2000). A
//! [`Source`] of events is surveyed once for what no function can change ([`Survey`]), then replayed
//! in the caches' own table for each function and size ([`replay()`]); [`HashReport`] sets them side by side.

mod choice;
mod completion;
pub mod constant;
pub mod cost;
mod counters;
mod error;
mod keys;
mod plots;
mod ranks;
mod replay;
mod report;
mod room;
mod row;
mod source;
mod step;
mod survey;
mod sweep;
mod timing;
mod trees;

pub use choice::{Functions, Sizes, own_function};
pub use error::Error;
pub use keys::{KeyKind, Keys};
pub(crate) use replay::BUCKET_BYTES;
pub use report::{CacheReport, HashReport};
pub use room::{object_bytes, room_of};
pub use row::{Chains, Row, p_value};
pub use source::{Prefix, Room, Source, TraceFile, Wanted};
pub use survey::{Links, Survey};
pub use sweep::{
    Combination, Outcome, SEGMENTS, Surveys, replay, segment_end, survey, survey_from, table_bytes,
};
pub use timing::{LookupTime, Timing};
