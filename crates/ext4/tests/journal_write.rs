//! Transactions written to the log: what a crash at any point leaves is replayed by ourselves,
//! by e2fsck and by the kernel alike, to one of the states that were committed.
//!
//! The blocks that are journaled here are those of a file, so that the tools leave them alone:
//! what a handle changes is any block at all to the journal.

mod image;

use image::Image;
use larder_block::{
    BlockDevice, ChangeRecord, MemoryDevice, OverlayDevice, PowerCuts, RecordingDevice,
};
use larder_ext4::journal::recover;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Filesystem, FsBlock, Ino, Tid, WriteOptions};
use larder_testkit::seed::{Random, Seed};
use larder_testkit::tool::Tool;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What mke2fs is given, and debugfs before the image is used. The journals are as small as may
/// be, so that the log goes round.
const LAYOUTS: &[(&str, &str)] = &[
    ("-t ext4 -b 1024 -J size=1", ""),
    ("-t ext4 -b 4096 -J size=4 -O ^metadata_csum,^64bit", ""),
    ("-t ext4 -b 1024 -J size=1 -O ^metadata_csum,64bit", ""),
    ("-t ext4 -b 1024 -J size=1 -O metadata_csum,^64bit", ""),
    ("-t ext4 -b 1024 -J size=1", "csum_v2"),
    ("-t ext4 -b 1024 -J size=1 -O ^64bit", "csum_v2"),
    ("-t ext4 -b 2048 -J size=2 -O fast_commit", ""),
    ("-t ext3 -b 1024 -J size=1", ""),
    ("-t ext2 -b 1024", ""),
];

/// Blocks of the file whose blocks are journaled.
const FILE_BLOCKS: usize = 600;

const INO: Ino = Ino(12);

/// Changes between two images that the tools replay.
const TOOL_STRIDE: usize = 97;

/// What a transaction leaves.
#[derive(Clone)]
struct State {
    tid: Tid,
    blocks: BTreeMap<FsBlock, Vec<u8>>,
    /// What it frees: may hold anything once it is committed.
    freed: BTreeSet<FsBlock>,
}

/// An image that is being written to, and what it must hold.
struct Bed {
    image: Image,
    base: Arc<[u8]>,
    device: Arc<RecordingDevice>,
    fs: Filesystem,
    blocks: Vec<FsBlock>,
    random: Random,
    /// What each block holds, as metadata or as content, after each transaction; the last of them
    /// is the running one.
    states: Vec<State>,
    /// Blocks that are content, written past the journal.
    content: BTreeSet<FsBlock>,
    /// From how many changes of the device on which transaction is durable.
    durable: Vec<(usize, Tid)>,
}

fn needs() -> bool {
    skip(&[
        Requirement::LoopMount,
        Requirement::Tool("mke2fs"),
        Requirement::Tool("debugfs"),
        Requirement::Tool("e2fsck"),
    ])
}

fn file_system(device: &Arc<dyn BlockDevice>) -> Filesystem {
    let mut fs = image::open(device);
    fs.enable_writing(Arc::clone(device), WriteOptions::default())
        .expect("can be written to");
    fs
}

