//! An object and its version: one attempt to read a range, and the checks of the reply.

use crate::Error;
use crate::error::Failure;
use crate::stream::Body;
use object_store::path::Path;
use object_store::{Attribute, GetOptions, GetRange, GetResult, ObjectStore};
use std::fmt::{self, Debug, Formatter};
use std::ops::Range;
use std::sync::Arc;

/// The version of an object: the values that must be equal in all replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The strong `ETag`.
    pub etag: Option<String>,
    /// The time of the last modification, in seconds since 1970.
    pub modified_seconds: i64,
    /// The size of the object.
    pub size_bytes: u64,
}

impl Version {
    fn of(result: &GetResult) -> Self {
        let meta = &result.meta;
        // A weak ETag may be equal for different bytes.
        let is_strong = |etag: &String| !etag.is_empty() && !etag.starts_with("W/");
        Self {
            etag: meta.e_tag.clone().filter(is_strong),
            modified_seconds: meta.last_modified.timestamp(),
            size_bytes: meta.size,
        }
    }

    /// Returns whether a change of the object always changes the version.
    #[must_use]
    pub fn is_strong(&self) -> bool {
        self.etag.is_some()
    }

    /// Returns whether a replacement of the object can be detected at all.
    #[must_use]
    pub fn is_known(&self) -> bool {
        // The client reports the time 0 if the server sends none.
        self.is_strong() || self.modified_seconds != 0
    }

    /// Returns a text that is equal only for equal versions.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "{}\n{}\n{}",
            self.etag.as_deref().unwrap_or_default(),
            if self.is_strong() {
                0
            } else {
                self.modified_seconds
            },
            self.size_bytes
        )
    }

    /// Parses a text that [`Version::to_text`] returned.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let etag = lines.next()?;
        Some(Self {
            etag: (!etag.is_empty()).then(|| etag.to_owned()),
            modified_seconds: lines.next()?.parse().ok()?,
            size_bytes: lines.next()?.parse().ok()?,
        })
    }
}

/// An object of a store.
pub(crate) struct Object {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) path: Path,
    /// The version that the URL names. `None` for the current one.
    pub(crate) version_id: Option<String>,
}

impl Object {
    /// Requests `range` of the object, once, and waits for the head of the reply. If `version` is given,
    /// requests this version, and compares the reply with it.
    pub(crate) async fn get(
        &self,
        range: Range<u64>,
        version: Option<&Version>,
    ) -> Result<(Body, Version), Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: version.and_then(|version| version.etag.clone()),
            version: self.version_id.clone(),
            ..GetOptions::default()
        };
        let result = self.store.get_opts(&self.path, options).await;
        let result = result.map_err(|error| match Failure::of(&error) {
            // The range is inside the object of this version.
            Failure::Final(error) if version.is_some() && *error == Error::Status(416) => {
                Failure::Final(Box::new(Error::Replaced))
            }
            failure => failure,
        })?;
        let received = Version::of(&result);
        if let Some(expected) = version {
            check_version(expected, &received)?;
        }
        let encoding = result.attributes.get(&Attribute::ContentEncoding);
        if encoding.is_some_and(|encoding| &**encoding != "identity") {
            let why = "the bytes are encoded, for example compressed";
            return Err(Failure::WrongReply(why.to_owned()));
        }
        let expected_bytes = range
            .end
            .min(received.size_bytes)
            .saturating_sub(range.start);
        let body = Body::new(result.into_stream(), expected_bytes);
        Ok((body, received))
    }
}

fn check_version(expected: &Version, received: &Version) -> Result<(), Failure> {
    if expected.etag.is_some() && received.etag.is_none() {
        let why = "it has no strong ETag, unlike earlier replies";
        return Err(Failure::WrongReply(why.to_owned()));
    }
    // If there is an ETag, the time is not compared: a copy of the same object on another server may have
    // another time.
    let is_same = expected.etag == received.etag
        && expected.size_bytes == received.size_bytes
        && (expected.is_strong() || expected.modified_seconds == received.modified_seconds);
    if is_same {
        Ok(())
    } else {
        Err(Failure::Final(Box::new(Error::Replaced)))
    }
}

impl Debug for Object {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The store's own `Debug` may show credentials.
        f.debug_struct("Object").finish_non_exhaustive()
    }
}
