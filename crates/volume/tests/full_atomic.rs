//! Single calls that run out of space: a write returns the number of bytes written, and every other
//! call is either done completely or not at all. Reads return the same content as the image has.

use larder::{Fallocate, Ino, NewFile, OpenOptions, Volume, XattrMode};
use larder_instruments::OverlayDevice;
use larder_testkit::crash::{ImageFile, Layout, layout};
use larder_testkit::{Requirement, skip};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// Layouts with every kind of mapping.
const MAPPINGS: [&str; 7] = [
    "ext4-1k-no-checksums",
    "ext4",
    "bigalloc",
    "inline-data",
    "ext3-1k",
    "ext2-1k",
    "no-journal-4k",
];
/// Layouts with extents, on which all operations of fallocate(2) are supported.
const WITH_EXTENTS: [&str; 4] = ["ext4-1k-no-checksums", "ext4", "bigalloc", "no-journal-4k"];

fn is_skipped() -> bool {
    skip(&["mke2fs", "e2fsck"].map(Requirement::Tool))
}

/// A file system and the expected contents of its files.
struct Fixture {
    name: &'static str,
    device: Arc<OverlayDevice>,
    volume: Volume,
    files: BTreeMap<&'static str, Vec<u8>>,
    cluster_bytes: usize,
}

fn options(read_write: bool) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = read_write;
    // There is no flusher.
    options.background = false;
    options
}

impl Fixture {
    fn new(layout: &Layout) -> Self {
        let device = Arc::new(OverlayDevice::new(layout.base().unwrap()));
        let volume = Volume::open_device(Arc::clone(&device) as _, &options(true)).unwrap();
        Self {
            name: layout.name,
            device,
            volume,
            files: BTreeMap::new(),
            cluster_bytes: usize::try_from(layout.rules.cluster_bytes).unwrap(),
        }
    }

    /// Creates a durable file with this content.
    fn make(&mut self, name: &'static str, content: Vec<u8>) -> Ino {
        let ino = self.create(name);
        let written = self.volume.write_at(ino, &content, 0).unwrap();
        assert_eq!(written, content.len());
        self.volume.sync().unwrap();
        self.files.insert(name, content);
        ino
    }

    fn create(&self, name: &str) -> Ino {
        let made = self.volume.create(Ino::ROOT, name.as_bytes(), &NEW);
        made.unwrap().ino
    }

    /// Takes all space that is free for content. The last of the space is taken by small files,
    /// which need no blocks for a mapping.
    fn fill(&self) {
        let filler = self.create("filler");
        let mut at = 0;
        for piece in [1 << 20, 64 << 10, self.cluster_bytes] {
            let piece = vec![b'f'; piece];
            while let Ok(written) = self.volume.write_at(filler, &piece, at) {
                at += written as u64;
            }
            self.volume.sync().unwrap();
        }
        for number in 0.. {
            let Ok(made) = self
                .volume
                .create(Ino::ROOT, format!("last{number}").as_bytes(), &NEW)
            else {
                panic!("{}: inodes run out before blocks", self.name);
            };
            let written = self
                .volume
                .write_at(made.ino, &vec![b'l'; self.cluster_bytes], 0);
            if let Err(error) = written {
                assert_eq!(error.errno(), Errno::NOSPC, "{}: {error}", self.name);
                break;
            }
        }
        self.volume.sync().unwrap();
    }

    /// Also takes the space that is reserved for metadata.
    fn fill_by_attributes(&self) {
        for number in 0..2000 {
            let Ok(made) =
                self.volume
                    .create(Ino::ROOT, format!("attribute{number}").as_bytes(), &NEW)
            else {
                break;
            };
            let value = format!("{number:0500}");
            let set = self
                .volume
                .set_xattr(made.ino, b"user.a", value.as_bytes(), XattrMode::Any);
            if set.is_err() {
                break;
            }
        }
        self.volume.sync().unwrap();
    }

