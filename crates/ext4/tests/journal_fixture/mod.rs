//! An image whose journal is written, and the states that a crash may leave.
//!
//! The journaled blocks belong to a file, so that the tools do not interpret them: the journal
//! treats any block that a handle changes in the same way.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use crate::image::{self, Image};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::journal::recover;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Filesystem, FsBlock, Ino, Result, Tid, WriteOptions};
use larder_instruments::{OverlayDevice, RecordingDevice};
use larder_testkit::e2fsprogs::{check, debugfs_script};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::{Access, Requirement, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The number of blocks of the file with the journaled blocks.
const FILE_BLOCKS: usize = 600;

const INO: Ino = Ino(12);

/// The state after a transaction.
#[derive(Clone)]
pub struct State {
    pub tid: Tid,
    pub blocks: BTreeMap<FsBlock, Vec<u8>>,
    /// Blocks that the transaction frees. They may contain anything once it is committed.
    pub freed: BTreeSet<FsBlock>,
}

/// An image, and its journaled blocks.
pub struct Prepared {
    pub image: Image,
    pub base: Arc<[u8]>,
    pub blocks: Vec<FsBlock>,
}

/// A file system that is being written, and its expected contents.
pub struct Fixture {
    pub device: Arc<RecordingDevice>,
    pub fs: Filesystem,
    blocks: Vec<FsBlock>,
    random: Random,
    /// The contents of each block, as metadata or as content, after each transaction. The last
    /// state is that of the running transaction.
    states: Vec<State>,
    /// Blocks with content, which is not written through the journal.
    content: BTreeSet<FsBlock>,
    /// Failed writes of content.
    pub failed_content: u64,
    /// The number of changes of the device after which each transaction is durable.
    durable: Vec<(usize, Tid)>,
}

pub fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
        Requirement::Tool("e2fsck"),
    ])
}

impl Prepared {
    /// Returns an image created by mke2fs with `arguments`. If `checksums` is not empty, debugfs adds
    /// checksums of this version to the journal.
    pub fn new(arguments: &str, checksums: &str) -> Self {
        let image = Image::make(arguments, "12M").expect("mke2fs");
        let block_bytes = image.open().0.superblock().block_size_bytes() as usize;
        let beside = |name| image.path().with_file_name(name);
        std::fs::write(beside("source"), vec![1; FILE_BLOCKS * block_bytes]).unwrap();
        let mut script = format!("write {} file\n", beside("source").display());
        if !checksums.is_empty() {
            // Writing and replaying a transaction of one block sets the features.
            script = format!("{script}journal_open -c -v {checksums}\n");
            script += "journal_write -b 333\njournal_close\njournal_run\n";
        }
        debugfs_script(image.path(), Access::ReadWrite, &script).expect("debugfs");
        let base: Arc<[u8]> = image.bytes().into();
        let is_content = |block: &FsBlock| {
            // On ext2 and ext3, excludes the blocks that map the file.
            let at = usize::try_from(block.0).unwrap() * block_bytes;
            base[at..at + block_bytes].iter().all(|byte| *byte == 1)
        };
        let blocks: Vec<FsBlock> = image
            .debugfs("blocks file")
            .split_whitespace()
            .map(|number| FsBlock(number.parse().unwrap()))
            .filter(is_content)
            .collect();
        assert_eq!(blocks.len(), FILE_BLOCKS);
        Self {
            image,
            base,
            blocks,
        }
    }

    /// Returns the image in memory.
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(OverlayDevice::new(Arc::clone(&self.base)))
    }
}

impl Fixture {
    /// Opens `device`, which contains the image of `prepared`, for writing.
    pub fn new(prepared: &Prepared, device: Arc<dyn BlockDevice>, seed: Seed) -> Result<Self> {
        let recording = Arc::new(RecordingDevice::new(device));
        let device: Arc<dyn BlockDevice> = Arc::clone(&recording) as _;
        let mut fs = image::open(&device);
        fs.enable_writing(device, WriteOptions::default())?;
        let content = vec![1; fs.superblock().block_size_bytes() as usize];
        let blocks = prepared.blocks.iter();
        let first = State {
            tid: Tid(fs.running_tid()?.0.wrapping_sub(1)),
            blocks: blocks.map(|block| (*block, content.clone())).collect(),
            freed: BTreeSet::new(),
        };
        Ok(Self {
            device: recording,
            fs,
            blocks: prepared.blocks.clone(),
            random: Random::new(seed),
            durable: vec![(0, first.tid)],
            states: vec![first],
            content: BTreeSet::new(),
            failed_content: 0,
        })
    }

    pub fn block_bytes(&self) -> usize {
        self.fs.buffers().block_size_bytes()
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap()
    }

