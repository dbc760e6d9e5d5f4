//! A file of the disk cache, derived from a valid file of an object of three units. The input is the number
//! of bytes to replace at the start of the file (2 bytes), the new bytes, and patches: an offset (3 bytes)
//! and a byte. If bytes are left after the last patch, the second half of the file is cut off.
#![no_main]

use larder_fuzz::cache_file_with_checksums;
use larder_remote::disk_cache::{CacheDir, Identity, UNIT_BYTES};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;
use tempfile::TempDir;

const SIZE_BYTES: u64 = 2 * UNIT_BYTES as u64 + 100;

const IDENTITY: Identity<'static> = Identity {
    location: "location",
    version: "version",
    credentials: "",
};

/// A cache with one object.
struct Base {
    cache: CacheDir,
    file: PathBuf,
    bytes: Vec<u8>,
    _dir: TempDir,
}

static BASE: LazyLock<Base> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory can be created");
    let cache = CacheDir::open(dir.path(), u64::MAX).expect("it is private");
    let object = cache.object(&IDENTITY, SIZE_BYTES, "label");
    let object = object.expect("a file can be created");
    object.confirm().expect("the file can be written");
    for unit in 0..3 {
        let written = object.write_unit(unit, &content(unit));
        written.expect("the file can be written");
    }
    drop(object);
    let entries = dir.path().read_dir().expect("it can be listed");
    let mut paths = entries.map(|entry| entry.expect("it can be listed").path());
    let file = paths.find(|path| !path.ends_with("lock"));
    let file = file.expect("an object has a file");
    Base {
        bytes: std::fs::read(&file).expect("the file can be read"),
        cache,
        file,
        _dir: dir,
    }
});

fn content(unit: u64) -> Vec<u8> {
    let len = if unit == 2 { 100 } else { UNIT_BYTES };
    (1..=251).cycle().take(len).collect()
}

fuzz_target!(|data: &[u8]| {
    let Some((&[low, high], rest)) = data.split_first_chunk() else {
        return;
    };
    let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (start, patches) = rest.split_at(len);
    let mut bytes = BASE.bytes.clone();
    bytes[..len].copy_from_slice(start);
    let (patches, cut) = patches.as_chunks();
    for &[a, b, c, new] in patches {
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % bytes.len();
        bytes[at] = new;
    }
    if !cut.is_empty() {
        bytes.truncate(bytes.len() / 2);
    }
    for bytes in [&bytes, &cache_file_with_checksums(&bytes)] {
        std::fs::write(&BASE.file, bytes).expect("the file can be written");
        for found in BASE.cache.list().expect("it can be listed") {
            let is_printable = |label: String| !label.contains(char::is_control);
            assert!(found.label.is_none_or(is_printable));
        }
        let Identity {
            location,
            version,
            credentials,
        } = IDENTITY;
        let last = BASE.cache.last_version(location, credentials);
        let last = last.expect("any file can be read");
        assert!(last.is_none_or(|last| last == version));
        let object = BASE.cache.object(&IDENTITY, SIZE_BYTES, "label");
        let object = object.expect("any file can be used or replaced");
        let _ = object.content();
        for unit in 0..3 {
            let mut buf = vec![0; content(unit).len()];
            if object.read_unit(unit, &mut buf) {
                assert!(buf == content(unit), "wrong bytes in unit {unit}");
            }
        }
    }
});
