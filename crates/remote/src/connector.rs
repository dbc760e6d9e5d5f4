//! The HTTP clients below the clients of object stores.
//!
//! They replace the clients that `object_store` would create itself, for two reasons. After a redirect, those
//! clients send the previous URL as the `Referer`, although its query can be a credential. They also read the
//! whole body of a reply that reports an error, whatever its length.
//!
//! A redirect that is not followed is an error with its status. `object_store` does not return the status of a
//! redirect without a `Location`, which S3 sends if the bucket is in another region.

use crate::error::Failure;
use crate::{Error, azure};
use async_trait::async_trait;
use bytes::Bytes;
use object_store::azure::AzureCredentialProvider;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, HeaderMap, HeaderValue};
use reqwest::header::{AUTHORIZATION, IF_NONE_MATCH};
use reqwest::redirect::Policy;
use reqwest::{Method, StatusCode};
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The time after which an attempt to connect fails.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for the metadata service of an instance. It is on this machine, or does not exist.
const METADATA_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// An attempt fails if no byte arrives for this time.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The same for uploads. It includes the time in which the request is sent.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);
/// The maximum number of redirects of a request.
const MAX_REDIRECTS: usize = 5;
/// The metadata service of an instance, in errors.
pub(crate) const METADATA_SERVICE: &str = "the instance metadata service";
/// The name of the program in requests.
const USER_AGENT: &str = concat!("larder/", env!("CARGO_PKG_VERSION"));

/// Creates HTTP clients.
pub(crate) struct Connector {
    /// The headers of all requests.
    pub(crate) headers: HeaderMap,
    /// Whether a redirect to another host is followed. If not, it is an error.
    pub(crate) follows_to_other_hosts: bool,
    /// Whether requests use the proxies that the variables of the environment name.
    pub(crate) uses_proxies: bool,
    /// How an upload in parts is completed. `None` if nothing is uploaded.
    pub(crate) completion: Option<Completion>,
    /// The error of requests that need credentials of an instance, if its metadata service has none or does not exist.
    /// `None` if `object_store` does not query this service.
    pub(crate) no_instance: Option<Error>,
}

/// How an upload in parts is completed. `object_store` has no condition for the request that completes it.
#[derive(Clone)]
pub(crate) enum Completion {
    /// Without a condition.
    Plain,
    /// With the condition that the object does not exist. For Azure, it contains the credentials with which the changed
    /// request is signed again.
    IfAbsent(Option<AzureCredentialProvider>),
}

impl Connector {
    /// Returns the connector for servers whose requests are signed. It does not follow redirects to other hosts,
    /// because a signature is meant for one host.
    pub(crate) fn signed() -> Self {
        Self {
            headers: HeaderMap::new(),
            follows_to_other_hosts: false,
            uses_proxies: true,
            completion: None,
            no_instance: None,
        }
    }

    /// Returns the connector for services of this machine, which no proxy can reach.
    pub(crate) fn direct() -> Self {
        Self {
            uses_proxies: false,
            ..Self::signed()
        }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let allows_http = allows_http.as_deref() == Some("true");
        let is_metadata = is_metadata(options);
        let follows_to_other_hosts = self.follows_to_other_hosts;
        let redirects = || {
            Policy::custom(move |attempt| {
                let previous = attempt.previous();
                let is_same_host = previous
                    .last()
                    .is_some_and(|url| url.host_str() == attempt.url().host_str());
                let scheme = attempt.url().scheme();
                let was_https = previous.iter().any(|url| url.scheme() == "https");
                let is_allowed = scheme == "https" || allows_http && !was_https && scheme == "http";
                if previous.len() <= MAX_REDIRECTS
                    && is_allowed
                    && (is_same_host || follows_to_other_hosts)
                {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            })
        };
        let client = || {
            let client = reqwest::Client::builder()
                .referer(false)
                .redirect(redirects())
                .https_only(!allows_http)
                .user_agent(USER_AGENT)
                .default_headers(self.headers.clone())
                .connect_timeout(if is_metadata {
                    METADATA_CONNECT_TIMEOUT
                } else {
                    CONNECT_TIMEOUT
                })
                .read_timeout(match self.completion {
                    Some(_) => UPLOAD_TIMEOUT,
                    None => STALL_TIMEOUT,
                })
                .http1_only();
            if self.uses_proxies && !is_metadata {
                client
            } else {
                client.no_proxy()
            }
        };
        // If this machine has no CA certificates, no server with TLS is trusted, but servers without TLS can be used.
        let client = client()
            .build()
            .or_else(|_| client().tls_certs_only([]).build())
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP",
                source: Box::new(error),
            })?;
        let absent = self.no_instance.clone().filter(|_| is_metadata);
        Ok(HttpClient::new(Checked {
            client,
            completion: self.completion.clone(),
            metadata: absent.map(Metadata::new),
        }))
    }
}

