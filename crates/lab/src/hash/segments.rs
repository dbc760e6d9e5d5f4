//! The segments of a trace.

/// Number of segments of a trace. The lookups of each segment are counted separately. The numbers of events
/// of two segments differ by at most one.
pub const SEGMENTS: u64 = 32;

/// Returns the end of segment `number` (from 0) of a trace of `events` events: the number of events before
/// the next segment. Returns `None` if there is no such segment.
pub(crate) fn segment_end(number: u64, events: u64) -> Option<u64> {
    // Divides first: the product of the events and the number could overflow.
    let (each, more) = (events / SEGMENTS, events % SEGMENTS);
    let end = || (number + 1) * each + ((number + 1) * more).div_ceil(SEGMENTS);
    (number < SEGMENTS).then(end)
}
