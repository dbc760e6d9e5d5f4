//! Names on damaged images: changes of names end, with or without an error, and never panic,
//! whatever directories, inodes and lists of orphans contain. The images have no checksums, so that
//! the damage is not detected early.

use larder::{FileKind, Ino, Make, NewFile, OpenOptions, RenameFlags, Volume};
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, Filesystem, MappingKind};
use larder_testkit::e2fsprogs::new_image;
use larder_testkit::seed::{Random, Seed};
use larder_testkit::tool;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

const MUTATIONS: u64 = 300;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

const LAYOUTS: [&str; 3] = [
    "-t ext4 -b 1024 -O ^metadata_csum,inline_data,orphan_file -I 256 -J size=1",
    "-t ext4 -b 1024 -O ^metadata_csum,^has_journal,^uninit_bg",
    "-t ext2 -b 1024 -O ^dir_index",
];

/// Values that the code compares with fields of directories.
const INTERESTING: [u8; 10] = [0, 1, 2, 4, 8, 11, 12, 0x7F, 0x80, 0xFF];

fn open(bytes: Vec<u8>) -> Option<(Volume, Arc<MemoryDevice>)> {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.readahead_max_bytes = 0;
    options.cache_size_bytes = 8 << 20;
    let shared: Arc<dyn BlockDevice> = device.clone();
    let volume = Volume::open_device(shared, &options).ok()?;
    Some((volume, device))
}

/// Returns an image with directories of several sizes and with orphans, as after a crash.
fn populated(arguments: &str) -> Vec<u8> {
    let bytes = new_image(arguments, "8M").expect("image");
    let (volume, device) = open(bytes).expect("writable");
    for (name, count) in [("few", 3), ("some", 40), ("many", 400)] {
        let dir = volume
            .make_dir(Ino::ROOT, name.as_bytes(), &NEW)
            .expect("directory")
            .ino;
        let file = volume.create(dir, b"file", &NEW).expect("file").ino;
        volume.make_dir(dir, b"below", &NEW).expect("directory");
        for number in 0..count {
            let name = format!("{number:03}-{}", "n".repeat(number % 120));
            volume.link(file, dir, name.as_bytes()).expect("link");
        }
    }
    // After a close, all blocks are at their final locations, and no replay overwrites them.
    volume.close().expect("closed");
    drop(volume);
    let (volume, device) = open(device.to_bytes()).expect("writable");
    for number in 0..3 {
        let name = format!("orphan-{number}");
        let ino = volume
            .create(Ino::ROOT, name.as_bytes(), &NEW)
            .expect("file")
            .ino;
        volume.hold(ino).expect("held");
        volume.unlink(Ino::ROOT, name.as_bytes()).expect("unlinked");
    }
    volume.sync().expect("durable");
    device.to_bytes()
}

/// Returns the ranges to damage: the blocks of directories, the first inodes, and the orphans.
fn targets(bytes: &[u8]) -> Vec<Range<usize>> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.to_vec()));
    let sb = Superblock::read(&*device).expect("superblock");
    let block_bytes = usize::try_from(sb.block_size_bytes()).unwrap();
    let orphan_file = sb.orphan_file_ino;
    let buffers = BufferCache::small(Arc::clone(&device), block_bytes);
    let fs = Filesystem::new(sb, Arc::new(buffers), None);
    let mut targets = Vec::new();
    targets.push(1024 + 0xE8..1024 + 0xEC);
    let table = fs
        .group(larder_ext4::GroupNo(0))
        .expect("group")
        .inode_table;
    let inode_bytes = usize::from(fs.superblock().inode_size_bytes);
    let start = usize::try_from(table.0).unwrap() * block_bytes;
    targets.push(start + inode_bytes..start + 30 * inode_bytes);
    for ino in (1..60).map(Ino) {
        let Ok(inode) = fs.inode(ino) else { continue };
        let is_target = inode.is_directory() || ino == orphan_file;
        if !is_target || inode.has_inline_data() {
            continue;
        }
        // One block of the orphan file is enough, because damage to this file is detected at once.
        let blocks = if inode.is_directory() { 40 } else { 1 };
        for number in 0..blocks {
            if let Ok(mapping) = fs.map(&inode, FileBlock(number), 1)
                && let MappingKind::Written(block) = mapping.kind
            {
                let start = usize::try_from(block.0).unwrap() * block_bytes;
                targets.push(start..start + block_bytes);
            }
        }
    }
    targets
}

