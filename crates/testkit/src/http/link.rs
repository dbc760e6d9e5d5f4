//! A simulated link.
//!
//! # Model
//! A request takes one round-trip time until the first byte of its reply is sent. The replies of all
//! connections then share the bandwidth: they take turns, a part of [`PART_TIME`] each. A part is sent when the
//! link would have transmitted it, that is at an absolute time that follows from the parts before it. So a
//! thread that wakes late does not slow the link: it sends its next parts at once until it has caught up.
//!
//! The round-trip time can be a list: each request takes the next time in it, in the order of receipt.
//!
//! If the bytes per second of each connection are limited too, a part of a reply also waits until the limit permits it.
//!
//! A thread makes up for a delay of at most [`MAX_LAG`]. So in any period, the link sends at most the bytes of
//! this period and of [`MAX_LAG`].
//!
//! Connections are not simulated: a new connection takes no round trip, and a reply is not slowed by TCP's slow
//! start.

use super::body::Body;
use std::io;
use std::net::TcpStream;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time that the link takes for a part of a reply.
const PART_TIME: Duration = Duration::from_micros(200);
/// The minimum length of a part in bytes.
const MIN_PART_BYTES: u64 = 16 << 10;
/// The maximum delay for which a late reply can make up.
const MAX_LAG: Duration = Duration::from_millis(2);

/// A link that delays requests and replies, and limits the bytes per second of all replies together.
#[derive(Debug)]
pub struct Link {
    /// The round-trip times of requests, which are used again when all were used.
    round_trips: Vec<Duration>,
    /// The number of requests so far.
    requests: AtomicUsize,
    bytes_per_second: Option<u64>,
    stream_bytes_per_second: Option<u64>,
    /// The time at which the link has sent all parts that it has accepted.
    free_at: Mutex<Instant>,
}

impl Link {
    /// Creates a link. If `bytes_per_second` is `None`, the bandwidth is not limited.
    #[must_use]
    pub fn new(round_trip: Duration, bytes_per_second: Option<u64>) -> Self {
        Self {
            round_trips: vec![round_trip],
            requests: AtomicUsize::new(0),
            bytes_per_second,
            stream_bytes_per_second: None,
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// Limits the bytes per second of each reply.
    #[must_use]
    pub const fn with_stream_limit(mut self, bytes_per_second: u64) -> Self {
        self.stream_bytes_per_second = Some(bytes_per_second);
        self
    }

    /// Sets the round-trip times of the requests, in the order of receipt. They are used again when all were used.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn with_round_trips(mut self, round_trips: Vec<Duration>) -> Self {
        assert!(!round_trips.is_empty(), "a link has a round-trip time");
        self.round_trips = round_trips;
        self
    }

    /// Makes sleeps of this thread as exact as possible. By default, the kernel can wake a thread 50
    /// microseconds late.
    pub(super) fn prepare_thread() {
        // A kernel that refuses this only makes the link less exact.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }

    /// Waits until one round-trip time after `received`: the way of a request, and the way of the first byte of
    /// its reply.
    pub(super) fn delay(&self, received: Instant) {
        sleep_until(received + self.next_round_trip());
    }

    /// Returns the round-trip time of the next request.
    fn next_round_trip(&self) -> Duration {
        let request = self.requests.fetch_add(1, Relaxed);
        self.round_trips[request % self.round_trips.len()]
    }

    /// Sends `body` to `to`, which must be non-blocking, not faster than the bandwidth allows. Calls `sending` with
    /// the length of each part, just before it is sent.
    pub(super) fn send(
        &self,
        to: &TcpStream,
        body: &Body,
        mut sending: impl FnMut(usize),
    ) -> io::Result<()> {
        let part_bytes = self.part_bytes(body.len());
        // The reply waits for the link since this moment.
        let mut ready_at = Instant::now();
        let mut stream_at = ready_at;
        for start in (0..body.len()).step_by(part_bytes) {
            let part = body.part(start..body.len().min(start + part_bytes));
            if let Some(bytes_per_second) = self.bytes_per_second {
                let now = Instant::now();
                let ready = ready_at.max(now.checked_sub(MAX_LAG).unwrap_or(now));
                ready_at = self.reserve(ready, transmission(part.len(), bytes_per_second));
                sleep_until(ready_at);
            }
            if let Some(bytes_per_second) = self.stream_bytes_per_second {
                stream_at += transmission(part.len(), bytes_per_second);
                sleep_until(stream_at);
            }
            sending(part.len());
            part.send(to)?;
        }
        Ok(())
    }

    /// Returns the length of the parts of a reply of `len` bytes.
    fn part_bytes(&self, len: usize) -> usize {
        let parts = 1_000_000_000 / PART_TIME.as_nanos();
        let of_rate = |rate: u64| u128::from(rate) / parts;
        let rate = self.bytes_per_second.or(self.stream_bytes_per_second);
        let bytes = rate.map_or(len as u128, of_rate);
        usize::try_from(bytes.max(MIN_PART_BYTES.into())).unwrap_or(usize::MAX)
    }

    /// Reserves the link for `time`, at the first moment from `ready` on at which it is free. Returns the end.
    fn reserve(&self, ready: Instant, time: Duration) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(ready) + time;
        *free_at
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new(Duration::ZERO, None)
    }
}

/// Returns the time in which `len` bytes are transmitted.
fn transmission(len: usize, bytes_per_second: u64) -> Duration {
    let nanos = len as u128 * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn sleep_until(time: Instant) {
    let rest = time.saturating_duration_since(Instant::now());
    if !rest.is_zero() {
        thread::sleep(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn replies_that_wait_share_the_link_without_gaps() {
        let link = Link::new(Duration::ZERO, Some(MIB as u64));
        let start = Instant::now() + Duration::from_secs(1);
        let time = transmission(MIB / 4, MIB as u64);
        assert_eq!(time, Duration::from_millis(250));
        let first = link.reserve(start, time);
        // The second reply has waited since the start, so it follows the first at once.
        let second = link.reserve(start, time);
        // The next part of the first reply has waited since the previous part was sent.
        let third = link.reserve(first, time);
        // The link was idle before the fourth.
        let fourth = link.reserve(start + Duration::from_secs(2), time);
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(
            [first, second, third, fourth],
            [at(250), at(500), at(750), at(2250)]
        );
    }

    #[test]
    fn reply_waits_for_the_limit_of_its_connection() {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let link = Link::new(Duration::ZERO, None).with_stream_limit(MIB as u64);
        let start = Instant::now();
        let body = Body::from(vec![0; MIB / 64]);
        link.send(&server, &body, |_| {}).unwrap();
        assert!(start.elapsed() >= Duration::from_micros(15_625));
        drop(client);
    }

    #[test]
    fn requests_take_the_round_trip_times_in_turn() {
        let times = [1, 2, 3].map(Duration::from_millis);
        let link = Link::default().with_round_trips(times.to_vec());
        for time in times.iter().chain(&times) {
            assert_eq!(link.next_round_trip(), *time);
        }
        assert_eq!(Link::default().next_round_trip(), Duration::ZERO);
    }

    #[test]
    fn parts_take_equal_times_but_have_a_minimum() {
        let part_bytes = |rate| Link::new(Duration::ZERO, rate).part_bytes(MIB);
        assert_eq!(part_bytes(Some(1_250_000_000)), 250_000);
        assert_eq!(part_bytes(Some(1000)), 16 << 10);
        assert_eq!(part_bytes(None), MIB);
    }
}
