//! Errors of remote images.

use crate::digest::ContentDigest;
use crate::profile;
use crate::redact::redact;
use object_store::Error as StoreError;
use object_store::client::{HttpError, HttpErrorKind};
use reqwest::StatusCode;
use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// The result of an operation on a remote image.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The maximum length of a reason, in bytes. Servers can send long texts.
const MAX_REASON_BYTES: usize = 200;

/// The text of a failure after a time limit.
const NO_ANSWER: &str = "the server does not answer";

/// The texts of `object_store` for failures of the services that provide the tokens of Google and Azure.
const TOKEN_FAILURES: [&str; 2] = [
    "Error performing token request",
    "Error getting token response body",
];

/// The services that provide the tokens of Google and Azure, in errors.
const TOKEN_SERVICE: &str = "the token service";

/// The beginning of the text of a permanent TLS error.
const CERTIFICATE: &str = "invalid peer certificate";

/// Why a remote image cannot be opened or read. No text contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is invalid.
    #[error("{url}: {why}")]
    Url {
        /// The URL, without secrets.
        url: String,
        /// Why it is invalid.
        why: String,
    },
    /// The options are invalid, incomplete or contradictory, or the client cannot be set up with them.
    #[error("{0}")]
    Settings(String),
    /// The object does not exist.
    #[error("the server has no such object (status 404)")]
    NotFound,
    /// The server refuses access.
    #[error(
        "the server denies access (status 401 or 403): the credentials are missing, wrong or expired"
    )]
    Denied,
    /// The server refuses the request for another reason, or sends a redirect that is not followed.
    #[error("the server replied with {}", described(*.0))]
    Status(u16),
    /// The credentials of the user cannot be obtained.
    #[error("{0}")]
    Credentials(String),
    /// The user has no credentials. The text lists where they were looked for.
    #[error("no credentials were found: {0}")]
    NoCredentials(String),
    /// The certificate of the server is not trusted.
    #[error("the server is not trusted: {0}")]
    Certificate(String),
    /// The object is empty.
    #[error("the object is empty")]
    Empty,
    /// The server does not send parts of the object.
    #[error("the server does not answer range requests")]
    NoRanges,
    /// The server does not say which version it sends.
    #[error("the server sends no strong ETag, so a change of the object could not be detected")]
    NoVersion,
    /// The object is not the one that was opened.
    #[error("the object was replaced or removed after it was opened")]
    Replaced,
    /// The content is not the one that the user expects.
    #[error("the content of the image has the SHA-256 {found}, not {expected}")]
    OtherContent {
        /// The digest of the content.
        found: ContentDigest,
        /// The digest that the user expects.
        expected: ContentDigest,
    },
    /// The disk cache does not have what is needed, and no request may be sent.
    #[error(
        "the disk cache does not have the requested data, and requests are not allowed (offline)"
    )]
    NotCached,
    /// A profile or a pack cannot be used.
    #[error("profile {name}: {why}")]
    Profile {
        /// The file, or the URL without secrets.
        name: String,
        /// Why it cannot be used.
        why: profile::Error,
    },
    /// The disk cache cannot be used.
    #[error("{0}")]
    Cache(String),
    /// The object to be uploaded exists.
    #[error("the object exists, and is not replaced")]
    Exists,
    /// Objects are uploaded only to object stores.
    #[error("an image can be uploaded only to an s3://, gs:// or az:// URL")]
    NoUpload,
    /// The content to be uploaded cannot be read.
    #[error("cannot read the content: {0}")]
    Content(String),
    /// An upload failed.
    #[error("the upload failed: {0}")]
    Upload(Failure),
    /// The request that completes an upload failed, and it is not known whether the server has created the object, or
    /// still creates it.
    #[error("the server has not confirmed the upload, so the object may exist now or later: {0}")]
    Unconfirmed(Failure),
    /// The last attempt failed, and no time is left for another one.
    #[error("no request was successful (time limit: {0:?}); the last failure: {1}")]
    Deadline(Duration, Failure),
}

