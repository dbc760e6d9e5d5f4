//! A simulated link.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The length of the parts of replies. Connections that send at the same time take turns after each part.
const PART_BYTES: usize = 16 << 10;

/// A link that delays requests and replies, and limits the bytes per second of all replies together.
#[derive(Debug)]
pub struct Link {
    round_trip: Duration,
    bytes_per_second: Option<u64>,
    /// The time at which the link has sent all parts that it has accepted.
    free_at: Mutex<Instant>,
}

impl Link {
    /// Creates a link. If `bytes_per_second` is `None`, the bandwidth is not limited.
    #[must_use]
    pub fn new(round_trip: Duration, bytes_per_second: Option<u64>) -> Self {
        Self {
            round_trip,
            bytes_per_second,
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// Waits for one round-trip time: the way of a request, and the way of the first byte of its reply.
    pub(super) fn delay(&self) {
        if !self.round_trip.is_zero() {
            thread::sleep(self.round_trip);
        }
    }

    /// Sends `bytes` to `to`, not faster than the bandwidth allows.
    pub(super) fn send(&self, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let Some(bytes_per_second) = self.bytes_per_second else {
            return to.write_all(bytes);
        };
        for part in bytes.chunks(PART_BYTES) {
            let sent_at = {
                let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
                let nanos = part.len() as u64 * 1_000_000_000 / bytes_per_second;
                *free_at = (*free_at).max(Instant::now()) + Duration::from_nanos(nanos);
                *free_at
            };
            thread::sleep(sent_at.saturating_duration_since(Instant::now()));
            to.write_all(part)?;
        }
        Ok(())
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new(Duration::ZERO, None)
    }
}
