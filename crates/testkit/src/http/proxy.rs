//! A proxy for tests.

use super::listener::Listener;
use super::message::{Reply, Request};
use std::io::{self, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A proxy on loopback that sends all requests to one server, whatever host they name. It accepts requests for
/// http, and for a tunnel (`CONNECT`).
#[derive(Debug)]
pub struct Proxy {
    listener: Listener,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Proxy {
    /// Starts a proxy that sends requests to the server at `address`.
    ///
    /// # Panics
    /// If no port can be used.
    #[must_use]
    pub fn before(address: SocketAddr) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let listener = Listener::start(move |connection| serve(&connection, address, &log));
        Self { listener, requests }
    }

    /// Returns the URL, with the user name and password `user` unless it is empty.
    #[must_use]
    pub fn url(&self, user: &str) -> String {
        let separator = if user.is_empty() { "" } else { "@" };
        format!("http://{user}{separator}{}", self.listener.address)
    }

    /// Removes and returns the requests that were received.
    #[must_use]
    pub fn take_requests(&self) -> Vec<Request> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut requests)
    }
}

fn serve(client: &TcpStream, address: SocketAddr, log: &Mutex<Vec<Request>>) -> io::Result<()> {
    let (mut from, mut to) = (client, client);
    while let Some(request) = Request::read(&mut from)? {
        let mut requests = log.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request.clone());
        drop(requests);
        let mut server = TcpStream::connect(address)?;
        if request.method == "CONNECT" {
            to.write_all(b"HTTP/1.1 200 Connected\r\n\r\n")?;
            return tunnel(client, &server);
        }
        server.write_all(&request.head)?;
        let reply = Reply::read(&mut server, !request.is_head())?;
        to.write_all(&reply.head())?;
        reply.body.write_to(&mut to)?;
    }
    client.shutdown(Shutdown::Both)
}

/// Copies bytes in both directions until both are at their end.
fn tunnel(client: &TcpStream, server: &TcpStream) -> io::Result<()> {
    thread::scope(|scope| {
        scope.spawn(|| copy(client, server));
        copy(server, client)
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let copied = io::copy(&mut from, &mut to);
    // The other side may have closed the connection.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
    copied.map(drop)
}
