//! Receives the requests of the kernel and sends the replies.
//!
//! There are two transports: rings of `io_uring` ([`queues`]), where the kernel offers them, and /dev/fuse
//! ([`receivers`]). The transport is chosen in the handshake ([`start`]). If the kernel then rejects the rings,
//! [`Transport::Auto`] changes to /dev/fuse. Both
//! transports parse requests with [`crate::protocol`] and pass them to a [`Handler`]. The handler for a volume is in
//! [`requests`], and calls [`Operations`].

mod attributes;
mod device;
mod follower;
mod handler;
mod ioctl;
mod linger;
mod listings;
mod parking;
mod passing;
mod policy;
mod queues;
mod receivers;
mod reply_memory;
mod requests;
mod ring;
mod sharing;

use crate::activity::Activity;
use crate::operations::Operations;
use crate::options::Transport;
use crate::protocol::handshake::{Agreement, Chosen, DATA_BYTES, Offer, version_only};
use crate::protocol::{Header, abi};
use crate::{Error, MountEntry, MountOptions, Result, write_back};
use device::{Connection, Received};
pub(crate) use handler::Handler;
#[cfg(feature = "floor")]
pub(crate) use handler::{Outcome, Waiting};
use larder::{MountTransport, Volume};
use parking::Parking;
use passing::Passing;
use policy::can_change_policy;
use queues::{QueueThreads, Queues};
use receivers::Receivers;
use requests::Requests;
use ring::decline;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use zerocopy::IntoBytes;

/// The maximum number of threads that receive requests from /dev/fuse. If a request must wait for the storage of the image, and
/// its receiver is not permitted to wait, the receiver passes the request to a [worker](crate::workers).
const RECEIVERS: usize = 6;

/// A connection to the kernel after the handshake.
#[derive(Debug)]
pub(crate) struct Session {
    connection: Arc<Connection>,
    receivers: Receivers,
    receiver_count: usize,
    /// The threads of the rings, if the transport is `io_uring`.
    queues: Option<QueueThreads>,
    /// Whether the kernel collects written data before it sends the data to the server.
    collects_writes: bool,
}

/// Performs the handshake with the kernel over `device`. Returns a session that performs the operations on `volume`, and
/// records them in `activity`.
pub(crate) fn start(
    volume: Arc<Volume>,
    activity: &Arc<Activity>,
    device: OwnedFd,
    entry: &MountEntry,
    options: &MountOptions,
) -> Result<Session> {
    let granularity_ns = volume.time_granularity_ns();
    let collects_writes = || write_back::choose(&volume, entry, options);
    let handshake = Handshake::perform(
        device,
        options,
        granularity_ns,
        collects_writes,
        Queues::new,
    )?;
    let is_checked = options.fakeroot
        || handshake.agreement.checks_permissions
        || entry.has_super_option("default_permissions");
    if !is_checked {
        return Err(Error::PermissionsUnchecked(entry.mountpoint.clone()));
    }
    let requests = Requests::new(
        Operations::new(volume, options),
        Arc::clone(activity),
        Arc::clone(&handshake.connection),
        &handshake.agreement,
        options,
    );
    handshake.session(Arc::new(requests), options)
}

/// Performs the handshake with the kernel over `device`, for a read-only mount. `handler` answers its requests.
#[cfg(feature = "floor")]
pub(crate) fn start_with(
    handler: Arc<dyn Handler>,
    device: OwnedFd,
    options: &MountOptions,
) -> Result<Session> {
    let handshake = Handshake::perform(device, options, 1, || false, Queues::new)?;
    handshake.session(handler, options)
}

/// A connection on which the kernel and the server have agreed on capabilities and on the transport.
struct Handshake {
    connection: Arc<Connection>,
    agreement: Agreement,
    queues: Option<QueueThreads>,
}

