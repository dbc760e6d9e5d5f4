//! Small empty file systems on which workloads are run.

use crate::error::{Context, Result};
use crate::model::Rules;
use crate::tool::Tool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What fills the image before it is formatted: whoever shows it shows a stale block.
pub const POISON: &[u8; 8] = b"<POISON>";

/// How a small file system is made.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// Size of the image.
    pub size_mib: u32,
    /// Arguments of mke2fs.
    pub mkfs: &'static [&'static str],
    /// Whether it has a journal.
    pub journal: bool,
    /// What the model must know.
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

/// The bytes of empty file systems by their layouts' names.
type Bases = HashMap<&'static str, Arc<[u8]>>;

/// The layouts, those with a journal first.
pub const LAYOUTS: &[Layout] = &[
    Layout {
        name: "ext4",
        size_mib: 16,
        mkfs: &["-t", "ext4", "-b", "4096", "-N", "2048"],
        journal: true,
        rules: EXT4,
    },
    Layout {
        name: "ext3-1k",
        size_mib: 16,
        mkfs: &["-t", "ext3", "-b", "1024", "-I", "128"],
        journal: true,
        rules: EXT3_1K,
    },
    Layout {
        name: "ext4-1k-no-checksums",
        size_mib: 16,
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,uninit_bg"],
        journal: true,
        rules: EXT4_1K,
    },
    Layout {
        name: "inline-data",
        size_mib: 16,
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-N",
            "2048",
            "-O",
            "inline_data",
        ],
        journal: true,
        rules: EXT4,
    },
    Layout {
        name: "bigalloc",
        size_mib: 32,
        mkfs: &[
            "-t", "ext4", "-b", "4096", "-N", "2048", "-O", "bigalloc", "-C", "16384",
        ],
        journal: true,
        rules: Rules {
            cluster_bytes: 16_384,
            ..EXT4
        },
    },
    Layout {
        name: "meta-bg-1k",
        size_mib: 32,
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-O",
            "meta_bg,^resize_inode,64bit",
        ],
        journal: true,
        rules: EXT4_1K,
    },
    Layout {
        name: "inode-128-2k",
        size_mib: 16,
        mkfs: &["-t", "ext4", "-b", "2048", "-I", "128"],
        journal: true,
        rules: Rules {
            cluster_bytes: 2048,
            wide_times: false,
            ..EXT4
        },
    },
    Layout {
        name: "orphan-file",
        size_mib: 16,
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-N",
            "2048",
            "-O",
            "orphan_file",
        ],
        journal: true,
        rules: EXT4,
    },
    Layout {
        name: "small-journal-1k",
        size_mib: 16,
        mkfs: &["-t", "ext4", "-b", "1024", "-J", "size=1", "-O", "^flex_bg"],
        journal: true,
        rules: EXT4_1K,
    },
    Layout {
        name: "ea-inode-1k",
        size_mib: 16,
        mkfs: &["-t", "ext4", "-b", "1024", "-N", "2048", "-O", "ea_inode"],
        journal: true,
        rules: EXT4_1K,
    },
    Layout {
        name: "ext2-1k",
        size_mib: 16,
        mkfs: &["-t", "ext2", "-b", "1024", "-I", "128"],
        journal: false,
        rules: EXT3_1K,
    },
    Layout {
        name: "no-journal-4k",
        size_mib: 16,
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "4096",
            "-N",
            "2048",
            "-O",
            "^has_journal",
        ],
        journal: false,
        rules: EXT4,
    },
    Layout {
        name: "ext2-4k-large-inodes",
        size_mib: 16,
        mkfs: &["-t", "ext2", "-b", "4096", "-I", "256", "-N", "2048"],
        journal: false,
        rules: Rules {
            extents: false,
            ..EXT4
        },
    },
];

/// The layout of this name.
#[must_use]
pub fn layout(name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

impl Layout {
    /// The bytes of an empty file system, free space poisoned; made once a process.
    ///
    /// # Errors
    /// If mke2fs fails.
    ///
    /// # Panics
    /// If another thread panicked while it made one.
    pub fn base(&self) -> Result<Arc<[u8]>> {
        static MADE: Mutex<Option<Bases>> = Mutex::new(None);
        let mut made = MADE.lock().expect("nobody panicked with it");
        let made = made.get_or_insert_default();
        if let Some(base) = made.get(self.name) {
            return Ok(Arc::clone(base));
        }
        let base: Arc<[u8]> = self.make()?.into();
        made.insert(self.name, Arc::clone(&base));
        Ok(base)
    }

    fn make(&self) -> Result<Vec<u8>> {
        let folder = tempfile::tempdir().context("make a folder in", &std::env::temp_dir())?;
        let path = folder.path().join("base.img");
        let size_bytes = (self.size_mib as usize) << 20;
        std::fs::write(&path, POISON.repeat(size_bytes / POISON.len())).context("write", &path)?;
        let configuration = folder.path().join("mke2fs.conf");
        let text = include_str!("../image/mke2fs.conf");
        std::fs::write(&configuration, text).context("write", &configuration)?;
        // Nothing is wiped that need not be.
        let kept = "nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0,\
                    hash_seed=68617368-2073-4565-9400-6f6620746573";
        Tool::new("mke2fs")
            .env("MKE2FS_CONFIG", &configuration)
            .args(["-q", "-F", "-m", "0"])
            .args(["-U", "6c617264-6572-4000-8000-746573746b69"])
            .args(self.mkfs)
            .args(["-E", kept])
            .arg(&path)
            .run()?;
        std::fs::read(&path).context("read", &path)
    }
}
