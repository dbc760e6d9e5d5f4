//! The server's end of the socket: one thread, one client at a time. Clients that wait for the end
//! of the mount are kept aside.
//!
//! The socket is named after the mount's device number, which the kernel assigns to the next mount
//! as soon as this one is unmounted. The server of that mount may have replaced the socket before
//! this server ends. Therefore the thread is woken by a separate pipe, not through the socket's
//! file, and the file is removed only if it belongs to this server.

use super::directory::Mount;
use super::protocol::{Answer, QUESTION_BYTES, Question, receive, send};
use crate::{Error, Result};
use larder::Volume;
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

/// The maximum time of a connection.
const CLIENT_TIME: Duration = Duration::from_secs(1);
/// The maximum number of clients that wait for the end of the mount.
const MAX_WAITING: usize = 16;
/// The time until the next accept if the last failed.
const RETRY_TIME: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// A listening socket and its thread.
#[derive(Debug)]
pub struct Listener {
    /// Removed after the listener has ended.
    _socket: SocketFile,
    /// Closed to end the thread.
    running: UnixStream,
    /// Returns the clients that wait for the end of the mount.
    thread: JoinHandle<Vec<UnixStream>>,
}

/// The socket's file, removed on drop.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    ino: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // An unmount may have removed it already.
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.ino) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Listens for questions about the volume that is mounted as `mount`, also after it is closed.
    ///
    /// # Errors
    /// [`Error::SocketDirectory`], or [`Error::Stats`].
    pub fn start(mount: &Mount, volume: Weak<Volume>) -> Result<Self> {
        let path = mount.own_socket()?;
        Self::start_at(&path, move |question| answer(&volume, question))
    }

    /// Listens at `path`, and sends the results of `answer`.
    ///
    /// # Errors
    /// [`Error::Stats`].
    pub fn start_at(
        path: &Path,
        answer: impl Fn(Question) -> Answer + Send + 'static,
    ) -> Result<Self> {
        let failed = |error: io::Error| Error::Stats(format!("{}: {error}", path.display()));
        // The device number belongs to this mount now, so an existing file of that name is stale.
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

    /// Ends the thread, reports to waiting clients how the volume was `closed`, and removes the
    /// socket.
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

/// Answers clients until the other end of `stopped` is closed, and then the clients that connected
/// before.
fn listen(
    listener: &UnixListener,
    stopped: &UnixStream,
    answer: &dyn Fn(Question) -> Answer,
    waiting: &mut Vec<UnixStream>,
) -> io::Result<()> {
    // A client may close its connection between the poll and the accept.
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
                // Without a free descriptor, the poll would return for it again at once.
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

fn answer(volume: &Weak<Volume>, question: Question) -> Answer {
    let Some(volume) = volume.upgrade() else {
        return Answer::Error("the volume is being closed".to_owned());
    };
    match question {
        Question::Stats => Answer::Stats(Box::new(volume.stats())),
        Question::Counts => Answer::Stats(Box::new(volume.counts())),
        Question::Histogram { cache } => Answer::Histogram(Box::new(volume.histogram(cache))),
        Question::Close => Answer::Error("too many clients wait for the unmount".to_owned()),
    }
}