    /// Returns the bytes for a block. One in four must be escaped.
    fn bytes(&mut self) -> Vec<u8> {
        let word = self.random.next_u64();
        let mut bytes = word.to_le_bytes().repeat(self.block_bytes() / 8);
        if word.is_multiple_of(4) {
            bytes[..4].copy_from_slice(&0xC03B_3998_u32.to_be_bytes());
        }
        bytes
    }

    fn any_block(&mut self) -> FsBlock {
        let index = self.below(self.blocks.len());
        self.blocks[index]
    }

    fn now(&mut self) -> &mut State {
        self.states.last_mut().unwrap()
    }

    /// Sets the running transaction to `tid`.
    fn begin(&mut self, tid: Tid) {
        if self.now().tid != tid {
            let mut next = self.now().clone();
            next.tid = tid;
            self.states.push(next);
        }
    }

    /// Changes, creates or frees some blocks in one handle, which is sometimes undone.
    pub fn change(&mut self, most: usize) -> Result<()> {
        let count = 1 + self.below(most);
        let mut plan = BTreeMap::new();
        for _ in 0..count {
            let block = self.any_block();
            if !self.now().freed.contains(&block) {
                plan.insert(block, (self.bytes(), self.random.below(8)));
            }
        }
        let is_undone = self.random.below(6) == 0;
        let mut handle = self.fs.start(u32::try_from(count).unwrap())?;
        let tid = handle.tid();
        for (block, (bytes, choice)) in &plan {
            let put = |place: &mut [u8]| {
                place.copy_from_slice(bytes);
                Ok(())
            };
            if self.content.contains(block) {
                handle.create(*block, INO, put)?;
            } else if *choice == 0 {
                handle.forget(*block);
            } else {
                handle.update(*block, INO, put)?;
            }
        }
        if is_undone {
            drop(handle);
            self.begin(tid);
            return Ok(());
        }
        assert_eq!(handle.stop(), tid);
        self.begin(tid);
        for (block, (bytes, choice)) in plan {
            if !self.content.remove(&block) && choice == 0 {
                self.now().freed.insert(block);
            } else {
                self.now().blocks.insert(block, bytes);
            }
        }
        Ok(())
    }

    /// Commits. Freed blocks become content, which is not written through the journal.
    pub fn commit(&mut self) -> Result<()> {
        self.fs.commit(self.fs.running_tid()?)?;
        let next = self.fs.running_tid()?;
        let committed = Tid(next.0.wrapping_sub(1));
        self.durable.push((self.device.change_count(), committed));
        self.begin(next);
        for block in std::mem::take(&mut self.now().freed) {
            let bytes = self.bytes();
            let at = block.0 * self.block_bytes() as u64;
            if self.device.write_at(&bytes, at).is_err() {
                // The journal is not responsible for this write. A fault occurs only once, so the
                // second write succeeds.
                self.device.write_at(&bytes, at)?;
                self.failed_content += 1;
            }
            self.content.insert(block);
            self.now().blocks.insert(block, bytes);
        }
        Ok(())
    }

    /// Returns the running transaction.
    pub fn running(&self) -> Option<Tid> {
        self.states.last().map(|state| state.tid)
    }

    /// Returns the transaction whose state `device` has.
    pub fn state_of(&self, device: &dyn BlockDevice) -> Option<Tid> {
        let mut held = BTreeMap::new();
        for block in &self.blocks {
            let mut bytes = vec![0; self.block_bytes()];
            let at_bytes = block.0 * self.block_bytes() as u64;
            device.read_at(&mut bytes, at_bytes).unwrap();
            held.insert(*block, bytes);
        }
        let is_right = |state: &&State| {
            let mut blocks = state.blocks.iter();
            blocks.all(|(block, bytes)| state.freed.contains(block) || held[block] == *bytes)
        };
        let found = self.states.iter().rev().find(is_right);
        found.map(|state| state.tid)
    }

    /// Returns the last transaction that is certainly durable.
    pub fn durable(&self) -> Tid {
        self.durable_after(usize::MAX)
    }

    /// Returns the last transaction that is certainly durable after this number of changes of the
    /// device.
    pub fn durable_after(&self, changes: usize) -> Tid {
        let index = self.durable.partition_point(|(from, _)| *from <= changes);
        self.durable[index - 1].1
    }
}

/// Returns the device after Larder's recovery.
pub fn recovered(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let superblock = Superblock::read(&*device).unwrap();
    recover(superblock, device).unwrap().device
}

pub fn save(device: &dyn BlockDevice, path: &Path) {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(&mut bytes, 0).unwrap();
    std::fs::write(path, bytes).unwrap();
}

pub fn check_clean(path: &Path) {
    check(path).unwrap_or_else(|error| panic!("{error}"));
}

pub fn file(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(std::fs::read(path).unwrap()))
}
