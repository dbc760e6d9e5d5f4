//! The parser of replies, as a fuzz target calls it.

use crate::Version;
use crate::connector::checked;
use crate::error::Failure;
use crate::object::Object;
use crate::store::no_retry;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, HeaderMap, HeaderValue};
use reqwest::StatusCode;
use reqwest::header::HeaderName;
use std::ops::Range;
use std::sync::Arc;

/// The range that [`read_reply`] requests.
pub const REQUESTED: Range<u64> = 100..300;

/// The length of the pieces in which the body is read.
const PIECE_BYTES: u64 = 64;

/// A server that replies to all requests with the same reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedReply {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl FixedReply {
    /// Parses a status, and lines `NAME: VALUE`.
    fn parse(head: &str, body: &[u8]) -> Option<Self> {
        let mut lines = head.lines();
        let status = StatusCode::from_bytes(lines.next()?.as_bytes()).ok()?;
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ")?;
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            let value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
            headers.try_append(name, value).ok()?;
        }
        Some(Self {
            status,
            headers,
            body: Bytes::copy_from_slice(body),
        })
    }
}

#[async_trait]
impl HttpService for FixedReply {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut reply = HttpResponse::new(self.body.clone().into());
        *reply.status_mut() = self.status;
        *reply.headers_mut() = self.headers.clone();
        checked(reply)
    }
}

impl HttpConnector for FixedReply {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Reads [`REQUESTED`] of an object from a server that replies with `head` and `body`. `head` contains the status and
/// the headers, each on its own line. Returns the version and the bytes, or `None` if the reply is refused.
#[must_use]
pub fn read_reply(head: &str, body: &[u8]) -> Option<(Version, Vec<u8>)> {
    let server = FixedReply::parse(head, body)?;
    let store = HttpBuilder::new()
        .with_url("http://host/disk.img")
        .with_http_connector(server)
        .with_retry(no_retry())
        .build()
        .ok()?;
    let object = Object {
        store: Arc::new(store),
        path: Path::default(),
        version_id: None,
    };
    let read = async {
        let (mut body, version) = object.get(REQUESTED, None).await?;
        let mut bytes = Vec::new();
        while !body.is_complete() {
            bytes.extend_from_slice(&body.next(PIECE_BYTES).await?);
        }
        // A second request, for this version, must accept the same reply.
        object.get(REQUESTED, Some(&version)).await?;
        Ok::<_, Failure>((version, bytes))
    };
    // Nothing has to be waited for.
    read.now_or_never()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reply_with_the_requested_range_is_read() {
        let head = |range: &str| {
            format!("206\ncontent-range: bytes {range}\ncontent-length: 200\netag: \"one\"\n")
        };
        let body = [7_u8; 200];
        let (version, bytes) = read_reply(&head("100-299/1000"), &body).unwrap();
        assert_eq!(version.etag.as_deref(), Some("\"one\""));
        assert_eq!((version.size_bytes, bytes), (1000, body.to_vec()));
        for range in ["100-298/1000", "0-199/1000", "100-299/*", "100-299"] {
            assert_eq!(read_reply(&head(range), &body), None, "{range}");
        }
        assert_eq!(read_reply(&head("100-299/1000"), &body[1..]), None);
        let overflow = head(&format!("100-{}/1000", u64::MAX));
        assert_eq!(read_reply(&overflow, &body), None);
    }
}
