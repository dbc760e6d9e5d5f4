//! Credentials of a role, obtained with a token of IAM Identity Center (*single sign-on*).
//!
//! # Model
//! ```text
//!   aws sso login --> ~/.aws/sso/cache/SHA-1.json: a token --> portal: role credentials --> requests to S3
//! ```
//! The name of the token's file is the SHA-1 of the session's name, or of the start URL for profiles without a
//! session. The token is only read: if it has expired, the user must log in again.
//!
//! Source: AWS SDKs and Tools, reference guide, "IAM Identity Center credential provider"; IAM Identity Center,
//! portal API reference, "`GetRoleCredentials`".

use super::profile::Profile;
use super::temporary::Temporary;
use super::variables::Variables;
use crate::Error;
use crate::error::Failure;
use object_store::HeaderValue;
use object_store::aws::AwsCredential;
use object_store::client::{HttpClient, HttpError, HttpRequest, HttpRequestBody};
use serde::Deserialize;
use sha1::{Digest as _, Sha1};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use url::Url;

/// The origin of the credentials in error texts.
const SOURCE: &str = "the portal of IAM Identity Center";
/// The maximum length of a token's file, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// How the credentials of a role are obtained.
pub(super) struct Login {
    client: HttpClient,
    /// The URL of the role's credentials at the portal.
    url: Url,
    /// The file with the token.
    token: PathBuf,
    /// The name of the profile.
    profile: String,
}

/// The file with a token.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CachedToken {
    access_token: String,
    expires_at: String,
}

/// The reply of the portal.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    role_credentials: RoleCredentials,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RoleCredentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: String,
    /// In milliseconds since 1970.
    expiration: u64,
}

/// Returns whether `profile` uses single sign-on.
pub(super) fn is_configured(profile: &Profile) -> bool {
    ["sso_account_id", "sso_role_name"]
        .iter()
        .any(|key| profile.get(key).is_some())
}

impl Login {
    /// Creates the login that `profile` describes. `client` must not use http.
    ///
    /// # Errors
    /// If a setting is missing or invalid.
    pub(super) fn of_profile(
        profile: &Profile,
        variables: &Variables<'_>,
        client: HttpClient,
    ) -> Result<Self, Error> {
        let name = profile.name();
        let session = profile.get("sso_session");
        let required = |key: &str| {
            let in_session = session.and_then(|session| profile.in_session(session, key));
            let value = in_session.or_else(|| profile.get(key));
            value.ok_or_else(|| {
                Error::Credentials(format!("profile {name} for single sign-on has no {key}"))
            })
        };
        let start_url = required("sso_start_url")?;
        let region = required("sso_region")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !region.bytes().all(is_plain) {
            return Err(Error::Credentials(format!(
                "the sso_region of profile {name} is not valid"
            )));
        }
        let portal = variables.get("AWS_ENDPOINT_URL_SSO").unwrap_or_else(|| {
            let domain = if region.starts_with("cn-") {
                "amazonaws.com.cn"
            } else {
                "amazonaws.com"
            };
            format!("https://portal.sso.{region}.{domain}")
        });
        let portal = portal.trim_end_matches('/');
        let url = Url::parse_with_params(
            &format!("{portal}/federation/credentials"),
            [
                ("role_name", required("sso_role_name")?),
                ("account_id", required("sso_account_id")?),
            ],
        );
        let url = url.ok().filter(|url| url.scheme() == "https");
        let url = url.ok_or_else(|| {
            let why = "AWS_ENDPOINT_URL_SSO is not a URL that begins with https://";
            Error::Credentials(why.to_owned())
        })?;
        let token = profile.file(&token_path(session.unwrap_or(start_url)));
        let unknown = || {
            Error::Credentials(
                "HOME is not set, so the file with the token cannot be found".to_owned(),
            )
        };
        Ok(Self {
            client,
            url,
            token: token.ok_or_else(unknown)?,
            profile: name.to_owned(),
        })
    }

    /// Returns the credentials of the role.
    ///
    /// # Errors
    /// [`Error::Credentials`] if the user must log in again, or the role cannot be assumed. Other failures may be
    /// temporary.
    pub(super) async fn credentials(&self) -> Result<Temporary, Failure> {
        let now = SystemTime::now();
        let last = |error| Failure::Final(Box::new(error));
        let token = self.token(&self.token, now).map_err(last)?;
        let reply = self.client.execute(self.request(&token).map_err(last)?);
        let of_http = |error: HttpError| Failure::of_http(&error).of_service(SOURCE);
        let reply = reply.await.map_err(of_http)?;
        let status = reply.status().as_u16();
        match status {
            200..300 => {}
            401 => return Err(last(self.expired())),
            400 | 403 | 404 => {
                let why = format!("{SOURCE} refuses the role of profile {}", self.profile);
                return Err(last(Error::Credentials(format!("{why} (status {status})"))));
            }
            _ => return Err(Failure::of_status(status).of_service(SOURCE)),
        }
        let body = reply.into_body().bytes().await.map_err(of_http)?;
        parse_reply(&body, now).map_err(last)
    }