/// Returns whether a client with `options` queries the metadata service of an instance. `object_store` has a shorter
/// connection timeout for this service, and the other clients of this crate have the default.
fn is_metadata(options: &ClientOptions) -> bool {
    let timeout =
        |options: &ClientOptions| options.get_config_value(&ClientConfigKey::ConnectTimeout);
    timeout(options) != timeout(&ClientOptions::new())
}

/// A client whose replies are [checked].
#[derive(Debug)]
struct Checked {
    client: reqwest::Client,
    completion: Option<Completion>,
    /// The metadata service, if the client is for this service, and it may not exist.
    metadata: Option<Metadata>,
}

/// The metadata service of an instance.
#[derive(Debug)]
struct Metadata {
    /// The error of queries until the service has answered once.
    absent: Error,
    has_answered: AtomicBool,
}

impl Metadata {
    const fn new(absent: Error) -> Self {
        Self {
            absent,
            has_answered: AtomicBool::new(false),
        }
    }

    /// Returns `reply` if it is a success.
    ///
    /// # Errors
    /// If it is not a success. If no earlier reply was, the service has no credentials or does not exist. Otherwise,
    /// the error names the service, so that it is not reported as an error of the server of the image.
    fn checked(&self, reply: Result<HttpResponse, HttpError>) -> Result<HttpResponse, HttpError> {
        let failure = match reply {
            Ok(reply) if reply.status().is_success() => {
                self.has_answered.store(true, Relaxed);
                return Ok(reply);
            }
            Ok(reply) => Failure::of_status(reply.status().as_u16()),
            Err(error) => Failure::of_http(&error),
        };
        let failure = if self.has_answered.load(Relaxed) {
            failure.of_service(METADATA_SERVICE)
        } else {
            Failure::Final(Box::new(self.absent.clone()))
        };
        // During an upload, `object_store` repeats requests whose errors are of the first kind.
        let kind = if failure.is_temporary() {
            HttpErrorKind::Request
        } else {
            HttpErrorKind::Unknown
        };
        Err(HttpError::new(kind, failure))
    }
}

#[async_trait]
impl HttpService for Checked {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        remove_empty_token(&mut request);
        if let Some(Completion::IfAbsent(credentials)) = &self.completion
            && completes_upload(&request)
        {
            let any = HeaderValue::from_static("*");
            request.headers_mut().insert(IF_NONE_MATCH, any);
            if let Some(credentials) = credentials {
                azure::sign_again(&mut request, credentials).await?;
            }
        }
        let reply = self.client.call(request).await;
        match &self.metadata {
            Some(metadata) => checked(metadata.checked(reply)?),
            None => checked(reply?),
        }
    }
}

/// Removes an empty token, which `object_store` sends in anonymous requests of an upload to Google Cloud Storage.
fn remove_empty_token(request: &mut HttpRequest) {
    let authorization = request.headers().get(AUTHORIZATION);
    if authorization.is_some_and(|value| value.as_bytes().trim_ascii() == b"Bearer") {
        request.headers_mut().remove(AUTHORIZATION);
    }
}

/// Returns whether `request` completes an upload in parts: in S3 and Google Cloud Storage, or in Azure.
fn completes_upload(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = query.split('&');
    if request.method() == Method::POST {
        pairs.any(|pair| pair.starts_with("uploadId="))
    } else {
        request.method() == Method::PUT && pairs.any(|pair| pair == "comp=blocklist")
    }
}