    /// Frees one cluster.
    fn free_one(&self) {
        let last = self.volume.resolve(b"last0").unwrap();
        self.volume.truncate(last, 0).unwrap();
        self.volume.sync().unwrap();
    }

    /// Frees some clusters.
    fn free(&self, clusters: usize) {
        let filler = self.volume.resolve(b"filler").unwrap();
        let size_bytes = self.volume.metadata(filler).unwrap().size_bytes;
        let freed = (clusters * self.cluster_bytes) as u64;
        self.volume.truncate(filler, size_bytes - freed).unwrap();
        self.volume.sync().unwrap();
    }

    /// Checks that reads return the expected content.
    fn compare(&self, volume: &Volume, when: &str) {
        for (name, expected) in &self.files {
            let what = format!("{}: {name}, {when}", self.name);
            let ino = volume.resolve(name.as_bytes()).unwrap();
            let size_bytes = volume.metadata(ino).unwrap().size_bytes;
            assert_eq!(size_bytes, expected.len() as u64, "{what}: size");
            let mut found = vec![0; expected.len() + 1];
            let len = volume.read_at(ino, &mut found, 0).unwrap();
            assert_eq!(len, expected.len(), "{what}");
            let differs = expected.iter().zip(&found).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{what}: first byte that differs");
        }
    }

    /// Checks that reads return the expected content, now and after the image is opened again.
    fn check(self, what: &str) {
        self.compare(&self.volume, what);
        self.volume.sync().unwrap();
        self.compare(&self.volume, &format!("{what}, after a sync"));
        self.volume.close().unwrap();
        let device = Arc::clone(&self.device);
        let again = Volume::open_device(device as _, &options(false)).unwrap();
        self.compare(&again, &format!("{what}, opened again"));
        drop(again);
        ImageFile::new(&self.device).unwrap().check().unwrap();
    }

    /// Writes the byte 'B' `len` times, and checks that only a part fits. Returns the number of
    /// bytes written.
    fn write_too_much(&mut self, name: &'static str, offset: usize, len: usize) -> usize {
        let ino = self.volume.resolve(name.as_bytes()).unwrap();
        let written = self.volume.write_at(ino, &vec![b'B'; len], offset as u64);
        let written = written.unwrap_or_else(|error| {
            assert_eq!(error.errno(), Errno::NOSPC);
            0
        });
        assert!(written < len, "{}: everything was written", self.name);
        let content = self.files.get_mut(name).unwrap();
        content.resize(content.len().max(offset + written), 0);
        content[offset..offset + written].fill(b'B');
        written
    }
}

/// Returns bytes that depend on their offset.
fn pattern(len: usize) -> Vec<u8> {
    (1..=251)
        .flat_map(|byte| [byte; 7])
        .cycle()
        .take(len)
        .collect()
}

#[test]
fn write_without_enough_space_returns_a_short_count() {
    if is_skipped() {
        return;
    }
    for name in MAPPINGS {
        for len in [200_000, 900_000] {
            let mut fixture = Fixture::new(layout(name).unwrap());
            fixture.make("t", vec![b'A'; 8192]);
            fixture.fill();
            fixture.free_one();
            let written = fixture.write_too_much("t", 1000, len);
            // The existing blocks are overwritten. The freed block may also be used.
            assert!(written >= 7192, "{name}: {written} of {len}");
            if name == "ext4-1k-no-checksums" {
                // As in the kernel, the freed block is not used, because another block would be
                // needed to map it.
                assert_eq!(written, 7192);
            }
            fixture.compare(&fixture.volume, "after the first write");
            let end = 1000 + written;
            assert_eq!(fixture.write_too_much("t", end, len), 0, "{name}");
            fixture.check(&format!("{written} of {len} bytes written"));
        }
    }
}

