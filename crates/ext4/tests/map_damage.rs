//! Changes of mappings on damaged images, which may fail but have no worse effect.

mod image;
mod mapping;

use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::{Error, FileBlock, Filesystem, Ino, Inode, Result, WriteOptions};
use larder_testkit::seed::{Random, Seed};
use mapping::Subject;
use std::sync::Arc;

const BLOCK_BYTES: usize = 1024;

/// An image with a fragmented file, which is then damaged.
struct Victim {
    bytes: Vec<u8>,
    ino: Ino,
    /// The blocks of the file's mapping.
    nodes: Vec<u64>,
}

impl Victim {
    fn make(arguments: &str) -> Option<Self> {
        let mut subject = Subject::new(arguments, "16M", Random::new(Seed(4)))?;
        for at in (0..600_u64).rev() {
            assert!(subject.insert(at * 3, 1, true));
        }
        let subject = subject.finish("whole");
        subject.fs.close().expect("closed");
        let content: Vec<u64> = subject.model.values().map(|&(block, _)| block).collect();
        let blocks = subject.image.debugfs("blocks file");
        let blocks = blocks
            .split_whitespace()
            .map(|number| number.parse().expect("number"));
        Some(Self {
            bytes: subject.image.bytes(),
            ino: subject.inode.ino(),
            nodes: blocks.filter(|block| !content.contains(block)).collect(),
        })
    }

    /// Returns the bytes of one block.
    fn block(bytes: &mut [u8], block: u64) -> &mut [u8] {
        let start = usize::try_from(block).expect("small") * BLOCK_BYTES;
        &mut bytes[start..start + BLOCK_BYTES]
    }

    /// Opens the file of a copy of this image after `damage`.
    fn open(&self, damage: impl FnOnce(&mut [u8])) -> Opened {
        let mut bytes = self.bytes.clone();
        damage(&mut bytes);
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
        let mut fs = image::open(&device);
        fs.enable_writing(device, WriteOptions::default())
            .expect("writable");
        let inode = fs.inode(self.ino).expect("inode");
        Opened { fs, inode }
    }
}

struct Opened {
    fs: Filesystem,
    inode: Inode,
}

impl Opened {
    /// Unmaps everything, in as many handles as necessary.
    fn unmap_all(&mut self) -> Result<()> {
        let mut left = 0..1 << 32;
        while !left.is_empty() {
            let mut handle = self.fs.start(self.fs.map_credits(&self.inode, 1) + 40)?;
            let mut inode = self.inode;
            left = self.fs.unmap(&mut handle, &mut inode, left)?;
            self.fs.write_inode(&mut handle, &inode)?;
            handle.stop();
            self.inode = inode;
        }
        Ok(())
    }

    /// Makes one random change, which may fail.
    fn change(&mut self, random: &mut Random) -> Result<()> {
        let at = random.below(2000);
        let range = at..at + 1 + random.below(200);
        let kind = random.below(4);
        let start = FileBlock(u32::try_from(at).expect("small"));
        let claim = match kind {
            0 => Some(self.fs.claim_for(&self.inode, start, 1, None)?),
            _ => None,
        };
        let mut handle = self.fs.start(self.fs.map_credits(&self.inode, 1) + 20)?;
        let mut inode = self.inode;
        let (fs, is_written) = (&self.fs, at.is_multiple_of(2));
        match (kind, claim) {
            (0, Some(claim)) => fs.map_claim(&mut handle, &mut inode, start, claim, true),
            (1, _) => fs.unmap(&mut handle, &mut inode, range).map(drop),
            (2, _) => {
                let left = fs.set_written(&mut handle, &mut inode, range, is_written);
                left.map(drop)
            }
            _ => fs.shift(&mut handle, &mut inode, at..1 << 32, 5).map(drop),
        }?;
        self.fs.write_inode(&mut handle, &inode)?;
        handle.stop();
        self.inode = inode;
        Ok(())
    }
}

fn is_corrupt(result: &Result<()>) -> bool {
    matches!(result, Err(Error::Corrupt(_)))
}

/// Writes a number to a node's header or entries.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// The name of the damage, and the function that causes it.
type Damage<'a> = (&'a str, Box<dyn Fn(&mut [u8]) + 'a>);

