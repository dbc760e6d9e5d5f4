//! The text format of profiles.
//!
//! ```text
//! larder profile 1
//! image https://host/disk.img
//! size 1073741824
//! etag "5d41402a"
//! read 0 131072
//! read 33554432 65536
//! end 99aa06d3014798d86001c324468d497f
//! ```
//!
//! - `image` is the URL without its secrets. It is only for people who read the file.
//! - `size` is the size of the object in bytes. `etag` is its strong `ETag`, up to the end of the line. If the
//!   object has none, the line `modified SECONDS` has the time of its last modification, since 1970.
//! - `read OFFSET LENGTH` is a range of bytes that was read. The lines have the order of the first use.
//! - `end` is the XXH3 checksum (128 bits) of all lines before it.

use super::error::{Error, Result};
use super::limits::{MAX_ETAG_BYTES, MAX_OBJECT_BYTES, MAX_UNITS, unit_count};
use crate::{UNIT_BYTES, Version};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;
use twox_hash::XxHash3_128;

/// The first line.
pub(super) const MAGIC: &str = "larder profile 1\n";

/// The maximum length of a profile in bytes. This is enough for [`MAX_UNITS`] `read` lines.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// The maximum number of units in all `read` lines together, counting each repetition. This is more than the number of
/// lines, so ranges inside single units are always accepted.
const MAX_VISITS: usize = 8 * MAX_UNITS;

/// The units of an object that were read, in the order of their first use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    image: String,
    version: Version,
    units: Vec<u64>,
}

impl Profile {
    /// Creates a profile of the object at `image`, a URL without secrets. Ignores repeated units, and units that are
    /// not in the object. Keeps at most the first [`MAX_UNITS`] of the others.
    #[must_use]
    pub fn new(image: &str, version: Version, units: impl IntoIterator<Item = u64>) -> Self {
        let count = unit_count(version.size_bytes);
        let mut seen = HashSet::new();
        let units = units.into_iter().filter(|&unit| unit < count);
        let units = units.filter(|&unit| seen.insert(unit)).take(MAX_UNITS);
        Self {
            image: image.replace(char::is_control, "\u{fffd}"),
            units: units.collect(),
            version,
        }
    }

    /// Returns the version of the object.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the numbers of the units, in the order of their first use. No unit occurs twice, and all are in the
    /// object.
    #[must_use]
    pub fn units(&self) -> &[u64] {
        &self.units
    }

    /// Checks that the profile belongs to `current`, the version of an object.
    ///
    /// # Errors
    /// [`Error::OtherVersion`].
    pub fn check(&self, current: &Version) -> Result<()> {
        check_version(&self.version, current)
    }

    /// Parses a profile.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::Damaged`], [`Error::TooLarge`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if !bytes.starts_with(MAGIC.as_bytes()) {
            return Err(Error::Unknown);
        }
        if bytes.len() > MAX_TEXT_BYTES {
            return Err(Error::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Error::Damaged("it is not a text"))?;
        let lines = checked_lines(text)?;
        let mut lines = lines[MAGIC.len()..].lines();
        let mut value = |name: &str| {
            let value = lines.next().and_then(|line| line.strip_prefix(name));
            value.and_then(|value| value.strip_prefix(' '))
        };
        let image = value("image").ok_or(Error::Damaged("the image is missing"))?;
        let size_bytes = value("size").and_then(number);
        let size_bytes = size_bytes
            .filter(|&size_bytes| size_bytes <= MAX_OBJECT_BYTES)
            .ok_or(Error::Damaged(
                "the size of the image is missing or invalid",
            ))?;
        let version = lines.next().and_then(|line| version(line, size_bytes));
        let version = version.ok_or(Error::Damaged("the version is missing or invalid"))?;
        Ok(Self {
            image: image.to_owned(),
            units: units(lines, size_bytes)?,
            version,
        })
    }

    /// Returns the profile in the form that [`Profile::parse`] reads.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the `ETag` of the object cannot be stored.
    pub fn to_text(&self) -> Result<String> {
        let Version {
            etag,
            modified_seconds,
            size_bytes,
        } = &self.version;
        let mut text = MAGIC.to_owned();
        // Writing to a string does not fail.
        let _ = write!(text, "image {}\nsize {size_bytes}\n", self.image);
        let bound = match etag {
            Some(etag) if is_valid_etag(etag) => writeln!(text, "etag {etag}"),
            Some(_) => {
                return Err(Error::Damaged(
                    "the ETag of the image is too long or invalid",
                ));
            }
            None => writeln!(text, "modified {modified_seconds}"),
        };
        let _ = bound;
        for run in runs(&self.units) {
            let start = run.start * UNIT_BYTES;
            let end = (run.end * UNIT_BYTES).min(*size_bytes);
            let _ = writeln!(text, "read {start} {}", end - start);
        }
        let checksum = checksum(&text);
        let _ = writeln!(text, "end {checksum}");
        Ok(text)
    }
}

