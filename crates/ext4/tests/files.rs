//! Comparison of inodes, block maps and hole maps with the kernel's: a tree is created through a
//! loop mount, unmounted, and then read by both.

mod image;

use image::Image;
use larder_block::BlockDevice;
use larder_ext4::{Error, FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind};
use rustix::fs::{self as sys, FallocateFlags, Mode, OFlags, SeekFrom, Timespec, Timestamps};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The mke2fs arguments and the size for each kind of mapping.
const KINDS: &[(&str, &str)] = &[
    ("-t ext2 -b 1024", "160M"),
    ("-t ext3 -b 2048", "160M"),
    ("-t ext4 -b 1024", "160M"),
    ("-t ext4 -b 4096", "200M"),
    ("-t ext4 -b 4096 -I 128 -O ^metadata_csum", "160M"),
    ("-t ext4 -b 4096 -O bigalloc -C 16384", "200M"),
    ("-t ext4 -b 1024 -O inline_data,^has_journal", "160M"),
];

/// Returns a byte that depends on the file and the offset.
fn pattern(seed: u64, offset: u64) -> u8 {
    let mixed = (offset / 512 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    mixed.to_le_bytes()[0] | 1
}

fn fill(file: &File, seed: u64, offset: u64, bytes: usize) {
    let data: Vec<u8> = (offset..).take(bytes).map(|at| pattern(seed, at)).collect();
    file.write_all_at(&data, offset).expect("write");
}

/// Creates the tree in `root`; `block` is the block size.
fn populate(root: &Path, block: u64) {
    let create = |name: &str| File::create_new(root.join(name)).expect(name);
    create("empty");
    fill(&create("one-byte"), 1, 0, 1);
    fill(&create("plain"), 2, 0, 300_000);

    // A data block below each level of indirect blocks, and past 4 GiB.
    let sparse = create("sparse");
    for offset in [0, 20 * block, 3000 * block, 70_000 * block, 4_500_000_000] {
        fill(&sparse, 3, offset, 1000);
    }
    sparse.set_len(5_000_000_000).expect("sparse");
    create("hole").set_len(10_000_000).expect("hole");

    // Every other block (cluster) is removed again, so there are as many extents as remaining
    // blocks. With 1 KiB blocks they need a tree of depth 3, and without extents, a tree of
    // indirect blocks up to the third level.
    let holey = create("holey");
    let unit = if block == 1024 { block } else { 16_384 };
    let units = if block == 1024 { 68_000 } else { 1_000 };
    let chunk = 1 << 20;
    for start in (0..units * unit).step_by(chunk) {
        fill(&holey, 4, start, chunk);
    }
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for even in (0..units).step_by(2) {
        // ext2 and ext3 do not support this; there, the file stays whole.
        if sys::fallocate(&holey, punch, even * unit, unit).is_err() {
            break;
        }
    }

    let unwritten = create("unwritten");
    fill(&unwritten, 5, 0, 5000);
    if sys::fallocate(&unwritten, FallocateFlags::empty(), 0, 400_000).is_ok() {
        fill(&unwritten, 5, 200_000, 5000);
    }
    let beyond = create("blocks-past-the-end");
    fill(&beyond, 6, 0, 100);
    let _ = sys::fallocate(&beyond, FallocateFlags::KEEP_SIZE, 0, 400_000);

    // Two files that grow alternately, so that neither is contiguous.
    let (odd, even) = (create("odd"), create("even"));
    for turn in 0..60 {
        for (seed, file) in [(7, &odd), (8, &even)] {
            fill(
                file,
                seed,
                turn * block,
                usize::try_from(block).expect("block"),
            );
            file.sync_data().expect("sync");
        }
    }
    std::os::unix::fs::symlink("short target", root.join("short-link")).expect("link");
    std::os::unix::fs::symlink("t".repeat(200), root.join("long-link")).expect("link");
    std::fs::create_dir(root.join("directory")).expect("directory");
    std::fs::hard_link(root.join("plain"), root.join("plain-again")).expect("hard link");
    specials(root);
    attributes(root);
}

fn specials(root: &Path) {
    let nodes = [
        ("fifo", sys::FileType::Fifo, 0),
        ("socket", sys::FileType::Socket, 0),
        ("null", sys::FileType::CharacterDevice, sys::makedev(1, 3)),
        (
            "large",
            sys::FileType::BlockDevice,
            sys::makedev(3000, 70_000),
        ),
    ];
    for (name, kind, device) in nodes {
        sys::mknodat(sys::CWD, root.join(name), kind, Mode::from(0o640), device).expect(name);
    }
}

/// Sets owners, modes and times to their limits.
fn attributes(root: &Path) {
    let times = [
        i64::from(i32::MIN),
        -1,
        0,
        i64::from(i32::MAX),
        1 << 32,
        15_000_000_000,
    ];
    for (number, seconds) in (0_u32..).zip(times) {
        let path = root.join(format!("at-{number}"));
        let file = File::options()
            .create_new(true)
            .write(true)
            .mode(0o7000 + 0o111 * number)
            .open(&path)
            .expect("file");
        std::os::unix::fs::fchown(&file, Some(number * 100_000), Some(4_000_000_000 + number))
            .expect("chown");
        let stamp = |nanoseconds| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: stamp(999_999_999),
            last_modification: stamp(1),
        };
        sys::futimens(&file, &times).expect("times");
    }
}

