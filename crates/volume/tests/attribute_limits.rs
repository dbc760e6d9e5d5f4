//! Attributes of about the maximum size, and attribute blocks with about the maximum number of
//! users. The results are compared with those of the kernel's mount.

use larder::{Ino, NewFile, OpenOptions, Volume, XattrMode};
use larder_instruments::OverlayDevice;
use larder_testkit::attribute_sizes::{file_count, set_all};
use larder_testkit::crash::{ImageFile, LAYOUTS, Layout, layout};
use larder_testkit::e2fsprogs::{debugfs_script, free_space};
use larder_testkit::oracle::{DirectorySource, Source};
use larder_testkit::{Access, LoopMount, Requirement, skip};
use rustix::fs::{XattrFlags, lsetxattr};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::Arc;

fn layout_of(name: &'static str, mkfs: &'static str) -> Layout {
    Layout {
        name,
        mkfs,
        ..LAYOUTS[0]
    }
}

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

fn open(device: &Arc<OverlayDevice>) -> Volume {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.cache_size_bytes = 16 << 20;
    Volume::open_device(Arc::clone(device) as _, &options).unwrap()
}

fn create(volume: &Volume, name: &str) -> Ino {
    let made = volume.create(Ino::ROOT, name.as_bytes(), &NEW);
    made.unwrap().ino
}

type Outcomes = Vec<(String, Result<(), Errno>)>;

fn set_by_volume(device: &Arc<OverlayDevice>, block_bytes: usize) -> Outcomes {
    let volume = open(device);
    let inos: Vec<Ino> = (0..file_count(block_bytes))
        .map(|file| create(&volume, &file.to_string()))
        .collect();
    let outcomes = set_all(block_bytes, |file, name, value| {
        let set = volume.set_xattr(inos[file], name, value, XattrMode::Any);
        set.map_err(|error| error.errno())
    });
    volume.close().unwrap();
    outcomes
}

fn set_by_kernel(image: &ImageFile, block_bytes: usize) -> Outcomes {
    let mount = LoopMount::new(image.path(), Access::ReadWrite, &[]).unwrap();
    let root = mount.path();
    for file in 0..file_count(block_bytes) {
        File::create(root.join(file.to_string())).unwrap();
    }
    set_all(block_bytes, |file, name, value| {
        lsetxattr(
            root.join(file.to_string()),
            name,
            value,
            XattrFlags::empty(),
        )
    })
}

#[test]
fn attributes_of_any_size_fit_or_fail_as_on_the_kernel() {
    let tools = ["mke2fs", "e2fsck"].map(Requirement::Tool);
    if skip(&tools) || skip(&[Requirement::LoopMount]) {
        return;
    }
    // The kernel refuses a value of 64 KiB if the value does not fit into the journal in one
    // transaction.
    let ea_inode = layout_of(
        "limits-ea-inode-1k",
        "-t ext4 -b 1024 -N 2048 -O ea_inode -J size=4",
    );
    for (layout, block_bytes) in [
        (*layout("ext2-1k").unwrap(), 1024),
        (*layout("ext3-1k").unwrap(), 1024),
        (*layout("ext4").unwrap(), 4096),
        (*layout("inode-128-2k").unwrap(), 2048),
        (*layout("ext2-4k-large-inodes").unwrap(), 4096),
        (ea_inode, 1024),
    ] {
        let name = layout.name;
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let on_kernel = ImageFile::new(&device).unwrap();
        let by_kernel = set_by_kernel(&on_kernel, block_bytes);
        let by_volume = set_by_volume(&device, block_bytes);
        let differences: Vec<_> = by_volume
            .iter()
            .zip(&by_kernel)
            .filter(|(on_larder, on_kernel)| on_larder != on_kernel)
            .collect();
        assert!(
            differences.is_empty(),
            "{name}, Larder and the kernel: {differences:#?}"
        );
        let failed = by_kernel.iter().filter(|(_, outcome)| outcome.is_err());
        println!("{name}: {} of {} fail", failed.count(), by_kernel.len());

        let on_larder = ImageFile::new(&device).unwrap();
        on_larder
            .check()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let [on_larder, on_kernel] = [&on_larder, &on_kernel].map(|image| {
            let mount = LoopMount::new(image.path(), Access::ReadOnly, &[]).unwrap();
            let source = DirectorySource::new("kernel", &mount.path());
            let files = 0..file_count(block_bytes);
            files
                .map(|file| {
                    let path = source.root().join(file.to_string());
                    source.attributes(&path).unwrap()
                })
                .collect::<Vec<_>>()
        });
        for (file, (on_larder, on_kernel)) in on_larder.iter().zip(&on_kernel).enumerate() {
            assert!(on_larder == on_kernel, "{name}, file {file}");
        }
    }
}

/// Returns the number of files that use each attribute block, as debugfs reports the blocks.
fn users_by_block(image: &ImageFile, inos: &[Ino]) -> BTreeMap<u64, u64> {
    let mut script = String::new();
    for ino in inos {
        writeln!(script, "stat <{ino}>").unwrap();
    }
    let text = debugfs_script(image.path(), Access::ReadOnly, &script).unwrap();
    let mut users = BTreeMap::new();
    for line in text.lines() {
        if let Some(block) = line.strip_prefix("File ACL: ") {
            *users.entry(block.trim().parse().unwrap()).or_default() += 1;
        }
    }
    users
}

#[test]
fn user_1025_gets_a_second_block_and_a_full_block_is_reused_after_removals() {
    if skip(&["mke2fs", "debugfs", "dumpe2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for layout in [
        layout_of("crowd-ext2", "-t ext2 -b 1024 -I 128 -N 2048"),
        layout_of("crowd-ext4", "-t ext4 -b 4096 -N 2048"),
    ] {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let volume = open(&device);
        let inos: Vec<Ino> = (0..1040)
            .map(|file| create(&volume, &file.to_string()))
            .collect();
        volume.sync().unwrap();
        let free_before = volume.statfs().free_blocks;
        let set = |ino: Ino| {
            let set = volume.set_xattr(ino, b"user.crowd", &[7; 300], XattrMode::Any);
            set.unwrap();
        };
        let blocks_taken = || {
            volume.sync().unwrap();
            free_before - volume.statfs().free_blocks
        };
        inos[..1024].iter().copied().for_each(set);
        assert_eq!(blocks_taken(), 1);
        inos[1024..1030].iter().copied().for_each(set);
        assert_eq!(blocks_taken(), 2);
        for ino in &inos[..10] {
            volume.remove_xattr(*ino, b"user.crowd").unwrap();
        }
        inos[1030..].iter().copied().for_each(set);
        assert_eq!(blocks_taken(), 2);
        volume.close().unwrap();
        drop(volume);

        let image = ImageFile::new(&device).unwrap();
        image.check().unwrap();
        let free = free_space(image.path()).unwrap();
        assert_eq!(free.blocks, free_before - 2);
        let mut users = users_by_block(&image, &inos);
        println!("{}: users by block {users:?}", layout.name);
        assert_eq!(users.remove(&0), Some(10));
        assert_eq!(users.len(), 2);
        assert_eq!(users.values().sum::<u64>(), 1030);
        assert!(users.values().all(|users| *users <= 1024), "{users:?}");
    }
}
