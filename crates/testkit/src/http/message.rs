//! Requests and replies of HTTP/1.1.

use super::body::Body;
use std::io::{self, Read, Write};
use std::ops::Range;

/// The maximum length of the head of a message, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// The maximum number of headers of a message.
const MAX_HEADERS: usize = 64;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The method, such as `GET`.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The head as it was received.
    pub(super) head: Vec<u8>,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers, except `Content-Length`.
    pub headers: Vec<(String, String)>,
    /// The length that `Content-Length` announces.
    pub announced_bytes: usize,
    /// The body.
    pub body: Body,
}

fn header<'h>(headers: &'h [(String, String)], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|(own, _)| own == name);
    found.map(|(_, value)| value.as_str())
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Returns the headers, with names in lower case.
fn owned(headers: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let owned = headers.iter().map(|header| {
        let value = String::from_utf8_lossy(header.value).into_owned();
        (header.name.to_ascii_lowercase(), value)
    });
    owned.collect()
}

/// Reads the head of a message: all bytes up to the empty line. Returns `None` at the end of the connection.
fn read_head(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD_BYTES {
            return Err(invalid("the head is too long"));
        }
        if from.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    Ok(Some(head))
}

impl Request {
    /// Reads a request without a body. Returns `None` at the end of the connection.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let Some(head) = read_head(from)? else {
            return Ok(None);
        };
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        parsed.parse(&head).map_err(invalid)?;
        Ok(Some(Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            target: parsed.path.unwrap_or_default().to_owned(),
            headers: owned(parsed.headers),
            head,
        }))
    }

    /// Returns the value of a header, whose name is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Returns the first and the last byte of the range that is requested, such as `bytes=0-99`. Without a last
    /// byte, as in `bytes=100-`, the range ends at the end of the object.
    #[must_use]
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let last = if last.is_empty() {
            usize::MAX
        } else {
            last.parse().ok()?
        };
        Some((first.parse().ok()?, last))
    }

    /// Returns whether only the head of the reply is requested.
    #[must_use]
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

impl Reply {
    /// Creates a reply without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            announced_bytes: 0,
            body: Vec::new().into(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self.announced_bytes = self.body.len();
        self
    }

    /// Shortens the body to `range` of it, without a change of the announced length.
    pub(super) fn cut(&mut self, range: Range<usize>) {
        self.body = self.body.part(range);
    }

    /// Returns the head in the form in which it is sent.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} Reply\r\n", self.status).into_bytes();
        for (name, value) in &self.headers {
            // Writing to memory does not fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "content-length: {}\r\n\r\n", self.announced_bytes);
        head
    }

    /// Reads a reply. If `has_body` is true, reads a body of the length that `Content-Length` announces.
    pub(super) fn read(from: &mut impl Read, has_body: bool) -> io::Result<Self> {
        let head = read_head(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Response::new(&mut headers);
        parsed.parse(&head).map_err(invalid)?;
        let mut headers = owned(parsed.headers);
        let length = header(&headers, "content-length").unwrap_or("0");
        let announced_bytes = length.parse().map_err(invalid)?;
        headers.retain(|(name, _)| name != "content-length" && name != "connection");
        let mut body = vec![0; if has_body { announced_bytes } else { 0 }];
        from.read_exact(&mut body)?;
        Ok(Self {
            status: parsed.code.unwrap_or(502),
            headers,
            announced_bytes,
            body: body.into(),
        })
    }
}
