//! Where a profile or a pack is, and how its bytes are read.

use super::error::{Error, Result};
use super::limits::MAX_UNITS;
use crate::counters::InFlight;
use crate::error::Failure;
use crate::fetch::Attempts;
use crate::meter::Meter;
use crate::object::{Object, Version};
use crate::stream::Body;
use crate::{ImageUrl, UNIT_BYTES};
use bytes::Bytes;
use std::fmt::{self, Debug, Display, Formatter};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The end of the range that is requested: more than the size of any pack.
const MAX_PACK_BYTES: u64 = (MAX_UNITS as u64 + 64) * UNIT_BYTES;

/// The place of a profile or a pack. `Display` omits the secrets of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A local file.
    File(PathBuf),
    /// An object on a server.
    Url(ImageUrl),
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => Display::fmt(&path.display(), f),
            Self::Url(url) => Display::fmt(url, f),
        }
    }
}

/// The bytes of a profile or a pack, from the start to the end.
pub(crate) enum Source {
    File(File),
    Object(Box<Stream>),
}

/// An object that is read from the start to the end by one request, unless an attempt fails.
pub(crate) struct Stream {
    object: Object,
    /// The version of the first reply.
    version: Option<Version>,
    /// The rest of the reply, unless the last attempt failed.
    body: Option<(Body, InFlight)>,
    /// The number of bytes that were read.
    read_bytes: u64,
    meter: Meter,
    deadline: Duration,
}

impl Source {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn file(path: &Path) -> Result<Self> {
        Ok(Self::File(File::open(path)?))
    }

    /// Returns the bytes of `object`. Nothing is requested yet.
    pub(super) fn object(object: Object, meter: Meter, deadline: Duration) -> Self {
        Self::Object(Box::new(Stream {
            object,
            version: None,
            body: None,
            read_bytes: 0,
            meter,
            deadline,
        }))
    }

    /// Returns the next bytes: `len`, and fewer only at the end.
    pub(super) async fn next(&mut self, len: usize) -> Result<Bytes> {
        match self {
            Self::File(file) => {
                let mut bytes = Vec::with_capacity(len);
                let mut piece = file.take(len as u64);
                tokio::task::block_in_place(|| piece.read_to_end(&mut bytes))?;
                Ok(bytes.into())
            }
            Self::Object(stream) => {
                let bytes = stream.next(len as u64).await;
                bytes.map_err(|error| Error::Io(error.to_string()))
            }
        }
    }
}

impl Stream {
    async fn next(&mut self, len: u64) -> crate::Result<Bytes> {
        let meter = self.meter.clone();
        let mut attempts = Attempts::new(&meter, self.deadline);
        loop {
            match self.attempt(&mut attempts, len).await {
                Ok(bytes) => {
                    self.read_bytes += bytes.len() as u64;
                    return Ok(bytes);
                }
                Err(failure) => {
                    self.body = None;
                    attempts.pause(failure).await?;
                }
            }
        }
    }

    /// Returns the next bytes. If this is the first attempt, or the last one failed, first requests all bytes that were
    /// not read yet.
    async fn attempt(
        &mut self,
        attempts: &mut Attempts<'_>,
        len: u64,
    ) -> crate::Result<Bytes, Failure> {
        let (body, _) = match &mut self.body {
            Some(body) => body,
            body => {
                let request = self.meter.counters.start_request();
                let rest = self.read_bytes..MAX_PACK_BYTES;
                let get = self.object.get(rest, self.version.as_ref());
                let (received, version) = attempts.head(get).await?;
                self.version = Some(version);
                body.insert((received, request))
            }
        };
        if body.is_complete() {
            return Ok(Bytes::new());
        }
        let bytes = attempts.in_time(body.next(len)).await?;
        attempts.succeed(&bytes);
        Ok(bytes)
    }
}

impl Debug for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "File",
            Self::Object(_) => "Object",
        })
    }
}
