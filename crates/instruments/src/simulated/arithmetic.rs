//! Integer arithmetic on times and rates, so that a run is identical on every machine.

use std::time::Duration;

pub(super) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Converts a duration to nanoseconds. A duration of more than about 580 years is cut to the maximum.
pub(super) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the earliest of the times that are set.
pub(super) fn earliest<const N: usize>(times_ns: [Option<u64>; N]) -> Option<u64> {
    // This runs after every event. The minimum over an iterator of options takes several times as long.
    let mut earliest_ns = u64::MAX;
    for time_ns in times_ns {
        earliest_ns = earliest_ns.min(time_ns.unwrap_or(u64::MAX));
    }
    (earliest_ns < u64::MAX).then_some(earliest_ns)
}

/// Returns `value * times / over`, rounded down.
pub(super) fn scale(value: u64, times: u64, over: u64) -> u64 {
    // The 128-bit division below is many times slower, and seldom needed.
    if let Some(product) = value.checked_mul(times) {
        return product / over;
    }
    let scaled = u128::from(value) * u128::from(times) / u128::from(over);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns the time that the transfer of `len_bytes` takes, or 0 if the rate is unlimited.
pub(super) fn transfer_ns(len_bytes: u64, bytes_per_second: Option<u64>) -> u64 {
    bytes_per_second.map_or(0, |rate| scale(len_bytes, NANOS_PER_SECOND, rate.max(1)))
}
