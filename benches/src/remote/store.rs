//! The server with the image, and what was requested from it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use larder_testkit::http::{Body, Exchange, HttpServer, OBJECT_NAME, Object, wave_count};

use crate::remote::network::Network;

/// A server with one object, reached over a link.
#[derive(Debug)]
pub(super) struct Store(HttpServer);

/// What was requested in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Requests whose reply has more than one byte. A reply of one byte only shows the version.
    pub data_requests: u64,
    /// The bytes of all bodies.
    pub bytes: u64,
    /// The length of the longest chain of requests in which the server received each request after it had begun to
    /// reply to the previous one (see [`waves`](larder_testkit::http::waves)).
    pub waves: u32,
}

impl Store {
    /// Starts a server that sends the file at `path`.
    pub(super) fn of_file(path: &Path, network: Network) -> Result<Self> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let object = Object::new(Body::of_file(file)?, "image");
        Ok(Self(HttpServer::of_object(object, network.link())))
    }

    /// Starts a server that forwards requests to the server at `address`.
    pub(super) fn before(address: SocketAddr, network: Network) -> Self {
        Self(HttpServer::before(address, network.link()))
    }

    /// Returns the address.
    pub(super) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Returns the URL of the directory of the object.
    pub(super) fn folder_url(&self) -> String {
        self.0.url("")
    }

    /// Returns the URL of the object.
    pub(super) fn url(&self) -> String {
        self.0.url(OBJECT_NAME)
    }

    /// Returns what was requested since the last call.
    pub(super) fn take(&self) -> Traffic {
        Traffic::of(&self.take_exchanges())
    }

    /// Returns the log since the last call.
    pub(super) fn take_exchanges(&self) -> Vec<Exchange> {
        self.0.take_exchanges()
    }
}

impl Traffic {
    /// Returns the sums of a log.
    pub(super) fn of(exchanges: &[Exchange]) -> Self {
        Self {
            requests: exchanges.len() as u64,
            data_requests: exchanges.iter().filter(|one| one.sent_bytes > 1).count() as u64,
            bytes: exchanges.iter().map(|one| one.sent_bytes).sum(),
            waves: wave_count(exchanges),
        }
    }
}
