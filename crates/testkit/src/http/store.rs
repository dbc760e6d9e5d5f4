//! An object store for tests: the requests of uploads to S3, Google Cloud Storage and Azure.

use super::listener::Listener;
use super::message::{Reply, Request};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An object in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredObject {
    /// The content.
    pub content: Vec<u8>,
    /// The headers of the metadata.
    pub metadata: Vec<(String, String)>,
}

/// What goes wrong during an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreFault {
    /// Another client creates an object without content at this path when the first part arrives.
    CreateOther(String),
    /// Parts are denied.
    DenyParts,
    /// The reply to the request that completes an upload in parts is lost.
    LoseCompletion,
    /// The same, and all later requests are denied.
    LoseCompletionThenDeny,
    /// The server does not complete an upload in parts, and its reply cannot be parsed.
    PostponeCompletion,
    /// The reply to the copy of an object is lost.
    LoseCopy,
    /// All requests are denied.
    Deny,
}

/// The content of a store, and what goes wrong.
#[derive(Debug, Default)]
pub struct StoreState {
    /// The objects, by the paths in the URLs of requests, such as `/bucket/disk`.
    pub objects: BTreeMap<String, StoredObject>,
    /// The parts of the upload that is not complete, by their numbers or their names.
    pub parts: BTreeMap<String, Vec<u8>>,
    /// What goes wrong next.
    pub fault: Option<StoreFault>,
    /// The headers `Authorization` of the requests.
    pub authorizations: Vec<String>,
    /// The metadata of the upload that was begun, in S3 and Google Cloud Storage.
    pub upload: Option<Vec<(String, String)>>,
}

/// An object store on loopback. It keeps one upload at a time.
#[derive(Debug)]
pub struct StoreServer {
    listener: Listener,
    state: Arc<Mutex<StoreState>>,
}

