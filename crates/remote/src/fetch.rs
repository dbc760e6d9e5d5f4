//! Reads ranges of an object: repeats attempts that failed, and limits the number of requests in flight.
//!
//! Model: demand before prefetch, as in a disk's queue. All requests share [`REQUESTS`] permits. A request in
//! the background first needs one of [`BACKGROUND_REQUESTS`] further permits. So background requests never
//! take all permits, and some remain for requests that a thread waits for.

use crate::counters::Counters;
use crate::error::Failure;
use crate::object::{Object, Version};
use crate::{Error, Result};
use bytes::Bytes;
use larder_block::Priority;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The maximum number of requests in flight.
const REQUESTS: usize = 128;
/// The maximum number of requests in flight that no thread waits for.
const BACKGROUND_REQUESTS: usize = 96;
/// The pause after the first failed attempt. Each later pause is twice as long, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The number of attempts after which a server that sends whole objects is believed not to support ranges.
const WHOLE_ATTEMPTS: u32 = 3;

/// Reads ranges of one version of an object.
#[derive(Debug)]
pub(crate) struct Fetcher {
    object: Object,
    version: Version,
    deadline: Duration,
    all: Semaphore,
    background: Semaphore,
    /// Whether no request may be sent.
    is_offline: bool,
    pub(crate) counters: Arc<Counters>,
}

impl Fetcher {
    /// Reads the first `len_bytes` of `object`, and binds the fetcher to the version of the reply.
    pub(crate) async fn open(
        object: Object,
        len_bytes: u64,
        deadline: Duration,
        allows_unversioned: bool,
    ) -> Result<(Self, Bytes)> {
        let counters = Arc::new(Counters::default());
        let read = repeated(&counters, Instant::now(), deadline, || {
            object.get(0..len_bytes, None)
        });
        let (bytes, version) = match read.await {
            Err(Error::Deadline(_, Failure::NotPartial)) => return Err(Error::NoRanges),
            // A range request for an empty object fails with status 416.
            Err(Error::Deadline(_, Failure::Status(416))) => return Err(Error::Empty),
            read => read?,
        };
        if !(version.is_strong() || allows_unversioned && version.is_known()) {
            return Err(Error::NoVersion);
        }
        if i64::try_from(version.size_bytes).is_err() {
            return Err(Error::Settings("the object is too large".to_owned()));
        }
        let fetcher = Self::new(object, version, deadline, counters);
        Ok((fetcher, bytes))
    }

    /// Returns a fetcher for `version` that sends no requests: all reads fail.
    pub(crate) fn offline(object: Object, version: Version) -> Self {
        Self {
            is_offline: true,
            ..Self::new(object, version, Duration::ZERO, Arc::default())
        }
    }

    fn new(object: Object, version: Version, deadline: Duration, counters: Arc<Counters>) -> Self {
        Self {
            object,
            version,
            deadline,
            all: Semaphore::new(REQUESTS),
            background: Semaphore::new(BACKGROUND_REQUESTS),
            is_offline: false,
            counters,
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Reads `range`, which must be inside the object.
    pub(crate) async fn read(&self, range: Range<u64>, priority: Priority) -> Result<Bytes> {
        if self.is_offline {
            return Err(Error::NotCached);
        }
        let start = Instant::now();
        let open = "the semaphores are never closed";
        let _background = match priority {
            Priority::Demand => None,
            Priority::Background => Some(self.background.acquire().await.expect(open)),
        };
        let _permit = self.all.acquire().await.expect(open);
        let get = || self.object.get(range.clone(), Some(&self.version));
        let read = repeated(&self.counters, start, self.deadline, get).await;
        // The object existed when it was opened, so it was removed since then.
        let read = read.map_err(|error| match error {
            Error::NotFound => Error::Replaced,
            error => error,
        });
        if let Err(error) = &read {
            self.counters.failed.fetch_add(1, Relaxed);
            tracing::warn!(
                start = range.start,
                end = range.end,
                "cannot read the image: {error}"
            );
        }
        read.map(|(bytes, _)| bytes)
    }
}

/// Calls `get` until it succeeds, fails for good, or `deadline` has passed since `start`.
async fn repeated<G: Future<Output = Result<(Bytes, Version), Failure>>>(
    counters: &Counters,
    start: Instant,
    deadline: Duration,
    get: impl Fn() -> G,
) -> Result<(Bytes, Version)> {
    let mut pause = FIRST_PAUSE;
    for attempts in 1.. {
        counters.requests.fetch_add(1, Relaxed);
        let attempt_start = Instant::now();
        let left = deadline.saturating_sub(start.elapsed());
        let attempt = tokio::time::timeout(left, get()).await;
        let failure = match attempt {
            Ok(Ok((bytes, version))) => {
                counters.count_latency(attempt_start.elapsed());
                counters
                    .fetched_bytes
                    .fetch_add(bytes.len() as u64, Relaxed);
                return Ok((bytes, version));
            }
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Transport("the server does not answer".to_owned()),
        };
        counters.set_last_failure(failure.to_string());
        if let Failure::Final(error) = failure {
            return Err(*error);
        }
        tracing::debug!("a request failed: {failure}");
        if !may_pass(&failure, attempts) || start.elapsed() + pause >= deadline {
            return Err(Error::Deadline(deadline, failure));
        }
        tokio::time::sleep(jittered(pause)).await;
        pause = (pause * 2).min(MAX_PAUSE);
        counters.repeated.fetch_add(1, Relaxed);
    }
    unreachable!("the number of attempts is not limited");
}

/// Returns whether another attempt may succeed, after `attempts` that failed.
fn may_pass(failure: &Failure, attempts: u32) -> bool {
    match failure {
        Failure::NotPartial => attempts < WHOLE_ATTEMPTS,
        // A request timeout, too many requests, and errors of the server.
        Failure::Status(status) => matches!(status, 408 | 429 | 500..),
        _ => true,
    }
}

/// Returns a random duration between half of `pause` and all of it, so that many clients do not repeat their
/// requests together.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0).to_le_bytes()[0];
    pause / 2 + pause.mul_f64(f64::from(random) / 512.0)
}
