//! Reads ranges of an object: repeats attempts that failed, and limits the number of requests in flight.
//!
//! # Permits
//! Demand has priority over prefetch, as in a disk's queue. [`Fetcher::read`] waits for one of [`REQUESTS`] permits, and
//! keeps the permit until the read ends. A read in the background first waits for one of [`BACKGROUND_REQUESTS`]
//! further permits. So background reads never take all permits, and some remain for reads that a thread waits
//! for. If a thread begins to wait for a read in the background, the read no longer needs the further permit. The
//! requests that open an object, and those that load a profile or a pack from a server, need no permit.
//!
//! # Time limit
//! The time limit of a read begins when the read has its permits, because the reads before it have time limits of
//! their own. It begins again whenever a piece arrives.

use crate::counters::Counters;
use crate::error::Failure;
use crate::meter::Meter;
use crate::object::{Object, Version};
use crate::urgency::Urgency;
use crate::{Error, Result};
use bytes::Bytes;
use futures_util::future::{Either, select};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The maximum number of reads of a [`Fetcher`] that have a permit. Each has at most one request in flight.
const REQUESTS: usize = 128;
/// The number of further permits, for reads in the background.
const BACKGROUND_REQUESTS: usize = 96;
/// The maximum pause after the first failed attempt since the last success. Each further pause is twice as long,
/// up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// If a server replies to this number of attempts with the whole object, it does not support ranges.
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
    meter: Meter,
}

impl Fetcher {
    /// Reads the first `len_bytes` of `object`, and binds the fetcher to the version of the reply.
    pub(crate) async fn open(
        object: Object,
        len_bytes: u64,
        deadline: Duration,
        allows_unversioned: bool,
        meter: Meter,
    ) -> Result<(Self, Bytes)> {
        let first = first(&object, len_bytes, &meter, deadline).await;
        let (bytes, version) = first.map_err(|error| match error {
            // The reply to a range request for an empty object.
            Error::Status(416) => Error::Empty,
            error => error,
        })?;
        if !(version.is_strong() || allows_unversioned && version.is_known()) {
            return Err(Error::NoVersion);
        }
        if i64::try_from(version.size_bytes).is_err() {
            return Err(Error::Settings("the object is too large".to_owned()));
        }
        let fetcher = Self::new(object, version, deadline, meter);
        Ok((fetcher, bytes))
    }

    /// Returns a fetcher for `version` that sends no requests: all reads fail.
    pub(crate) fn offline(object: Object, version: Version) -> Self {
        Self {
            is_offline: true,
            ..Self::new(object, version, Duration::ZERO, Meter::default())
        }
    }

