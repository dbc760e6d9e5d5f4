//! The check of the content of an image against a SHA-256 that the user gives.
//!
//! # Model
//! All of the image is read once, through the units, so that it is also stored in the disk cache. The SHA-256 is
//! then recorded in the cache file of this version. The next opening of the same version compares the record, and
//! reads nothing. From the start of the check on, the disk cache stores no units of packs, unless the check is
//! interrupted. Later reads return the same bytes, because the version is a strong `ETag`.

use crate::digest::ContentDigest;
use crate::disk_cache::CachedObject;
use crate::known::UNIT_BYTES;
use crate::object::Version;
use crate::units::Units;
use crate::{Error, Result};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use larder_block::Priority;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// The length of the pieces in which the image is read, in bytes. A piece is one request, and has whole units.
const PIECE_BYTES: u64 = 2 << 20;
/// The number of pieces that are requested at once.
const PIECES: usize = 8;

/// Receives the number of bytes that were read, and the size of the image.
pub type Progress = fn(u64, u64);

/// Checks that the content of `version`, which `units` read, has the digest `expected`.
///
/// # Errors
/// [`Error::OtherContent`], or the error of a read.
pub(crate) async fn check(
    units: &Arc<Units>,
    version: &Version,
    expected: ContentDigest,
    progress: Option<Progress>,
) -> Result<()> {
    if !version.is_strong() {
        let why = "the content can be checked only if the server sends a strong ETag";
        return Err(Error::Settings(why.to_owned()));
    }
    let disk = units.disk();
    let found = if let Some(recorded) = disk.and_then(CachedObject::content) {
        ContentDigest(recorded)
    } else {
        let begun = disk.map(|disk| disk.begin_check().map(|()| disk));
        let digest = read_all(units, version.size_bytes, progress).await?;
        let recorded = begun.map(|disk| disk?.set_content(digest.0));
        if let Some(Err(error)) = recorded {
            // The next opening reads the image again.
            tracing::warn!("cannot record the SHA-256 of the image: {error}");
        }
        digest
    };
    if found == expected {
        Ok(())
    } else {
        Err(Error::OtherContent { found, expected })
    }
}

/// Returns the digest of all units.
async fn read_all(
    units: &Arc<Units>,
    size_bytes: u64,
    progress: Option<Progress>,
) -> Result<ContentDigest> {
    let count = usize::try_from(size_bytes.div_ceil(UNIT_BYTES)).unwrap_or(usize::MAX);
    let max_unstored = units.max_unstored(count);
    let starts = (0..size_bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES);
    let pieces = starts.map(|start| {
        let end = size_bytes.min(start + PIECE_BYTES);
        let units = Arc::clone(units);
        async move {
            // Memory must keep the units until they are stored.
            if let Some(max_unstored) = max_unstored {
                units.stored_except(max_unstored).await;
            }
            units.read(start..end, Priority::Demand).await
        }
    });
    let mut pieces = stream::iter(pieces).buffered(PIECES);
    let (mut hash, mut read_bytes) = (Sha256::new(), 0);
    while let Some(parts) = pieces.try_next().await? {
        for part in parts {
            hash.update(&part);
            read_bytes += part.len() as u64;
        }
        if let Some(progress) = progress {
            progress(read_bytes, size_bytes);
        }
    }
    Ok(ContentDigest(hash.finalize().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_64_hexadecimal_digits() {
        let text = "0123456789abcdef".repeat(4);
        let digest: ContentDigest = text.to_uppercase().parse().unwrap();
        assert_eq!(digest.to_string(), text);
        for text in ["", &text[1..], &text.replace('a', "g"), &"ü".repeat(32)] {
            assert!(text.parse::<ContentDigest>().is_err(), "{text}");
        }
    }
}
