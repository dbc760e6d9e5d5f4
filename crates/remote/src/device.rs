//! The block device of an image in an object store or on a web server.

use crate::content::{self, Progress};
use crate::digest::ContentDigest;
use crate::disk_cache::{self, CacheDir, Identity};
use crate::fetch::Fetcher;
use crate::known::UNIT_BYTES;
use crate::meter::Meter;
use crate::object::{Object, Version};
use crate::profile::{self, Location, Recorder, WorkingSet};
use crate::store::{self, StoreOptions};
use crate::units::Units;
use crate::{Error, ImageUrl, Result};
use bytes::Bytes;
use futures_util::future::{Either, select};
use larder_block::{
    BackEnd, BlockDevice, Error as DeviceError, Pieces, Priority, Request, ServerCounts, accepted,
    check_range, scatter,
};
use std::io::IoSliceMut;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// The length of the first read, whose reply also contains the version. This is enough for the superblock,
/// and for the block group descriptors of most images.
const FIRST_BYTES: u64 = 1 << 20;
/// The maximum time for which a dropped device waits until the units that have arrived are stored in the disk cache.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of times that the opening starts again because the object was replaced before the device was ready.
const RESTARTS: usize = 3;
/// The number of threads that send requests and receive replies.
const THREADS: usize = 2;

/// The disk cache of an image.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// The directory. It is created if it does not exist.
    pub directory: PathBuf,
    /// The space on the disk that all cached objects may take, in bytes.
    pub max_bytes: u64,
}

impl CacheOptions {
    /// The default of [`max_bytes`](Self::max_bytes): 10 GiB.
    pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;

    /// Returns a disk cache in `directory` with the limit `max_bytes`. The defaults are the
    /// [default directory](disk_cache::default_path) and [`Self::DEFAULT_MAX_BYTES`]. If `max_bytes` is 0, the cache is
    /// disabled, and the result is `None`. It is also `None` if no directory is given and the default is unknown.
    #[must_use]
    pub fn new(directory: Option<PathBuf>, max_bytes: Option<u64>) -> Option<Self> {
        let max_bytes = max_bytes.unwrap_or(Self::DEFAULT_MAX_BYTES);
        let directory = directory.or_else(disk_cache::default_path)?;
        (max_bytes > 0).then_some(Self {
            directory,
            max_bytes,
        })
    }
}

/// How a remote image is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// The URL of a server that is compatible with the store, for example with S3. Default: the store's own.
    pub endpoint: Option<String>,
    /// Whether requests are sent without credentials. Default: false.
    pub anonymous: bool,
    /// Whether an object without a strong `ETag` is accepted. Replies are then compared by length and time of
    /// modification. This does not detect a change within the same second. Default: false.
    pub allow_unversioned: bool,
    /// The time after which a read fails if nothing has arrived. Default: 60 seconds.
    pub deadline: Duration,
    /// The memory for units, in bytes. Default: 32 MiB.
    pub memory_bytes: u64,
    /// The disk cache. Default: none.
    pub cache: Option<CacheOptions>,
    /// Whether only the disk cache is read, and no request is sent. Default: false.
    pub offline: bool,
    /// A profile or a pack, whose units are fetched in advance. Default: none.
    pub profile: Option<Location>,
    /// The SHA-256 that the content must have. All of the image is read when it is opened, unless the disk cache
    /// has a record of an earlier check. Default: the content is not checked.
    pub sha256: Option<ContentDigest>,
    /// A function that is called with the progress of the check of the content. Default: none.
    pub progress: Option<Progress>,
    /// Records the reads of the device. Default: none.
    pub recorder: Option<Arc<Recorder>>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            anonymous: false,
            allow_unversioned: false,
            deadline: Duration::from_mins(1),
            memory_bytes: 32 << 20,
            cache: None,
            offline: false,
            profile: None,
            sha256: None,
            progress: None,
            recorder: None,
        }
    }
}

/// An image in an object store or on a web server. It is read-only.
#[derive(Debug)]
pub struct RemoteDevice {
    units: Arc<Units>,
    size_bytes: u64,
    /// The units of the profile, in the order of their first use.
    profile_units: Vec<u64>,
    recorder: Option<Arc<Recorder>>,
    /// Wakes the tasks of all requests when they are cancelled.
    cancelled: Arc<Notify>,
    /// `None` only during the drop.
    runtime: Option<Runtime>,
}