    fn new(object: Object, version: Version, deadline: Duration, meter: Meter) -> Self {
        Self {
            object,
            version,
            deadline,
            all: Semaphore::new(REQUESTS),
            background: Semaphore::new(BACKGROUND_REQUESTS),
            is_offline: false,
            meter,
        }
    }

    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.meter.counters
    }

    /// Returns the length of a window of readahead that keeps the link busy, in bytes.
    pub(crate) fn window_bytes(&self) -> u64 {
        self.meter.pace.window_bytes()
    }

    /// Reads `range`, which must be inside the object, in pieces of `piece_bytes`; the last piece can be shorter.
    /// Passes each piece to `deliver`, in order, as soon as the piece has arrived. If an attempt fails, the next
    /// attempt requests only the bytes that were not delivered.
    pub(crate) async fn read(
        &self,
        range: Range<u64>,
        piece_bytes: u64,
        urgency: &Urgency,
        deliver: impl FnMut(Bytes),
    ) -> Result<()> {
        if self.is_offline {
            return Err(Error::NotCached);
        }
        let _permits = self.permits(urgency).await;
        let attempts = Attempts::new(&self.meter, self.deadline);
        let (start, end) = (range.start, range.end);
        let read = self.read_now(attempts, range, piece_bytes, deliver).await;
        // The object existed when it was opened, so it was removed since then.
        let read = read.map_err(|error| match error {
            Error::NotFound => Error::Replaced,
            error => error,
        });
        if let Err(error) = &read {
            self.counters().failed.fetch_add(1, Relaxed);
            tracing::warn!(start, end, "cannot read the image: {error}");
        }
        read
    }

    /// Waits for the permits of a read.
    async fn permits(
        &self,
        urgency: &Urgency,
    ) -> (Option<SemaphorePermit<'_>>, SemaphorePermit<'_>) {
        let open = "the semaphores are never closed";
        let raised = pin!(urgency.raised());
        let background = match select(raised, pin!(self.background.acquire())).await {
            Either::Left(_) => None,
            Either::Right((permit, _)) => Some(permit.expect(open)),
        };
        (background, self.all.acquire().await.expect(open))
    }

    /// Reads `rest` with as many attempts as needed.
    async fn read_now(
        &self,
        mut attempts: Attempts<'_>,
        mut rest: Range<u64>,
        piece_bytes: u64,
        mut deliver: impl FnMut(Bytes),
    ) -> Result<()> {
        loop {
            let attempt = self.attempt(&mut attempts, &mut rest, piece_bytes, &mut deliver);
            match attempt.await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    /// Requests `rest`, once. Removes the bytes that were delivered from the start of `rest`.
    async fn attempt(
        &self,
        attempts: &mut Attempts<'_>,
        rest: &mut Range<u64>,
        piece_bytes: u64,
        deliver: &mut impl FnMut(Bytes),
    ) -> Result<(), Failure> {
        let _request = self.counters().start_request();
        let get = self.object.get(rest.clone(), Some(&self.version));
        let (mut body, _) = attempts.head(get).await?;
        while !body.is_complete() {
            let piece = attempts.in_time(body.next(piece_bytes)).await?;
            attempts.succeed(&piece);
            rest.start += piece.len() as u64;
            deliver(piece);
        }
        Ok(())
    }
}

/// Reads the first `len_bytes` of `object`, or all of it if it is shorter, and returns the version.
async fn first(
    object: &Object,
    len_bytes: u64,
    meter: &Meter,
    deadline: Duration,
) -> Result<(Bytes, Version)> {
    let mut attempts = Attempts::new(meter, deadline);
    loop {
        let attempt = async {
            let _request = meter.counters.start_request();
            let (mut body, version) = attempts.head(object.get(0..len_bytes, None)).await?;
            let bytes = attempts.in_time(body.next(len_bytes)).await?;
            attempts.succeed(&bytes);
            Ok((bytes, version))
        };
        match attempt.await {
            Ok(first) => return Ok(first),
            Err(failure) => attempts.pause(failure).await?,
        }
    }
}

/// The attempts to read a range. Each piece that arrives is a success. After a success, the time limit, the pauses
/// and the count of failed attempts begin again.
pub(crate) struct Attempts<'m> {
    meter: &'m Meter,
    /// The maximum time without a success.
    deadline: Duration,
    /// The time of the last success. If there was none, the time at which this was created.
    start: Instant,
    /// The number of attempts that have failed since `start`.
    failed: u32,
    /// The maximum pause after the next failure.
    pause: Duration,
}

impl<'m> Attempts<'m> {
    pub(crate) fn new(meter: &'m Meter, deadline: Duration) -> Self {
        Self {
            meter,
            deadline,
            start: Instant::now(),
            failed: 0,
            pause: FIRST_PAUSE,
        }
    }

    /// Awaits the head of the reply to a request.
    pub(crate) async fn head<T>(
        &self,
        get: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let sent = Instant::now();
        let head = self.in_time(get).await?;
        self.meter.count_latency(sent.elapsed());
        Ok(head)
    }

    /// Awaits a step of an attempt, at most until the deadline has passed since the last success.
    pub(crate) async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let left = self.deadline.saturating_sub(self.start.elapsed());
        let no_answer = || Failure::Transport("the server does not answer".to_owned());
        let step = tokio::time::timeout(left, step).await;
        step.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Records that `piece` was read: a success.
    pub(crate) fn succeed(&mut self, piece: &Bytes) {
        self.meter.count_fetched(piece.len() as u64);
        *self = Self::new(self.meter, self.deadline);
    }

    /// Pauses after an attempt that failed with `failure`.
    ///
    /// # Errors
    /// If no further attempt is made, because it could not succeed, or because the deadline would pass before it.
    pub(crate) async fn pause(&mut self, failure: Failure) -> Result<()> {
        let counters = &self.meter.counters;
        counters.set_last_failure(failure.to_string());
        if let Failure::Final(error) = failure {
            return Err(*error);
        }
        tracing::debug!("a request failed: {failure}");
        self.failed += 1;
        let is_late = self.start.elapsed() + self.pause >= self.deadline;
        if failure == Failure::NotPartial && (is_late || self.failed >= WHOLE_ATTEMPTS) {
            return Err(Error::NoRanges);
        }
        if is_late {
            return Err(Error::Deadline(self.deadline, failure));
        }
        tokio::time::sleep(jittered(self.pause)).await;
        self.pause = (self.pause * 2).min(MAX_PAUSE);
        counters.repeated.fetch_add(1, Relaxed);
        Ok(())
    }
}

/// Returns a random duration between half of `pause` and all of it, so that many clients do not repeat their
/// requests together.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0).to_le_bytes()[0];
    pause / 2 + pause.mul_f64(f64::from(random) / 512.0)
}
