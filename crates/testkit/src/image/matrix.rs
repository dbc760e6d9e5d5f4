//! The configurations that every reader of images is tested on.

use super::recipe::{Change, OracleKind, Populate, Recipe, Work};
use crate::tree::Tree;

const EXT4: Recipe = Recipe {
    name: "ext4",
    size_mib: 512,
    mkfs: &["-t", "ext4", "-b", "4096"],
    extended: &[],
    checksums: true,
    before: &[],
    tree: Tree::MEDIUM,
    populate: Populate::Kernel,
    after: &[],
    oracle: OracleKind::Mount,
    closed: &[],
};

const EXT4_1K: Recipe = Recipe {
    size_mib: 256,
    mkfs: &["-t", "ext4", "-b", "1024"],
    ..EXT4
};

/// Every configuration.
pub const MATRIX: &[Recipe] = &[
    Recipe {
        name: "ext2-rev0-1k",
        mkfs: &["-t", "ext2", "-r", "0", "-b", "1024"],
        size_mib: 256,
        // The kernel makes it revision 1 when it first writes; reading, it takes both.
        after: &[Change::Debugfs(&["set_super_value rev_level 0"])],
        ..EXT4
    },
    Recipe {
        name: "ext2-4k",
        mkfs: &["-t", "ext2", "-b", "4096"],
        ..EXT4
    },
    // 2 KiB blocks reach the third level of the block map above 513 MiB, 1 KiB ones above 65 MiB.
    Recipe {
        name: "ext3-2k",
        mkfs: &["-t", "ext3", "-b", "2048"],
        ..EXT4
    },
    Recipe {
        name: "ext3-1k",
        mkfs: &["-t", "ext3", "-b", "1024", "-I", "128"],
        ..EXT4
    },
    Recipe {
        name: "ext4-100000-files",
        mkfs: &["-t", "ext4", "-b", "4096", "-N", "130000"],
        tree: Tree::FULL,
        ..EXT4
    },
    Recipe {
        name: "ext4-1k-100000-links",
        tree: Tree::FULL_LINKS,
        ..EXT4_1K
    },
    Recipe {
        name: "ext4-2k-no-journal",
        mkfs: &["-t", "ext4", "-b", "2048", "-O", "^has_journal"],
        ..EXT4
    },
    Recipe {
        name: "ext4-16k",
        mkfs: &["-t", "ext4", "-b", "16384"],
        populate: Populate::Mke2fs,
        oracle: OracleKind::Source,
        ..EXT4
    },
    Recipe {
        name: "ext4-64k",
        mkfs: &["-t", "ext4", "-b", "65536", "-N", "12000"],
        size_mib: 2048,
        populate: Populate::Mke2fs,
        oracle: OracleKind::Source,
        ..EXT4
    },
    Recipe {
        name: "no-checksums-32bit",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum,^64bit"],
        ..EXT4
    },
    Recipe {
        name: "uninit-bg",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,uninit_bg"],
        ..EXT4_1K
    },
    Recipe {
        name: "meta-bg",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"],
        ..EXT4_1K
    },
    Recipe {
        name: "no-flex-bg",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "^flex_bg"],
        ..EXT4_1K
    },
    Recipe {
        name: "sparse-super2",
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-O",
            "sparse_super2,^resize_inode",
        ],
        ..EXT4_1K
    },
    Recipe {
        name: "bigalloc",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "bigalloc", "-C", "65536"],
        size_mib: 1024,
        ..EXT4
    },
    Recipe {
        name: "bigalloc-1k",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "bigalloc", "-C", "16384"],
        ..EXT4
    },
    Recipe {
        name: "inline-data",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "inline_data"],
        ..EXT4
    },
    Recipe {
        name: "inline-data-inode-1024",
        mkfs: &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-O",
            "inline_data",
            "-I",
            "1024",
        ],
        ..EXT4
    },
    Recipe {
        name: "inode-128",
        mkfs: &["-t", "ext4", "-b", "4096", "-I", "128"],
        ..EXT4
    },
    Recipe {
        name: "ea-inode",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "ea_inode"],
        ..EXT4
    },
    // The checksums go on depending on the first UUID.
    Recipe {
        name: "csum-seed",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "metadata_csum_seed"],
        before: &[Change::Tune(&[
            "-U",
            "11111111-2222-3333-4444-555555555555",
        ])],
        ..EXT4
    },
    Recipe {
        name: "large-dir-1k",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "large_dir"],
        tree: Tree::LONG_NAMES,
        ..EXT4_1K
    },
    // This kernel may lack quotas; the files are the same without them.
    Recipe {
        name: "quota-project",
        after: &[Change::Tune(&["-O", "quota,project", "-Q", "prjquota"])],
        ..EXT4
    },
    Recipe {
        name: "mmp",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "mmp"],
        ..EXT4
    },
    Recipe {
        name: "orphan-file",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "orphan_file"],
        ..EXT4
    },
    Recipe {
        name: "verity",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "verity"],
        after: &[Change::Debugfs(&[
            "set_inode_field /verity/data flags 0x180000",
        ])],
        oracle: OracleKind::MountAfter(&["set_inode_field /verity/data flags 0x80000"]),
        ..EXT4
    },
    Recipe {
        name: "casefold",
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
        ..EXT4
    },
    Recipe {
        name: "encrypt",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "encrypt"],
        after: &[Change::Encrypt],
        closed: &["encrypted"],
        ..EXT4
    },
    Recipe {
        name: "shared-blocks",
        after: &[
            Change::ShareBlocks,
            Change::Debugfs(&["feature shared_blocks"]),
        ],
        ..EXT4
    },
    Recipe {
        name: "hash-legacy",
        before: &[Change::Tune(&["-E", "hash_alg=legacy"])],
        ..EXT4_1K
    },
    Recipe {
        name: "hash-tea",
        before: &[Change::Tune(&["-E", "hash_alg=tea"])],
        ..EXT4_1K
    },
    // Bit 1 of the flags says that names were hashed as unsigned characters.
    Recipe {
        name: "hash-unsigned",
        before: &[Change::Debugfs(&["set_super_value flags 2"])],
        ..EXT4_1K
    },
    Recipe {
        name: "hash-legacy-unsigned",
        before: &[
            Change::Tune(&["-E", "hash_alg=legacy"]),
            Change::Debugfs(&["set_super_value flags 2"]),
        ],
        ..EXT4_1K
    },
    Recipe {
        name: "dirty-ext3",
        mkfs: &["-t", "ext3", "-b", "1024"],
        tree: Tree::SMALL,
        after: &[crash(&[], Work::Transactions)],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
    Recipe {
        name: "dirty-ext4",
        tree: Tree::SMALL,
        after: &[crash(&[], Work::Transactions)],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
    Recipe {
        name: "dirty-journalled-data",
        tree: Tree::SMALL,
        after: &[crash(&["data=journal"], Work::JournalledData)],
        oracle: OracleKind::MountRecovered,
        ..EXT4_1K
    },
    Recipe {
        name: "dirty-no-checksums",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,^64bit"],
        tree: Tree::SMALL,
        after: &[crash(
            &["data=writeback", "journal_async_commit"],
            Work::Transactions,
        )],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
    Recipe {
        name: "dirty-orphan-file",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "orphan_file"],
        tree: Tree::SMALL,
        after: &[crash(&[], Work::Transactions)],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
    Recipe {
        name: "dirty-fast-commit",
        mkfs: &["-t", "ext4", "-b", "4096", "-O", "fast_commit"],
        tree: Tree::SMALL,
        after: &[crash(&[], Work::FastCommits)],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
    Recipe {
        name: "dirty-fast-commit-1k",
        mkfs: &["-t", "ext4", "-b", "1024", "-O", "fast_commit"],
        tree: Tree::SMALL,
        after: &[crash(&[], Work::FastCommits)],
        oracle: OracleKind::MountRecovered,
        ..EXT4
    },
];

const fn crash(options: &'static [&'static str], work: Work) -> Change {
    Change::Crash { options, work }
}

/// The configuration `name`.
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
