//! Divides the units of a profile into requests.
//!
//! # Model
//! All requests are in flight at once, so the number of requests matters less than the bytes between the units
//! that are not needed. Ranges are joined across the smallest gaps first, in two steps:
//!
//! 1. Gaps of at most [`MAX_GAP_UNITS`], while at most a fifth of all fetched bytes is unneeded.
//! 2. If there are still more than [`MAX_REQUESTS`] requests: gaps of any size, with the same limit.
//!
//! The requests are in the order of the first use of their units.

use std::collections::HashMap;
use std::ops::Range;

/// The number of requests that a profile should cost at most.
const MAX_REQUESTS: usize = 16;
