//! The base of an overlay, and how an overlay is bound to it.

use larder_block::{BlockDevice, Result};

/// The number of bytes at the start of a base that are included in its checksum. They contain the superblock of a first
/// partition that begins at 1 MiB.
const CHECKED_BYTES: u64 = 2 << 20;

/// What an overlay records about its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The path or the URL, without secrets, for other programs.
    pub name: Vec<u8>,
    /// The format in the terms of qemu, for example `raw`. Larder and other programs open the base with this format.
    pub format: String,
    /// A text that changes when the content of the base changes.
    pub version: String,
}

impl Base {
    /// Returns whether this record describes `device`, which has the version `given`.
    pub(super) fn matches(&self, device: &dyn BlockDevice, given: &str) -> bool {
        // Earlier versions of Larder recorded no checksum of a file.
        self.version == given || device.content_version().as_ref() == Some(&self.version)
    }
}

/// Returns a text that changes when the content of `base` changes: the version of its device, and a checksum of its start,
/// where a file system records its UUID and when it was written. A file can be replaced by one with the same size and time of
/// modification. An object on a server cannot be replaced without a change of its version, so its start is not read. If the
/// start cannot be read, the result is only the version of the device.
pub(super) fn version(base: &dyn BlockDevice) -> Result<String> {
    let of_device = base.content_version();
    if let Some(version) = &of_device
        && base.server_counts().is_some()
    {
        return Ok(version.clone());
    }
    let len_bytes = base.size_bytes().min(CHECKED_BYTES);
    let mut start = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
    if let Err(error) = base.read_at(&mut start, 0) {
        // The start may be damaged although the partition that is used is intact.
        return of_device.ok_or(error);
    }
    let checksum = format!(
        "the first {len_bytes} bytes have the CRC-32 {:08x}",
        crc32fast::hash(&start)
    );
    Ok(match of_device {
        Some(version) => format!("{version}, {checksum}"),
        None => checksum,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::{FileDevice, FileRange};
    use std::fs::{self, File};

    #[test]
    fn version_of_a_file_changes_with_its_start_and_earlier_records_are_accepted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let time = file.as_file().metadata().unwrap().modified().unwrap();
        let versions = ["one", "two"].map(|content| {
            fs::write(file.path(), content).unwrap();
            File::options()
                .write(true)
                .open(file.path())
                .and_then(|file| file.set_modified(time))
                .unwrap();
            let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
            (version(&device).unwrap(), device.content_version().unwrap())
        });
        let [first, second] = versions;
        assert_eq!(first.1, second.1);
        assert_ne!(first.0, second.0);
        let device = FileDevice::open(file.path(), FileRange::default()).unwrap();
        for (recorded, expected) in [
            (second.0.clone(), true),
            (second.1.clone(), true),
            (first.0, false),
            (String::new(), false),
        ] {
            let base = Base {
                name: Vec::new(),
                format: "raw".to_owned(),
                version: recorded,
            };
            assert_eq!(base.matches(&device, &second.0), expected, "{base:?}");
        }
    }
}