/// Checks that `recorded`, the version in a profile or a pack, is equal to `current`, the version of an object.
pub(super) fn check_version(recorded: &Version, current: &Version) -> Result<()> {
    if recorded.to_text() == current.to_text() {
        return Ok(());
    }
    Err(Error::OtherVersion {
        recorded: described(recorded),
        current: described(current),
    })
}

fn described(version: &Version) -> String {
    let size_bytes = version.size_bytes;
    match &version.etag {
        Some(etag) => format!("ETag {}, {size_bytes} bytes", etag.escape_default()),
        None => format!(
            "modified at {}, {size_bytes} bytes",
            version.modified_seconds
        ),
    }
}

/// Returns whether `etag` can be stored in a profile or a pack.
pub(super) fn is_valid_etag(etag: &str) -> bool {
    !etag.is_empty() && etag.len() <= MAX_ETAG_BYTES && !etag.contains(char::is_control)
}

fn checksum(text: &str) -> String {
    format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
}

/// Returns the lines before the last one, which must contain their checksum.
fn checked_lines(text: &str) -> Result<&str> {
    let cut = Error::Damaged("its end is missing");
    let line = text.strip_suffix('\n').ok_or(cut.clone())?;
    let start = line.rfind('\n').ok_or(cut.clone())? + 1;
    let expected = line[start..].strip_prefix("end ").ok_or(cut)?;
    let lines = &text[..start];
    if expected == checksum(lines) {
        Ok(lines)
    } else {
        Err(Error::Damaged("its checksum is wrong"))
    }
}

/// Parses a number without a sign.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

fn version(line: &str, size_bytes: u64) -> Option<Version> {
    let (etag, modified_seconds) = match line.split_once(' ')? {
        ("etag", etag) if is_valid_etag(etag) => (Some(etag.to_owned()), 0),
        ("modified", seconds) => (None, seconds.parse().ok()?),
        _ => return None,
    };
    Some(Version {
        etag,
        modified_seconds,
        size_bytes,
    })
}

/// Returns the units of the lines `read OFFSET LENGTH`.
fn units<'l>(lines: impl Iterator<Item = &'l str>, size_bytes: u64) -> Result<Vec<u64>> {
    let (mut units, mut seen) = (Vec::new(), HashSet::new());
    let mut visits = 0;
    for line in lines {
        let range = line.strip_prefix("read ").and_then(range);
        let range = range.filter(|range| range.end <= size_bytes);
        let range = range.ok_or(Error::Damaged("a range is invalid"))?;
        for unit in range.start / UNIT_BYTES..range.end.div_ceil(UNIT_BYTES) {
            visits += 1;
            let is_new = seen.insert(unit);
            if visits > MAX_VISITS || is_new && units.len() == MAX_UNITS {
                return Err(Error::TooLarge);
            }
            if is_new {
                units.push(unit);
            }
        }
    }
    Ok(units)
}

/// Parses `OFFSET LENGTH`. `LENGTH` must not be 0.
fn range(text: &str) -> Option<Range<u64>> {
    let (start, len) = text.split_once(' ')?;
    let (start, len) = (number(start)?, number(len)?);
    let end = start.checked_add(len)?;
    (len > 0).then_some(start..end)
}

/// Groups adjacent entries of `units` into runs of consecutive numbers.
fn runs(units: &[u64]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &unit in units {
        match runs.last_mut() {
            Some(run) if run.end == unit => run.end += 1,
            _ => runs.push(unit..unit + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
