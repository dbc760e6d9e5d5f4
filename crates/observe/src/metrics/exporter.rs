//! Serves metrics over HTTP, in one thread with a poll loop over at most [`MAX_CLIENTS`] connections.
//!
//! # Model
//! The server handles each connection in three steps. It receives the head of a request, sends the
//! response, and then drops further input until the client closes the connection. Without the last step,
//! the kernel could reset the connection, and the client could lose the response. A connection is closed
//! [`CLIENT_TIME`] after it was accepted, even if its steps are not complete. If there are
//! [`MAX_CLIENTS`] connections, the oldest is closed when another one is accepted.

use super::exposition;
use super::http::{self, HEAD_BYTES};
use crate::{Error, Result};
use larder::Stats;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum duration of a connection.
const CLIENT_TIME: Duration = Duration::from_secs(5);
/// The maximum number of connections at once.
const MAX_CLIENTS: usize = 32;
/// The time for which a generated text of metrics is reused.
const TEXT_LIFETIME: Duration = Duration::from_secs(1);
/// The time until the next attempt to accept a connection if the process has no free descriptor.
const RETRY_TIME: Duration = Duration::from_millis(100);

/// A bound address at which metrics will be served. No other process can use the address.
#[derive(Debug)]
pub struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Binds `address`. If its port is 0, binds a free port.
    ///
    /// # Errors
    /// Returns [`Error::Metrics`] if the address is in use, or is not an address of this machine.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let failed = |source| Error::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        // A client may close its connection between the poll and the accept. The accept must not block
        // then.
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Returns the bound address, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts a thread that serves the statistics of a mount. The function `stats` must return `None` after the
    /// volume is closed.
    pub fn serve(self, stats: impl Fn() -> Option<Stats> + Send + 'static) -> io::Result<Exporter> {
        let mut text = CachedText {
            make: move || Some(exposition(&stats()?, None, &[])),
            made: None,
        };
        let (running, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("larder-metrics".to_owned())
            .spawn(move || {
                if let Err(error) = serve(&self.listener, &stopped, &mut || text.get()) {
                    tracing::warn!("the metrics server failed: {error}");
                }
            })?;
        Ok(Exporter {
            running: Some(running),
            thread: Some(thread),
        })
    }
}

/// A handle for the thread that serves metrics. Dropping it ends the thread.
#[derive(Debug)]
pub struct Exporter {
    /// One end of a socket pair. Closing it ends the thread. It is closed before the thread is joined.
    running: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.running.take());
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the metrics thread panicked");
        }
    }
}

/// A text that `make` generates, and generates again when the text is older than [`TEXT_LIFETIME`].
struct CachedText<F> {
    make: F,
    made: Option<(Instant, String)>,
}

impl<F: Fn() -> Option<String>> CachedText<F> {
    fn get(&mut self) -> Option<String> {
        self.made.take_if(|(at, _)| at.elapsed() > TEXT_LIFETIME);
        if self.made.is_none() {
            self.made = Some((Instant::now(), (self.make)()?));
        }
        self.made.as_ref().map(|(_, text)| text.clone())
    }
}

/// Serves clients until the peer of the socket `stopped` is closed.
fn serve(
    listener: &TcpListener,
    stopped: &UnixStream,
    metrics: &mut dyn FnMut() -> Option<String>,
) -> io::Result<()> {
    // The clients in the order in which they were accepted.
    let mut clients = VecDeque::<Client>::new();
    let mut lacks_descriptors = false;
    loop {
        let mut polled = vec![PollFd::new(stopped, PollFlags::IN)];
        if !lacks_descriptors {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        polled.extend(clients.iter().map(Client::awaited));
        let retry = lacks_descriptors.then_some(RETRY_TIME);
        let oldest = clients.front().map(Client::time_left);
        let timeout = retry.into_iter().chain(oldest).min().map(timespec);
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !polled[0].revents().is_empty() {
            return Ok(());
        }
        drop(polled);
        lacks_descriptors = !admit(listener, &mut clients);
        clients.retain_mut(|client| !client.time_left().is_zero() && client.advance(metrics));
    }
}

/// Accepts all clients that wait for a connection. Returns false if this fails, usually because the
/// process has no free descriptor.
fn admit(listener: &TcpListener, clients: &mut VecDeque<Client>) -> bool {
    loop {
        match listener
            .accept()
            .and_then(|(stream, _)| Client::new(stream))
        {
            Ok(client) => {
                if clients.len() == MAX_CLIENTS {
                    clients.pop_front();
                }
                clients.push_back(client);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::debug!("cannot accept a metrics client: {error}");
                return false;
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    // The duration is rounded up, so that the deadline has passed when the poll returns.
    let duration = duration + Duration::from_millis(1);
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// A connection to a client.
struct Client {
    stream: TcpStream,
    deadline: Instant,
    progress: Progress,
}

/// The state of a connection.
enum Progress {
    /// Receiving the head of the request; contains the bytes received so far.
    Receiving(Vec<u8>),
    /// Sending the response; contains the response and the number of bytes sent so far.
    Sending(Vec<u8>, usize),
    /// Dropping further input until the client closes the connection.
    Draining,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            deadline: Instant::now() + CLIENT_TIME,
            progress: Progress::Receiving(Vec::new()),
        })
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn awaited(&self) -> PollFd<'_> {
        let flags = match self.progress {
            Progress::Sending(..) => PollFlags::OUT,
            Progress::Receiving(_) | Progress::Draining => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Reads or writes once. Returns false if the client has closed the connection, or if the read or
    /// write has failed.
    fn advance(&mut self, metrics: &mut dyn FnMut() -> Option<String>) -> bool {
        self.step(metrics).unwrap_or_else(|error| {
            let kind = error.kind();
            matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        })
    }

    /// Reads or writes once. Returns false if the client has closed the connection.
    fn step(&mut self, metrics: &mut dyn FnMut() -> Option<String>) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match &mut self.progress {
            Progress::Receiving(head) => {
                let room = buffer.len().min(HEAD_BYTES - head.len());
                let len = self.stream.read(&mut buffer[..room])?;
                head.extend_from_slice(&buffer[..len]);
                if let Some(answer) = http::answer(head, metrics) {
                    self.progress = Progress::Sending(answer, 0);
                    return Ok(true);
                }
                Ok(len > 0)
            }
            Progress::Sending(answer, sent) => {
                *sent += self.stream.write(&answer[*sent..])?;
                if *sent == answer.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.progress = Progress::Draining;
                }
                Ok(true)
            }
            Progress::Draining => Ok(self.stream.read(&mut buffer)? > 0),
        }
    }
}