#[test]
fn large_write_writes_what_fits_and_failed_writes_extend_no_file() {
    if is_skipped() {
        return;
    }
    for name in MAPPINGS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        fixture.make("t", Vec::new());
        let len = 40 << 20;
        let free_blocks = fixture.volume.statfs().available_blocks;
        let free = free_blocks * u64::from(fixture.volume.statfs().block_size_bytes);
        let written = fixture.write_too_much("t", 0, len);
        assert!(
            written as u64 >= free / 10 * 9,
            "{name}: {written} of {free}"
        );
        assert_eq!(fixture.write_too_much("t", written, len), 0, "{name}");
        fixture.make("u", Vec::new());
        // Only content that needs no block for its mapping can still fit.
        let more = fixture.write_too_much("u", 0, 2 << 20);
        assert!(more <= 4096 * 4, "{name}: {more}");
        fixture.check("large writes");
    }
}

#[test]
fn large_write_over_fragments_writes_no_less_than_fits() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let cluster = fixture.cluster_bytes;
        let holes = fixture.make("t", pattern(600 * cluster));
        for number in (0..600).step_by(2) {
            let at = number * cluster;
            fixture
                .volume
                .fallocate(holes, Fallocate::PunchHole, at as u64, cluster as u64)
                .unwrap();
            fixture.files.get_mut("t").unwrap()[at..at + cluster].fill(0);
        }
        fixture.volume.sync().unwrap();
        fixture.fill();
        fixture.free(40);
        let written = fixture.write_too_much("t", 0, 600 * cluster);
        // Half of the range is already allocated. The other half also needs some blocks for its
        // mapping.
        assert!(written >= 40 * cluster, "{name}: {written}");
        fixture.check("fragments");
    }
}

#[test]
fn copy_without_enough_space_returns_a_short_count() {
    if is_skipped() {
        return;
    }
    for name in MAPPINGS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let from = fixture.make("from", pattern(3 << 20));
        let to = fixture.make("to", vec![b'A'; 8192]);
        fixture.fill();
        fixture.free_one();
        let copied = fixture
            .volume
            .copy_range(from, 0, to, 1000, 3 << 20)
            .unwrap();
        let copied = usize::try_from(copied).unwrap();
        assert!((7192..3 << 20).contains(&copied), "{name}: {copied}");
        let source = fixture.files["from"][..copied].to_vec();
        let content = fixture.files.get_mut("to").unwrap();
        content.resize(content.len().max(1000 + copied), 0);
        content[1000..1000 + copied].copy_from_slice(&source);
        let at = 1000 + copied as u64;
        let more = fixture.volume.copy_range(from, 0, to, at, 3 << 20);
        assert_eq!(more.unwrap_err().errno(), Errno::NOSPC, "{name}");
        fixture.check("copied");
    }
}

const ZERO: Fallocate = Fallocate::ZeroRange { keep_size: false };
const ALLOCATE: Fallocate = Fallocate::Allocate { keep_size: false };

impl Fixture {
    /// Applies `mode` to a range of the file `name`. Returns false if there is no space. The file
    /// is then unchanged.
    fn fallocate(&mut self, name: &'static str, mode: Fallocate, at: usize, len: usize) -> bool {
        let ino = self.volume.resolve(name.as_bytes()).unwrap();
        let before = self.volume.metadata(ino).unwrap().blocks_512;
        match self.volume.fallocate(ino, mode, at as u64, len as u64) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.errno(), Errno::NOSPC, "{}: {error}", self.name);
                let after = self.volume.metadata(ino).unwrap().blocks_512;
                assert_eq!(before, after, "{}: {mode:?} took space", self.name);
                return false;
            }
        }
        let content = self.files.get_mut(name).unwrap();
        let end = at + len;
        match mode {
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => {
                if !keep_size {
                    content.resize(content.len().max(end), 0);
                }
                if mode != (Fallocate::Allocate { keep_size }) {
                    let end = end.min(content.len());
                    content[at.min(end)..end].fill(0);
                }
            }
            Fallocate::PunchHole => {
                let end = end.min(content.len());
                content[at.min(end)..end].fill(0);
            }
            Fallocate::Collapse => drop(content.drain(at..end)),
            Fallocate::Insert => drop(content.splice(at..at, vec![0; len])),
        }
        true
    }
}