#[test]
fn inconsistent_extent_tree_is_reported_and_not_followed() {
    let Some(victim) = Victim::make("-t ext4 -b 1024 -O ^metadata_csum") else {
        return;
    };
    let number = |block: u64| u32::try_from(block).expect("small").to_le_bytes();
    let at_depth = |depth: u8| {
        let mut bytes = victim.bytes.clone();
        let mut nodes = victim.nodes.iter().copied();
        let node = nodes.find(|&node| Victim::block(&mut bytes, node)[6] == depth);
        node.expect("a tree of two levels")
    };
    let (leaf, index) = (at_depth(0), at_depth(1));
    let table: [Damage<'_>; 8] = [
        (
            "an index node below itself",
            Box::new(|bytes| put(Victim::block(bytes, index), 16, &number(index))),
        ),
        (
            "a leaf below the entry of another",
            Box::new(|bytes| {
                let index = Victim::block(bytes, index);
                let before: Vec<u8> = index[16..20].to_vec();
                put(index, 28, &before);
            }),
        ),
        (
            "a leaf marked as an index node",
            Box::new(|bytes| put(Victim::block(bytes, leaf), 6, &[1, 0])),
        ),
        (
            "an extent with the block of the one before",
            Box::new(|bytes| {
                let leaf = Victim::block(bytes, leaf);
                let before: Vec<u8> = leaf[20..24].to_vec();
                put(leaf, 32, &before);
            }),
        ),
        (
            "an extent over the superblock",
            Box::new(|bytes| put(Victim::block(bytes, leaf), 20, &number(1))),
        ),
        (
            "an extent over the descriptors",
            Box::new(|bytes| put(Victim::block(bytes, leaf), 20, &number(2))),
        ),
        (
            "an extent over its own leaf",
            Box::new(|bytes| put(Victim::block(bytes, leaf), 20, &number(leaf))),
        ),
        (
            "extents that overlap",
            Box::new(|bytes| put(Victim::block(bytes, leaf), 16, &[9, 0])),
        ),
    ];
    for (what, damage) in table {
        let result = victim.open(damage).unmap_all();
        assert!(is_corrupt(&result), "{what}: {result:?}");
    }
    victim.open(|_| ()).unmap_all().expect("whole");
}

#[test]
fn inconsistent_indirect_blocks_are_reported_and_not_followed() {
    let Some(victim) = Victim::make("-t ext3 -b 1024") else {
        return;
    };
    let opened = victim.open(|_| ());
    // The double indirect block is in the slot after the direct blocks and the indirect block.
    let double = opened.inode.i_block()[52..56].to_vec();
    let block = u64::from(u32::from_le_bytes(
        double.clone().try_into().expect("four bytes"),
    ));
    let table: [(&str, Vec<u8>); 3] = [
        ("an indirect block below itself", double),
        ("the superblock", vec![1, 0, 0, 0]),
        ("a block past the end", vec![0xFF; 4]),
    ];
    for (what, number) in table {
        let damage = |bytes: &mut [u8]| {
            let place = Victim::block(bytes, block);
            put(place, 0, &number);
            put(place, 4, &number);
        };
        let result = victim.open(damage).unmap_all();
        assert!(is_corrupt(&result), "{what}: {result:?}");
    }
    victim.open(|_| ()).unmap_all().expect("whole");
}

#[test]
fn mapping_damaged_at_random_is_changed_or_refused() {
    let seed = Seed::from_environment(0x6d61_7021);
    println!("seed {seed}");
    for (part, arguments) in (0..).zip(["-t ext4 -b 1024 -O ^metadata_csum", "-t ext3 -b 1024"]) {
        let Some(victim) = Victim::make(arguments) else {
            return;
        };
        let mut refused = 0;
        for round in 0..150 {
            let mut random = Random::new(seed.part(part * 1000 + round));
            let mut damage = random.clone();
            let mut opened = victim.open(|bytes| {
                for _ in 0..=damage.below(3) {
                    let node = *damage.choose(&victim.nodes).expect("nodes");
                    let block = Victim::block(bytes, node);
                    let at = usize::try_from(damage.below(64)).expect("small");
                    // Often a number that is valid elsewhere.
                    let target = *damage.choose(&victim.nodes).expect("nodes");
                    match damage.below(3) {
                        0 => block[at] = damage.byte(),
                        1 => put(
                            block,
                            at & !3,
                            &u32::try_from(target).unwrap().to_le_bytes(),
                        ),
                        _ => put(block, at & !1, &[damage.byte() % 8, 0]),
                    }
                }
            });
            for _ in 0..30 {
                refused += u32::from(opened.change(&mut random).is_err());
            }
            refused += u32::from(opened.unmap_all().is_err());
        }
        assert!(refused > 100, "{arguments}: {refused} refused");
    }
}

#[test]
fn inode_without_a_root_is_refused() {
    let Some(victim) = Victim::make("-t ext4 -b 1024 -O ^metadata_csum") else {
        return;
    };
    let mut opened = victim.open(|_| ());
    opened.inode.set_i_block(&[0; 60]);
    assert!(is_corrupt(&opened.unmap_all()));
}
