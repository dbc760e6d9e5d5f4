//! The configurations on which every reader of images is tested.

use super::recipe::{Change, OracleKind, Populate, Recipe, Work};
use crate::tree::Tree;

/// Returns the usual configuration: 512 MiB, filled and mounted by the kernel.
const fn ext(name: &'static str, mkfs: &'static str) -> Recipe {
    Recipe {
        name,
        size_mib: 512,
        mkfs,
        checksums: true,
        before: &[],
        tree: Tree::MEDIUM,
        populate: Populate::Kernel,
        after: &[],
        oracle: OracleKind::Mount,
        closed: &[],
    }
}

/// Returns the same configuration with 256 MiB.
const fn small(name: &'static str, mkfs: &'static str) -> Recipe {
    Recipe {
        size_mib: 256,
        ..ext(name, mkfs)
    }
}

/// Returns an image that needs recovery: the power failed while the kernel performed the work in
/// `after`.
const fn dirty(name: &'static str, mkfs: &'static str, after: &'static [Change]) -> Recipe {
    Recipe {
        tree: Tree::SMALL,
        after,
        oracle: OracleKind::MountRecovered,
        ..ext(name, mkfs)
    }
}

/// All configurations.
pub const MATRIX: &[Recipe] = &[
    Recipe {
        // The kernel upgrades it to revision 1 at the first write. It reads both revisions.
        after: &[Change::Debugfs(&["set_super_value rev_level 0"])],
        ..small("ext2-rev0-1k", "-t ext2 -r 0 -b 1024")
    },
    ext("ext2-4k", "-t ext2 -b 4096"),
    // 2 KiB blocks use the third level of the block map above 513 MiB, 1 KiB blocks above 64 MiB.
    ext("ext3-2k", "-t ext3 -b 2048"),
    ext("ext3-1k", "-t ext3 -b 1024 -I 128"),
    Recipe {
        tree: Tree::FULL,
        ..ext("ext4-100000-files", "-t ext4 -b 4096 -N 130000")
    },
    Recipe {
        tree: Tree::FULL_LINKS,
        ..small("ext4-1k-100000-links", "-t ext4 -b 1024")
    },
    ext("ext4-2k-no-journal", "-t ext4 -b 2048 -O ^has_journal"),
    Recipe {
        populate: Populate::Mke2fs,
        oracle: OracleKind::Source,
        ..ext("ext4-16k", "-t ext4 -b 16384")
    },
    Recipe {
        size_mib: 2048,
        populate: Populate::Mke2fs,
        oracle: OracleKind::Source,
        ..ext("ext4-64k", "-t ext4 -b 65536 -N 12000")
    },
    ext(
        "no-checksums-32bit",
        "-t ext4 -b 4096 -O ^metadata_csum,^64bit",
    ),
    small("uninit-bg", "-t ext4 -b 1024 -O ^metadata_csum,uninit_bg"),
    small("meta-bg", "-t ext4 -b 1024 -O meta_bg,^resize_inode"),
    small("no-flex-bg", "-t ext4 -b 1024 -O ^flex_bg"),
    small(
        "sparse-super2",
        "-t ext4 -b 1024 -O sparse_super2,^resize_inode",
    ),
    Recipe {
        size_mib: 1024,
        ..ext("bigalloc", "-t ext4 -b 4096 -O bigalloc -C 65536")
    },
    ext("bigalloc-1k", "-t ext4 -b 1024 -O bigalloc -C 16384"),
    ext("inline-data", "-t ext4 -b 4096 -O inline_data"),
    ext(
        "inline-data-inode-1024",
        "-t ext4 -b 1024 -O inline_data -I 1024",
    ),
    ext("inode-128", "-t ext4 -b 4096 -I 128"),
    ext("ea-inode", "-t ext4 -b 4096 -O ea_inode"),
    // The checksums still depend on the first UUID.
    Recipe {
        before: &[Change::Tune(&[
            "-U",
            "11111111-2222-3333-4444-555555555555",
        ])],
        ..ext("csum-seed", "-t ext4 -b 4096 -O metadata_csum_seed")
    },
    Recipe {
        tree: Tree::LONG_NAMES,
        ..small("large-dir-1k", "-t ext4 -b 1024 -O large_dir")
    },
    // The kernel may lack support for quotas. The files are the same without it.
    Recipe {
        after: &[Change::Tune(&["-O", "quota,project", "-Q", "prjquota"])],
        ..ext("quota-project", "-t ext4 -b 4096")
    },
    ext("mmp", "-t ext4 -b 4096 -O mmp"),
    ext("orphan-file", "-t ext4 -b 4096 -O orphan_file"),
    Recipe {
        after: &[Change::Debugfs(&[
            "set_inode_field /verity/data flags 0x180000",
        ])],
        oracle: OracleKind::MountAfter(&["set_inode_field /verity/data flags 0x80000"]),
        ..ext("verity", "-t ext4 -b 4096 -O verity")
    },
    Recipe {
        after: &[Change::Debugfs(&[
            "feature casefold",
            "set_super_value encoding 1",
            "set_inode_field /casefolded flags 0x40080000",
        ])],
        oracle: OracleKind::MountAfter(&[
            "feature -casefold",
            "set_inode_field /casefolded flags 0x80000",
        ]),
        closed: &["casefolded"],
        ..ext("casefold", "-t ext4 -b 4096")
    },
    Recipe {
        after: &[Change::Encrypt],
        closed: &["encrypted"],
        ..ext("encrypt", "-t ext4 -b 4096 -O encrypt")
    },
    Recipe {
        after: &[
            Change::ShareBlocks,
            Change::Debugfs(&["feature shared_blocks"]),
        ],
        ..ext("shared-blocks", "-t ext4 -b 4096")
    },
    Recipe {
        before: &[Change::Tune(&["-E", "hash_alg=legacy"])],
        ..small("hash-legacy", "-t ext4 -b 1024")
    },
    Recipe {
        before: &[Change::Tune(&["-E", "hash_alg=tea"])],
        ..small("hash-tea", "-t ext4 -b 1024")
    },
    // Bit 1 of the flags means that names were hashed as unsigned characters.
    Recipe {
        before: &[Change::Debugfs(&["set_super_value flags 2"])],
        ..small("hash-unsigned", "-t ext4 -b 1024")
    },
    Recipe {
        before: &[
            Change::Tune(&["-E", "hash_alg=legacy"]),
            Change::Debugfs(&["set_super_value flags 2"]),
        ],
        ..small("hash-legacy-unsigned", "-t ext4 -b 1024")
    },
    dirty(
        "dirty-ext3",
        "-t ext3 -b 1024",
        &[crash(&[], Work::Transactions)],
    ),
    dirty(
        "dirty-ext4",
        "-t ext4 -b 4096",
        &[crash(&[], Work::Transactions)],
    ),
    Recipe {
        size_mib: 256,
        ..dirty(
            "dirty-journalled-data",
            "-t ext4 -b 1024",
            &[crash(&["data=journal"], Work::JournalledData)],
        )
    },
    dirty(
        "dirty-no-checksums",
        "-t ext4 -b 1024 -O ^metadata_csum,^64bit",
        &[crash(
            &["data=writeback", "journal_async_commit"],
            Work::Transactions,
        )],
    ),
    dirty(
        "dirty-orphan-file",
        "-t ext4 -b 4096 -O orphan_file",
        &[crash(&[], Work::Transactions)],
    ),
    dirty(
        "dirty-fast-commit",
        "-t ext4 -b 4096 -O fast_commit",
        &[crash(&[], Work::FastCommits)],
    ),
    dirty(
        "dirty-fast-commit-1k",
        "-t ext4 -b 1024 -O fast_commit",
        &[crash(&[], Work::FastCommits)],
    ),
];

const fn crash(options: &'static [&'static str], work: Work) -> Change {
    Change::Crash { options, work }
}

/// Returns the configuration `name`.
#[must_use]
pub fn recipe(name: &str) -> Option<&'static Recipe> {
    MATRIX.iter().find(|recipe| recipe.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn matrix_names_are_unique() {
        let names: BTreeSet<_> = MATRIX.iter().map(|recipe| recipe.name).collect();
        assert_eq!(names.len(), MATRIX.len());
    }
}
