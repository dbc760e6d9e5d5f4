//! Measures how much must be in flight so that the link to the server is never idle.
//!
//! # Model
//! The amount is the product of bandwidth and delay, as TCP's congestion control BBR estimates it: the largest
//! bandwidth and the shortest delay, each over the present period and the previous one. A period lasts at least
//! [`PERIOD`]. The delay is the time until the head of a reply has arrived. The bandwidth is measured over intervals
//! of at least the delay.
//!
//! A window of readahead has at most [twice](Pace::window_bytes) the product, or [`MIN_WINDOW_BYTES`] if that is
//! more. The factor of two lets windows grow: if windows are too short to fill the link, two are in flight at a time,
//! the one for which the program waits and the next one. Two windows arrive per round trip, so the measured product is
//! two windows. The limit, twice the product, is then four windows, and so on until the link is full.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The minimum of [`Pace::window_bytes`]. A window of this length fills a link of 1 Gbit/s with a delay of 30 ms.
const MIN_WINDOW_BYTES: u64 = 4 << 20;
/// The minimum time for which arriving bytes are counted. The parts of a reply arrive in bursts, so the rate of a
/// shorter interval would be too high.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The time after which a measurement can be forgotten: the link may have changed, or a measurement was too good by
/// chance.
const PERIOD: Duration = Duration::from_secs(10);

/// The delay and the bandwidth of the link, as measured so far.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    delay: Option<Recent<Duration>>,
    bytes_per_second: Option<Recent<u64>>,
    interval: Option<Interval>,
}

/// The best measurements of this period and of the previous one. A period ends with the first measurement taken at
/// least [`PERIOD`] after its start, so nothing is forgotten while nothing is measured.
#[derive(Debug)]
struct Recent<T> {
    start: Instant,
    present: T,
    previous: T,
}

/// An interval in which bytes arrive without a long pause.
#[derive(Debug)]
struct Interval {
    start: Instant,
    last: Instant,
    bytes: u64,
}

impl Pace {
    /// Records the time from a request to the head of its reply, which arrived at `now`.
    pub(crate) fn count_delay(&self, delay: Duration, now: Instant) {
        let mut state = self.0.lock();
        Recent::add(&mut state.delay, delay, now, Ord::min);
    }

    /// Records that `bytes` bytes arrived at `now`.
    pub(crate) fn count_bytes(&self, bytes: u64, now: Instant) {
        let mut state = self.0.lock();
        let min_time = state.delay().max(MIN_INTERVAL);
        let Some(interval) = &mut state.interval else {
            state.interval = Some(Interval::new(now));
            return;
        };
        if now.saturating_duration_since(interval.last) > min_time * 2 {
            *interval = Interval::new(now);
            return;
        }
        interval.last = interval.last.max(now);
        interval.bytes += bytes;
        let time = interval.last.saturating_duration_since(interval.start);
        if time >= min_time {
            let rate = u128::from(interval.bytes) * 1_000_000_000 / time.as_nanos();
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            Recent::add(&mut state.bytes_per_second, rate, now, Ord::max);
            state.interval = Some(Interval::new(now));
        }
    }

    /// Returns the maximum length of a window of readahead, in bytes. A window of this length keeps the link busy.
    pub(crate) fn window_bytes(&self) -> u64 {
        let state = self.0.lock();
        let rate = state.bytes_per_second.as_ref();
        let rate = rate.map_or(0, |rate| rate.present.max(rate.previous));
        let product = u128::from(rate) * state.delay().as_nanos() / 1_000_000_000;
        let product = u64::try_from(product).unwrap_or(u64::MAX);
        product.saturating_mul(2).max(MIN_WINDOW_BYTES)
    }
}

impl State {
    /// Returns the delay, or zero if none was measured.
    fn delay(&self) -> Duration {
        let delay = self.delay.as_ref();
        delay.map_or(Duration::ZERO, |delay| delay.present.min(delay.previous))
    }
}