impl Error {
    /// Returns the system error with which a read fails.
    #[must_use]
    pub fn errno(&self) -> io::Error {
        use rustix::io::Errno;
        let errno = match self {
            Self::NotFound => Errno::NOENT,
            Self::Denied | Self::Credentials(_) | Self::NoCredentials(_) => Errno::ACCESS,
            Self::Replaced => Errno::STALE,
            _ => Errno::IO,
        };
        errno.into()
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Another attempt would fail, too: the server refuses the request, or the object is not the one that was
    /// opened.
    #[error("{0}")]
    Final(Box<Error>),
    /// The server replied to a range request with the whole object.
    #[error("the server sent the whole object instead of a range")]
    NotPartial,
    /// The reply does not have the requested range, or does not name the version.
    #[error("the reply is wrong: {0}")]
    WrongReply(String),
    /// The reply has fewer bytes than were requested.
    #[error("the reply has {received} of {expected} bytes")]
    Short {
        /// The number of bytes that were received.
        received: u64,
        /// The number of bytes that were requested.
        expected: u64,
    },
    /// The server reported an error that may be temporary.
    #[error("the server replied with {}", described(*.0))]
    Status(u16),
    /// The request or its reply was not transferred.
    #[error("{0}")]
    Transport(String),
    /// The server of the image was not queried, because a service that provides credentials failed. This may be
    /// temporary.
    #[error("cannot get credentials from {service}: {failure}")]
    Service {
        /// The service.
        service: &'static str,
        /// Why the query of the service failed.
        failure: Box<Failure>,
    },
}

impl Failure {
    /// Classifies an error of the store.
    pub(crate) fn of(error: &StoreError) -> Self {
        let last = |error| Self::Final(Box::new(error));
        match error {
            // The client for web servers returns this error for other statuses, too.
            StoreError::NotFound { .. } => match status_in(&error.to_string()) {
                Some(status) if status != 404 => Self::of_status(status),
                _ => last(Error::NotFound),
            },
            StoreError::Precondition { .. } | StoreError::NotModified { .. } => {
                last(Error::Replaced)
            }
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                last(Error::Denied)
            }
            // The client for web servers returns this error if the status is 200.
            StoreError::NotSupported { .. } => Self::NotPartial,
            _ => {
                let failure = Self::of_chain(error);
                let text = error.to_string();
                let is_of_token = TOKEN_FAILURES.iter().any(|own| text.contains(own));
                // The connector names the metadata service of an instance.
                if is_of_token && !failure.names_service() {
                    failure.of_service(TOKEN_SERVICE)
                } else {
                    failure
                }
            }
        }
    }

    /// Returns the failure of a request for which no reply arrives in time.
    pub(crate) fn no_answer() -> Self {
        Self::Transport(NO_ANSWER.to_owned())
    }

    /// Classifies a status that is not a success.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            // A request timeout, too many requests, and errors of the server.
            408 | 429 | 500.. => Self::Status(status),
            _ => Self::Final(Box::new(Error::Status(status))),
        }
    }

    /// Classifies an error of the transfer.
    pub(crate) fn of_http(error: &HttpError) -> Self {
        let mut source = error.source();
        while let Some(current) = source {
            // The connector has classified it.
            if let Some(failure) = current.downcast_ref::<Self>() {
                return failure.clone();
            }
            let text = current.to_string();
            // The client has no type for this error.
            if text.starts_with(CERTIFICATE) {
                let why = Error::Certificate(shortened(&text));
                return Self::Final(Box::new(why));
            }
            source = current.source();
        }
        Self::Transport(transport(error).to_owned())
    }

    /// Returns the failure of a request to the server of the image, if this is the failure of a query of `service`, which
    /// provides credentials.
    pub(crate) fn of_service(self, service: &'static str) -> Self {
        match self {
            Self::Final(error) => Self::Final(Box::new(match *error {
                // Users can trust a certificate.
                Error::Certificate(why) => Error::Certificate(format!("{service}: {why}")),
                error => Error::Credentials(format!("{service}: {error}")),
            })),
            failure => Self::Service {
                service,
                failure: Box::new(failure),
            },
        }
    }

    /// Returns whether this is the failure of a service that provides credentials, and names the service.
    fn names_service(&self) -> bool {
        match self {
            Self::Service { .. } => true,
            Self::Final(error) => {
                matches!(**error, Error::Credentials(_) | Error::NoCredentials(_))
            }
            _ => false,
        }
    }

    /// Returns whether another attempt may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        !matches!(self, Self::Final(_))
    }

    fn of_chain(error: &StoreError) -> Self {
        let mut current: &(dyn StdError + 'static) = error;
        loop {
            if let Some(error) = current.downcast_ref::<HttpError>() {
                return Self::of_http(error);
            }
            // The provider of credentials has classified it.
            if let Some(failure) = current.downcast_ref::<Self>() {
                return failure.clone();
            }
            match current.source() {
                Some(source) => current = source,
                None => break,
            }
        }
        let text = error.to_string();
        if let Some(status) = status_in(&text) {
            Self::of_status(status)
        } else if text.contains("non-partial response") {
            Self::NotPartial
        } else {
            Self::WrongReply(shortened(&redact(&text)))
        }
    }
}