impl RemoteDevice {
    /// Opens the image at `url`: reads its start. The reply states the version of the object, and all further reads
    /// must return the same version.
    /// If the disk cache records a version of the image, the start is probably cached. In this case, the
    /// first request is for one byte only, which is enough to find the present version.
    /// If the object is replaced before the device is ready, opens the new version. This is tried a limited number of
    /// times.
    ///
    /// # Errors
    /// - If the settings are invalid, or a thread cannot be started.
    /// - If the start of the object cannot be read, or the object is not acceptable.
    /// - If the disk cache cannot be used, or does not contain the image although `options.offline` is set.
    /// - If the profile cannot be read, or belongs to another object.
    /// - If the content cannot be read to check it, or does not have the SHA-256 in `options.sha256`.
    pub fn open(url: &ImageUrl, options: &RemoteOptions) -> Result<Self> {
        for _ in 0..RESTARTS {
            match Self::open_current(url, options) {
                Err(Error::Replaced) => {
                    tracing::debug!("the object was replaced; opening it again");
                }
                opened => return opened,
            }
        }
        Self::open_current(url, options)
    }

    /// Opens the version of the image that is current now.
    ///
    /// # Errors
    /// As [`RemoteDevice::open`], and [`Error::Replaced`] if the object is replaced before the device is ready.
    fn open_current(url: &ImageUrl, options: &RemoteOptions) -> Result<Self> {
        let store_options = StoreOptions {
            endpoint: options.endpoint.as_deref(),
            anonymous: options.anonymous,
            creates: false,
        };
        let store::Opened {
            store,
            path,
            version_id,
            server,
            user,
        } = store::open(url, &store_options)?;
        let runtime = start_runtime()?;
        let location = format!("{server}\n{url}\n{}", url.query_without_signature());
        let directory = cache_dir(options)?;
        let (mut user_name, mut last) = (String::new(), None);
        if let Some(directory) = &directory {
            user_name = runtime.block_on(user.name(options.deadline))?;
            last = directory
                .last_version(&location, &user_name)
                .map_err(|error| unusable(&error))?;
        }
        let last = last.and_then(|text| Version::of_text(&text));
        let object = Object {
            store,
            path,
            version_id,
        };
        let replies = first_replies(&runtime, url, object, last, &store_options, options)?;
        let FirstReplies {
            fetcher,
            first,
            working_set,
        } = replies;
        let object_bytes = fetcher.version().size_bytes;
        let identity = Identity {
            location: &location,
            version: &fetcher.version().to_text(),
            credentials: &user_name,
        };
        let disk = directory
            // Without an ETag, units that another mount has cached may be of another version.
            .filter(|_| fetcher.version().is_strong())
            .map(|directory| directory.object(&identity, object_bytes, &url.to_string()))
            .transpose()
            .map_err(|error| unusable(&error))?;
        if let Some(disk) = &disk
            && !options.offline
            && let Err(error) = disk.confirm()
        {
            // The image can be used. Only the next opening is slower.
            tracing::debug!("cannot store the version of the image: {error}");
        }
        let units = Arc::new(Units::new(fetcher, disk, options.memory_bytes));
        let runtime_context = runtime.enter();
        units.deliver_first(&first);
        if let Some(expected) = options.sha256 {
            let version = units.fetcher().version();
            let checked = content::check(&units, version, expected, options.progress);
            runtime.block_on(checked)?;
        }
        let mut profile_units = Vec::new();
        if let Some(working_set) = working_set {
            profile_units = working_set.units();
            profile::start(&units, working_set);
        } else if !options.offline && first.len() < 2 && !units.is_on_disk(0) {
            let start = 0..FIRST_BYTES.min(object_bytes);
            let read = async { units.read(start, Priority::Demand).await };
            runtime.block_on(read)?;
        }
        drop(runtime_context);
        if let Some(recorder) = &options.recorder {
            let version = units.fetcher().version().clone();
            recorder.set_object(url.to_string(), version);
        }
        Ok(Self {
            units,
            size_bytes: object_bytes,
            profile_units,
            recorder: options.recorder.clone(),
            cancelled: Arc::default(),
            runtime: Some(runtime),
        })
    }

    /// Returns the version of the object.
    #[must_use]
    pub fn version(&self) -> &Version {
        self.units.fetcher().version()
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the device is not dropped")
    }

    /// Records in the profile that a range of the object is read. Returns the range, in bytes.
    fn record_range(&self, offset_bytes: u64, len_bytes: u64) -> Range<u64> {
        let range_bytes = offset_bytes..offset_bytes + len_bytes;
        if let Some(recorder) = &self.recorder {
            recorder.record(&range_bytes);
        }
        range_bytes
    }

