//! URLs of images, shown without their secrets.

use crate::redact::redact;
use crate::{Error, Result};
use std::fmt::{self, Debug, Display, Formatter};
use url::Url;

/// The schemes of images that are not local.
const SCHEMES: [&str; 5] = ["http", "https", "s3", "gs", "az"];

/// The URL of an image. `Display` and `Debug` omit the user name, the password, the query and the fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct ImageUrl(Url);

impl ImageUrl {
    /// Returns whether `text` is a URL rather than the path of a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.split_once("://")
            .is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
    }

    /// Parses a URL with the scheme http, https, s3, gs or az.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub fn parse(text: &str) -> Result<Self> {
        let invalid = |why: &str| Error::Url {
            url: redact(text),
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
        Ok(Self(url))
    }

    /// Returns the URL with its secrets.
    pub(crate) fn with_secrets(&self) -> &Url {
        &self.0
    }
}

impl Display for ImageUrl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.clone();
        // These fail only for URLs without a host.
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
    fn only_urls_of_objects_are_accepted() {
        for text in [
            "ftp://host/x",
            "https://host",
            "s3://bucket/",
            "disk.img",
            "https:///x?secret",
        ] {
            let error = ImageUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for text in ["http://host/x", "s3://bucket/a/b", "gs://b/x", "az://c/x"] {
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
