//! A file whose mapping is changed, with a model of it.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use crate::image::{self, Image};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_ext4::{
    Error, FileBlock, Filesystem, FsBlock, Handle, Ino, Inode, Mapping, MappingKind, Result,
    WriteOptions,
};
use larder_testkit::e2fsprogs::debugfs_write;
use larder_testkit::seed::Random;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The physical block of each mapped block of the file, and whether it is written.
pub type Model = BTreeMap<u64, (u64, bool)>;

/// The maximum number of spare credits of a step. The number is random, so that long changes stop in
/// different places.
const SPARE_CREDITS: u64 = 60;

/// A file of an image.
pub struct Subject {
    pub image: Image,
    pub fs: Filesystem,
    pub inode: Inode,
    pub model: Model,
    pub random: Random,
    has_extents: bool,
}

impl Subject {
    /// Returns an empty file on an image that mke2fs creates with these arguments, or `None`
    /// without mke2fs.
    pub fn new(arguments: &str, size: &str, random: Random) -> Option<Self> {
        let image = Image::make(arguments, size)?;
        let empty = image.path().with_extension("empty");
        std::fs::write(&empty, b"").expect("empty file");
        let request = format!("write {} file", empty.display());
        debugfs_write(image.path(), &[request]).expect("debugfs");
        Some(Self::open(image, random))
    }

    /// Opens the file named `file` of an image, which may have mapped blocks.
    pub fn open(image: Image, random: Random) -> Self {
        let stat = image.debugfs("stat file");
        let number = stat.split_whitespace().nth(1).expect("inode number");
        let ino = Ino(number.parse().expect("a number"));
        let fs = open(image.path());
        let inode = fs.inode(ino).expect("inode");
        let has_extents = inode.i_block()[..2] == [0x0A, 0xF3];
        let model = model_of(&fs, &inode);
        Self {
            image,
            fs,
            inode,
            model,
            random,
            has_extents,
        }
    }

    pub fn has_extents(&self) -> bool {
        self.has_extents
    }

    /// Returns the number of blocks in a cluster.
    pub fn cluster(&self) -> u64 {
        1 << self.fs.superblock().cluster_blocks_log2
    }

