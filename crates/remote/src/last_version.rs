//! The version that an object had when it was last opened, kept beside its cache file.
//!
//! If this version is known and the start of the image is cached, opening the image costs one request for one
//! byte. Opening it offline costs none. A file has four lines: a checksum of the other lines, the `ETag`, the
//! time and the size. A file with other content is ignored.

use crate::Version;
use crate::disk_cache::Identity;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_128;

/// The maximum length of a file. Servers can send long values.
const MAX_BYTES: u64 = 16 << 10;

/// Returns the path of the file for the object at `location`, as read with `credentials`.
fn path(directory: &Path, location: &str, credentials: &str) -> PathBuf {
    let identity = Identity {
        location,
        // The file is the same for all versions.
        version: "",
        credentials,
    };
    directory.join(identity.name(0) + ".version")
}

/// Returns the version, or `None` if it is not known.
pub(crate) fn load(directory: &Path, location: &str, credentials: &str) -> Option<Version> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = fs::File::open(path(directory, location, credentials)).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<Version> {
    let (checksum, rest) = text.split_once('\n')?;
    if checksum != checksum_of(rest) {
        return None;
    }
    let mut lines = rest.lines();
    let etag = lines.next()?;
    Some(Version {
        etag: (!etag.is_empty()).then(|| etag.to_owned()),
        modified_seconds: lines.next()?.parse().ok()?,
        size_bytes: lines.next()?.parse().ok()?,
    })
}

fn checksum_of(text: &str) -> String {
    format!("{:032x}", XxHash3_128::oneshot(text.as_bytes()))
}

/// Stores the version. A failure only makes the next opening slower.
pub(crate) fn store(directory: &Path, location: &str, credentials: &str, version: &Version) {
    let text = format!(
        "{}\n{}\n{}\n",
        version.etag.as_deref().unwrap_or_default(),
        version.modified_seconds,
        version.size_bytes
    );
    let text = format!("{}\n{text}", checksum_of(&text));
    let path = path(directory, location, credentials);
    // Other processes may store the version at the same time, so each has its own temporary file.
    let pending = path.with_extension(format!("pending-{}", std::process::id()));
    let stored = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&pending)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&pending, &path));
    if let Err(error) = stored {
        tracing::debug!("cannot store the version of the image: {error}");
        let _ = fs::remove_file(&pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_loaded_unless_the_file_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let version = Version {
            etag: Some("\"one\"".to_owned()),
            modified_seconds: -5,
            size_bytes: 1 << 40,
        };
        store(folder.path(), "place", "user", &version);
        assert_eq!(load(folder.path(), "place", "user"), Some(version));
        assert_eq!(load(folder.path(), "place", "other"), None);
        let file = path(folder.path(), "place", "user");
        let bytes = fs::read(&file).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fs::write(&file, &damaged).unwrap();
            assert_eq!(load(folder.path(), "place", "user"), None, "byte {at}");
            fs::write(&file, &bytes[..at]).unwrap();
            assert_eq!(load(folder.path(), "place", "user"), None, "length {at}");
        }
    }
}
