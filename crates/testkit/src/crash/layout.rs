//! Small empty file systems for workloads.

use crate::e2fsprogs::{UUID, repeatable_mke2fs};
use crate::error::{Context, Result};
use crate::model::Rules;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The bytes that fill the image before it is formatted. A reader that returns these bytes has read a stale
/// block.
pub const POISON: &[u8; 8] = b"<POISON>";

/// The parameters of a small file system.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// The size of the image in MiB.
    pub size_mib: u32,
    /// Arguments of mke2fs, separated by spaces.
    pub mkfs: &'static str,
    /// Whether it has a journal.
    pub journal: bool,
    /// The properties that the model depends on.
    pub rules: Rules,
}

const EXT4: Rules = Rules {
    extents: true,
    cluster_bytes: 4096,
    wide_times: true,
};
const EXT4_1K: Rules = Rules {
    cluster_bytes: 1024,
    ..EXT4
};
const EXT3_1K: Rules = Rules {
    extents: false,
    cluster_bytes: 1024,
    wide_times: false,
};

/// The bytes of empty file systems by the names of their layouts.
type Bases = HashMap<&'static str, Arc<[u8]>>;

/// Returns a layout of 16 MiB with a journal.
const fn journalled(name: &'static str, mkfs: &'static str, rules: Rules) -> Layout {
    Layout {
        name,
        size_mib: 16,
        mkfs,
        journal: true,
        rules,
    }
}

/// Returns a layout of 16 MiB without a journal.
const fn unjournalled(name: &'static str, mkfs: &'static str, rules: Rules) -> Layout {
    Layout {
        journal: false,
        ..journalled(name, mkfs, rules)
    }
}

/// The layouts, those with a journal first.
pub const LAYOUTS: &[Layout] = &[
    journalled("ext4", "-t ext4 -b 4096 -N 2048", EXT4),
    journalled("ext3-1k", "-t ext3 -b 1024 -I 128", EXT3_1K),
    journalled(
        "ext4-1k-no-checksums",
        "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg",
        EXT4_1K,
    ),
    journalled(
        "inline-data",
        "-t ext4 -b 4096 -N 2048 -O inline_data",
        EXT4,
    ),
    Layout {
        size_mib: 32,
        ..journalled(
            "bigalloc",
            "-t ext4 -b 4096 -N 2048 -O bigalloc -C 16384",
            Rules {
                cluster_bytes: 16_384,
                ..EXT4
            },
        )
    },
    Layout {
        size_mib: 32,
        ..journalled(
            "meta-bg-1k",
            "-t ext4 -b 1024 -O meta_bg,^resize_inode,64bit",
            EXT4_1K,
        )
    },
    journalled(
        "inode-128-2k",
        "-t ext4 -b 2048 -I 128",
        Rules {
            cluster_bytes: 2048,
            wide_times: false,
            ..EXT4
        },
    ),
    journalled(
        "orphan-file",
        "-t ext4 -b 4096 -N 2048 -O orphan_file",
        EXT4,
    ),
    journalled(
        "small-journal-1k",
        "-t ext4 -b 1024 -J size=1 -O ^flex_bg",
        EXT4_1K,
    ),
    journalled(
        "ea-inode-1k",
        "-t ext4 -b 1024 -N 2048 -O ea_inode",
        EXT4_1K,
    ),
    unjournalled("ext2-1k", "-t ext2 -b 1024 -I 128", EXT3_1K),
    unjournalled(
        "no-journal-4k",
        "-t ext4 -b 4096 -N 2048 -O ^has_journal",
        EXT4,
    ),
    unjournalled(
        "ext2-4k-large-inodes",
        "-t ext2 -b 4096 -I 256 -N 2048",
        Rules {
            extents: false,
            ..EXT4
        },
    ),
];

/// Returns the layout with this name.
#[must_use]
pub fn layout(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

impl Layout {
    /// Returns the bytes of an empty file system, whose free space is poisoned. They are created once
    /// per process.
    ///
    /// # Errors
    /// Fails if mke2fs fails.
    ///
    /// # Panics
    /// Panics if another thread panicked while it created one.
    pub fn base(&self) -> Result<Arc<[u8]>> {
        static MADE: Mutex<Option<Bases>> = Mutex::new(None);
        let mut made = MADE
            .lock()
            .expect("no thread panicked while it created an image");
        let made = made.get_or_insert_default();
        if let Some(base) = made.get(self.name) {
            return Ok(Arc::clone(base));
        }
        let base: Arc<[u8]> = self.make()?.into();
        made.insert(self.name, Arc::clone(&base));
        Ok(base)
    }

    fn make(&self) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir().context("create a directory in", &std::env::temp_dir())?;
        let path = folder.path().join("base.img");
        let size_bytes = (self.size_mib as usize) << 20;
        std::fs::write(&path, POISON.repeat(size_bytes / POISON.len())).context("write", &path)?;
        // With `nodiscard`, the poison remains wherever mke2fs writes nothing.
        let kept = "nodiscard,root_owner=0:0";
        let mke2fs = repeatable_mke2fs(self.mkfs, kept, folder.path())?;
        mke2fs.args(["-m", "0", "-U", UUID]).arg(&path).run()?;
        std::fs::read(&path).context("read", &path)
    }
}
