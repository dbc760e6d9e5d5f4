//! The description of a test image, as plain data.

use crate::tree::{Limits, Tree};

/// One configuration of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// Its name: unique, and valid as a file name.
    pub name: &'static str,
    /// The size of the image in MiB. The file is sparse.
    pub size_mib: u32,
    /// The arguments of mke2fs, without `-E`, separated by spaces.
    pub mkfs: &'static str,
    /// Whether metadata may have checksums. Without them, damaged blocks reach the parsers.
    pub checksums: bool,
    /// Changes to the empty file system.
    pub before: &'static [Change],
    /// The files.
    pub tree: Tree,
    /// The program that writes the files.
    pub populate: Populate,
    /// Changes after the files are written.
    pub after: &'static [Change],
    /// The oracle of the result.
    pub oracle: OracleKind,
    /// Directories that cannot be read without a key or a table, `/`-separated from the root. They are
    /// listed by their parent, but not entered.
    pub closed: &'static [&'static str],
}

impl Recipe {
    /// Returns the same file system with the smallest tree.
    #[must_use]
    pub fn small(mut self) -> Self {
        self.tree = Tree::SMALL;
        self
    }

    /// Returns the same file system without checksums.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = false;
        self
    }

    /// Returns the limits of what mke2fs can copy into this file system.
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

    /// Returns the argument of mke2fs after `option`.
    pub(super) fn argument(&self, option: &str) -> Option<&'static str> {
        let mut arguments = self.mkfs.split(' ');
        arguments.find(|argument| *argument == option)?;
        arguments.next()
    }

    /// Returns whether this image needs the kernel, to write it or to provide its expected content.
    /// mke2fs copies files only while it creates the file system, before anything can be changed in it.
    /// With inline data, it truncates sparse files.
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

/// The program that writes the files into the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populate {
    /// The kernel, through a loop mount.
    Kernel,
    /// mke2fs, from a directory: for features that this kernel refuses.
    Mke2fs,
}

/// A change to an image that is not in use.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Arguments of tune2fs.
    Tune(&'static [&'static str]),
    /// Requests of debugfs.
    Debugfs(&'static [&'static str]),
    /// Gives the two files `/shared/a` and `/shared/b` the same blocks.
    ShareBlocks,
    /// Creates a directory `/encrypted` whose key is not in the image.
    Encrypt,
    /// The kernel works on the mounted image, which is copied in the middle of the work, as if the power
    /// had failed.
    Crash {
        /// Options of the mount.
        options: &'static [&'static str],
        /// The kernel's work.
        work: Work,
    },
}

/// The work during which the power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Transactions: names are created and removed, blocks are freed and reused (revokes), and an open
    /// file has no name left (orphan).
    Transactions,
    /// The same, with journaled content. Some blocks begin with the journal's magic number (escapes).
    JournalledData,
    /// Many small fsyncs, each of which results in a fast commit.
    FastCommits,
}

/// The oracle with which the walk of an image is compared.
#[derive(Clone, Copy, Debug)]
pub enum OracleKind {
    /// The kernel's mount without recovery.
    Mount,
    /// The kernel's mount of a copy, with recovery.
    MountRecovered,
    /// The kernel's mount of a copy after these changes with debugfs: for features that this kernel
    /// refuses or was built without.
    MountAfter(&'static [&'static str]),
    /// The directory that mke2fs copied from.
    Source,
}
