//! URLs of images, shown without their secrets.

use crate::{Error, Result};
use percent_encoding::percent_decode_str;
use std::fmt::{self, Debug, Display, Formatter};
use url::Url;

/// The schemes of images that are not local.
const SCHEMES: [&str; 5] = ["http", "https", "s3", "gs", "az"];

/// Parameters of presigned URLs: of Azure, and of the older forms of S3 and Google Cloud Storage.
const SIGNATURE_PARAMETERS: [&str; 14] = [
    "awsaccesskeyid",
    "googleaccessid",
    "expires",
    "signature",
    "sig",
    "se",
    "st",
    "sp",
    "sv",
    "sr",
    "spr",
    "sip",
    "skoid",
    "ske",
];

/// The URL of an image. `Display` and `Debug` omit the user name, the password, the query and the fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageUrl(Url);

impl ImageUrl {
    /// Returns whether `text` is a URL rather than the path of a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        let is_scheme = |text: &str| SCHEMES.iter().any(|own| own.eq_ignore_ascii_case(text));
        text.split_once("://")
            .is_some_and(|(scheme, _)| is_scheme(scheme))
    }

    /// Parses a URL with the scheme http, https, s3, gs or az.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub fn parse(text: &str) -> Result<Self> {
        // Before the text is parsed, it is not known where its secrets are. Errors show only the scheme.
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let invalid = |why: &str| Error::Url {
            url: format!("{}://...", scheme.escape_default()),
            why: why.to_owned(),
        };
        let url: Url = text
            .trim()
            .parse()
            .map_err(|error: url::ParseError| invalid(&error.to_string()))?;
        if !SCHEMES.contains(&url.scheme()) {
            return Err(invalid("the scheme must be http, https, s3, gs or az"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid("it has no host or bucket"));
        }
        if url.path().trim_matches('/').is_empty() {
            return Err(invalid("it names no object"));
        }
        match ignored_part(&url) {
            Some(why) => Err(invalid(why)),
            None => Ok(Self(url)),
        }
    }

    /// Returns the version of the object that the URL names. Only s3:// URLs can name one.
    pub(crate) fn version_id(&self) -> Option<String> {
        version_id(&self.0)
    }

    /// Returns the query without the parameters of a signature, which differ for each presigned URL of an object.
    pub(crate) fn query_without_signature(&self) -> String {
        let is_signature = |name: &str| {
            let name = name.to_ascii_lowercase();
            name.starts_with("x-amz-")
                || name.starts_with("x-goog-")
                || SIGNATURE_PARAMETERS.contains(&name.as_str())
        };
        let pairs = self.0.query_pairs();
        let others = pairs.filter(|(name, _)| !is_signature(name));
        let others: Vec<String> = others
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        others.join("\n")
    }

    /// Returns whether both URLs have the same scheme, host or bucket, and port.
    pub(crate) fn is_on_server_of(&self, other: &Self) -> bool {
        let server = |url: &Url| {
            let host = url.host_str().unwrap_or_default().to_owned();
            (url.scheme().to_owned(), host, url.port_or_known_default())
        };
        server(&self.0) == server(&other.0)
    }

    /// Returns the URL with its secrets.
    pub(crate) fn with_secrets(&self) -> &Url {
        &self.0
    }
}

/// Returns why `url` is not valid, if it is the URL of an object in a store and has a part that would be ignored.
fn ignored_part(url: &Url) -> Option<&'static str> {
    if matches!(url.scheme(), "http" | "https") {
        None
    } else if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
        Some("only http:// and https:// URLs have a user name, a password or a port")
    } else if url.fragment().is_some() {
        Some("it has a fragment; write %23 for a # in the name of an object")
    } else if url.query().is_some() && version_id(url).is_none() {
        Some(
            "its query is not supported (only s3:// URLs have one: ?versionId=ID); write %3F for a ? in the name of \
             an object",
        )
    } else {
        None
    }
}

/// Returns the version in the query of an s3:// URL.
fn version_id(url: &Url) -> Option<String> {
    let query = url.query().filter(|_| url.scheme() == "s3")?;
    let id = query.strip_prefix("versionId=")?;
    let id = Some(id).filter(|id| !id.is_empty() && !id.contains('&'))?;
    let id = percent_decode_str(id).decode_utf8().ok()?;
    Some(id.into_owned())
}

impl Display for ImageUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        // These calls fail only for URLs without a host.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        shown.set_fragment(None);
        f.write_str(shown.as_str())
    }
}

impl Debug for ImageUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ImageUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let url =
            ImageUrl::parse("https://user:pa%2Fss@host:81/a/disk.img?token=abc#part").unwrap();
        assert_eq!(url.to_string(), "https://host:81/a/disk.img");
        assert_eq!(format!("{url:?}"), "ImageUrl(https://host:81/a/disk.img)");
    }

    #[test]
    fn server_is_the_scheme_the_host_and_the_port() {
        let url = |text| ImageUrl::parse(text).unwrap();
        let image = url("https://user:token@host/disk.img?x");
        assert!(url("https://HOST:443/start.pack").is_on_server_of(&image));
        for other in [
            "http://host/disk.img",
            "https://host:8443/disk.img",
            "https://other/disk.img",
            "s3://host/disk.img",
        ] {
            assert!(!url(other).is_on_server_of(&image), "{other}");
        }
    }

    #[test]
    fn version_of_an_object_is_in_the_query_of_s3() {
        let version = |text| ImageUrl::parse(text).unwrap().version_id();
        assert_eq!(
            version("s3://b/x?versionId=a+b%2F"),
            Some("a+b/".to_owned())
        );
        assert_eq!(version("s3://b/x"), None);
        assert_eq!(version("https://h/x?versionId=a"), None);
    }

    #[test]
    fn only_urls_of_objects_are_accepted() {
        for text in [
            "ftp://host/x",
            "https://host",
            "s3://bucket/",
            "disk.img",
            "https:///x?secret",
            "s3://b/x#secret",
            "s3://b/x?secret",
            "s3://b/x?versionId=",
            "s3://b/x?versionId=1&secret",
            "gs://b/x?versionId=1",
            "az://secret@c/x",
            "s3://b:80/x",
        ] {
            let error = ImageUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for text in [
            "HTTP://host/x?y#z",
            "s3://bucket/a/b",
            "Gs://b/x%3Fy",
            "az://c/x",
        ] {
            assert!(
                ImageUrl::is_url(text) && ImageUrl::parse(text).is_ok(),
                "{text}"
            );
        }
        for text in ["disk.img", "/a://b", "https:/x", "file:///x"] {
            assert!(!ImageUrl::is_url(text), "{text}");
        }
    }
}
