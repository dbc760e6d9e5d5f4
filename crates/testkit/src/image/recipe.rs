//! How a test image is made, as plain data.

use crate::tree::{Limits, Tree};

/// One configuration of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name, unique, fit for a file name.
    pub name: &'static str,
    /// Size of the image; the file is sparse.
    pub size_mib: u32,
    /// Arguments of mke2fs, without `-E`, separated by spaces.
    pub mkfs: &'static str,
    /// Whether metadata may carry checksums; without them, damage goes deeper.
    pub checksums: bool,
    /// What is changed in the empty file system.
    pub before: &'static [Change],
    /// The files.
    pub tree: Tree,
    /// Who writes them.
    pub populate: Populate,
    /// What is changed afterwards.
    pub after: &'static [Change],
    /// With what the result is compared.
    pub oracle: OracleKind,
    /// Folders that nobody can read without a key or a table, `/`-separated
    /// from the root: they are listed by their parent, and not entered.
    pub closed: &'static [&'static str],
}

impl Recipe {
    /// The same file system with the smallest tree.
    #[must_use]
    pub fn small(mut self) -> Self {
        self.tree = Tree::SMALL;
        self
    }

    /// The same file system without checksums.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = false;
        self
    }

    /// What mke2fs can copy into this file system.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let block_size = self.argument("-b").and_then(|size| size.parse().ok());
        let extents = self.argument("-t") == Some("ext4");
        let mut limits = Limits::of_blocks(block_size.unwrap_or(1024), extents);
        if self.argument("-r").is_some() {
            // Revision 0 has no attributes.
            limits.attributes_bytes = 0;
        }
        limits
    }

    /// The argument of mke2fs after `option`.
    pub(super) fn argument(&self, option: &str) -> Option<&'static str> {
        let mut arguments = self.mkfs.split(' ');
        arguments.find(|argument| *argument == option)?;
        arguments.next()
    }

    /// Whether this image needs the kernel, to make it or to know what it
    /// holds: mke2fs copies files only while it makes the file system, before
    /// anything can be changed in it, and with inline data it cuts sparse
    /// files short.
    #[must_use]
    pub fn needs_kernel(&self) -> bool {
        let by_kernel = |change: &Change| {
            matches!(
                change,
                Change::ShareBlocks | Change::Encrypt | Change::Crash { .. }
            )
        };
        !self.before.is_empty()
            || self.after.iter().any(by_kernel)
            || self.mkfs.contains("inline_data")
    }
}

/// Who writes the files into the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// The kernel, through a loop mount.
    Kernel,
    /// mke2fs, from a folder: for what this kernel refuses.
    Mke2fs,
}

/// A change to an image with no one using it.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Arguments of tune2fs.
    Tune(&'static [&'static str]),
    /// Requests of debugfs.
    Debugfs(&'static [&'static str]),
    /// Two files, `/shared/a` and `/shared/b`, get the same blocks.
    ShareBlocks,
    /// A folder `/encrypted` whose key is not in the image.
    Encrypt,
    /// The kernel works on the mounted image, which is copied in the middle
    /// of it, as if the power had failed.
    Crash {
        /// Options of the mount.
        options: &'static [&'static str],
        /// What the kernel was doing.
        work: Work,
    },
}

/// What was going on when the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Transactions: names come and go, blocks are freed and reused (revokes),
    /// an open file has no name left (orphan).
    Transactions,
    /// The same, and the content goes through the journal, with blocks that
    /// begin with the journal's magic number (escapes).
    JournalledData,
    /// Many small fsyncs, each of which becomes a fast commit.
    FastCommits,
}

/// With what the walk of an image is compared.
#[derive(Clone, Copy, Debug)]
pub enum OracleKind {
    /// The kernel's mount, with no recovery.
    Mount,
    /// The kernel's mount of a copy, with recovery.
    MountRecovered,
    /// The kernel's mount of a copy in which debugfs has made these changes:
    /// for features that this kernel refuses or has not built in.
    MountAfter(&'static [&'static str]),
    /// The folder that mke2fs copied from.
    Source,
}
