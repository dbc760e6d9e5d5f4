//! Comparison of the allocator with a model that consists of sets, on every layout, with dumpe2fs
//! and e2fsck as oracles.

mod image;
mod writable;

use larder_ext4::{Claim, Error, FsBlock, Goal, Handle, Ino, Privilege};
use larder_testkit::{Random, Seed};
use std::collections::BTreeSet;
use writable::Writable;

/// The arguments of mke2fs, and the size.
const LAYOUTS: &[(&str, &str)] = &[
    ("-t ext2 -r 0 -b 1024 -g 1024", "6M"),
    ("-t ext2 -b 4096", "24M"),
    // Inode tables that extend into other groups.
    (
        "-t ext4 -b 1024 -g 1024 -G 16 -N 9000 -O ^has_journal",
        "16M",
    ),
    ("-t ext3 -b 1024 -g 2048", "12M"),
    ("-t ext4 -b 1024 -g 1024 -G 4 -O ^has_journal", "12M"),
    ("-t ext4 -b 1024 -g 1024 -O ^has_journal,^flex_bg", "8M"),
    (
        "-t ext4 -b 1024 -O ^has_journal,^metadata_csum,uninit_bg",
        "40M",
    ),
    (
        "-t ext4 -b 1024 -g 1024 -O ^has_journal,meta_bg,^resize_inode",
        "48M",
    ),
    (
        "-t ext4 -b 1024 -g 2048 -O ^has_journal,sparse_super2,^resize_inode",
        "12M",
    ),
    ("-t ext4 -b 2048 -I 128 -O ^has_journal,^64bit", "48M"),
    ("-t ext4 -b 4096", "64M"),
    ("-t ext4 -b 4096 -O ^has_journal,bigalloc -C 65536", "96M"),
    ("-t ext4 -b 1024 -O ^has_journal,bigalloc -C 16384", "40M"),
    ("-t ext4 -b 65536 -O ^has_journal", "96M"),
];

/// The model of the ownership of clusters.
#[derive(Clone, Default)]
struct Model {
    /// Free clusters, by their first blocks.
    free: BTreeSet<u64>,
    /// Runs of blocks that the operations allocated.
    used: Vec<(u64, u32)>,
    /// Clusters that were freed and not yet committed.
    freed: BTreeSet<u64>,
    free_inodes: BTreeSet<u64>,
    inodes: Vec<(Ino, bool)>,
}

/// A sequence of random operations. After each operation, its result is compared with the model.
struct RandomRun<'a> {
    writable: &'a Writable,
    random: Random,
    model: Model,
    claims: Vec<Claim>,
}