/// A file as seen by both sides.
struct Subject<'a> {
    context: String,
    fs: &'a Filesystem,
    device: &'a dyn BlockDevice,
    inode: Inode,
    path: &'a Path,
}

#[test]
fn files_of_each_kind_of_image_read_as_the_kernel_does() {
    for (arguments, size) in KINDS {
        let Some(image) = Image::make(arguments, size) else {
            return;
        };
        let block = image.open().0.superblock().block_size_bytes();
        match image.mount("rw") {
            Some(mount) => populate(mount.path(), u64::from(block)),
            None => return,
        }
        let (fs, device) = image.open();
        let Some(mount) = image.mount("ro") else {
            return;
        };
        let mut files = 0;
        for entry in std::fs::read_dir(mount.path()).expect("listing") {
            let path = entry.expect("entry").path();
            let metadata = path.symlink_metadata().expect("metadata");
            let ino = Ino(u32::try_from(metadata.ino()).expect("inode number"));
            let inode = fs
                .inode(ino)
                .unwrap_or_else(|error| panic!("{arguments}: {error}"));
            let subject = Subject {
                context: format!("{} of {arguments}", path.display()),
                fs: &fs,
                device: &*device,
                inode: Inode::from_words(ino, inode.words()),
                path: &path,
            };
            // The hole map is checked first, because reading creates pages where the kernel had a
            // hole.
            if inode.kind() == FileKind::Regular {
                check_hole_map(&subject);
                check_content(&subject);
            }
            check_fields(&subject, &metadata);
            files += 1;
        }
        assert!(files > 20, "{arguments}: {files} files");
    }
}

fn check_fields(subject: &Subject<'_>, theirs: &std::fs::Metadata) {
    let Subject {
        context, fs, inode, ..
    } = subject;
    assert_eq!(u32::from(inode.mode()), theirs.mode(), "{context}");
    assert_eq!(
        (inode.uid(), inode.gid()),
        (theirs.uid(), theirs.gid()),
        "{context}"
    );
    assert_eq!(inode.size_bytes(), theirs.size(), "{context}");
    assert_eq!(u64::from(inode.links()), theirs.nlink(), "{context}");
    let block_size = fs.superblock().block_size_bytes();
    assert_eq!(inode.blocks_512(block_size), theirs.blocks(), "{context}");
    let times = [
        (inode.atime(), theirs.atime(), theirs.atime_nsec()),
        (inode.mtime(), theirs.mtime(), theirs.mtime_nsec()),
        (inode.ctime(), theirs.ctime(), theirs.ctime_nsec()),
    ];
    for (ours, seconds, nanoseconds) in times {
        assert_eq!(ours.seconds, seconds, "{context}");
        assert_eq!(i64::from(ours.nanoseconds), nanoseconds, "{context}");
    }
    if let Some(created) = inode.crtime() {
        let theirs = theirs.created().unwrap();
        let theirs = theirs.duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(created.nanoseconds, theirs.subsec_nanos(), "{context}");
    }
    let device = inode
        .device()
        .map_or(0, |device| sys::makedev(device.major, device.minor));
    assert_eq!(device, theirs.rdev(), "{context}");
}

