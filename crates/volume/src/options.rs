//! How a volume is opened.

/// Options of [`Volume::open`](crate::Volume::open), one field each.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Where the file system starts inside the file or device, in bytes. Default: 0.
    pub offset_bytes: u64,
    /// Memory that all caches share, in bytes. Default: 256 MiB.
    pub cache_size_bytes: u64,
    /// Readahead policy by name, one of [`PolicyName::ALL`](crate::PolicyName::ALL): `off`,
    /// `legacy`, `ondemand` or `modern`. Default: `ondemand`.
    pub readahead: String,
    /// The most that is read ahead at once, in bytes; 0 reads nothing ahead.
    /// Default: 1 MiB (Linux: 128 KiB).
    pub readahead_max_bytes: u64,
    /// Threads that read ahead, [`OpenOptions::MOST_READAHEAD_THREADS`] at most; with none, nothing
    /// is read ahead. Default: 4.
    pub readahead_threads: usize,
    /// Read the image past the host's page cache (`O_DIRECT`): nothing is cached twice, and only
    /// the readahead policy reads ahead. Default: false.
    pub direct_device: bool,
    /// Ignore the journal, even if it needs recovery. Default: false.
    pub noload: bool,
}

impl OpenOptions {
    /// The most threads that may read ahead.
    pub const MOST_READAHEAD_THREADS: usize = 256;
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            offset_bytes: 0,
            cache_size_bytes: 256 << 20,
            readahead: "ondemand".to_owned(),
            readahead_max_bytes: 1 << 20,
            readahead_threads: 4,
            direct_device: false,
            noload: false,
        }
    }
}
