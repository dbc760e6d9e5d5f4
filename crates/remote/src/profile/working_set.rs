//! A profile or a pack that is to be used.

use super::error::{Error, Result};
use super::format::{self, MAX_TEXT_BYTES, Profile};
use super::pack;
use super::source::{Location, Source};
use crate::Version;
use crate::meter::Meter;
use crate::object::Object;
use crate::store::{self, StoreOptions};
use bytes::BytesMut;
use std::time::Duration;

/// The length of the pieces in which a profile is read.
const PIECE_BYTES: usize = 64 << 10;

/// A profile or a pack, and its name for messages.
#[derive(Debug)]
pub(crate) struct WorkingSet {
    name: String,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Profile(Profile),
    /// The source continues with the units in the map.
    Pack(pack::Map, Source),
}

impl WorkingSet {
    /// Reads a profile, or the part of a pack that precedes the units. Requests are recorded in `meter`, and
    /// repeated until `deadline` has passed without success.
    ///
    /// # Errors
    /// [`crate::Error::Profile`], or the errors of [`store::open`].
    pub(crate) async fn load(
        location: &Location,
        options: &StoreOptions<'_>,
        meter: Meter,
        deadline: Duration,
    ) -> crate::Result<Self> {
        let source = match location {
            Location::File(path) => Source::file(path),
            Location::Url(url) => {
                let store::Opened {
                    store,
                    path,
                    version_id,
                    ..
                } = store::open(url, options)?;
                let object = Object {
                    store,
                    path,
                    version_id,
                };
                Ok(Source::object(object, meter, deadline))
            }
        };
        let name = location.to_string();
        let content = match source {
            Ok(source) => Content::load(source).await,
            Err(why) => Err(why),
        };
        match content {
            Ok(content) => Ok(Self { name, content }),
            Err(why) => Err(crate::Error::Profile { name, why }),
        }
    }

    /// Checks that this belongs to `current`, the version of an object.
    ///
    /// # Errors
    /// [`crate::Error::Profile`].
    pub(crate) fn check(&self, current: &Version) -> crate::Result<()> {
        let checked = match &self.content {
            Content::Profile(profile) => profile.check(current),
            Content::Pack(map, _) => map.check(current),
        };
        checked.map_err(|why| crate::Error::Profile {
            name: self.name.clone(),
            why,
        })
    }

    /// Returns whether this contains bytes of the image.
    pub(crate) fn has_content(&self) -> bool {
        matches!(self.content, Content::Pack(..))
    }

    /// Returns the units in the order of their first use.
    pub(crate) fn units(&self) -> Vec<u64> {
        match &self.content {
            Content::Profile(profile) => profile.units().to_vec(),
            Content::Pack(map, _) => map.entries().iter().map(|entry| entry.unit).collect(),
        }
    }
}

impl Content {
    async fn load(mut source: Source) -> Result<Self> {
        let start = source.next(pack::HEAD_BYTES).await?;
        if let Ok(head) = <&[u8; pack::HEAD_BYTES]>::try_from(&*start)
            && head.starts_with(&pack::MAGIC)
        {
            let head = pack::Head::parse(head)?;
            let map = head.map(&source.next(head.rest_bytes()).await?)?;
            return Ok(Self::Pack(map, source));
        }
        // Compare before more is read: any file can be named by mistake.
        if !start.starts_with(format::MAGIC.as_bytes()) {
            return Err(Error::Unknown);
        }
        let mut text = BytesMut::from(start);
        while let piece = source.next(PIECE_BYTES).await?
            && !piece.is_empty()
        {
            text.extend_from_slice(&piece);
            if text.len() > MAX_TEXT_BYTES {
                return Err(Error::TooLarge);
            }
        }
        Profile::parse(&text).map(Self::Profile)
    }
}