/// Checks every run, written or not, in windows that split runs. Long holes are checked only by the
/// hole map.
fn check_content(subject: &Subject<'_>) {
    let Subject {
        context, fs, inode, ..
    } = subject;
    if inode.has_inline_data() {
        let refused = fs.map(inode, FileBlock(0), 1);
        assert!(matches!(refused, Err(Error::InlineData(_))), "{context}");
        return;
    }
    let file = File::open(subject.path).unwrap();
    let block_bytes = u64::from(fs.superblock().block_size_bytes());
    let end = u32::try_from(inode.size_bytes().div_ceil(block_bytes)).unwrap();
    let mut at = 0;
    while at < end {
        let whole = fs.map(inode, FileBlock(at), end - at).unwrap();
        if whole.kind == MappingKind::Hole && whole.blocks > 1000 {
            at += whole.blocks;
            continue;
        }
        let mapping = fs.map(inode, FileBlock(at), 37).unwrap();
        assert!((1..=37).contains(&mapping.blocks), "{context}");
        let bytes = usize::try_from(u64::from(mapping.blocks) * block_bytes).unwrap();
        let mut ours = vec![0; bytes];
        if let MappingKind::Written(block) = mapping.kind {
            let offset = block.0 * block_bytes;
            subject.device.read_at(&mut ours, offset).unwrap();
        }
        let mut theirs = vec![0; bytes];
        let read = read_full(&file, &mut theirs, u64::from(at) * block_bytes);
        assert!(ours[..read] == theirs[..read], "{context}: block {at}");
        at += mapping.blocks;
    }
}

/// Checks every boundary between content and holes.
fn check_hole_map(subject: &Subject<'_>) {
    let Subject {
        context, fs, inode, ..
    } = subject;
    let file = sys::open(subject.path, OFlags::RDONLY, Mode::empty()).unwrap();
    let mut offset = 0;
    loop {
        let data = fs.seek_data(inode, offset).unwrap();
        let theirs = sys::seek(&file, SeekFrom::Data(offset)).ok();
        assert_eq!(data, theirs, "{context}: data after {offset}");
        let hole = fs.seek_hole(inode, offset).unwrap();
        let theirs = sys::seek(&file, SeekFrom::Hole(offset)).ok();
        assert_eq!(hole, theirs, "{context}: hole after {offset}");
        let edges = [data, hole].into_iter().flatten();
        match edges.filter(|&edge| edge > offset).min() {
            Some(edge) => offset = edge,
            None => break,
        }
    }
    let past = inode.size_bytes();
    assert_eq!(fs.seek_data(inode, past).unwrap(), None, "{context}");
    assert_eq!(fs.seek_hole(inode, past).unwrap(), None, "{context}");
}

fn read_full(file: &File, buf: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while done < buf.len() {
        let read = file
            .read_at(&mut buf[done..], offset + done as u64)
            .expect("read");
        if read == 0 {
            break;
        }
        done += read;
    }
    done
}

#[test]
fn inode_that_is_free_or_out_of_range_is_refused() {
    let Some(image) = Image::make("-t ext4 -b 1024", "64M") else {
        return;
    };
    let (fs, _) = image.open();
    let last = fs.superblock().inodes_count;
    for free in [12, 500, last] {
        let refused = fs.inode(Ino(free));
        assert!(
            matches!(refused, Err(Error::StaleInode(_))),
            "{free}: {refused:?}"
        );
    }
    for outside in [0, last + 1, u32::MAX] {
        let refused = fs.inode(Ino(outside));
        assert!(
            matches!(refused, Err(Error::Corrupt(_))),
            "{outside}: {refused:?}"
        );
    }
}