    /// Changes the inode in a handle with the credits for mapping `blocks`, and at most
    /// `spare_credits` more.
    pub fn change<R>(
        &mut self,
        blocks: u32,
        spare_credits: u64,
        change: impl Fn(&Filesystem, &mut Handle<'_>, &mut Inode) -> Result<R>,
    ) -> Result<R> {
        let spare = u32::try_from(self.random.below(spare_credits + 1)).expect("small");
        let credits = self.fs.map_credits(&self.inode, blocks) + spare;
        let (handle, (inode, result)) = self.fs.change(credits, |handle| -> Result<_> {
            let mut inode = self.inode;
            let result = change(&self.fs, handle, &mut inode)?;
            self.fs.write_inode(handle, &inode)?;
            Ok((inode, result))
        })?;
        handle.stop();
        self.inode = inode;
        Ok(result)
    }

    /// Tries to unmap blocks in a handle of `credits` credits. If they do not suffice, nothing may
    /// change.
    pub fn unmap_with_few_credits(&mut self, blocks: Range<u64>, credits: u32) {
        let mut handle = self.fs.start(credits).expect("handle");
        let mut inode = self.inode;
        let left = self.fs.unmap(&mut handle, &mut inode, blocks.clone());
        let written = left.and_then(|left| {
            self.fs.write_inode(&mut handle, &inode)?;
            Ok(left)
        });
        match written {
            Ok(left) => {
                handle.stop();
                self.inode = inode;
                self.model
                    .retain(|at, _| !(left.end..blocks.end).contains(at));
            }
            Err(Error::HandleTooLarge) => drop(handle),
            Err(error) => panic!("{error}"),
        }
    }

    /// Tries to map blocks in a handle of `credits` credits, like [`Subject::unmap_with_few_credits`].
    pub fn insert_with_few_credits(&mut self, at: u64, credits: u32) {
        let start = FileBlock(u32::try_from(at).expect("small"));
        if self.hole(at, 1) == 0 {
            return;
        }
        let Ok(claim) = self.fs.claim_for(&self.inode, start, 1, None) else {
            return;
        };
        let block = claim.start().0;
        let mut handle = self.fs.start(credits).expect("handle");
        let mut inode = self.inode;
        let mapped = self
            .fs
            .map_claim(&mut handle, &mut inode, start, claim, true)
            .and_then(|()| self.fs.write_inode(&mut handle, &inode));
        match mapped {
            Ok(()) => {
                handle.stop();
                self.inode = inode;
                self.model.insert(at, (block, true));
            }
            Err(Error::HandleTooLarge) => drop(handle),
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the length of the hole at `at`, at most `max`.
    fn hole(&self, at: u64, max: u64) -> u64 {
        let next = self
            .model
            .range(at..)
            .next()
            .map_or(u64::MAX, |(&at, _)| at);
        (next - at).min(max)
    }

    /// Maps at most `want` blocks from `at` on, if they are a hole. Returns false if there is no
    /// space.
    pub fn insert(&mut self, at: u64, want: u64, is_written: bool) -> bool {
        let want = self.hole(at, want);
        if want == 0 {
            return true;
        }
        let start = FileBlock(u32::try_from(at).expect("small"));
        let want = u32::try_from(want).expect("small");
        let claim = match self.fs.claim_for(&self.inode, start, want, None) {
            Err(Error::NoSpace) => return false,
            claim => claim.expect("claim"),
        };
        let (block, blocks) = (claim.start().0, claim.blocks());
        assert!((1..=want).contains(&blocks), "{blocks} of {want} blocks");
        self.change(blocks, 0, |fs, handle, inode| {
            fs.map_claim(handle, inode, start, claim.clone(), is_written)
        })
        .expect("mapped");
        for (at, block) in (at..at + u64::from(blocks)).zip(block..) {
            assert!(self.model.insert(at, (block, is_written)).is_none());
        }
        true
    }

    pub fn set_written(&mut self, blocks: Range<u64>, is_written: bool) {
        let mut left = blocks.clone();
        while !left.is_empty() {
            let before = left.clone();
            left = self
                .change(1, SPARE_CREDITS, |fs, handle, inode| {
                    fs.set_written(handle, inode, left.clone(), is_written)
                })
                .expect("set written");
            assert!(left.is_empty() || left.start > before.start, "{before:?}");
        }
        for (_, mapped) in self.model.range_mut(blocks) {
            mapped.1 = is_written;
        }
    }

    pub fn unmap(&mut self, blocks: Range<u64>) {
        let mut left = blocks.clone();
        while !left.is_empty() {
            let before = left.clone();
            left = self
                .change(1, SPARE_CREDITS, |fs, handle, inode| {
                    fs.unmap(handle, inode, left.clone())
                })
                .expect("unmapped");
            assert!(left.is_empty() || left.end < before.end, "{before:?}");
        }
        self.model.retain(|at, _| !blocks.contains(at));
    }

    /// Removes `by` blocks at `at`, or inserts a hole of that length.
    pub fn shift(&mut self, at: u64, by: u64, is_back: bool) {
        let signed = i64::try_from(by).expect("small");
        let (from, by_signed) = if is_back {
            self.unmap(at..at + by);
            (at + by, -signed)
        } else {
            (at, signed)
        };
        let mut left = from..1 << 32;
        while !left.is_empty() {
            let before = left.clone();
            left = self
                .change(1, SPARE_CREDITS, |fs, handle, inode| {
                    fs.shift(handle, inode, left.clone(), by_signed)
                })
                .expect("moved");
            assert!(left.is_empty() || left != before, "{before:?}");
        }
        let moved = self.model.split_off(&from);
        let moved = moved
            .into_iter()
            .map(|(at, to)| (at.checked_add_signed(by_signed).expect("in the file"), to));
        self.model.extend(moved);
    }

    /// Asserts that the mapping equals the model, and that no block is mapped twice.
    pub fn check(&self, blocks: Range<u64>) {
        let mut at = blocks.start;
        while at < blocks.end {
            let start = FileBlock(u32::try_from(at).expect("small"));
            let max_blocks = u32::try_from(blocks.end - at).unwrap_or(u32::MAX);
            let mapping = self
                .fs
                .map(&self.inode, start, max_blocks)
                .expect("mapping");
            self.check_run(&mapping);
            at += u64::from(mapping.blocks);
        }
        let mut seen = HashSet::new();
        assert!(self.model.values().all(|(block, _)| seen.insert(*block)));
    }

    fn check_run(&self, mapping: &Mapping) {
        let start = u64::from(mapping.start.0);
        let end = start + u64::from(mapping.blocks);
        let (first, is_written) = match mapping.kind {
            MappingKind::Hole => {
                let mapped = self.model.range(start..end).next();
                assert_eq!(mapped, None, "a hole at {start}");
                return;
            }
            MappingKind::Written(FsBlock(block)) => (block, true),
            MappingKind::Unwritten(FsBlock(block)) => (block, false),
        };
        for (at, block) in (start..end).zip(first..) {
            let expected = self.model.get(&at);
            assert_eq!(Some(&(block, is_written)), expected, "block {at}");
        }
    }

    /// Closes the image with a size that covers all mapped blocks, checks it with e2fsck and
    /// debugfs, and opens it again.
    pub fn finish(mut self, context: &str) -> Self {
        let blocks = self.model.last_key_value().map_or(0, |(&at, _)| at + 1);
        let size_bytes = blocks << self.fs.superblock().block_size_log2;
        self.change(1, 0, |_, _, inode| {
            inode.set_size_bytes(size_bytes);
            Ok(())
        })
        .expect("size");
        self.fs.close().expect("closed");
        drop(self.fs);
        check_image(&self.image, &self.model, context);
        let fs = open(self.image.path());
        let inode = fs.inode(self.inode.ino()).expect("inode");
        assert_eq!(inode.i_block(), self.inode.i_block(), "{context}");
        Self { fs, inode, ..self }
    }
}

/// Reads the file's mapping.
fn model_of(fs: &Filesystem, inode: &Inode) -> Model {
    let mut model = Model::new();
    let end = inode
        .size_bytes()
        .div_ceil(u64::from(fs.superblock().block_size_bytes()));
    let mut at = 0;
    while at < end {
        let start = FileBlock(u32::try_from(at).expect("small"));
        let mapping = fs.map(inode, start, u32::MAX).expect("mapping");
        let blocks = at..at + u64::from(mapping.blocks);
        at = blocks.end;
        let (FsBlock(first), is_written) = match mapping.kind {
            MappingKind::Hole => continue,
            MappingKind::Written(first) => (first, true),
            MappingKind::Unwritten(first) => (first, false),
        };
        model.extend(blocks.zip((first..).map(|block| (block, is_written))));
    }
    model
}

/// Checks the image with e2fsck and debugfs.
fn check_image(image: &Image, model: &Model, context: &str) {
    image.assert_clean(context);
    let theirs = image.debugfs("blocks file");
    let theirs: HashSet<u64> = theirs
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    for (at, (block, _)) in model {
        assert!(theirs.contains(block), "{context}: block {at}");
    }
    let (dump, mut theirs) = (image.debugfs("ex -l file"), Model::new());
    for line in dump.lines().skip(1) {
        // Levels, entries, file blocks, blocks, number of blocks, flags.
        let numbers: Vec<u64> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        let [_, _, _, _, first, last, block, _, _] = numbers[..] else {
            panic!("{context}: {line}");
        };
        let is_written = !line.contains("Uninit");
        theirs.extend((first..=last).zip((block..).map(|block| (block, is_written))));
    }
    // Without extents, debugfs prints only an error.
    assert!(dump.is_empty() || theirs == *model, "{context}: extents");
}

/// Opens the image for writing.
pub fn open(path: &Path) -> Filesystem {
    let device = FileDevice::open_writable(path, FileRange::default()).expect("image");
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let mut fs = image::open(&device);
    fs.enable_writing(device, WriteOptions::default())
        .expect("writable");
    fs
}