    fn request(&self, token: &str) -> Result<HttpRequest, Error> {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        let uri = self.url.as_str().parse();
        *request.uri_mut() = uri.map_err(|_| self.expired())?;
        let mut token = HeaderValue::from_str(token).map_err(|_| self.expired())?;
        token.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert("x-amz-sso_bearer_token", token);
        Ok(request)
    }

    /// Returns the token in the file at `path`, which must be valid at the time `now`.
    fn token(&self, path: &Path, now: SystemTime) -> Result<String, Error> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_TOKEN_BYTES).read_to_end(&mut bytes))
            .map_err(|_| self.expired())?;
        parse_token(&bytes, now).ok_or_else(|| self.expired())
    }

    fn expired(&self) -> Error {
        let name = &self.profile;
        Error::Credentials(format!(
            "the login of profile {name} is missing or has expired; run: aws sso login --profile {name}"
        ))
    }
}

/// Returns the path of the token for a session or a start URL, in the folder `~/.aws`.
fn token_path(key: &str) -> String {
    let digest = Sha1::digest(key);
    let name = digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    format!("sso/cache/{name}.json")
}

/// Parses a file with a token. Returns `None` if the token is not valid at the time `now`.
pub(super) fn parse_token(bytes: &[u8], now: SystemTime) -> Option<String> {
    let cached: CachedToken = serde_json::from_slice(bytes).ok()?;
    // Earlier versions of the AWS tools wrote UTC in place of Z.
    let expires = cached.expires_at.replace("UTC", "Z");
    let expires: jiff::Timestamp = expires.parse().ok()?;
    (SystemTime::from(expires) > now).then_some(cached.access_token)
}

/// Parses a reply of the portal that was received at the time `now`. Errors contain no part of the reply.
pub(super) fn parse_reply(bytes: &[u8], now: SystemTime) -> Result<Temporary, Error> {
    let reply: Reply = serde_json::from_slice(bytes)
        .map_err(|_| Error::Credentials(format!("the reply of {SOURCE} is not as expected")))?;
    let role = reply.role_credentials;
    let expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(role.expiration));
    let credential = AwsCredential {
        key_id: role.access_key_id,
        secret_key: role.secret_access_key,
        token: Some(role.session_token),
    };
    Temporary::new(SOURCE, credential, expires, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_token_is_that_of_the_aws_tools() {
        // The SHA-1 of "abc" in FIPS 180-4.
        assert_eq!(
            token_path("abc"),
            "sso/cache/a9993e364706816aba3e25717850c26c9cd0d89d.json"
        );
    }

    #[test]
    fn token_is_used_until_it_expires() {
        let now = |text: &str| SystemTime::from(text.parse::<jiff::Timestamp>().unwrap());
        for time in ["2026-11-27T12:00:00Z", "2026-11-27T12:00:00UTC"] {
            let file = format!(r#"{{"accessToken": "t", "expiresAt": "{time}", "region": "r"}}"#);
            let token = |at: &str| parse_token(file.as_bytes(), now(at));
            assert_eq!(token("2026-11-27T11:59:59Z").as_deref(), Some("t"));
            assert_eq!(token("2026-11-27T12:00:00Z"), None);
        }
        let without_token = br#"{"expiresAt": "2030-01-01T00:00:00Z"}"#;
        assert_eq!(
            parse_token(without_token, now("2026-11-27T12:00:00Z")),
            None
        );
    }

    #[test]
    fn reply_of_the_portal_must_be_valid() {
        let reply = |expiration: &str| {
            format!(
                r#"{{"roleCredentials": {{"accessKeyId": "A", "secretAccessKey": "hidden",
                    "sessionToken": "T", "expiration": {expiration}}}}}"#
            )
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let parse = |expiration: &str| parse_reply(reply(expiration).as_bytes(), now);
        let valid = parse("2000000").unwrap();
        assert_eq!(valid.credential.token.as_deref(), Some("T"));
        assert!(!valid.is_valid(SystemTime::UNIX_EPOCH + Duration::from_secs(2000)));
        for expiration in ["999000", "-1", "\"soon\""] {
            let error = parse(expiration).err().unwrap().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
