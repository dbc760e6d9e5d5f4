//! Reads ranges of an object: repeats attempts that failed, and limits the number of requests in flight.
//!
//! # Permits
//! [`Fetcher::read`] waits for one of [`REQUESTS`] request permits, and keeps it until the read ends. Reads get request
//! permits in the order in which they begin to wait for them. Some request permits are kept free for reads that a
//! thread waits for: a background read also needs one of [`BACKGROUND_REQUESTS`] background permits, of which there are
//! fewer. It waits for this permit first, and keeps it until the read ends. If a thread begins to wait for a background
//! read that has no background permit yet, the read no longer needs one. The requests that open an object, and those
//! that load a profile or a pack from a server, need no permit.
//!
//! # Time limit
//! The time limit of a read begins when the read begins to wait for its permits. Until the read has them, the time
//! limit restarts when a piece of any read arrives; afterwards, only when a piece of this read arrives. So if the
//! server does not answer, the reads that wait for permits fail together with those in flight. If it answers, a read
//! waits for its permits as long as necessary.

use crate::counters::Counters;
use crate::error::Failure;
use crate::known::UNIT_BYTES;
use crate::meter::Meter;
use crate::object::{Object, Version};
use crate::urgency::Urgency;
use crate::{Error, Result};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The number of request permits of a [`Fetcher`]. A read that has one has at most one request in flight.
const REQUESTS: usize = 128;
/// The number of background permits of a [`Fetcher`].
const BACKGROUND_REQUESTS: usize = 96;
/// The maximum pause after the first failed attempt since the last success. After each further failure, the maximum is
/// twice as long, up to [`MAX_PAUSE`]. [`jittered`] chooses the pause below the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// If at least this number of attempts have failed since the last success, and the server has replied to the last one
/// with the whole object, the read fails, because the server does not support ranges. If the time limit leaves no time
/// for another attempt, one such reply suffices.
const WHOLE_ATTEMPTS: u32 = 3;

/// The permits of a read: the background permit, unless the read is urgent, and the request permit.
type Permits<'f> = (Option<SemaphorePermit<'f>>, SemaphorePermit<'f>);

/// Reads ranges of one version of an object.
#[derive(Debug)]
pub(crate) struct Fetcher {
    object: Object,
    version: Version,
    deadline: Duration,
    /// The request permits.
    requests: Semaphore,
    /// The background permits.
    background: Semaphore,
    /// The time at which a piece of any read arrived last.
    last_arrival: Mutex<Instant>,
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
            requests: Semaphore::new(REQUESTS),
            background: Semaphore::new(BACKGROUND_REQUESTS),
            last_arrival: Mutex::new(Instant::now()),
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
        let (start, end) = (range.start, range.end);
        let read = async {
            let (_permits, limit_start) = self.permits_in_time(urgency).await?;
            let mut attempts = Attempts::new(&self.meter, self.deadline);
            attempts.start = limit_start;
            self.read_now(attempts, range, piece_bytes, deliver).await
        };
        // The object existed when it was opened, so it has been removed since then.
        let read = read.await.map_err(|error| match error {
            Error::NotFound => Error::Replaced,
            error => error,
        });
        if let Err(error) = &read {
            self.counters().failed.fetch_add(1, Relaxed);
            tracing::warn!(start, end, "cannot read the image: {error}");
        }
        read
    }

    /// Waits for the permits of a read. Returns them, and the time at which the time limit of the read began.
    ///
    /// # Errors
    /// [`Error::Deadline`] if the time limit passes before the read has its permits.
    async fn permits_in_time(&self, urgency: &Urgency) -> Result<(Permits<'_>, Instant)> {
        let queued = Instant::now();
        let limit_start = || queued.max(*self.last_arrival.lock());
        let mut permits = pin!(self.permits(urgency));
        loop {
            let start = limit_start();
            let left = self.deadline.saturating_sub(start.elapsed());
            if let Ok(permits) = tokio::time::timeout(left, permits.as_mut()).await {
                return Ok((permits, limit_start()));
            }
            if limit_start() == start {
                return Err(Error::Deadline(self.deadline, Failure::no_answer()));
            }
        }
    }

    /// Waits for the permits of a read.
    async fn permits(&self, urgency: &Urgency) -> Permits<'_> {
        let background = urgency.permit_unless_raised(&self.background).await;
        let request = self.requests.acquire().await;
        (background, request.expect("the semaphore is never closed"))
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

    /// Requests `rest`, once. Advances `rest.start` past the delivered bytes.
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
            *self.last_arrival.lock() = attempts.start;
            rest.start += piece.len() as u64;
            deliver(piece);
        }
        Ok(())
    }
}