    /// Writes a [pack](profile::pack) of the units of the profile with which the image was opened. The file at `path`
    /// is private to its owner, and replaces an existing file when it is complete. `progress` is called with
    /// two numbers: the bytes of content that were read, and the bytes of content that the complete pack will have.
    ///
    /// # Errors
    /// If the object has no strong `ETag`, a unit cannot be read, or the file cannot be written.
    pub fn write_pack(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> profile::Result<()> {
        let bytes_of = |unit: u64| self.units.bytes_of(&(unit..unit + 1));
        let len_bytes = |range_bytes: &Range<u64>| range_bytes.end - range_bytes.start;
        let lengths = self.profile_units.iter().copied().map(bytes_of);
        let total_bytes: u64 = lengths.map(|range_bytes| len_bytes(&range_bytes)).sum();
        let mut done_bytes = 0;
        let read = |unit: u64| {
            let range_bytes = bytes_of(unit);
            done_bytes += len_bytes(&range_bytes);
            let read = async { self.units.read(range_bytes, Priority::Demand).await };
            let parts = self.runtime().block_on(read);
            parts.map(|parts| {
                progress(done_bytes, total_bytes);
                parts.concat()
            })
        };
        profile::write_pack(path, self.version(), &self.profile_units, read)
    }
}

/// Starts the threads that send requests and receive replies.
///
/// # Errors
/// [`Error::Settings`] if a thread cannot be started, for example because of a limit of the process.
pub(crate) fn start_runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("larder-remote")
        .enable_all()
        .build()
        .map_err(|error| Error::Settings(format!("cannot start threads: {error}")))
}

/// Opens the directory of the disk cache in `options`, if there is one.
fn cache_dir(options: &RemoteOptions) -> Result<Option<CacheDir>> {
    let open = |cache: &CacheOptions| {
        CacheDir::open_with_timeout(&cache.directory, cache.max_bytes, options.deadline)
    };
    let directory = options.cache.as_ref().map(open).transpose();
    directory.map_err(|error| unusable(&error))
}

fn unusable(error: &disk_cache::Error) -> Error {
    Error::Cache(error.to_string())
}

/// The replies to the first requests.
struct FirstReplies {
    fetcher: Fetcher,
    /// The start of the object. It is empty if no request was sent.
    first: Bytes,
    working_set: Option<WorkingSet>,
}

/// Requests the start of `object`, which is at `url`, and concurrently the profile in `options`, if there is one. `last` is
/// the version that the disk cache records. If it is given, only one byte of `object` is requested. If `options.offline`
/// is set, sends no request.
///
/// # Errors
/// If a request fails, if the object is not acceptable, if the profile belongs to another object or cannot be combined with
/// other options, or if `options.offline` is set and `last` is not given.
fn first_replies(
    runtime: &Runtime,
    url: &ImageUrl,
    object: Object,
    last: Option<Version>,
    store_options: &StoreOptions<'_>,
    options: &RemoteOptions,
) -> Result<FirstReplies> {
    if options.offline {
        if options.profile.is_some() {
            let why = "a profile or a pack cannot be used without requests to the server (offline)";
            return Err(Error::Settings(why.to_owned()));
        }
        return Ok(FirstReplies {
            fetcher: Fetcher::offline(object, last.ok_or(Error::NotCached)?),
            first: Bytes::new(),
            working_set: None,
        });
    }
    let meter = Meter::default();
    let meter_of_profile = match &options.profile {
        Some(Location::Url(profile)) if profile.is_on_server_of(url) => meter.clone(),
        _ => meter.of_other_server(),
    };
    let working_set = async {
        match &options.profile {
            Some(location) => {
                let deadline = options.deadline;
                let load = WorkingSet::load(location, store_options, meter_of_profile, deadline);
                load.await.map(Some)
            }
            None => Ok(None),
        }
    };
    let opened = Fetcher::open(
        object,
        if last.is_some() { 1 } else { FIRST_BYTES },
        options.deadline,
        options.allow_unversioned,
        meter,
    );
    let both = async { tokio::join!(opened, working_set) };
    let (opened, working_set) = runtime.block_on(both);
    let (fetcher, first) = opened?;
    let working_set = working_set?;
    if let Some(working_set) = &working_set {
        working_set.check(fetcher.version())?;
        if options.sha256.is_some() && working_set.has_content() {
            let why = "the SHA-256 cannot be checked with a pack, because a part of the content is then read from the \
                       pack; use the profile from which the pack was made";
            return Err(Error::Settings(why.to_owned()));
        }
    }
    Ok(FirstReplies {
        fetcher,
        first,
        working_set,
    })
}

