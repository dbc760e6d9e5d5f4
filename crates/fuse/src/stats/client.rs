//! The asking end of the socket.

use super::directory;
use super::listener::is_alive;
use super::protocol::{ANSWER_BYTES, Answer, Question, receive, send};
use crate::{Error, MountEntry, Result, find_mount};
use larder::{CacheKind, HistogramReport, Stats};
use rustix::net::sockopt::socket_peercred;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a server may take for an answer.
const SERVER_TIME: Duration = Duration::from_secs(10);
/// How long a server may take to write all that is not on the image yet.
const CLOSE_TIME: Duration = Duration::from_hours(1);
/// How often it is looked whether a server has ended.
const EXIT_CHECK: Duration = Duration::from_millis(5);

/// What the caches behind the mount at `mountpoint` did.
///
/// # Errors
/// [`Error::NotMounted`], [`Error::NotOurs`], [`Error::NotOwner`],
/// [`Error::NoServer`], or [`Error::Stats`].
pub fn stats(mountpoint: &Path) -> Result<Stats> {
    match ask(mountpoint, Question::Stats)? {
        Answer::Stats(stats) => Ok(*stats),
        other => Err(unexpected(other)),
    }
}

/// [`stats`] without the longest chains, for those who ask often: no bucket is looked at.
///
/// # Errors
/// As [`stats`].
pub fn counts(mountpoint: &Path) -> Result<Stats> {
    match ask(mountpoint, Question::Counts)? {
        Answer::Stats(stats) => Ok(*stats),
        other => Err(unexpected(other)),
    }
}

/// The bucket histogram of one cache behind the mount at `mountpoint`.
///
/// # Errors
/// As [`stats`].
pub fn histogram(mountpoint: &Path, cache: CacheKind) -> Result<HistogramReport> {
    match ask(mountpoint, Question::Histogram { cache })? {
        Answer::Histogram(report) => Ok(*report),
        other => Err(unexpected(other)),
    }
}

fn ask(mountpoint: &Path, question: Question) -> Result<Answer> {
    let entry = find_mount(mountpoint)?;
    let owner = owner_of(&entry)?;
    let us = rustix::process::geteuid();
    if us.as_raw() != owner && !us.is_root() {
        return Err(Error::NotOwner {
            mountpoint: entry.mountpoint,
            owner,
        });
    }
    let mut stream = connect(&entry, owner)?;
    let failed = |error: io::Error| Error::Stats(error.to_string());
    stream
        .set_write_timeout(Some(SERVER_TIME))
        .map_err(failed)?;
    send(&mut stream, &question).map_err(failed)?;
    receive(&mut stream, ANSWER_BYTES, Instant::now() + SERVER_TIME).map_err(failed)
}

fn owner_of(entry: &MountEntry) -> Result<u32> {
    entry
        .owner()
        .filter(|_| entry.is_fuse())
        .ok_or_else(|| Error::NotOurs {
            mountpoint: entry.mountpoint.clone(),
            fs_type: entry.fs_type.clone(),
        })
}

fn connect(entry: &MountEntry, owner: u32) -> Result<UnixStream> {
    let stream = sockets(entry, owner).find_map(|path| UnixStream::connect(path).ok());
    let Some(stream) = stream else {
        return Err(Error::NoServer(entry.mountpoint.clone()));
    };
    let server = socket_peercred(&stream).map_err(|errno| Error::Stats(errno.to_string()))?;
    if server.uid.as_raw() == owner || server.uid.is_root() {
        Ok(stream)
    } else {
        Err(Error::Stats(format!(
            "the socket is served by user {}, not by user {owner}",
            server.uid.as_raw()
        )))
    }
}

/// Sockets of the mount that lie in safe directories.
fn sockets(entry: &MountEntry, owner: u32) -> impl Iterator<Item = PathBuf> {
    let name = directory::socket_name(entry);
    directory::candidates(owner)
        .into_iter()
        .filter(move |candidate| directory::check(candidate, owner).is_ok())
        .map(move |candidate| candidate.join(&name))
}

fn unexpected(answer: Answer) -> Error {
    Error::Stats(match answer {
        Answer::Error(text) => text,
        _ => "the server answered something else".to_owned(),
    })
}

/// Whether a larder server listens for the mount.
pub(crate) fn is_answering(entry: &MountEntry) -> bool {
    owner_of(entry).is_ok_and(|owner| sockets(entry, owner).any(|socket| is_alive(&socket)))
}

/// Whoever has asked a server how it closes its volume.
#[derive(Debug)]
pub(crate) struct Closing(UnixStream);

impl Closing {
    /// Asks the server of a mount that is about to go away, if it can be asked.
    pub(crate) fn ask(entry: &MountEntry) -> Option<Self> {
        let mut stream = connect(entry, owner_of(entry).ok()?).ok()?;
        stream.set_write_timeout(Some(SERVER_TIME)).ok()?;
        send(&mut stream, &Question::Close).ok()?;
        Some(Self(stream))
    }

    /// Waits until the volume is closed, which was mounted at `mountpoint`: what went wrong, as far as the
    /// server tells.
    pub(crate) fn failure(mut self, mountpoint: &Path) -> Option<Error> {
        let deadline = Instant::now() + CLOSE_TIME;
        let mountpoint = mountpoint.to_owned();
        let what = match receive(&mut self.0, ANSWER_BYTES, deadline) {
            Ok(Answer::Closed(failure)) => failure?,
            Ok(Answer::Unrecorded(what)) => return Some(Error::Unrecorded { mountpoint, what }),
            // A server that cannot be asked so has nothing to write.
            Ok(_) => return None,
            Err(error) => format!("its server did not tell of its end: {error}"),
        };
        Some(Error::ServerClose { mountpoint, what })
    }
}

/// Waits until the server of a mount that is gone has closed its image, which it
/// tells by no longer listening.
pub(crate) fn await_server_exit(entry: &MountEntry, deadline: Instant) {
    let Ok(owner) = owner_of(entry) else { return };
    for socket in sockets(entry, owner) {
        while is_alive(&socket) && Instant::now() < deadline {
            std::thread::sleep(EXIT_CHECK);
        }
    }
}

/// Removes the socket of a server that was killed.
pub(crate) fn remove_stale_socket(entry: &MountEntry) {
    let Ok(owner) = owner_of(entry) else { return };
    for socket in sockets(entry, owner) {
        // Any other failure, such as a full queue, says nothing of the server.
        let is_stale = UnixStream::connect(&socket)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if is_stale {
            // Gone already is fine: the server may have cleaned up.
            let _ = fs::remove_file(&socket);
        }
    }
}