/// Returns `reply`, without its body if it reports an error.
///
/// # Errors
/// If the reply is a redirect that was not followed, or if `object_store` cannot parse its range.
pub(crate) fn checked(reply: HttpResponse) -> Result<HttpResponse, HttpError> {
    let status = reply.status();
    let failure = if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        Failure::of_status(status.as_u16())
    } else if has_last_offset(reply.headers()) {
        Failure::WrongReply("its range is invalid".to_owned())
    } else if status.is_success() {
        return Ok(reply);
    } else {
        let (parts, _) = reply.into_parts();
        return Ok(HttpResponse::from_parts(parts, Bytes::new().into()));
    };
    Err(HttpError::new(HttpErrorKind::Unknown, failure))
}

/// Returns whether the range of a reply contains the largest number. `object_store` adds 1 to the last offset of the
/// range, without a check for overflow.
fn has_last_offset(headers: &HeaderMap) -> bool {
    let range = headers.get("content-range");
    let range = range.and_then(|range| range.to_str().ok());
    let mut numbers = range.unwrap_or_default().split([' ', '-', '/']);
    numbers.any(|number| number.parse::<u64>() == Ok(u64::MAX))
}

impl Debug for Completion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The credentials are secret.
        f.write_str("Completion")
    }
}

impl Debug for Connector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The headers can contain credentials.
        f.write_str("Connector")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the failure of a reply with `status` and `range`, or `None` if it is accepted.
    fn failure(status: u16, range: &str) -> Option<Failure> {
        let mut reply = HttpResponse::new(Bytes::from_static(b"body").into());
        *reply.status_mut() = StatusCode::from_u16(status).unwrap();
        let range = range.parse().unwrap();
        reply.headers_mut().insert("content-range", range);
        let error = checked(reply).err();
        error.map(|error| Failure::of_http(&error))
    }

    #[test]
    fn redirects_and_ranges_that_cannot_be_parsed_are_errors() {
        for (status, range) in [
            (206, "bytes 0-9/10"),
            (206, "bytes x"),
            (304, ""),
            (500, ""),
        ] {
            assert_eq!(failure(status, range), None, "{status} {range}");
        }
        assert_eq!(failure(301, ""), Some(Failure::of_status(301)));
        let range = format!("bytes 0-{}/10", u64::MAX);
        let wrong = failure(206, &range);
        assert!(matches!(wrong, Some(Failure::WrongReply(_))), "{wrong:?}");
    }

    #[test]
    fn metadata_service_is_absent_until_it_has_answered_and_is_then_named() {
        let reply = |status: u16| {
            let mut reply = HttpResponse::new(Bytes::new().into());
            *reply.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok(reply)
        };
        let metadata = Metadata::new(Error::Denied);
        let absent = Failure::Final(Box::new(Error::Denied));
        let failure = metadata.checked(reply(404)).err().unwrap();
        assert_eq!(Failure::of_http(&failure), absent);
        assert!(metadata.checked(reply(200)).is_ok());
        for (status, is_temporary) in [(404, false), (503, true)] {
            let error = metadata.checked(reply(status)).err().unwrap();
            assert_eq!(error.kind() == HttpErrorKind::Request, is_temporary);
            let failure = Failure::of_http(&error);
            assert_eq!(failure.is_temporary(), is_temporary);
            let text = failure.to_string();
            assert!(text.contains(METADATA_SERVICE), "{text}");
        }
    }

    #[test]
    fn only_the_request_that_completes_an_upload_gets_the_condition() {
        for (method, query, expected) in [
            (Method::POST, "uploadId=a", true),
            (Method::POST, "x=1&uploadId=a", true),
            (Method::POST, "uploads=", false),
            (Method::PUT, "partNumber=1&uploadId=a", false),
            (Method::DELETE, "uploadId=a", false),
            (Method::PUT, "comp=blocklist", true),
            (Method::PUT, "comp=blocklist&sig=a", true),
            (Method::PUT, "comp=block&blockid=a", false),
            (Method::GET, "comp=blocklist", false),
        ] {
            let mut request = HttpRequest::new(Bytes::new().into());
            *request.uri_mut() = format!("http://host/object?{query}").parse().unwrap();
            *request.method_mut() = method;
            assert_eq!(completes_upload(&request), expected, "{query}");
        }
    }
}