impl<'a> RandomRun<'a> {
    fn new(writable: &'a Writable, seed: Seed) -> Self {
        let (free, free_inodes) = writable.free_by_dumpe2fs();
        Self {
            writable,
            random: Random::new(seed),
            model: Model {
                free,
                free_inodes,
                ..Model::default()
            },
            claims: Vec::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap()
    }

    /// Removes and returns one of `items`.
    fn draw<T>(random: &mut Random, items: &mut Vec<T>) -> Option<T> {
        let at = usize::try_from(random.below(items.len() as u64)).unwrap();
        (!items.is_empty()).then(|| items.swap_remove(at))
    }

    /// Returns the clusters of a run, by their first blocks.
    fn clusters(&self, start: u64, blocks: u32) -> impl Iterator<Item = u64> + use<> {
        let log2 = self.writable.fs.superblock().cluster_blocks_log2;
        (start..start + u64::from(blocks)).step_by(1 << log2)
    }

    fn claim(&mut self) {
        let fs = &self.writable.fs;
        let want_max = 1 << self.random.below(10);
        let want = 1 + u32::try_from(self.random.below(want_max)).unwrap();
        let goal = Goal {
            near: FsBlock(self.random.below(fs.superblock().blocks_count + 10)),
            is_stream: self.random.below(4) == 0,
            ino: Ino(12 + u32::try_from(self.random.below(5)).unwrap()),
            file_blocks: self.random.below(3) * 8,
            may_use_reserved: self.random.below(2) == 0,
        };
        let mut reservation = if self.random.below(2) == 0 {
            fs.reserve(1 + self.random.below(40), Privilege::Ordinary)
                .ok()
        } else {
            None
        };
        match fs.claim(goal, want, reservation.as_mut()) {
            Ok(claim) => {
                for cluster in self.clusters(claim.start().0, claim.blocks()) {
                    let was_free = self.model.free.remove(&cluster);
                    assert!(was_free, "{cluster} is not free: {claim:?}");
                }
                let log2 = fs.superblock().cluster_blocks_log2;
                assert!(claim.blocks() <= want.next_multiple_of(1 << log2));
                self.claims.push(claim);
            }
            Err(Error::NoSpace) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn drop_claim(&mut self) {
        if let Some(claim) = Self::draw(&mut self.random, &mut self.claims) {
            let clusters = self.clusters(claim.start().0, claim.blocks());
            self.model.free.extend(clusters);
        }
    }

    /// Makes some changes in one handle, which is then stopped or dropped.
    fn change(&mut self) {
        let fs = &self.writable.fs;
        let before = self.model.clone();
        let free_before = fs.free_counts().unwrap();
        let mut handle = fs.start(40).unwrap();
        let mut taken = Vec::new();
        for _ in 0..=self.below(4) {
            match self.below(6) {
                0 | 1 => {
                    if let Some(claim) = Self::draw(&mut self.random, &mut self.claims) {
                        taken.push((claim.start().0, claim.blocks()));
                        fs.take(&mut handle, claim).unwrap();
                    }
                }
                2 => {
                    if let Some((start, blocks)) =
                        Self::draw(&mut self.random, &mut self.model.used)
                    {
                        fs.free_blocks(&mut handle, FsBlock(start), blocks, Ino(12))
                            .unwrap();
                        let clusters = self.clusters(start, blocks);
                        self.model.freed.extend(clusters);
                    }
                }
                3 => self.allocate_block(&mut handle),
                4 => self.allocate_inode(&mut handle),
                _ => {
                    if let Some((ino, is_directory)) =
                        Self::draw(&mut self.random, &mut self.model.inodes)
                    {
                        fs.free_inode(&mut handle, ino, is_directory).unwrap();
                        self.model.free_inodes.insert(u64::from(ino.0));
                    }
                }
            }
        }
        if self.below(4) == 0 {
            drop(handle);
            self.model = before;
            assert_eq!(fs.free_counts().unwrap(), free_before);
            for (start, blocks) in taken {
                let clusters = self.clusters(start, blocks);
                self.model.free.extend(clusters);
            }
        } else {
            handle.stop();
            self.model.used.extend(taken);
        }
    }

    fn allocate_block(&mut self, handle: &mut Handle<'_>) {
        let fs = &self.writable.fs;
        let near = FsBlock(self.random.below(fs.superblock().blocks_count));
        match fs.allocate_block(handle, near) {
            Ok(block) => {
                assert!(self.model.free.remove(&block.0), "{block} is not free");
                self.model.used.push((block.0, 1));
            }
            Err(Error::NoSpace) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn allocate_inode(&mut self, handle: &mut Handle<'_>) {
        let fs = &self.writable.fs;
        let root = fs.inode(Ino::ROOT).unwrap();
        let is_directory = self.random.below(3) == 0;
        match fs.allocate_inode(handle, &root, is_directory) {
            Ok(ino) => {
                let was_free = self.model.free_inodes.remove(&u64::from(ino.0));
                assert!(was_free, "inode {ino} is not free");
                self.model.inodes.push((ino, is_directory));
            }
            Err(Error::NoInodes) => assert!(self.model.free_inodes.is_empty()),
            Err(error) => panic!("{error}"),
        }
    }

    fn commit(&mut self) {
        let fs = &self.writable.fs;
        fs.commit(fs.running_tid().unwrap()).unwrap();
        self.model.free.append(&mut self.model.freed);
    }

    fn step(&mut self) {
        match self.below(12) {
            0..4 => self.claim(),
            4 => self.drop_claim(),
            5 => self.commit(),
            6 => self.writable.fs.release_preallocation(Ino(13)),
            _ => self.change(),
        }
    }

    /// Frees everything that the operations allocated.
    fn end(&mut self) {
        let fs = &self.writable.fs;
        self.claims.clear();
        for (start, blocks) in std::mem::take(&mut self.model.used) {
            let mut handle = fs.start(8).unwrap();
            fs.free_blocks(&mut handle, FsBlock(start), blocks, Ino(12))
                .unwrap();
            handle.stop();
        }
        for (ino, is_directory) in std::mem::take(&mut self.model.inodes) {
            let mut handle = fs.start(8).unwrap();
            fs.free_inode(&mut handle, ino, is_directory).unwrap();
            handle.stop();
        }
        self.commit();
    }

    /// Asserts that dumpe2fs reads the model's state from the bitmaps.
    fn assert_bitmaps_agree(&mut self) {
        self.commit();
        let mut free = self.model.free.clone();
        for claim in &self.claims {
            free.extend(self.clusters(claim.start().0, claim.blocks()));
        }
        let (free_blocks, free_inodes) = self.writable.free_by_dumpe2fs();
        let made_by = self.writable.made_by();
        assert!(free_blocks == free, "{made_by}: free blocks differ");
        assert!(
            free_inodes == self.model.free_inodes,
            "{made_by}: free inodes differ"
        );
    }
}

#[test]
fn random_allocations_match_a_model_of_sets() {
    let seed = Seed::from_environment(0xA110C);
    println!("seed {seed}");
    for (number, (arguments, size)) in (0..).zip(LAYOUTS) {
        let Some(writable) = Writable::make(arguments, size) else {
            return;
        };
        println!("{arguments} {size}");
        let before = writable.free_by_dumpe2fs();
        let mut random_run = RandomRun::new(&writable, seed.part(number));
        for _ in 0..300 {
            random_run.step();
        }
        random_run.assert_bitmaps_agree();
        for _ in 0..100 {
            random_run.step();
        }
        random_run.end();
        writable.fs.close().unwrap();
        assert!(writable.free_by_dumpe2fs() == before, "{arguments}");
        writable.assert_clean();
    }
}