fn damage(bytes: &mut [u8], targets: &[Range<usize>], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let below =
            |random: &mut Random, len: usize| usize::try_from(random.below(len as u64)).unwrap();
        let target = targets[below(random, targets.len())].clone();
        // The first bytes of a block are damaged more often, because they matter more.
        let span = if random.below(2) == 0 { 64 } else { usize::MAX };
        let at = target.start + below(random, target.len().min(span));
        bytes[at] = match random.below(3) {
            0 => bytes[at] ^ (1 << random.below(8)),
            1 => INTERESTING[below(random, INTERESTING.len())],
            _ => u8::try_from(random.below(256)).unwrap(),
        };
    }
}

/// Changes all names in all directories that can be found.
fn change_names(volume: &Volume, random: &mut Random) {
    let plain = RenameFlags::empty();
    for dir in [b"few".as_slice(), b"some", b"many", b"lost+found"] {
        let Ok(dir) = volume.lookup(Ino::ROOT, dir) else {
            continue;
        };
        let mut names = Vec::new();
        let _ = volume.read_dir(dir, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            if names.len() < 1000 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        for number in 0..12_usize {
            let name = vec![b'a'; 20 * number + 1];
            let _ = volume.create(dir, &name, &NEW);
            let _ = volume.rename(dir, &name, Ino::ROOT, &name, plain);
        }
        let _ = volume.make_dir(dir, b"new", &NEW);
        let _ = volume.symlink(dir, b"link", &[b't'; 100], &NEW);
        let fifo = Make::Node {
            kind: FileKind::Fifo,
            device: None,
        };
        let _ = volume.make(dir, b"fifo", fifo, &NEW);
        let _ = volume.rename(dir, b"below", Ino::ROOT, b"below", plain);
        let _ = volume.rename(Ino::ROOT, b"below", dir, b"new", plain);
        for name in names {
            match random.below(4) {
                0 => drop(volume.unlink(dir, &name)),
                1 => drop(volume.rename(dir, &name, dir, b"renamed", plain)),
                2 => drop(volume.remove_dir(dir, &name)),
                _ => drop(volume.rename(dir, &name, Ino::ROOT, b"few", RenameFlags::EXCHANGE)),
            }
        }
        let _ = volume.lookup(dir, b"no such name");
    }
    let _ = volume.make_unnamed(Ino::ROOT, Make::FILE, &NEW);
}

#[test]
fn names_of_damaged_images_are_changed_or_refused() {
    if tool::find("mke2fs").is_none() {
        larder_testkit::report_skipped("no mke2fs");
        return;
    }
    let seed = Seed::from_environment(0x6e64_6d67);
    println!("seed {seed}");
    for (number, layout) in (0..).zip(LAYOUTS) {
        let whole = populated(layout);
        let targets = targets(&whole);
        let mut refused = 0;
        for mutation in 0..MUTATIONS {
            let mut random = Random::new(seed.part(number).part(mutation));
            let mut bytes = whole.clone();
            if mutation > 0 {
                damage(&mut bytes, &targets, &mut random);
            }
            let Some((volume, _)) = open(bytes) else {
                refused += 1;
                continue;
            };
            change_names(&volume, &mut random);
            let _ = volume.close();
        }
        println!("{layout}: {refused} of {MUTATIONS} refused");
        assert!(refused < MUTATIONS / 2, "{layout}: {refused} refused");
    }
}