impl Bed {
    fn new((arguments, journal): (&str, &str), seed: Seed) -> Self {
        let image = Image::make(arguments, "12M").expect("mke2fs");
        let block_bytes = image.open().0.superblock().block_size_bytes() as usize;
        let source = image.path().with_file_name("source");
        std::fs::write(&source, vec![1; FILE_BLOCKS * block_bytes]).unwrap();
        let debugfs = |command: &str| {
            let tool = Tool::new("debugfs").args(["-w", "-R", command]);
            tool.arg(image.path()).run().expect("debugfs")
        };
        debugfs(&format!("write {} file", source.display()));
        if journal == "csum_v2" {
            // Opening and closing is enough for the features to be set.
            let script = image.path().with_file_name("script");
            std::fs::write(
                &script,
                "journal_open -c -v 2\njournal_write -b 333\njournal_close\njournal_run\n",
            )
            .unwrap();
            let tool = Tool::new("debugfs").args(["-w", "-f"]).arg(&script);
            tool.arg(image.path()).run().expect("debugfs");
        }
        let blocks = image
            .debugfs("blocks file")
            .split_whitespace()
            .map(|number| FsBlock(number.parse().unwrap()))
            .filter(|block| {
                // Not the one that maps the file, on ext2 and ext3.
                let at = usize::try_from(block.0).unwrap() * block_bytes;
                image.bytes()[at..at + block_bytes]
                    .iter()
                    .all(|byte| *byte == 1)
            })
            .collect::<Vec<_>>();
        assert_eq!(blocks.len(), FILE_BLOCKS);
        let base: Arc<[u8]> = image.bytes().into();
        let overlay = OverlayDevice::new(Arc::clone(&base));
        let device = Arc::new(RecordingDevice::new(Arc::new(overlay)));
        let fs = file_system(&(Arc::clone(&device) as _));
        let first = State {
            tid: Tid(fs.running_tid().unwrap().0.wrapping_sub(1)),
            blocks: blocks
                .iter()
                .map(|block| (*block, vec![1; block_bytes]))
                .collect(),
            freed: BTreeSet::new(),
        };
        Self {
            image,
            base,
            device,
            fs,
            blocks,
            random: Random::new(seed),
            durable: vec![(0, first.tid)],
            states: vec![first],
            content: BTreeSet::new(),
        }
    }

    fn block_bytes(&self) -> usize {
        self.fs.buffers().block_size_bytes()
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap()
    }

    /// Bytes for a block; every fourth time such as must be escaped.
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

    /// Transaction `tid` is the running one.
    fn begin(&mut self, tid: Tid) {
        if self.now().tid != tid {
            let mut next = self.now().clone();
            next.tid = tid;
            self.states.push(next);
        }
    }

    /// One handle: some blocks changed, made or freed; sometimes taken back.
    fn change(&mut self, most: usize) {
        let count = 1 + self.below(most);
        let mut plan = BTreeMap::new();
        for _ in 0..count {
            let block = self.any_block();
            if !self.now().freed.contains(&block) {
                plan.insert(block, (self.bytes(), self.random.below(8)));
            }
        }
        let is_undone = self.random.below(6) == 0;
        let mut handle = self.fs.start(u32::try_from(count).unwrap()).unwrap();
        let tid = handle.tid();
        for (block, (bytes, choice)) in &plan {
            let put = |place: &mut [u8]| {
                place.copy_from_slice(bytes);
                Ok(())
            };
            if self.content.contains(block) {
                handle.create(*block, INO, put).unwrap();
            } else if *choice == 0 {
                handle.forget(*block);
            } else {
                handle.update(*block, INO, put).unwrap();
            }
        }
        if is_undone {
            drop(handle);
            self.begin(tid);
            return;
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
    }

    /// Commits; what was freed becomes content, which is written past the journal.
    fn commit(&mut self) {
        self.fs.commit(self.fs.running_tid().unwrap()).unwrap();
        let next = self.fs.running_tid().unwrap();
        let committed = Tid(next.0.wrapping_sub(1));
        self.durable.push((self.device.change_count(), committed));
        self.begin(next);
        for block in std::mem::take(&mut self.now().freed) {
            let bytes = self.bytes();
            let at = block.0 * self.block_bytes() as u64;
            self.device.write_at(&bytes, at).unwrap();
            self.content.insert(block);
            self.now().blocks.insert(block, bytes);
        }
    }

    /// The transaction whose state `device` has.
    fn state_of(&self, device: &dyn BlockDevice) -> Option<Tid> {
        let block_bytes = self.block_bytes();
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(&mut bytes, 0).unwrap();
        let is_right = |state: &&State| {
            state.blocks.iter().all(|(block, expected)| {
                let at = usize::try_from(block.0).unwrap() * block_bytes;
                state.freed.contains(block) || bytes[at..at + block_bytes] == *expected
            })
        };
        self.states
            .iter()
            .rev()
            .find(is_right)
            .map(|state| state.tid)
    }

    /// The last transaction that is surely durable after so many changes of the device.
    fn durable_after(&self, changes: usize) -> Tid {
        let index = self.durable.partition_point(|(from, _)| *from <= changes);
        self.durable[index - 1].1
    }
}

/// The device as our own recovery shows it.
fn recovered(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    let superblock = Superblock::read(&*device).unwrap();
    recover(superblock, device).unwrap().device
}

#[test]
fn image_closed_after_long_load_is_clean_and_holds_all() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(1);
    println!("seed {seed}");
    for layout in LAYOUTS {
        println!("{layout:?}");
        let mut bed = Bed::new(*layout, seed);
        for step in 0..600 {
            bed.change(30);
            if step % 7 == 0 {
                bed.commit();
            }
        }
        bed.commit();
        bed.fs.close().unwrap();
        assert_eq!(bed.fs.buffers().dirty_count(), 0);
        let last = bed.now().tid;
        assert_eq!(bed.state_of(&*bed.device), Some(last));
        save(&*bed.device, bed.image.path());
        check_clean(bed.image.path());
        let superblock = Superblock::read(&*bed.device).unwrap();
        assert!(
            !superblock
                .incompat
                .names()
                .any(|name| name == "needs_recovery")
        );
    }
}

