//! Makes the file system of a new image with mke2fs, and adds its journal with tune2fs.
//!
//! The journal is added when all files are copied: the copy then writes no log, and the journal has no old transactions.
//!
//! The inode tables are initialized at once, so that the kernel has nothing to do at the first mount. They are zeros, which
//! are holes in a new file.

use super::size::{self, Capacity};
use super::tree;
use crate::args::CreateArgs;
use crate::commands::e2fsprogs::{find_program, messages, run_program};
use larder_console::{Failure, Result};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Makes the file system of an image.
#[derive(Debug)]
pub(super) struct Format<'a> {
    args: &'a CreateArgs,
    mke2fs: PathBuf,
    tune2fs: PathBuf,
    /// The time that the programs record instead of the present time, in seconds since 1970.
    time: Option<i64>,
}

impl<'a> Format<'a> {
    /// Finds the programs.
    pub(super) fn new(args: &'a CreateArgs, time: Option<i64>) -> Result<Self> {
        Ok(Self {
            args,
            mke2fs: find_program("mke2fs", "create")?,
            tune2fs: find_program("tune2fs", "create")?,
            time,
        })
    }

    /// Makes a file system without a journal that fills `image`. Its root directory belongs to `owner`. `capacity` is given
    /// if the image will be shrunk.
    pub(super) fn make(
        &self,
        image: &NamedTempFile,
        owner: (u32, u32),
        capacity: Option<Capacity>,
    ) -> Result<()> {
        let mut extended = format!("lazy_itable_init=0,root_owner={}:{}", owner.0, owner.1);
        if let Some(seed) = self.id("hash seed", self.args.hash_seed.as_ref()) {
            extended = format!("{extended},hash_seed={seed}");
        }
        let block = size::BLOCK_BYTES.to_string();
        let inode = size::INODE_BYTES.to_string();
        let mut options = vec!["-q", "-F", "-t", self.args.fs_type.as_str()];
        options.extend([
            "-b",
            &block,
            "-I",
            &inode,
            "-O",
            "^has_journal",
            "-E",
            &extended,
        ]);
        let uuid = self.id("UUID", self.args.uuid.as_ref());
        if let Some(uuid) = &uuid {
            options.extend(["-U", uuid]);
        }
        if let Some(label) = &self.args.label {
            options.extend(["-L", label]);
        }
        let inodes = capacity.map(|capacity| capacity.inodes.to_string());
        if let Some(inodes) = &inodes {
            // A file system that is full has no use for blocks that are reserved for root.
            options.extend(["-N", inodes, "-m", "0"]);
        }
        self.run(&self.mke2fs, &options, image)
    }

    /// Adds a journal of `journal_bytes`.
    pub(super) fn add_journal(&self, image: &NamedTempFile, journal_bytes: u64) -> Result<()> {
        let size = format!("size={}", journal_bytes >> 20);
        let added = self.run(&self.tune2fs, &["-O", "has_journal", "-J", &size], image);
        added.map_err(|failure| {
            // tune2fs needs twice the size of the journal.
            let is_full = failure.to_string().contains("too big for filesystem");
            if is_full {
                tree::full("no space left for the journal")
            } else {
                failure
            }
        })
    }

    fn run(&self, program: &Path, options: &[&str], image: &NamedTempFile) -> Result<()> {
        let output = run_program(program, options, image.path(), None, self.time)?;
        if output.status.success() {
            return Ok(());
        }
        let messages = messages(&output, image.path(), &self.args.image);
        Err(Failure::new(format!(
            "cannot make the file system: {messages}"
        )))
    }

    /// Returns the UUID `given`. If it is missing, and the image must be reproducible, returns one that is the same for
    /// the same `purpose`, time, type and label.
    fn id(&self, purpose: &str, given: Option<&String>) -> Option<String> {
        if let Some(given) = given {
            return Some(given.clone());
        }
        let time = self.time?;
        let (fs_type, label) = (self.args.fs_type.as_str(), self.args.label.as_deref());
        let label = label.unwrap_or_default();
        Some(uuid_of(&format!(
            "larder create {purpose} {time} {fs_type} {label}"
        )))
    }
}

/// Returns a UUID of version 8 (RFC 9562) that depends only on `text`, through the hash FNV-1a of 128 bits.
fn uuid_of(text: &str) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 3 << 62;
    let hash = text.bytes().fold(OFFSET, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(PRIME)
    });
    let id = (hash & !VERSION & !VARIANT) | (8 << 76) | (2 << 62);
    let digits = format!("{id:032x}");
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
    groups
        .map(|group| digits.get(group).unwrap_or_default())
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_depends_on_the_text_and_has_a_version() {
        let (one, other) = (uuid_of("a"), uuid_of("b"));
        assert_ne!(one, other);
        assert_eq!(one, uuid_of("a"));
        let lengths: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'8');
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }
}
