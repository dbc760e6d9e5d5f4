//! Measures how much must be in flight so that the link to the server is never idle.
//!
//! # Model
//! This is the product of bandwidth and delay, as TCP's congestion control BBR estimates it. The delay is the time
//! until the head of a reply has arrived: a shorter time counts at once, a longer one by a part, because a new
//! connection or a busy server only delays some replies. The bandwidth is the most that arrived in an interval of
//! [`INTERVAL`] without a pause.
//!
//! A window of readahead has [twice](Pace::window_bytes) the product. While a program reads one window, the next one
//! is in flight. If the windows are too short to fill the link, the measured bandwidth is what two windows transfer
//! in a round trip, so the next measure is larger, until the link is full.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The minimum window. It fills a link of 1 Gbit/s with a delay of 30 ms.
const MIN_WINDOW_BYTES: u64 = 4 << 20;
/// The time for which arriving bytes are counted. The parts of a reply arrive in bursts, so the rate of a shorter
/// interval would be too high.
const INTERVAL: Duration = Duration::from_millis(10);
/// A longer delay than the estimate counts by this part, as a divisor.
const RISE_DIVISOR: u32 = 32;

/// The delay and the bandwidth of the link, as measured so far.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    delay: Option<Duration>,
    bytes_per_second: u64,
    interval: Option<Interval>,
}

/// An interval in which bytes arrive without a pause.
#[derive(Debug)]
struct Interval {
    start: Instant,
    last: Instant,
    bytes: u64,
}

impl Pace {
    /// Records the time from a request to the head of its reply.
    pub(crate) fn count_delay(&self, delay: Duration) {
        let mut state = self.0.lock();
        state.delay = Some(match state.delay {
            Some(known) if known < delay => known + delay.saturating_sub(known) / RISE_DIVISOR,
            _ => delay,
        });
    }

    /// Records that `bytes` bytes arrived at `now`.
    pub(crate) fn count_bytes(&self, bytes: u64, now: Instant) {
        let mut state = self.0.lock();
        let Some(interval) = &mut state.interval else {
            state.interval = Some(Interval::new(now));
            return;
        };
        if now.saturating_duration_since(interval.last) > INTERVAL {
            *interval = Interval::new(now);
            return;
        }
        interval.last = interval.last.max(now);
        interval.bytes += bytes;
        let time = interval.last - interval.start;
        if time >= INTERVAL {
            let rate = u128::from(interval.bytes) * 1_000_000_000 / time.as_nanos();
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            state.bytes_per_second = state.bytes_per_second.max(rate);
            state.interval = Some(Interval::new(now));
        }
    }

    /// Returns the length of a window of readahead that keeps the link busy, in bytes.
    pub(crate) fn window_bytes(&self) -> u64 {
        let state = self.0.lock();
        let delay = state.delay.unwrap_or_default();
        let product = u128::from(state.bytes_per_second) * delay.as_nanos() / 1_000_000_000;
        let product = u64::try_from(product).unwrap_or(u64::MAX);
        product.saturating_mul(2).max(MIN_WINDOW_BYTES)
    }
}

impl Interval {
    /// An interval that starts with an arrival. The bytes of this arrival were sent before.
    fn new(now: Instant) -> Self {
        Self {
            start: now,
            last: now,
            bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Counts 100 arrivals of `bytes`, one in a millisecond. Returns the time of the last.
    fn arrive(pace: &Pace, start: Instant, bytes: u64) -> Instant {
        let arrivals = (1..=100).map(|number| start + MILLISECOND * number);
        arrivals
            .inspect(|&now| pace.count_bytes(bytes, now))
            .last()
            .unwrap()
    }

    #[test]
    fn window_is_twice_the_product_of_bandwidth_and_delay() {
        let pace = Pace::default();
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
        pace.count_delay(MILLISECOND * 30);
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
        let end = arrive(&pace, Instant::now(), 1_000_000);
        assert_eq!(pace.window_bytes(), 2 * 30 * 1_000_000);
        // A pause, and an application that reads less, do not lower the bandwidth.
        arrive(&pace, end + MILLISECOND * 500, 1000);
        assert_eq!(pace.window_bytes(), 2 * 30 * 1_000_000);
    }

    #[test]
    fn bytes_after_a_pause_do_not_count_for_the_time_of_the_pause() {
        let pace = Pace::default();
        pace.count_delay(MILLISECOND * 100);
        let start = Instant::now();
        // Single units, far apart: their rate is not known.
        for number in 0..100 {
            pace.count_bytes(1 << 30, start + MILLISECOND * 20 * number);
        }
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
    }

    #[test]
    fn shorter_delay_counts_at_once_and_a_longer_one_by_a_part() {
        let pace = Pace::default();
        arrive(&pace, Instant::now(), 1_000_000);
        pace.count_delay(MILLISECOND * 64);
        pace.count_delay(MILLISECOND * 32);
        assert_eq!(pace.window_bytes(), 2 * 32 * 1_000_000);
        pace.count_delay(MILLISECOND * 64);
        assert_eq!(pace.window_bytes(), 2 * 33 * 1_000_000);
    }
}
