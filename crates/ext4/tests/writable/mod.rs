//! Writable file systems in memory, with e2fsck and dumpe2fs as their oracles.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::mbcache::{self, AttributeCaches, Config, Variant};
use larder_cache::table::Growth;
use larder_ext4::{Filesystem, WriteOptions};
use larder_testkit::e2fsprogs::{check_bytes, e2fsck, on_file};
use larder_testkit::tool::Tool;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// A file system on a device in memory.
pub struct Writable {
    pub fs: Filesystem,
    pub device: Arc<MemoryDevice>,
    /// The caches that find attributes to share.
    pub attributes: Arc<AttributeCaches>,
    made_by: String,
    variant: Variant,
}

impl Writable {
    /// Runs mke2fs and opens the result for writing. Without mke2fs, prints a note and returns
    /// `None`.
    pub fn make(arguments: &str, size: &str) -> Option<Self> {
        Self::make_sharing(arguments, size, Variant::Clock)
    }

    /// Like [`Writable::make`], with `variant` for finding attributes to share.
    pub fn make_sharing(arguments: &str, size: &str, variant: Variant) -> Option<Self> {
        let image = super::image::Image::make(arguments, size)?;
        let made_by = format!("mke2fs {arguments} {size}, {variant}");
        Some(Self::open_sharing(image.bytes(), made_by, variant))
    }

    pub fn open(bytes: Vec<u8>, made_by: String) -> Self {
        Self::open_sharing(bytes, made_by, Variant::Clock)
    }

    fn open_sharing(bytes: Vec<u8>, made_by: String, variant: Variant) -> Self {
        let device = Arc::new(MemoryDevice::new(bytes));
        let shared: Arc<dyn BlockDevice> = device.clone();
        let mut fs = super::image::open(&shared);
        let attributes = Arc::new(AttributeCaches {
            blocks: sharing_cache(variant),
            inodes: sharing_cache(variant),
        });
        let options = WriteOptions {
            attributes: Arc::clone(&attributes),
            ..WriteOptions::default()
        };
        fs.enable_writing(shared, options)
            .unwrap_or_else(|error| panic!("{made_by}: {error}"));
        Self {
            fs,
            device,
            attributes,
            made_by,
            variant,
        }
    }

    /// Closes the file system and opens it again.
    pub fn remount(self) -> Self {
        self.fs.close().expect("closed");
        Self::open_sharing(self.device.to_bytes(), self.made_by, self.variant)
    }

    /// Returns how the image was made.
    pub fn made_by(&self) -> &str {
        &self.made_by
    }

    /// Runs `check` on a file with the contents of the device.
    pub fn on_file<R>(&self, check: impl FnOnce(&Path) -> R) -> R {
        on_file(&self.device.to_bytes(), |path| Ok(check(path))).expect("image")
    }

    /// Panics if e2fsck reports anything.
    pub fn assert_clean(&self) {
        check_bytes(&self.device.to_bytes())
            .unwrap_or_else(|error| panic!("{}: {error}", self.made_by));
    }

    /// Returns the free clusters, by their first blocks, and the free inodes according to dumpe2fs, which
    /// reads the bitmaps. Panics if dumpe2fs reports a wrong checksum, or if the groups' counts differ from
    /// the bitmaps.
    pub fn free_by_dumpe2fs(&self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let text = self.on_file(|path| {
            // Committed changes may still be in the journal only.
            let replayed = e2fsck("-y -E journal_only").arg(path).run();
            let dumped = replayed.and_then(|_| Tool::new("dumpe2fs").arg(path).run());
            dumped.unwrap_or_else(|error| panic!("{}: {error}", self.made_by))
        });
        let cluster_blocks = 1 << self.fs.superblock().cluster_blocks_log2;
        let (mut blocks, mut inodes) = (BTreeSet::new(), BTreeSet::new());
        let mut counted = (0, 0);
        for line in text
            .lines()
            .skip_while(|line| !line.starts_with("Group 0:"))
        {
            let line = line.trim();
            assert!(!line.contains("EXPECTED"), "{}: {line}", self.made_by);
            if let Some(ranges) = line.strip_prefix("Free blocks: ") {
                add_ranges(&mut blocks, ranges, cluster_blocks);
            } else if let Some(ranges) = line.strip_prefix("Free inodes: ") {
                add_ranges(&mut inodes, ranges, 1);
            } else if let Some((free, rest)) = line
                .split_once(" free blocks, ")
                .or_else(|| line.split_once(" free clusters, "))
            {
                let number = |text: &str| text.parse::<u64>().expect("a count");
                counted.0 += number(free);
                counted.1 += number(rest.split(' ').next().unwrap_or_default());
            }
        }
        assert_eq!(counted.0, blocks.len() as u64, "{}", self.made_by);
        assert_eq!(counted.1, inodes.len() as u64, "{}", self.made_by);
        (blocks, inodes)
    }
}

fn sharing_cache(variant: Variant) -> Arc<dyn mbcache::MbCache> {
    let config = Config::new(variant, Config::LINUX_LIMIT_ENTRIES);
    let cache = mbcache::build(variant, config, Growth::Prepaid, ());
    Arc::from(cache.expect("cache"))
}

/// Adds the numbers that dumpe2fs prints as `1-3, 7`, or as `16-48, 112` in steps of 16.
fn add_ranges(numbers: &mut BTreeSet<u64>, ranges: &str, step: usize) {
    for range in ranges.split(", ").filter(|range| !range.is_empty()) {
        let number = |text: &str| text.trim().parse::<u64>().expect("a number");
        match range.split_once('-') {
            Some((first, last)) => numbers.extend((number(first)..=number(last)).step_by(step)),
            None => _ = numbers.insert(number(range)),
        }
    }
}