impl Handshake {
    /// Performs the handshake. The times of files have a granularity of `time_granularity_ns`. If the kernel can
    /// collect written data before it sends the data, calls `collects_writes` to find out whether the kernel is to
    /// collect the data. If the transport may be `io_uring`, calls `create_queues` with the maximum number of requests
    /// that may wait for the storage of the image at the same time.
    fn perform(
        device: OwnedFd,
        options: &MountOptions,
        time_granularity_ns: u32,
        collects_writes: impl FnOnce() -> bool,
        create_queues: impl FnOnce(&Arc<Connection>, usize) -> io::Result<Queues>,
    ) -> Result<Self> {
        let connection = Arc::new(Connection(device));
        let (unique, offer) = receive_offer(&connection).map_err(Error::Session)?;
        let queues = choose(&offer, options, || {
            create_queues(&connection, options.thread_count())
        })?;
        let chosen = Chosen {
            io_uring: queues.is_some(),
            write_back: offer.has_write_back() && collects_writes(),
            time_granularity_ns,
        };
        let agreement = offer.accept(options, chosen);
        connection.reply(unique, Ok(agreement.reply.as_bytes()));
        let queues = queues.map(|queues| register(queues, &connection, options));
        let queues = queues.transpose()?.flatten();
        Ok(Self {
            connection,
            agreement,
            queues,
        })
    }

    /// Returns the session. `handler` answers its requests.
    fn session(self, handler: Arc<dyn Handler>, options: &MountOptions) -> Result<Session> {
        let Self {
            connection,
            agreement,
            queues,
        } = self;
        let threads = options.thread_count();
        let receiver_count = match queues {
            Some(_) => 1,
            None if options.read_write => threads.min(RECEIVERS),
            // `threads` is the number of threads that may wait for the storage of the image: workers and receivers. At
            // most half of these threads are receivers. One receiver more is started than may wait, because on a
            // read-only mount, a receiver waits only while another one is idle.
            None => (threads / 2 + 1).min(RECEIVERS),
        };
        // On a writable mount, the answers to some requests wait until other requests are answered, so one thread
        // is not enough.
        let has_workers = threads > 1 || queues.is_some() || options.read_write;
        // On a writable mount, usually one receiver waits for the next request of the kernel, and the others are parked. On a
        // read-only mount, none is parked: all idle receivers wait in the kernel, which wakes one of them for each request.
        let parks = options.read_write && receiver_count > 1;
        // The receivers that count towards `threads`. On a writable mount, none counts.
        let waiting_receivers = if parks { 0 } else { receiver_count - 1 };
        if parks {
            connection.set_nonblocking().map_err(Error::Session)?;
        }
        tracing::debug!(
            receiver_count,
            io_uring = queues.is_some(),
            "starting the FUSE session"
        );
        Ok(Session {
            connection,
            receivers: Receivers {
                passing: has_workers
                    .then(|| Arc::new(Passing::new(&handler, threads - waiting_receivers))),
                handler,
                parking: parks.then(Parking::start),
                idle: AtomicUsize::new(0),
                max_waiting: receiver_count.saturating_sub(2),
                waiting: AtomicUsize::new(0),
                passed_bytes: Arc::default(),
            },
            receiver_count,
            queues,
            collects_writes: agreement.write_back,
        })
    }
}

/// Receives the `INIT` request of the kernel. Returns the number of the request, and the offer that it contains.
fn receive_offer(connection: &Connection) -> io::Result<(u64, Offer)> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut memory = vec![0; DATA_BYTES as usize];
    loop {
        let len = match connection.receive(&mut memory)? {
            Received::Request(len) => len,
            Received::Nothing => continue,
            Received::Unmounted => {
                return Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "the volume was unmounted during the handshake",
                ));
            }
        };
        let (header, argument) = Header::parse(&memory[..len]).map_err(invalid)?;
        if header.opcode != abi::opcode::INIT {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the first request of the kernel is not INIT",
            ));
        }
        match Offer::parse(argument).map_err(invalid)? {
            Some(offer) => return Ok((header.unique, offer)),
            None => connection.reply(header.unique, Ok(version_only().as_bytes())),
        }
    }
}

/// Chooses the transport. Returns the rings of `io_uring`, or `None` for /dev/fuse.
fn choose(
    offer: &Offer,
    options: &MountOptions,
    create_queues: impl FnOnce() -> io::Result<Queues>,
) -> Result<Option<Queues>> {
    match options.transport {
        Transport::Device => Ok(None),
        Transport::Auto if !prefers_io_uring(offer, options) => Ok(None),
        Transport::Uring if !offer.has_io_uring() => Err(Error::IoUringOff),
        Transport::Auto | Transport::Uring => or_fall_back(create_queues(), options),
    }
}