impl<T: Copy> Recent<T> {
    /// Adds a measurement. `best` returns the better one of two.
    fn add(recent: &mut Option<Self>, measured: T, now: Instant, best: fn(T, T) -> T) {
        match recent {
            Some(recent) if now.saturating_duration_since(recent.start) < PERIOD => {
                recent.present = best(recent.present, measured);
            }
            _ => {
                *recent = Some(Self {
                    start: now,
                    present: measured,
                    previous: recent.as_ref().map_or(measured, |recent| recent.present),
                });
            }
        }
    }
}

impl Interval {
    /// Creates an interval that starts with an arrival. The bytes of this arrival were sent before the interval
    /// began, so they are not counted.
    fn new(now: Instant) -> Self {
        Self {
            start: now,
            last: now,
            bytes: 0,
        }
    }
}

#[cfg(test)]
impl Pace {
    /// Returns the delay, if one was measured.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let state = self.0.lock();
        state.delay.is_some().then(|| state.delay())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Counts 100 arrivals of `bytes`, one each `step`. Returns the time of the last.
    fn arrive(pace: &Pace, start: Instant, bytes: u64, step: Duration) -> Instant {
        let arrivals = (1..=100).map(|number| start + step * number);
        arrivals
            .inspect(|&now| pace.count_bytes(bytes, now))
            .last()
            .unwrap()
    }

    #[test]
    fn window_is_twice_the_product_of_bandwidth_and_delay() {
        let (pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
        pace.count_delay(MILLISECOND * 30, start);
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
        let end = arrive(&pace, start, 1_000_000, MILLISECOND);
        assert_eq!(pace.window_bytes(), 2 * 30 * 1_000_000);
        // A pause, and an application that reads less, do not lower the bandwidth.
        arrive(&pace, end + MILLISECOND * 500, 1000, MILLISECOND);
        assert_eq!(pace.window_bytes(), 2 * 30 * 1_000_000);
    }

    #[test]
    fn bandwidth_is_forgotten_after_two_periods_with_measurements() {
        let (pace, start) = (Pace::default(), Instant::now());
        pace.count_delay(MILLISECOND * 30, start);
        arrive(&pace, start, 1_000_000, MILLISECOND);
        let later = arrive(&pace, start + PERIOD * 9, 500_000, MILLISECOND);
        assert_eq!(pace.window_bytes(), 2 * 30 * 1_000_000);
        arrive(&pace, later + PERIOD, 500_000, MILLISECOND);
        assert_eq!(pace.window_bytes(), 2 * 30 * 500_000);
    }

    #[test]
    fn bursts_once_in_a_round_trip_are_measured_over_the_round_trip() {
        let (pace, start) = (Pace::default(), Instant::now());
        pace.count_delay(MILLISECOND * 30, start);
        arrive(&pace, start, 9_000_000, MILLISECOND * 30);
        assert_eq!(pace.window_bytes(), 2 * 9_000_000);
    }

    #[test]
    fn bytes_after_a_long_pause_do_not_count_for_the_time_of_the_pause() {
        let (pace, start) = (Pace::default(), Instant::now());
        pace.count_delay(MILLISECOND * 100, start);
        // Single arrivals, too far apart to form an interval: the rate is unknown.
        arrive(&pace, start, 1 << 30, MILLISECOND * 201);
        assert_eq!(pace.window_bytes(), MIN_WINDOW_BYTES);
    }

    #[test]
    fn shortest_delay_counts_until_it_is_forgotten() {
        let (pace, start) = (Pace::default(), Instant::now());
        arrive(&pace, start, 1_000_000, MILLISECOND);
        for delay in [64, 32, 64] {
            pace.count_delay(MILLISECOND * delay, start);
        }
        assert_eq!(pace.window_bytes(), 2 * 32 * 1_000_000);
        for periods in 1..=2 {
            pace.count_delay(MILLISECOND * 64, start + PERIOD * periods);
        }
        assert_eq!(pace.window_bytes(), 2 * 64 * 1_000_000);
    }
}
