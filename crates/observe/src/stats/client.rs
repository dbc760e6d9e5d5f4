//! Queries the server of a mount over the statistics socket.

use super::directory::Mount;
use super::protocol::{ANSWER_BYTES, Answer, Question, receive, send};
use crate::{Error, Result};
use larder::{CacheKind, HistogramReport, Stats};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The maximum time for a response.
const SERVER_TIME: Duration = Duration::from_secs(10);
/// The maximum time for which a client waits, after an unmount, until the server has written all changes.
const CLOSE_TIME: Duration = Duration::from_hours(1);
/// The interval between checks whether a server has exited.
const EXIT_CHECK: Duration = Duration::from_millis(5);

impl Mount {
    /// Returns the statistics of the mount.
    ///
    /// # Errors
    /// Returns [`Error::NotOwner`], [`Error::NoServer`] or [`Error::Stats`].
    pub fn stats(&self) -> Result<Stats> {
        self.query_stats(Question::Stats)
    }

    /// Returns the statistics of the mount without the longest chains. This is faster than
    /// [`Mount::stats`], because the server visits no bucket.
    ///
    /// # Errors
    /// Returns the same errors as [`Mount::stats`].
    pub fn counts(&self) -> Result<Stats> {
        self.query_stats(Question::Counts)
    }

    fn query_stats(&self, question: Question) -> Result<Stats> {
        match self.query(question)? {
            Answer::Stats(stats) => Ok(*stats),
            other => Err(unexpected(other)),
        }
    }

    /// Returns the bucket histogram of one cache of the mount.
    ///
    /// # Errors
    /// Returns the same errors as [`Mount::stats`].
    pub fn histogram(&self, cache: CacheKind) -> Result<HistogramReport> {
        match self.query(Question::Histogram { cache })? {
            Answer::Histogram(report) => Ok(*report),
            other => Err(unexpected(other)),
        }
    }

    fn query(&self, question: Question) -> Result<Answer> {
        let caller = rustix::process::geteuid();
        if caller.as_raw() != self.owner && !caller.is_root() {
            return Err(Error::NotOwner {
                mountpoint: self.mountpoint.clone(),
                owner: self.owner,
            });
        }
        let mut stream = self.connect()?;
        let failed = |error: io::Error| Error::Stats(error.to_string());
        stream
            .set_write_timeout(Some(SERVER_TIME))
            .map_err(failed)?;
        send(&mut stream, &question).map_err(failed)?;
        receive(&mut stream, ANSWER_BYTES, Instant::now() + SERVER_TIME).map_err(failed)
    }

    fn connect(&self) -> Result<UnixStream> {
        let stream = self
            .sockets()
            .find_map(|path| UnixStream::connect(path).ok());
        let stream = stream.ok_or_else(|| Error::NoServer(self.mountpoint.clone()))?;
        let server = socket_peercred(&stream).map_err(|errno| Error::Stats(errno.to_string()))?;
        if server.uid.as_raw() == self.owner || server.uid.is_root() {
            Ok(stream)
        } else {
            Err(Error::Stats(format!(
                "the server of the socket runs as user {}, not as user {}",
                server.uid.as_raw(),
                self.owner
            )))
        }
    }

    /// Returns whether a larder server listens for the mount.
    #[must_use]
    pub fn is_answering(&self) -> bool {
        self.sockets().any(|path| UnixStream::connect(path).is_ok())
    }

    /// Requests the result of closing the volume, which the server sends when the volume is closed. This
    /// must be called before the unmount. Returns `None` if the request fails.
    #[must_use]
    pub fn request_close(&self) -> Option<Closing> {
        let mut stream = self.connect().ok()?;
        stream.set_write_timeout(Some(SERVER_TIME)).ok()?;
        send(&mut stream, &Question::Close).ok()?;
        Some(Closing(stream))
    }

    /// Waits after an unmount until the server has closed its image, or until `deadline`. A server that
    /// has closed its image no longer listens on the socket.
    pub fn await_server_exit(&self, deadline: Instant) {
        while Instant::now() < deadline && self.is_answering() {
            std::thread::sleep(EXIT_CHECK);
        }
    }

    /// Removes the socket of the mount if its server was killed.
    pub fn remove_stale_socket(&self) {
        for socket in self.sockets() {
            // Only a refused connection means that the server has exited. Other failures, such as a full
            // queue, do not.
            let is_stale = UnixStream::connect(&socket)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if is_stale {
                // A failure is ignored, because the server may have removed the socket.
                let _ = fs::remove_file(&socket);
            }
        }
    }
}

fn unexpected(answer: Answer) -> Error {
    Error::Stats(match answer {
        Answer::Error(text) => text,
        _ => "unexpected answer from the server".to_owned(),
    })
}

/// A connection over which a server will report the result of closing its volume.
#[derive(Debug)]
pub struct Closing(UnixStream);

impl Closing {
    /// Waits until the volume is closed, and returns the server's report.
    pub fn wait(mut self) -> io::Result<Answer> {
        receive(&mut self.0, ANSWER_BYTES, Instant::now() + CLOSE_TIME)
    }
}