/// Reads the first `len_bytes` of `object`, or all of it if it is shorter, and returns the version. If an attempt fails,
/// the next attempt requests only the bytes that did not arrive.
async fn first(
    object: &Object,
    len_bytes: u64,
    meter: &Meter,
    deadline: Duration,
) -> Result<(Bytes, Version)> {
    let mut attempts = Attempts::new(meter, deadline);
    let mut bytes = BytesMut::new();
    let mut version = None;
    loop {
        let attempt = async {
            let _request = meter.counters.start_request();
            let rest = bytes.len() as u64..len_bytes;
            let get = object.get(rest, version.as_ref());
            let (mut body, received) = attempts.head(get).await?;
            version = Some(received.clone());
            while !body.is_complete() {
                let piece = attempts.in_time(body.next(UNIT_BYTES)).await?;
                attempts.succeed(&piece);
                bytes.extend_from_slice(&piece);
            }
            Ok(received)
        };
        match attempt.await {
            Ok(version) => return Ok((bytes.freeze(), version)),
            Err(failure) => attempts.pause(failure).await?,
        }
    }
}

/// The attempts to read a range. Each piece that arrives is a success. After a success, the time limit, the pauses
/// and the count of failed attempts restart.
pub(crate) struct Attempts<'m> {
    meter: &'m Meter,
    /// The maximum time without a success.
    deadline: Duration,
    /// The time of the last success; before the first one, the time at which the time limit of the read began.
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

    /// Awaits a step of an attempt, at most until `deadline` has passed since `start`.
    pub(crate) async fn in_time<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let left = self.deadline.saturating_sub(self.start.elapsed());
        let step = tokio::time::timeout(left, step).await;
        step.unwrap_or_else(|_| Err(Failure::no_answer()))
    }

    /// Records that `piece` was read: a success.
    pub(crate) fn succeed(&mut self, piece: &Bytes) {
        self.meter.count_fetched(piece.len() as u64);
        *self = Self::new(self.meter, self.deadline);
    }

    /// Pauses after an attempt that failed with `failure`.
    ///
    /// # Errors
    /// If another attempt would fail, too, or might begin after the time limit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::Priority;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt as _};

    const SIZE: usize = 100;

    /// Returns a fetcher for an object in memory.
    async fn fetcher(deadline: Duration) -> Fetcher {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("disk.img");
        store.put(&path, vec![7_u8; SIZE].into()).await.unwrap();
        let object = Object {
            store,
            path,
            version_id: None,
        };
        let opened = Fetcher::open(object, 1, deadline, false, Meter::default());
        opened.await.unwrap().0
    }

    async fn read(fetcher: &Fetcher) -> Result<Vec<u8>> {
        let urgency = Urgency::new(Priority::Demand);
        let mut read = Vec::new();
        let deliver = |piece: Bytes| read.extend_from_slice(&piece);
        let result = fetcher.read(0..SIZE as u64, 64, &urgency, deliver).await;
        result.map(|()| read)
    }

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn read_in_the_queue_fails_if_nothing_arrives_for_any_read() {
        in_runtime(async {
            let fetcher = fetcher(Duration::from_millis(50)).await;
            let _others = fetcher.requests.acquire_many(128).await.unwrap();
            let failed = Error::Deadline(fetcher.deadline, Failure::no_answer());
            assert_eq!(read(&fetcher).await, Err(failed));
            assert_eq!(fetcher.counters().to_counts().requests, 1);
        });
    }
}
