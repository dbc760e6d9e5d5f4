//! Attributes that files share, set through a volume. With every variant of the cache except `off`,
//! the attributes take as many blocks as with perfect sharing. dumpe2fs counts the blocks. Then
//! e2fsck and the kernel's mount check the image.

use larder::{Clock, Ino, MbCacheVariant, NewFile, OpenOptions, Timestamp, Volume, XattrMode};
use larder_instruments::OverlayDevice;
use larder_testkit::attribute_sets::{AttributeSets, Rules, Space};
use larder_testkit::crash::{ImageFile, LAYOUTS, Layout};
use larder_testkit::e2fsprogs::free_space;
use larder_testkit::oracle::{DirectorySource, Source};
use larder_testkit::{Access, LoopMount, Requirement, Seed, report_skipped, skip};
use std::sync::Arc;

/// Returns a layout with the given options of mke2fs.
const fn layout_of(name: &'static str, mkfs: &'static str) -> Layout {
    Layout {
        name,
        mkfs,
        ..LAYOUTS[0]
    }
}

const SHARING: [(Layout, u64); 7] = [
    (layout_of("ext2", "-t ext2 -b 1024 -I 128 -N 4096"), 1024),
    (layout_of("ext3", "-t ext3 -b 1024 -I 128 -N 4096"), 1024),
    (layout_of("ext4-4k", "-t ext4 -b 4096 -N 4096"), 4096),
    (
        layout_of("ext4-inode-128", "-t ext4 -b 2048 -I 128 -N 4096"),
        2048,
    ),
    (
        layout_of("ext4-no-journal", "-t ext4 -b 1024 -N 4096 -O ^has_journal"),
        1024,
    ),
    (
        layout_of("ea-inode", "-t ext4 -b 1024 -N 4096 -O ea_inode"),
        1024,
    ),
    (
        layout_of("ea-inode-128", "-t ext4 -b 1024 -I 128 -N 4096 -O ea_inode"),
        1024,
    ),
];

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

fn open(device: &Arc<OverlayDevice>, variant: MbCacheVariant) -> Volume {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.mbcache = variant;
    options.cache_size_bytes = 16 << 20;
    Volume::open_device(Arc::clone(device) as _, &options).unwrap()
}

fn name(file: usize) -> String {
    format!("file-{file}")
}

/// A file system with files that have no attributes yet.
struct Fixture {
    device: OverlayDevice,
    inos: Vec<Ino>,
}

impl Fixture {
    fn new(layout: &Layout, files: usize) -> Self {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let volume = open(&device, MbCacheVariant::default());
        let inos = (0..files)
            .map(|file| {
                let made = volume.create(Ino::ROOT, name(file).as_bytes(), &NEW);
                made.unwrap().ino
            })
            .collect();
        volume.close().unwrap();
        drop(volume);
        let device = OverlayDevice::clone(&device);
        Self { device, inos }
    }

    /// Sets the attributes of the files, on a copy of the image. Returns the resulting image, the
    /// space that the attributes take, and the number of shares that the volume counts.
    fn set_attributes(
        &self,
        variant: MbCacheVariant,
        attribute_sets: &AttributeSets,
        seed: Seed,
    ) -> (ImageFile, Space, u64) {
        let mut image = ImageFile::new(&self.device).unwrap();
        let before = free_space(image.path()).unwrap();
        let device = Arc::new(self.device.clone());
        let volume = open(&device, variant);
        for (file, attributes) in attribute_sets.in_any_order(seed) {
            for (name, value) in attributes {
                let set = volume.set_xattr(self.inos[file], name, value, XattrMode::Any);
                set.unwrap_or_else(|error| panic!("file {file}: {error}"));
            }
        }
        let shares = volume.stats().attributes.unwrap().shares;
        volume.close().unwrap();
        drop(volume);
        image.show(&device).unwrap();
        let after = free_space(image.path()).unwrap();
        let taken = Space {
            blocks: before.blocks - after.blocks,
            inodes: before.inodes - after.inodes,
        };
        (image, taken, shares)
    }
}

fn kernel_reads(image: &ImageFile, attribute_sets: &AttributeSets) {
    let mount = LoopMount::new(image.path(), Access::ReadOnly, &[]).unwrap();
    let kernel = DirectorySource::new("kernel", &mount.path());
    for (file, attributes) in attribute_sets.files() {
        let found = kernel.attributes(&kernel.root().join(name(file))).unwrap();
        assert!(found == *attributes, "{} by the kernel", name(file));
    }
}

#[test]
fn attribute_blocks_are_as_few_as_with_perfect_sharing() {
    if skip(&["mke2fs", "dumpe2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let by_kernel = Requirement::LoopMount.missing();
    if let Some(reason) = &by_kernel {
        report_skipped(format!("comparison with the kernel: {reason}"));
    }
    let seed = Seed::from_environment(0x7000);
    println!("seed {seed}");
    for (number, (layout, block_bytes)) in (0..).zip(SHARING) {
        let rules = Rules {
            sets: 50,
            files: 1300,
            crowd: 1100,
            large: layout.name.starts_with("ea-inode"),
        };
        let attribute_sets = AttributeSets::new(seed.part(number), &rules);
        let fixture = Fixture::new(&layout, rules.files);
        for variant in MbCacheVariant::ALL {
            let what = format!("{}, {variant}", layout.name);
            let (image, taken, shares) =
                fixture.set_attributes(variant, &attribute_sets, seed.part(number));
            let expected = if variant == MbCacheVariant::Off {
                assert_eq!(shares, 0, "{what}");
                attribute_sets.unshared_space(block_bytes)
            } else {
                // Each file except the first of each block shares a block.
                assert!(shares >= 1300 - 52, "{what}: {shares} shares");
                attribute_sets.shared_space(block_bytes)
            };
            assert_eq!(taken, expected, "{what}");
            image
                .check()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            // One check by the kernel is enough, because the contents of the image do not depend on
            // the variant.
            if by_kernel.is_none() && variant == MbCacheVariant::default() {
                kernel_reads(&image, &attribute_sets);
            }
        }
    }
}

/// A clock that always returns the same time.
#[derive(Debug)]
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        }
    }
}

/// If the clock does not advance, a change of a block in place leaves the inode unchanged.
#[test]
fn attribute_changed_within_a_clock_tick_is_durable_after_fsync() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let device = Arc::new(OverlayDevice::new(SHARING[1].0.base().unwrap()));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.clock = Arc::new(FixedClock);
    let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
    let ino = volume.create(Ino::ROOT, b"file", &NEW).unwrap().ino;
    volume.hold(ino).expect("held");
    for letter in [b'a', b'b'] {
        let value = [letter; 200];
        volume
            .set_xattr(ino, b"user.name", &value, XattrMode::Any)
            .unwrap();
        volume.sync_file(ino, false).unwrap();
        let left = Arc::new(OverlayDevice::clone(&device));
        let recovered = open(&left, MbCacheVariant::Off);
        let found = recovered.xattr(ino, b"user.name").unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
}