fn transport(error: &HttpError) -> &'static str {
    match error.kind() {
        HttpErrorKind::Connect => "cannot connect to the server",
        HttpErrorKind::Timeout => NO_ANSWER,
        HttpErrorKind::Interrupted => "the connection was interrupted",
        HttpErrorKind::Decode => "the reply cannot be decoded, or ends early",
        _ => "the request failed",
    }
}

/// Returns the status in a text such as `... status code: 503 Service Unavailable: `. A URL can precede it.
fn status_in(text: &str) -> Option<u16> {
    let (_, after) = text.rsplit_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

/// Returns a text such as `status 400 (Bad Request)`.
fn described(status: u16) -> String {
    let known = StatusCode::from_u16(status).ok();
    match known.and_then(|status| status.canonical_reason()) {
        Some(reason) => format!("status {status} ({reason})"),
        None => format!("status {status}"),
    }
}

/// Returns the beginning of `text`, without control characters.
fn shortened(text: &str) -> String {
    let mut short: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    while short.len() > MAX_REASON_BYTES {
        short.pop();
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_statuses_are_failures_and_others_are_errors() {
        for status in [408, 429, 500, 503, 599] {
            assert_eq!(Failure::of_status(status), Failure::Status(status));
        }
        for status in [301, 307, 400, 405, 409, 410, 416, 499] {
            let failure = Failure::of_status(status);
            assert!(!failure.is_temporary());
            assert!(failure.to_string().contains(&format!("status {status}")));
        }
        assert_eq!(
            Error::Status(400).to_string(),
            "the server replied with status 400 (Bad Request)"
        );
        assert_eq!(
            Failure::Status(599).to_string(),
            "the server replied with status 599"
        );
    }

    /// An error of a service, as `object_store` wraps it.
    #[derive(Debug, thiserror::Error)]
    #[error("Error performing token request: {0}")]
    struct TokenRequest(#[source] Failure);

    #[test]
    fn failure_of_a_token_names_its_service_once() {
        let of = |source: Box<dyn StdError + Send + Sync>| {
            let store = "GCS";
            Failure::of(&StoreError::Generic { store, source })
        };
        for (status, is_temporary) in [(400, false), (503, true)] {
            let beginning = "Error performing token request: non-2xx status code";
            let failure = of(format!("{beginning}: {status} Reason: ").into());
            assert_eq!(failure.is_temporary(), is_temporary);
            let text = failure.to_string();
            assert!(text.contains(TOKEN_SERVICE), "{text}");
            assert!(text.contains(&format!("status {status}")), "{text}");
        }
        for inner in [
            Failure::Status(503).of_service("a service"),
            Failure::Final(Box::new(Error::NoCredentials("none".to_owned()))),
        ] {
            assert_eq!(of(Box::new(TokenRequest(inner.clone()))), inner);
        }
    }

    #[test]
    fn untrusted_certificate_of_a_service_keeps_its_type() {
        let untrusted = Error::Certificate("unknown issuer".to_owned());
        let failure = Failure::Final(Box::new(untrusted)).of_service("a service");
        let expected = Error::Certificate("a service: unknown issuer".to_owned());
        assert_eq!(failure, Failure::Final(Box::new(expected)));
    }

    #[test]
    fn status_is_the_last_one_in_a_text() {
        let text = "for http://host/status code: 200: status code: 503 Service Unavailable: ";
        assert_eq!(status_in(text), Some(503));
        for text in ["503", "status code: x", "status code: 50"] {
            assert_eq!(status_in(text), None, "{text}");
        }
    }
}