impl StoreServer {
    /// Starts a store with the content and the fault in `state`.
    ///
    /// # Panics
    /// If no port can be used.
    #[must_use]
    pub fn start(state: StoreState) -> Self {
        let state = Arc::new(Mutex::new(state));
        let serving = Arc::clone(&state);
        Self {
            listener: Listener::start(move |connection| serve(connection, &serving)),
            state,
        }
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Locks the content of the store.
    pub fn state(&self) -> MutexGuard<'_, StoreState> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<StoreState>) -> MutexGuard<'_, StoreState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the requests of a connection.
fn serve(mut connection: TcpStream, state: &Mutex<StoreState>) -> io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    while let Some(request) = Request::read(&mut reader)? {
        let len = request.header("content-length").unwrap_or("0");
        let mut body = vec![0; len.parse().map_err(io::Error::other)?];
        reader.read_exact(&mut body)?;
        let reply = lock(state).answer(&request, body);
        let Some(reply) = reply else {
            break;
        };
        connection.write_all(&reply.head())?;
        if !request.is_head() {
            reply.body.write_to(&mut connection)?;
        }
    }
    connection.shutdown(Shutdown::Both)
}

/// Returns a reply that has the headers of all successful replies.
fn success() -> Reply {
    Reply::status(200)
        .with("etag", "\"one\"")
        .with("last-modified", "Tue, 24 Nov 2026 12:00:00 GMT")
}

/// Returns the headers of `request` that set metadata of an object.
fn metadata(request: &Request) -> Vec<(String, String)> {
    let headers = request.headers.iter();
    let metadata = headers.filter(|(name, _)| name.contains("-meta-"));
    metadata.cloned().collect()
}

impl StoreState {
    /// Returns the reply to `request`, or `None` if it is lost.
    fn answer(&mut self, request: &Request, body: Vec<u8>) -> Option<Reply> {
        let authorization = request.header("authorization").map(str::to_owned);
        self.authorizations.extend(authorization);
        if self.fault == Some(StoreFault::Deny) {
            return Some(Reply::status(403));
        }
        let target = request.target.as_str();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(own, _)| *own == name).map(|(_, value)| value)
        };
        let id = value("uploadId");
        let part = value("partNumber").or_else(|| value("blockid"));
        let source = request.header("x-goog-copy-source");
        match (request.method.as_str(), id, part, source) {
            ("HEAD", ..) => Some(self.head(path)),
            ("PUT", _, Some(part), _) => Some(self.put_part(part, body)),
            ("PUT", _, _, Some(source)) => self.copy(source, path, request),
            ("PUT", ..) => self.complete_blocks(path, request, &body),
            ("POST", Some(_), ..) => self.complete_parts(path, request),
            ("POST", ..) => {
                self.upload = Some(metadata(request));
                let tag = "InitiateMultipartUploadResult";
                let text = format!("<{tag}><UploadId>id</UploadId></{tag}>");
                Some(success().with_body(text.into_bytes()))
            }
            ("DELETE", Some(_), ..) => Some(self.abort()),
            ("DELETE", ..) => Some(match self.objects.remove(path) {
                Some(_) => Reply::status(204),
                None => Reply::status(404),
            }),
            (method, ..) => panic!("{method} {target}"),
        }
    }

    fn head(&self, path: &str) -> Reply {
        let Some(object) = self.objects.get(path) else {
            return Reply::status(404);
        };
        let mut reply = success();
        reply.announced_bytes = object.content.len();
        reply.headers.extend(object.metadata.iter().cloned());
        reply
    }

    /// Stores a part, which has a number in S3 and Google Cloud Storage, and a name in Azure.
    fn put_part(&mut self, part: &str, body: Vec<u8>) -> Reply {
        match &self.fault {
            Some(StoreFault::DenyParts) => return Reply::status(403),
            Some(StoreFault::CreateOther(path)) => {
                self.objects.insert(path.clone(), StoredObject::default());
                self.fault = None;
            }
            _ => {}
        }
        // The names of the client are in base64. The order of numbers is that of their digits if all have the same length.
        let part = format!("{:0>5}", part.replace("%3D", "="));
        self.parts.insert(part, body);
        success()
    }

    /// Completes an upload of S3 or Google Cloud Storage.
    fn complete_parts(&mut self, path: &str, request: &Request) -> Option<Reply> {
        if let Some(refused) = self.unmet(path, request) {
            return Some(refused);
        }
        if self.fault == Some(StoreFault::PostponeCompletion) {
            return Some(success().with_body(b"x".to_vec()));
        }
        let Some(metadata) = self.upload.take() else {
            return Some(Reply::status(404));
        };
        let is_google = metadata.iter().any(|(name, _)| name.starts_with("x-goog-"));
        if is_google && request.header("if-none-match").is_some() {
            // Google Cloud Storage has no condition for this request.
            return Some(Reply::status(400));
        }
        let parts = std::mem::take(&mut self.parts).into_values();
        let content = parts.flatten().collect();
        let object = StoredObject { content, metadata };
        self.objects.insert(path.to_owned(), object);
        let tag = "CompleteMultipartUploadResult";
        let text = format!("<{tag}><ETag>\"one\"</ETag></{tag}>");
        self.completed(success().with_body(text.into_bytes()))
    }

    /// Completes an upload of Azure. The body of the request lists the names of the parts.
    fn complete_blocks(&mut self, path: &str, request: &Request, list: &[u8]) -> Option<Reply> {
        if let Some(refused) = self.unmet(path, request) {
            return Some(refused);
        }
        let metadata = metadata(request);
        if metadata.iter().any(|(name, _)| !is_name_of_azure(name)) {
            return Some(Reply::status(400));
        }
        let mut content = Vec::new();
        let list = String::from_utf8_lossy(list);
        for item in list.split("<Uncommitted>").skip(1) {
            let name = item.split('<').next().unwrap_or_default();
            let Some(part) = self.parts.remove(name) else {
                return Some(Reply::status(400));
            };
            content.extend(part);
        }
        let object = StoredObject { content, metadata };
        self.objects.insert(path.to_owned(), object);
        self.completed(success())
    }

    /// Returns `reply` to the request that has completed an upload in parts, unless it is lost.
    fn completed(&mut self, reply: Reply) -> Option<Reply> {
        let (is_lost, next) = match self.fault.take() {
            Some(StoreFault::LoseCompletion) => (true, None),
            Some(StoreFault::LoseCompletionThenDeny) => (true, Some(StoreFault::Deny)),
            fault => (false, fault),
        };
        self.fault = next;
        (!is_lost).then_some(reply)
    }

    /// Copies the object at `source`, which does not begin with a slash, to `path`.
    fn copy(&mut self, source: &str, path: &str, request: &Request) -> Option<Reply> {
        if let Some(refused) = self.unmet(path, request) {
            return Some(refused);
        }
        let Some(object) = self.objects.get(&format!("/{source}")).cloned() else {
            return Some(Reply::status(404));
        };
        self.objects.insert(path.to_owned(), object);
        let is_lost = self.fault == Some(StoreFault::LoseCopy);
        (!is_lost).then(success)
    }

    /// Removes the parts of an upload.
    fn abort(&mut self) -> Reply {
        // An upload that is complete cannot be removed.
        if self.upload.take().is_none() {
            return Reply::status(404);
        }
        self.parts.clear();
        Reply::status(204)
    }

    /// Returns the reply to `request` if its condition is that the object at `path` does not exist, but it exists.
    fn unmet(&self, path: &str, request: &Request) -> Option<Reply> {
        let is_conditional = request.header("if-none-match") == Some("*")
            || request.header("x-goog-if-generation-match") == Some("0");
        let is_azure = request.header("x-ms-version").is_some();
        let status = if is_azure { 409 } else { 412 };
        (is_conditional && self.objects.contains_key(path)).then(|| Reply::status(status))
    }
}

/// Returns whether Azure accepts a header of metadata: the name of the metadata must be an identifier of C#.
fn is_name_of_azure(header: &str) -> bool {
    let name = header.strip_prefix("x-ms-meta-").unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}
