//! The thread that serves metrics over HTTP: a poll loop over a few connections.
//!
//! # Model
//! Each connection goes one way: the head of a request comes in, the answer goes out, and what the
//! client still sends is dropped until it hangs up, so that the answer is not lost with a reset.
//! [`CLIENT_TIME`] after it was let in, a connection ends wherever it is; where there are
//! [`MOST_CLIENTS`], the oldest goes for the next.

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
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a client may take, in all.
const CLIENT_TIME: Duration = Duration::from_secs(5);
/// How many connections there may be at once.
const MOST_CLIENTS: usize = 32;
/// How long a text is as good as new.
const FRESH_TIME: Duration = Duration::from_secs(1);
/// How long the next client waits if there was no descriptor for the last.
const RETRY_TIME: Duration = Duration::from_millis(100);

/// An address at which metrics will be served: others cannot have it any more.
#[derive(Debug)]
pub struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Takes the address; with port 0, a free port.
    ///
    /// # Errors
    /// [`Error::Metrics`], if it is in use, or not this machine's.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let failed = |source| Error::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        // A client may be gone between the poll and the accept.
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The address, with the port that it got.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the statistics of the mount at `mountpoint`; `stats` returns `None` once its volume is closed.
    pub fn serve(
        self,
        mountpoint: &Path,
        stats: impl Fn() -> Option<Stats> + Send + 'static,
    ) -> io::Result<Exporter> {
        let mountpoint = mountpoint.to_string_lossy().into_owned();
        let mut text = Fresh {
            make: move || Some(exposition(&stats()?, &mountpoint, &[])),
            made: None,
        };
        let (running, stopped) = UnixStream::pair()?;
        let thread = std::thread::Builder::new()
            .name("larder-metrics".to_owned())
            .spawn(move || {
                if let Err(error) = serve(&self.listener, &stopped, &mut || text.get()) {
                    tracing::warn!("no more metrics: {error}");
                }
            })?;
        Ok(Exporter {
            running: Some(running),
            thread: Some(thread),
        })
    }
}

/// A thread that serves metrics until this is dropped.
#[derive(Debug)]
pub struct Exporter {
    /// Closed to end the thread; first taken, since the thread is waited for.
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

/// A text that is made anew when it is old.
struct Fresh<F> {
    make: F,
    made: Option<(Instant, String)>,
}

impl<F: Fn() -> Option<String>> Fresh<F> {
    fn get(&mut self) -> Option<String> {
        self.made.take_if(|(at, _)| at.elapsed() > FRESH_TIME);
        if self.made.is_none() {
            self.made = Some((Instant::now(), (self.make)()?));
        }
        self.made.as_ref().map(|(_, text)| text.clone())
    }
}

/// Serves clients until the other end of `stopped` is closed.
fn serve(
    listener: &TcpListener,
    stopped: &UnixStream,
    metrics: &mut dyn FnMut() -> Option<String>,
) -> io::Result<()> {
    // The oldest first.
    let mut clients = VecDeque::<Client>::new();
    let mut is_short = false;
    loop {
        let mut polled = vec![PollFd::new(stopped, PollFlags::IN)];
        if !is_short {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        polled.extend(clients.iter().map(Client::awaited));
        let retry = is_short.then_some(RETRY_TIME);
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
        is_short = !admit(listener, &mut clients);
        clients.retain_mut(|client| !client.time_left().is_zero() && client.go_on(metrics));
    }
}

/// Lets in who waits; false if descriptors are short.
fn admit(listener: &TcpListener, clients: &mut VecDeque<Client>) -> bool {
    loop {
        match listener
            .accept()
            .and_then(|(stream, _)| Client::new(stream))
        {
            Ok(client) => {
                if clients.len() == MOST_CLIENTS {
                    clients.pop_front();
                }
                clients.push_back(client);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::debug!("a client for metrics cannot be let in: {error}");
                return false;
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    // Rounded up, so that a deadline is over when the poll is.
    let duration = duration + Duration::from_millis(1);
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// A connection.
struct Client {
    stream: TcpStream,
    deadline: Instant,
    progress: Progress,
}

/// How far it is.
enum Progress {
    /// The head of a request, as far as it has arrived.
    Asking(Vec<u8>),
    /// The answer, and how much of it has gone.
    Answering(Vec<u8>, usize),
    /// What comes is dropped.
    Draining,
}

impl Client {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            deadline: Instant::now() + CLIENT_TIME,
            progress: Progress::Asking(Vec::new()),
        })
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn awaited(&self) -> PollFd<'_> {
        let flags = match self.progress {
            Progress::Answering(..) => PollFlags::OUT,
            Progress::Asking(_) | Progress::Draining => PollFlags::IN,
        };
        PollFd::new(&self.stream, flags)
    }

    /// Goes on by one step, so that all have their turn; false if the connection is over.
    fn go_on(&mut self, metrics: &mut dyn FnMut() -> Option<String>) -> bool {
        self.step(metrics).unwrap_or_else(|error| {
            let kind = error.kind();
            matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        })
    }

    /// One read or write; false if the client has hung up.
    fn step(&mut self, metrics: &mut dyn FnMut() -> Option<String>) -> io::Result<bool> {
        let mut piece = [0; 4096];
        match &mut self.progress {
            Progress::Asking(head) => {
                let room = piece.len().min(HEAD_BYTES - head.len());
                let len = self.stream.read(&mut piece[..room])?;
                head.extend_from_slice(&piece[..len]);
                if let Some(answer) = http::answer(head, metrics) {
                    self.progress = Progress::Answering(answer, 0);
                    return Ok(true);
                }
                Ok(len > 0)
            }
            Progress::Answering(answer, sent) => {
                *sent += self.stream.write(&answer[*sent..])?;
                if *sent == answer.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.progress = Progress::Draining;
                }
                Ok(true)
            }
            Progress::Draining => Ok(self.stream.read(&mut piece)? > 0),
        }
    }
}