impl BlockDevice for RemoteDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the version of the object, in one line. Returns `None` if a replacement of the object cannot be
    /// detected.
    fn content_version(&self) -> Option<String> {
        let version = self.version();
        let is_known = version.is_known();
        is_known.then(|| version.to_text().replace('\n', " "))
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset_bytes)
    }

    fn read_vectored_at(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        offset_bytes: u64,
    ) -> larder_block::Result<()> {
        let len_bytes = larder_block::total_bytes(bufs);
        check_range(self.size_bytes(), offset_bytes, len_bytes)?;
        let range_bytes = self.record_range(offset_bytes, len_bytes);
        let parts = match self.units.read_now(&range_bytes) {
            Some(parts) => parts,
            None => self
                .runtime()
                .block_on(async { self.units.read(range_bytes, Priority::Demand).await })
                .map_err(|error| DeviceError::Io {
                    offset_bytes,
                    len_bytes,
                    source: error.errno(),
                })?,
        };
        copy(&parts, bufs);
        Ok(())
    }

    fn submit(&self, requests: Vec<Request>) {
        let requests = accepted(requests, |at, len, is_write| {
            if is_write {
                return Err(DeviceError::ReadOnly);
            }
            check_range(self.size_bytes(), at, len)
        });
        let _runtime = self.runtime().enter();
        for request in requests {
            let range_bytes = self.record_range(request.offset_bytes(), request.len_bytes());
            if request.is_cancelled() {
                request.complete(Err(DeviceError::Cancelled));
            } else if let Some(parts) = self.units.read_now(&range_bytes) {
                complete(request, &parts);
            } else {
                let read = self.units.read(range_bytes, request.priority());
                // This future is notified even if the task has not started yet.
                let cancelled = Arc::clone(&self.cancelled).notified_owned();
                tokio::spawn(answer(read, request, cancelled));
            }
        }
    }

    fn expedite(&self, offset_bytes: u64, len_bytes: u64) {
        if check_range(self.size_bytes(), offset_bytes, len_bytes).is_ok() {
            self.units
                .expedite(&self.record_range(offset_bytes, len_bytes));
        }
    }

    fn announce(&self, offset_bytes: u64, len_bytes: u64, priority: Priority) {
        // An invalid range is reported by the requests that follow the announcement.
        if check_range(self.size_bytes(), offset_bytes, len_bytes).is_ok() {
            let _runtime = self.runtime().enter();
            self.units
                .announce(offset_bytes..offset_bytes + len_bytes, priority);
        }
    }

    fn cancel_in_flight(&self) {
        self.cancelled.notify_waiters();
    }

    fn pieces(&self) -> Option<Pieces> {
        NonZeroU64::new(UNIT_BYTES).map(|len_bytes| Pieces::new(len_bytes, 0))
    }

    fn window_bytes(&self) -> Option<u64> {
        Some(self.units.fetcher().window_bytes())
    }

    fn back_end(&self) -> BackEnd {
        BackEnd::Threads
    }

    fn wants_readahead(&self) -> bool {
        self.recorder.is_none() && !self.units.uses().is_followed()
    }

    fn server_counts(&self) -> Option<ServerCounts> {
        let fetcher = self.units.fetcher();
        Some(ServerCounts {
            unversioned: !fetcher.version().is_strong(),
            ..fetcher.counters().to_counts()
        })
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        // Requests in flight are dropped, which completes them with `Cancelled`.
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        // A thread of the runtime may drop the device when it completes a request. Such a thread must not wait for
        // the runtime.
        if Handle::try_current().is_err() {
            let stored =
                async { tokio::time::timeout(STORE_TIMEOUT, self.units.finish_stores()).await };
            drop(runtime.block_on(stored));
        }
        runtime.shutdown_background();
    }
}

/// Completes `request` with the result of `read`, or as cancelled if `cancelled` is ready first.
async fn answer(
    read: impl Future<Output = Result<Vec<Bytes>>>,
    request: Request,
    cancelled: impl Future<Output = ()>,
) {
    match select(pin!(read), pin!(cancelled)).await {
        Either::Left((Ok(parts), _)) => complete(request, &parts),
        Either::Left((Err(error), _)) => request.fail(error.errno()),
        Either::Right(_) => request.complete(Err(DeviceError::Cancelled)),
    }
}

/// Completes `request`, which is a read, with the bytes in `parts`.
fn complete(mut request: Request, parts: &[Bytes]) {
    request.with_slices(|bufs| copy(parts, bufs), |_| ());
    request.complete(Ok(()));
}

/// Copies the bytes of `parts`, in order, to the start of `bufs`.
fn copy(parts: &[Bytes], bufs: &mut [IoSliceMut<'_>]) {
    let mut copied = 0;
    for part in parts {
        scatter(part, bufs, copied);
        copied += part.len();
    }
}