#[test]
fn zero_range_without_space_changes_nothing() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        for keep_size in [false, true] {
            let mut fixture = Fixture::new(layout(name).unwrap());
            fixture.make("t", pattern(400_000));
            fixture.fill();
            let mode = Fallocate::ZeroRange { keep_size };
            assert!(!fixture.fallocate("t", mode, 100_000, 900_000), "{name}");
            fixture.compare(&fixture.volume, "zeroed");
            // A call that needs no space succeeds.
            assert!(fixture.fallocate("t", mode, 100_001, 200_000), "{name}");
            fixture.check("zeroed within");
        }
    }
}

#[test]
fn allocation_without_space_allocates_nothing() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        fixture.make("t", pattern(400_000));
        fixture.make("u", pattern(100));
        let free = fixture.volume.statfs().free_blocks;
        for file in ["t", "u"] {
            assert!(
                !fixture.fallocate(file, ALLOCATE, 200_000, 64 << 20),
                "{name}"
            );
        }
        assert_eq!(fixture.volume.statfs().free_blocks, free, "{name}");
        fixture.fill();
        fixture.free_one();
        for file in ["t", "u"] {
            assert!(
                !fixture.fallocate(file, ALLOCATE, 200_000, 1 << 20),
                "{name}"
            );
        }
        fixture.check("allocated");
    }
}

/// All modes of fallocate(2) in the middle of extents, at many places of a file with many extents,
/// when no block is free even for metadata.
#[test]
fn fallocate_on_a_full_image_does_all_or_nothing() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let cluster = fixture.cluster_bytes;
        let extents = if cluster == 1024 { 1500 } else { 60 };
        let ino = fixture.make("t", pattern(extents * 4 * cluster));
        for number in 0..extents {
            let at = (number * 4 + 3) * cluster;
            fixture
                .volume
                .fallocate(ino, Fallocate::PunchHole, at as u64, cluster as u64)
                .unwrap();
            fixture.files.get_mut("t").unwrap()[at..at + cluster].fill(0);
        }
        fixture.fill();
        fixture.fill_by_attributes();
        let modes = [
            (Fallocate::Insert, 1),
            (Fallocate::PunchHole, 1),
            (ZERO, 1),
            (Fallocate::Collapse, 1),
            (ZERO, 20),
            (ALLOCATE, 20),
            (Fallocate::Collapse, 20),
        ];
        for step in 0..extents / 10 {
            let at = (step * 37 % extents * 4 + 1) * cluster;
            let (mode, clusters) = modes[step % modes.len()];
            if at + clusters * cluster >= fixture.files["t"].len() {
                continue;
            }
            fixture.fallocate("t", mode, at, clusters * cluster);
            if step % 5 == 0 {
                fixture.compare(&fixture.volume, &format!("step {step}, {mode:?}"));
            }
        }
        fixture.check("all modes");
    }
}

#[test]
fn truncation_on_a_full_image_frees_space() {
    if is_skipped() {
        return;
    }
    for name in MAPPINGS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let ino = fixture.make("t", pattern(400_000));
        fixture.fill();
        fixture.fill_by_attributes();
        for size in [300_001, 100_000, 99_999, 1, 0] {
            fixture.volume.truncate(ino, size as u64).unwrap();
            fixture.files.get_mut("t").unwrap().truncate(size);
        }
        fixture.volume.truncate(ino, 50_000).unwrap();
        fixture.files.get_mut("t").unwrap().resize(50_000, 0);
        fixture.check("cut");
    }
}

