//! The server, its objects and its faults.

use super::body::Body;
use super::hold::Hold;
use super::link::Link;
use super::listener::Listener;
use super::log::{Exchange, Log};
use super::message::{Reply, Request};
use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// An object that a server sends.
#[derive(Clone, Debug)]
pub struct Object {
    /// The content.
    pub content: Body,
    /// The `ETag`, with its quotes, unless the server sends none.
    pub etag: Option<String>,
    /// The value of `Last-Modified`. If it is empty, the server sends none.
    pub modified: String,
    /// Whether the server sends the object although `If-Match` names another `ETag`.
    pub ignores_conditions: bool,
}

impl Object {
    /// Creates an object with a strong `ETag`.
    #[must_use]
    pub fn new(content: impl Into<Body>, etag: &str) -> Self {
        Self {
            content: content.into(),
            etag: Some(format!("\"{etag}\"")),
            modified: "Tue, 24 Nov 2026 12:00:00 GMT".to_owned(),
            ignores_conditions: false,
        }
    }

    fn reply(&self, request: &Request) -> Reply {
        let mut reply = Reply::status(206).with("accept-ranges", "bytes");
        if !self.modified.is_empty() {
            reply = reply.with("last-modified", self.modified.as_str());
        }
        if let Some(etag) = &self.etag {
            reply = reply.with("etag", etag.as_str());
            let wanted = request.header("if-match");
            if wanted.is_some_and(|wanted| wanted != etag) && !self.ignores_conditions {
                return Reply::status(412);
            }
        }
        let len = self.content.len();
        match request.range() {
            None => {
                reply.status = 200;
                reply.with_body(self.content.clone())
            }
            Some((first, _)) if first >= len => Reply::status(416),
            Some((first, last)) => {
                let last = last.min(len - 1);
                reply
                    .with("content-range", format!("bytes {first}-{last}/{len}"))
                    .with_body(self.content.part(first..last + 1))
            }
        }
    }
}

/// The name of the object in the listing of a directory.
pub const OBJECT_NAME: &str = "disk.img";

/// Returns a page that links to the object.
fn listing() -> Reply {
    let page = format!("<html><body><a href=\"{OBJECT_NAME}\">{OBJECT_NAME}</a></body></html>\n");
    Reply::status(200)
        .with("content-type", "text/html")
        .with_body(page.into_bytes())
}

/// What goes wrong with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing goes wrong.
    None,
    /// The whole object is sent with status 200.
    Whole,
    /// The body ends early, and the connection is closed.
    ShortBody,
    /// The body and `Content-Length` are shorter than the range in `Content-Range`.
    ShortReply,
    /// `Content-Range` names another range.
    WrongRange,
    /// The `ETag` is missing.
    NoEtag,
    /// The server sends an error.
    Status(u16),
    /// The server sends the head and a part of the body, and then nothing more.
    Stall,
    /// The connection is closed without a reply.
    Close,
    /// The client is sent to another URL.
    Redirect(String),
}

impl Fault {
    fn change(&self, reply: &mut Reply, object: Option<&Object>) {
        match self {
            Self::Whole => {
                let whole = object.map(|object| object.content.clone());
                let whole = whole.unwrap_or_else(|| Vec::new().into());
                let mut other = Reply::status(200).with_body(whole);
                other.headers.append(&mut reply.headers);
                other.headers.retain(|(name, _)| name != "content-range");
                *reply = other;
            }
            Self::ShortBody | Self::Stall => reply.cut(0..reply.body.len() / 2),
            Self::ShortReply => {
                reply.cut(0..reply.body.len() / 2);
                reply.announced_bytes = reply.body.len();
            }
            Self::WrongRange => {
                for (name, value) in &mut reply.headers {
                    if name == "content-range" {
                        *value = value.replacen("bytes ", "bytes 1", 1);
                    }
                }
            }
            Self::NoEtag => reply.headers.retain(|(name, _)| name != "etag"),
            Self::Status(status) => *reply = Reply::status(*status),
            Self::Redirect(to) => *reply = Reply::status(302).with("location", to.as_str()),
            Self::Close | Self::None => {}
        }
    }
}

/// Where replies come from.
#[derive(Debug)]
enum Source {
    Object(Mutex<Object>),
    /// The path of each page, and its content.
    Pages(Vec<(String, Body)>),
    /// Another server.
    Server(SocketAddr),
}

#[derive(Debug)]
struct Shared {
    source: Source,
    link: Link,
    faults: Mutex<VecDeque<Fault>>,
    log: Log,
    hold: Hold,
}