/// Returns whether [`Transport::Auto`] selects `io_uring`, if the rings can be set up.
fn prefers_io_uring(offer: &Offer, options: &MountOptions) -> bool {
    offer.has_io_uring()
        // With rings, a session always has several threads. If only one is permitted, /dev/fuse is used.
        && options.thread_count() > 1
        // For small requests in sequence, rings are slower than /dev/fuse, unless the thread that answers the requests
        // runs on the same processor as the program that sends them. The scheduler places both there only while the
        // thread has the policy `SCHED_IDLE`. Threads change to this policy and back, for which they need
        // `CAP_SYS_NICE`.
        && can_change_policy()
}

/// Registers the entries of `queues`, after the reply to `INIT`. On failure, returns `None` if the session changes to
/// /dev/fuse, and [`Error::NoIoUring`] if it cannot.
fn register(
    queues: Queues,
    connection: &Arc<Connection>,
    options: &MountOptions,
) -> Result<Option<QueueThreads>> {
    let threads = or_fall_back(queues.register(), options)?;
    if threads.is_none() {
        decline(connection).map_err(Error::NoIoUring)?;
    }
    Ok(threads)
}

/// Returns the value of `step`, a step in setting up the rings. On failure, returns `None` if the options permit
/// /dev/fuse, and otherwise [`Error::NoIoUring`].
fn or_fall_back<T>(step: io::Result<T>, options: &MountOptions) -> Result<Option<T>> {
    match step {
        Ok(value) => Ok(Some(value)),
        Err(error) if options.transport == Transport::Auto => {
            tracing::debug!("no io_uring: {error}");
            Ok(None)
        }
        Err(error) => Err(Error::NoIoUring(error)),
    }
}

impl Session {
    /// Returns the transport that is in use.
    pub(crate) fn transport(&self) -> MountTransport {
        match self.queues {
            Some(_) => MountTransport::IoUring,
            None => MountTransport::Device,
        }
    }

    /// Returns whether the kernel collects written data before it sends the data to the server.
    pub(crate) fn collects_writes(&self) -> bool {
        self.collects_writes
    }

    /// Answers requests until the volume is unmounted. If a thread fails, calls `abort`,
    /// which must end the connection: otherwise the requests of that thread would never be answered.
    pub(crate) fn run(self, abort: impl Fn() + Sync) -> Result<()> {
        let Self {
            connection,
            receivers,
            receiver_count,
            mut queues,
            ..
        } = self;
        let ended = |result: thread::Result<io::Result<()>>| {
            let result = result.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")));
            result.inspect_err(|error| {
                tracing::error!("the FUSE session failed: {error}");
                abort();
            })
        };
        let served: io::Result<()> = thread::scope(|scope| {
            let mut threads = Vec::new();
            for index in 0..receiver_count {
                let serve = || receivers.serve(&connection);
                let serve = move || ended(catch_unwind(AssertUnwindSafe(serve)));
                let named = thread::Builder::new().name(format!("larder-fuse-{index}"));
                threads.push(named.spawn_scoped(scope, serve));
            }
            if threads.iter().any(io::Result::is_err) {
                abort();
            }
            // Waits for all threads, then returns the first error.
            let mut results: Vec<io::Result<()>> = Vec::new();
            if let (Some(queues), Some(passing)) = (&mut queues, &receivers.passing) {
                let served = queues.serve(&receivers.handler, passing);
                results.extend(served.map(|result| ended(Ok(result))));
            }
            results.extend(threads.into_iter().map(|thread| {
                let panicked = |_| Err(io::Error::other("a thread of the session panicked"));
                thread?.join().unwrap_or_else(panicked)
            }));
            results.into_iter().collect()
        });
        drop(queues);
        let handler = Arc::clone(&receivers.handler);
        // Dropping the receivers waits for the workers.
        drop(receivers);
        handler.end();
        served.map_err(Error::Session)
    }
}

#[cfg(test)]
mod tests;
