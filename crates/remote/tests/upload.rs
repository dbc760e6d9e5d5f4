//! Uploads to a server that is compatible with S3, of which this file simulates what an upload needs.

use larder_block::MemoryDevice;
use larder_remote::{Error, ImageUrl, Result, UploadOptions, upload};
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// More than one part.
const LEN: usize = 9 << 20;
/// The headers of the metadata of an object begin with this text.
const METADATA: &str = "x-amz-meta-";

struct Request {
    method: String,
    query: String,
    /// The names are in lower case.
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    /// Reads a request. Returns `None` at the end of the connection.
    fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let (method, target) = line.split_once(' ').unwrap();
        let target = target.split(' ').next().unwrap();
        let (_, query) = target.split_once('?').unwrap_or_default();
        let mut request = Self {
            method: method.to_owned(),
            query: query.to_owned(),
            headers: BTreeMap::new(),
            body: Vec::new(),
        };
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            let name = name.to_ascii_lowercase();
            request.headers.insert(name, value.trim().to_owned());
        }
        if let Some(len) = request.headers.get("content-length") {
            request.body = vec![0; len.parse().unwrap()];
            from.read_exact(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// Returns a value of the query.
    fn value(&self, name: &str) -> Option<&str> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let mut values = pairs.filter(|(own, _)| *own == name);
        values.next().map(|(_, value)| value)
    }
}

fn reply(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let len = body.len();
    format!("HTTP/1.1 {status} Reply\r\n{headers}content-length: {len}\r\n\r\n{body}").into_bytes()
}

/// The object of the server, an upload, and what goes wrong.
#[derive(Default)]
struct State {
    /// The content and the headers of the object.
    object: Option<(Vec<u8>, String)>,
    parts: BTreeMap<u32, Vec<u8>>,
    /// The headers that the upload has set.
    headers: String,
    /// Whether the reply to the next request that completes an upload is lost.
    loses_reply: bool,
    /// Whether the server denies all requests after the lost reply.
    denies_later: bool,
    denies: bool,
}

impl State {
    /// Returns the reply to `request`, or `None` if it is lost.
    fn answer(&mut self, request: &Request) -> Option<Vec<u8>> {
        if self.denies {
            return Some(reply(403, "", ""));
        }
        let part = request.value("partNumber");
        Some(match (request.method.as_str(), part) {
            ("HEAD", _) => match &self.object {
                None => reply(404, "", ""),
                Some((content, headers)) => format!(
                    "HTTP/1.1 200 Reply\r\netag: \"one\"\r\n{headers}\
                     last-modified: Tue, 24 Nov 2026 12:00:00 GMT\r\ncontent-length: {}\r\n\r\n",
                    content.len()
                )
                .into_bytes(),
            },
            ("PUT", Some(number)) => {
                let part = request.body.clone();
                self.parts.insert(number.parse().unwrap(), part);
                reply(200, "etag: \"part\"\r\n", "")
            }
            ("POST", _) if request.value("uploadId").is_some() => return self.complete(request),
            ("POST", _) => {
                let headers = request.headers.iter();
                let metadata = headers.filter(|(name, _)| name.starts_with(METADATA));
                let lines = metadata.map(|(name, value)| format!("{name}: {value}\r\n"));
                self.headers = lines.collect();
                let id = "<UploadId>id</UploadId>";
                let tag = "InitiateMultipartUploadResult";
                reply(200, "", &format!("<{tag}>{id}</{tag}>"))
            }
            // An upload that is complete cannot be removed.
            ("DELETE", _) if self.parts.is_empty() => reply(404, "", ""),
            ("DELETE", _) => reply(200, "", ""),
            (method, _) => panic!("{method} {}", request.query),
        })
    }

    fn complete(&mut self, request: &Request) -> Option<Vec<u8>> {
        let condition = request.headers.get("if-none-match");
        if condition.is_some_and(|value| value == "*") && self.object.is_some() {
            return Some(reply(412, "", ""));
        }
        let parts = std::mem::take(&mut self.parts).into_values();
        self.object = Some((parts.flatten().collect(), self.headers.clone()));
        if self.loses_reply {
            self.loses_reply = false;
            self.denies = self.denies_later;
            return None;
        }
        let tag = "CompleteMultipartUploadResult";
        let body = format!("<{tag}><ETag>\"one\"</ETag></{tag}>");
        Some(reply(200, "", &body))
    }
}

/// A server on loopback.
struct Server {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn start(state: State) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&serving);
                thread::spawn(move || drop(serve(connection, &state)));
            }
        });
        Self { address, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Uploads `content`. Calls `sending` when a part is queued.
    fn upload(&self, content: &[u8], mut sending: impl FnMut()) -> Result<()> {
        let url = ImageUrl::parse("s3://bucket/disk.img").unwrap();
        let endpoint = format!("http://{}", self.address);
        let options = UploadOptions {
            endpoint: Some(&endpoint),
            anonymous: true,
        };
        let content = MemoryDevice::new(content.to_vec());
        upload(&url, options, &content, &mut |_| sending())
    }

    fn content(&self) -> Vec<u8> {
        self.state().object.as_ref().unwrap().0.clone()
    }
}

/// Answers the requests of a connection.
fn serve(mut connection: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some(request) = Request::read(&mut reader)? {
        let answer = state.lock().unwrap().answer(&request);
        let Some(reply) = answer else {
            break;
        };
        connection.write_all(&reply)?;
    }
    connection.shutdown(Shutdown::Both)
}

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at >> 12).to_le_bytes()[0]).collect()
}

#[test]
fn object_that_is_created_during_the_upload_is_not_replaced() {
    let server = Server::start(State::default());
    let create = || server.state().object = Some((b"other".to_vec(), String::new()));
    assert_eq!(server.upload(&content(), create), Err(Error::Exists));
    assert_eq!(server.content(), b"other");
}

#[test]
fn upload_succeeds_although_the_last_reply_is_lost() {
    let server = Server::start(State {
        loses_reply: true,
        ..State::default()
    });
    assert_eq!(server.upload(&content(), || ()), Ok(()));
    assert!(server.content() == content());
}

#[test]
fn upload_that_the_server_does_not_confirm_is_reported_as_such() {
    let server = Server::start(State {
        loses_reply: true,
        denies_later: true,
        ..State::default()
    });
    let result = server.upload(&content(), || ());
    assert!(matches!(result, Err(Error::Unconfirmed(_))), "{result:?}");
}