/// A web server on loopback.
#[derive(Debug)]
pub struct HttpServer {
    listener: Listener,
    shared: Arc<Shared>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HttpServer {
    /// Starts a server that sends `object`, whatever the path of a request. If the path ends with `/`, sends a
    /// page with a link to [`OBJECT_NAME`], as a listing of a directory.
    ///
    /// # Panics
    /// If no port can be used.
    #[must_use]
    pub fn of_object(object: Object, link: Link) -> Self {
        Self::start(Source::Object(Mutex::new(object)), link)
    }

    /// Starts a server that sends the text of the page that a request names by its path, and status 404 if
    /// there is none.
    ///
    /// # Panics
    /// If no port can be used.
    #[must_use]
    pub fn of_pages(pages: &[(&str, &str)], link: Link) -> Self {
        let page = |(path, text): &(&str, &str)| {
            let text = text.as_bytes().to_vec();
            ((*path).to_owned(), Body::from(text))
        };
        Self::start(Source::Pages(pages.iter().map(page).collect()), link)
    }

    /// Starts a server that forwards requests without a body to the server at `address`.
    ///
    /// # Panics
    /// If no port can be used.
    #[must_use]
    pub fn before(address: SocketAddr, link: Link) -> Self {
        Self::start(Source::Server(address), link)
    }

    fn start(source: Source, link: Link) -> Self {
        let shared = Arc::new(Shared {
            source,
            link,
            faults: Mutex::default(),
            log: Log::default(),
            hold: Hold::default(),
        });
        let serving = Arc::clone(&shared);
        Self {
            listener: Listener::start(move |connection| serving.serve(connection)),
            shared,
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Returns the URL of `path`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address())
    }

    /// Replaces the object.
    ///
    /// # Panics
    /// If the server was not created by [`HttpServer::of_object`].
    pub fn replace(&self, object: Object) {
        match &self.shared.source {
            Source::Object(own) => *lock(own) = object,
            _ => panic!("the server has no object"),
        }
    }

    /// Injects `faults`, one into each of the next requests.
    pub fn inject(&self, faults: impl IntoIterator<Item = Fault>) {
        lock(&self.shared.faults).extend(faults);
    }

    /// Sends no reply until requests for this number of different ranges wait, and then sends replies as usual. So the
    /// number of requests that a client has in flight can be tested without a clock.
    pub fn hold_until(&self, ranges: usize) {
        self.shared.hold.begin(ranges);
    }

    /// Removes and returns the requests that were received.
    #[must_use]
    pub fn take_requests(&self) -> Vec<Request> {
        let exchanges = self.shared.log.take().into_iter();
        exchanges.map(|exchange| exchange.request).collect()
    }

    /// Removes and returns the requests that were received, with what was sent for them so far.
    #[must_use]
    pub fn take_exchanges(&self) -> Vec<Exchange> {
        self.shared.log.take()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.shared.hold.end();
    }
}

impl Shared {
    /// Answers the requests of a connection.
    fn serve(&self, mut connection: TcpStream) -> io::Result<()> {
        Link::prepare_thread();
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(request) = Request::read(&mut reader)? {
            let received = Instant::now();
            let number = self.log.add(request.clone(), received);
            let answered = self.answer(&mut connection, &request, (number, received));
            self.log
                .update(number, |exchange| exchange.ended = Some(Instant::now()));
            match answered? {
                Some(Fault::Close | Fault::ShortBody) => break,
                // The client must end the connection.
                Some(Fault::Stall) => drop(Request::read(&mut reader)?),
                _ => {}
            }
        }
        connection.shutdown(Shutdown::Both)
    }

    /// Answers a request. `number` is its number in the log, and `received` is the time at which it was received.
    /// Returns the fault that was injected.
    fn answer(
        &self,
        connection: &mut TcpStream,
        request: &Request,
        (number, received): (usize, Instant),
    ) -> io::Result<Option<Fault>> {
        self.link.delay(received);
        self.hold.wait(request.range());
        let fault = lock(&self.faults).pop_front();
        if fault == Some(Fault::Close) {
            return Ok(fault);
        }
        let mut reply = self.reply(request)?;
        if let Some(fault) = &fault {
            let object = match &self.source {
                Source::Object(object) => Some(lock(object).clone()),
                _ => None,
            };
            fault.change(&mut reply, object.as_ref());
        }
        let has_body = !request.is_head() && !reply.body.is_empty();
        self.log.update(number, |exchange| {
            exchange.status = reply.status;
            exchange.answered = (!has_body).then(Instant::now);
        });
        connection.write_all(&reply.head())?;
        if has_body {
            connection.set_nonblocking(true)?;
            self.link.send(connection, &reply.body, |bytes| {
                self.log.update(number, |exchange| {
                    exchange.answered.get_or_insert_with(Instant::now);
                    exchange.sent_bytes += bytes as u64;
                });
            })?;
            connection.set_nonblocking(false)?;
        }
        Ok(fault)
    }

    fn reply(&self, request: &Request) -> io::Result<Reply> {
        match &self.source {
            Source::Object(_) if request.target.ends_with('/') => Ok(listing()),
            Source::Object(object) => {
                let object = lock(object).clone();
                Ok(object.reply(request))
            }
            Source::Pages(pages) => {
                let path = request.target.split('?').next().unwrap_or_default();
                let page = pages.iter().find(|(own, _)| own == path);
                Ok(match page {
                    Some((_, text)) => Reply::status(200).with_body(text.clone()),
                    None => Reply::status(404),
                })
            }
            Source::Server(address) => {
                let mut server = TcpStream::connect(address)?;
                server.write_all(&request.head)?;
                Reply::read(&mut BufReader::new(server), !request.is_head())
            }
        }
    }
}