fn save(device: &dyn BlockDevice, path: &Path) {
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(&mut bytes, 0).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn check_clean(path: &Path) {
    let checked = Tool::new("e2fsck").args(["-fn"]).arg(path).run();
    checked.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn power_cut_at_any_write_is_replayed_to_a_committed_state() {
    if needs() {
        return;
    }
    let seed = Seed::from_environment(2);
    println!("seed {seed}");
    for (number, layout) in (0..).zip(LAYOUTS) {
        if layout.0.starts_with("-t ext2") {
            // Without a journal, no state is promised.
            continue;
        }
        let mut bed = Bed::new(*layout, seed.part(number));
        let opened = bed.device.take_changes();
        for step in 0..150 {
            bed.change(20);
            if step % 5 == 0 {
                bed.commit();
            }
        }
        let changes = bed.device.take_changes();
        let after_open = after(&bed.base, &opened);
        cut_everywhere(&bed, &after_open, &changes);
    }
}

/// The device as `changes` left it.
fn after(base: &Arc<[u8]>, changes: &[ChangeRecord]) -> OverlayDevice {
    let device = OverlayDevice::new(Arc::clone(base));
    let mut cuts = PowerCuts::new(&device, changes);
    cuts.advance_to(changes.len()).unwrap();
    cuts.all_written()
}

fn cut_everywhere(bed: &Bed, opened: &OverlayDevice, changes: &[ChangeRecord]) {
    let mut cuts = PowerCuts::new(opened, changes);
    let mut seen = BTreeSet::new();
    for position in 0..changes.len() {
        cuts.advance_to(position).unwrap();
        let durable = bed.durable_after(position);
        let mut devices = vec![cuts.all_written()];
        for seed in 0..2 {
            devices.push(cuts.reordered(position as u64 * 2 + seed).unwrap());
        }
        for (which, device) in devices.into_iter().enumerate() {
            let what = format!("{} after {position}.{which}", bed.image.made_by());
            let device: Arc<dyn BlockDevice> = Arc::new(device);
            let tid = bed.state_of(&*recovered(Arc::clone(&device)));
            let tid = tid.unwrap_or_else(|| panic!("{what}: no committed state"));
            assert!(!tid.is_before(durable), "{what}: {tid} of {durable}");
            seen.insert(tid.0);
            if position % TOOL_STRIDE == which {
                replay_by_tools(bed, &*device, tid, &what);
            }
        }
    }
    println!(
        "{}: {} changes, {} states seen",
        bed.image.made_by(),
        changes.len(),
        seen.len()
    );
    assert!(seen.len() > 20);
}

/// e2fsck and the kernel come to the same state as we do.
fn replay_by_tools(bed: &Bed, device: &dyn BlockDevice, tid: Tid, what: &str) {
    let path = bed.image.path();
    save(device, path);
    let replay = Tool::new("e2fsck").args(["-y", "-E", "journal_only"]);
    replay
        .arg(path)
        .run()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(bed.state_of(&*file(path)), Some(tid), "{what}: by e2fsck");
    check_clean(path);
    save(device, path);
    let mount = LoopMount::new(path, Access::ReadWrite, &[]);
    drop(mount.unwrap_or_else(|error| panic!("{what}: {error}")));
    assert_eq!(
        bed.state_of(&*file(path)),
        Some(tid),
        "{what}: by the kernel"
    );
    check_clean(path);
}

fn file(path: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(std::fs::read(path).unwrap()))
}