/// Each write splits an extent, which takes blocks for the mapping.
#[test]
fn allocated_blocks_accept_content_on_a_full_image() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let cluster = fixture.cluster_bytes;
        let clusters = if cluster == 16_384 { 300 } else { 700 };
        let ino = fixture.make("t", Vec::new());
        assert!(fixture.fallocate("t", ALLOCATE, 0, clusters * cluster));
        fixture.fill();
        fixture.fill_by_attributes();
        for number in (0..clusters).step_by(2) {
            let at = number * cluster;
            let written = fixture
                .volume
                .write_at(ino, &vec![b'B'; cluster], at as u64);
            assert_eq!(written.unwrap(), cluster, "{name}: cluster {number}");
            fixture.files.get_mut("t").unwrap()[at..at + cluster].fill(b'B');
            if number % 50 == 0 {
                fixture.volume.sync().unwrap();
            }
        }
        fixture.check("written into allocated blocks");
    }
}

/// The inode itself has space for four extents. One more extent, at the start of the file, needs a
/// block.
#[test]
fn first_block_before_other_extents_is_accepted_and_kept() {
    if is_skipped() {
        return;
    }
    for name in WITH_EXTENTS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let cluster = fixture.cluster_bytes;
        let ino = fixture.make("t", Vec::new());
        for number in [10, 12, 14, 16] {
            let at = (number * cluster) as u64;
            fixture.volume.write_at(ino, b"A", at).unwrap();
        }
        let mut content = vec![0; 16 * cluster + 1];
        for number in [10, 12, 14, 16] {
            content[number * cluster] = b'A';
        }
        fixture.files.insert("t", content);
        fixture.volume.sync().unwrap();
        fixture.fill();
        fixture.free(8);
        assert_eq!(fixture.volume.write_at(ino, b"B", 0).unwrap(), 1, "{name}");
        fixture.files.get_mut("t").unwrap()[0] = b'B';
        fixture.fill_by_attributes();
        fixture.check("its first block");
    }
}

/// Writes content that a cache above the volume has accepted: pages that each need blocks of their own, and
/// content of a file that no longer fits in the inode.
#[test]
fn space_that_is_set_aside_suffices_for_accepted_content_on_a_full_image() {
    const PAGES: usize = 32;
    const PAGE_BYTES: usize = 4096;
    const STRIDE_BYTES: usize = 256 << 10;
    if is_skipped() {
        return;
    }
    for name in MAPPINGS {
        let mut fixture = Fixture::new(layout(name).unwrap());
        let small = fixture.make("small", pattern(5));
        let sparse = fixture.make("sparse", Vec::new());
        let volume = &fixture.volume;
        // Two more pages are for the small file. Like a mount, the test sets aside twice the space that the pages need.
        let bytes = volume.space_for_pages(((PAGES + 2) * PAGE_BYTES) as u64);
        volume.set_aside(2 * bytes).unwrap();
        fixture.fill();
        fixture.fill_by_attributes();

        let end_bytes = PAGES * STRIDE_BYTES;
        let refused = fixture.volume.write_at(sparse, b"x", end_bytes as u64);
        assert_eq!(refused.unwrap_err().errno(), Errno::NOSPC, "{name}");
        let more = pattern(2000);
        let written = fixture.volume.write_accepted_at(small, &more, 5);
        written.unwrap_or_else(|error| panic!("{name}: small: {error}"));
        fixture.files.get_mut("small").unwrap().extend(&more);
        let page = vec![b'A'; PAGE_BYTES];
        for at in (0..end_bytes).step_by(STRIDE_BYTES) {
            let written = fixture.volume.write_accepted_at(sparse, &page, at as u64);
            written.unwrap_or_else(|error| panic!("{name}: sparse at {at}: {error}"));
            let content = fixture.files.get_mut("sparse").unwrap();
            content.resize(at, 0);
            content.extend(&page);
        }
        fixture.check("accepted content");
    }
}
