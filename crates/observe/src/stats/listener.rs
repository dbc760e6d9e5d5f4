//! Answers queries over the statistics socket, in one thread that serves one client at a time. Clients that
//! wait for the end of the mount do not delay others: their connections are set aside, and stay open until the mount
//! ends.
//!
//! The name of the socket is the mount's device number. After an unmount, the kernel may assign this number
//! to another mount. The server of that mount may then replace the socket's file before this server ends.
//! Therefore the thread is stopped through a socket pair, not by connecting to the socket's path, and this
//! server removes the file only if it created the file.

use super::directory::Mount;
use super::protocol::{Answer, QUESTION_BYTES, Question, receive, send};
use crate::{Error, Result};
use larder::{Stats, Volume};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time within which a client must send its question. Also the timeout of each write to a client.
const CLIENT_TIME: Duration = Duration::from_secs(1);
/// The maximum number of clients that wait for the end of the mount.
const MAX_WAITING: usize = 16;
/// The delay before accept is tried again after a failure.
const RETRY_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A listening socket and its thread.
#[derive(Debug)]
pub struct Listener {
    /// The file of the socket, which is removed when the listener is dropped.
    _socket: SocketFile,
    /// One end of a socket pair. Closing it ends the thread.
    running: UnixStream,
    /// The thread, which returns the connections of clients that wait for the end of the mount.
    thread: JoinHandle<Vec<UnixStream>>,
}

/// A guard for the file of a socket. Dropping it removes the file, unless another server has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The inode number of the file.
    ino: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A failure is ignored, because an unmount may have removed the file.
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.ino) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Starts a thread that answers questions about the volume that is mounted as `mount`. If the volume is
    /// closed, the thread replies with an error to all questions except [`Question::Close`]. `complete` sets the
    /// statistics that the volume does not know, such as [`Stats::requests`] and [`Stats::hot`].
    ///
    /// # Errors
    /// Returns [`Error::SocketDirectory`] or [`Error::Stats`].
    pub fn start(
        mount: &Mount,
        volume: Weak<Volume>,
        complete: impl Fn(&Volume, &mut Stats) + Send + 'static,
    ) -> Result<Self> {
        let path = mount.own_socket()?;
        Self::start_at(&path, move |question| answer(&volume, &complete, question))
    }

    /// Starts a thread that listens at `path` and replies to each question with the result of `answer`.
    ///
    /// # Errors
    /// Returns [`Error::Stats`].
    pub fn start_at(
        path: &Path,
        answer: impl Fn(Question) -> Answer + Send + 'static,
    ) -> Result<Self> {
        let failed = |error: io::Error| Error::Stats(format!("{}: {error}", path.display()));
        // The device number belongs to this mount, so an existing file with this name belongs to a server
        // that no longer has a mount.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let socket = SocketFile {
            path: path.to_owned(),
            ino: fs::symlink_metadata(path).map_err(failed)?.ino(),
        };
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        let (running, stopped) = UnixStream::pair().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("larder-stats".to_owned())
            .spawn(move || {
                let mut waiting = Vec::new();
                if let Err(error) = listen(&listener, &stopped, &answer, &mut waiting) {
                    tracing::warn!("the statistics socket failed: {error}");
                }
                waiting
            })
            .map_err(failed)?;
        Ok(Self {
            _socket: socket,
            running,
            thread,
        })
    }

    /// Ends the thread, sends `closed` to the waiting clients, and removes the socket. `closed` is the result
    /// of closing the volume.
    pub fn stop(self, closed: &Answer) {
        drop(self.running);
        let Ok(waiting) = self.thread.join() else {
            return tracing::error!("the statistics thread panicked");
        };
        for mut stream in waiting {
            if let Err(error) = send(&mut stream, closed) {
                tracing::debug!("cannot send the result of the close to a client: {error}");
            }
        }
    }
}

/// Answers clients until the peer of the socket `stopped` is closed. Then answers the clients that are
/// already connected, and returns.
fn listen(
    listener: &UnixListener,
    stopped: &UnixStream,
    answer: &dyn Fn(Question) -> Answer,
    waiting: &mut Vec<UnixStream>,
) -> io::Result<()> {
    // A client may close its connection between the poll and the accept. The accept must not block then.
    listener.set_nonblocking(true)?;
    loop {
        let mut polled = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_stopped = !polled[1].revents().is_empty();
        let served = match listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_stopped => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => {
                tracing::debug!("cannot accept a statistics client: {error}");
                // If the process has no free descriptor, the connection stays in the queue, so the next poll
                // would return at once.
                let mut stop = [PollFd::new(stopped, PollFlags::IN)];
                match poll(&mut stop, Some(&RETRY_TIME)) {
                    Ok(_) if is_stopped => return Ok(()),
                    Ok(_) | Err(Errno::INTR) => continue,
                    Err(errno) => return Err(errno.into()),
                }
            }
            Ok((stream, _)) => serve(stream, answer, waiting),
        };
        if let Err(error) = served {
            tracing::debug!("cannot answer a statistics client: {error}");
        }
    }
}

fn serve(
    mut stream: UnixStream,
    answer: &dyn Fn(Question) -> Answer,
    waiting: &mut Vec<UnixStream>,
) -> io::Result<()> {
    let deadline = Instant::now() + CLIENT_TIME;
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(CLIENT_TIME))?;
    let peer = socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() && !peer.uid.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let reply = match receive(&mut stream, QUESTION_BYTES, deadline) {
        Ok(Question::Close) if waiting.len() < MAX_WAITING => {
            waiting.push(stream);
            return Ok(());
        }
        Ok(question) => answer(question),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Answer::Error(error.to_string())
        }
        Err(error) => return Err(error),
    };
    send(&mut stream, &reply)
}

/// Answers a question about the volume. `complete` sets the statistics that the volume does not know.
fn answer(
    volume: &Weak<Volume>,
    complete: &dyn Fn(&Volume, &mut Stats),
    question: Question,
) -> Answer {
    let Some(volume) = volume.upgrade() else {
        return Answer::Error("the volume is being closed".to_owned());
    };
    let stats = |mut stats: Stats| {
        complete(&volume, &mut stats);
        Answer::Stats(Box::new(stats))
    };
    match question {
        Question::Stats => stats(volume.stats()),
        Question::Counts => stats(volume.counts()),
        Question::Histogram { cache } => Answer::Histogram(Box::new(volume.histogram(cache))),
        Question::Close => Answer::Error("too many clients wait for the unmount".to_owned()),
    }
}
