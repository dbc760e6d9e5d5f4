//! A cache in a directory of its own, and objects of known content.

use larder_remote::disk_cache::{CacheDir, CachedObject, Identity, Result, UNIT_BYTES};
use larder_testkit::{Random, Seed};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub const MIB: u64 = 1 << 20;

/// A limit that no test reaches.
pub const UNLIMITED_BYTES: u64 = 1 << 40;

/// A directory for a cache, which is deleted after use.
pub struct Fixture(tempfile::TempDir);

impl Fixture {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the path of the cache, which does not exist at first.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("cache")
    }

    pub fn cache(&self, max_bytes: u64) -> CacheDir {
        CacheDir::open(&self.path(), max_bytes).unwrap()
    }

    /// Returns the cache file of the only object that was ever opened.
    pub fn file(&self) -> PathBuf {
        let files = cache_files(&self.path());
        assert_eq!(files.len(), 1, "{files:?}");
        files.into_iter().next().unwrap()
    }

    /// Returns the size of all cache files on the disk.
    pub fn stored_bytes(&self) -> u64 {
        let files = cache_files(&self.path());
        files.iter().map(|file| stored_bytes(file)).sum()
    }
}

pub fn cache_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| !path.ends_with("lock")).collect()
}

pub fn stored_bytes(file: &Path) -> u64 {
    fs::metadata(file).unwrap().blocks() * 512
}

/// An object of known content.
#[derive(Clone, Copy, Debug)]
pub struct Object {
    pub version: &'static str,
    pub size_bytes: u64,
}

impl Object {
    pub fn identity(&self) -> Identity<'static> {
        Identity {
            location: "https://host/disk.img",
            version: self.version,
            credentials: "",
        }
    }

    pub fn open(&self, cache: &CacheDir) -> CachedObject {
        let label = format!("https://host/disk.img {}", self.version);
        cache
            .object(&self.identity(), self.size_bytes, &label)
            .unwrap()
    }

    pub fn units(&self) -> u64 {
        self.size_bytes.div_ceil(UNIT_BYTES as u64)
    }

    pub fn content(&self, unit: u64) -> Vec<u8> {
        let start_bytes = unit * UNIT_BYTES as u64;
        let len = usize::try_from(self.size_bytes - start_bytes).unwrap();
        let version = self.version.bytes().map(u64::from).sum::<u64>();
        Random::new(Seed(version << 32 | unit)).bytes(len.min(UNIT_BYTES))
    }

    pub fn write(&self, cached: &CachedObject, unit: u64) {
        cached.write_unit(unit, &self.content(unit)).unwrap();
    }

    /// Returns true if the unit is cached.
    ///
    /// # Panics
    /// If the cache returns wrong bytes.
    pub fn read(&self, cached: &CachedObject, unit: u64) -> bool {
        let expected = self.content(unit);
        let mut buf = vec![0; expected.len()];
        let is_read = cached.read_unit(unit, &mut buf);
        assert!(!is_read || buf == expected, "wrong bytes in unit {unit}");
        is_read
    }
}

/// Returns an object of `units` units, the last of which is short.
pub fn object(version: &'static str, units: u64) -> Object {
    Object {
        version,
        size_bytes: (units - 1) * UNIT_BYTES as u64 + 1000,
    }
}

/// Locks the cache, as another process does.
pub fn lock(fixture: &Fixture) -> File {
    let path = fixture.path().join("lock");
    let file = File::options().create(true).append(true).open(path);
    let file = file.unwrap();
    file.lock().unwrap();
    file
}

/// Checks that `write` succeeds, although `lock` locks the cache until `write` waits for the lock.
pub fn write_to_locked(lock: &File, write: impl FnOnce() -> Result<()> + Send) {
    std::thread::scope(|scope| {
        let write = scope.spawn(write);
        // The thread opens the lock, and keeps it open until it is free.
        while open_count(lock) < 2 && !write.is_finished() {
            std::thread::yield_now();
        }
        lock.unlock().unwrap();
        write.join().unwrap().unwrap();
    });
}

/// Returns how many times this process has opened `file`.
fn open_count(file: &File) -> usize {
    let id = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let own = id(&file.metadata().unwrap());
    let open = fs::read_dir("/proc/self/fd").unwrap();
    // A file that another thread has closed has no metadata.
    let open = open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
    open.filter(|metadata| id(metadata) == own).count()
}
