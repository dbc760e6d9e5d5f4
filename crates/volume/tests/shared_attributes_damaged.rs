//! Attribute blocks with false contents: a wrong number of users, a wrong hash, or another kind of
//! block. Whatever attributes are then set and removed, no other file is damaged, different
//! contents are never treated as equal, and e2fsck repairs the image. The images have no checksums,
//! so that the false contents are not detected early.

use larder::{ErrorsMode, Ino, NewFile, OpenOptions, Volume, XattrMode};
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, Filesystem, GroupNo, MappingKind};
use larder_testkit::e2fsprogs::{check, e2fsck, new_image};
use larder_testkit::{Requirement, skip};
use std::ops::ControlFlow;
use std::sync::Arc;

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

const LAYOUTS: [&str; 3] = [
    "-t ext4 -b 1024 -O ^metadata_csum",
    "-t ext2 -b 1024 -I 128",
    "-t ext4 -b 4096 -O ^metadata_csum,^has_journal",
];

/// Offsets of fields in an attribute block, in its first entry, and in an inode.
const USERS_AT: usize = 4;
const HASH_AT: usize = 12;
const ENTRY_HASH_AT: usize = 32 + 12;
const FILE_ACL_AT: usize = 0x68;

const NAME: &[u8] = b"user.name";
/// The value of `a` and `b`, the value of `c`, and the value of the neighbour.
const SHARED: &[u8] = &[1; 300];
const ALONE: &[u8] = &[2; 300];
const NEIGHBOURS: &[u8] = &[3; 300];

fn open(bytes: Vec<u8>) -> (Volume, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.background = false;
    options.readahead_max_bytes = 0;
    options.cache_size_bytes = 8 << 20;
    options.errors = Some(ErrorsMode::Continue);
    let shared: Arc<dyn BlockDevice> = device.clone();
    (Volume::open_device(shared, &options).unwrap(), device)
}

fn create(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &NEW).unwrap().ino
}

fn content() -> Vec<u8> {
    (0..=250).cycle().take(20_000).collect()
}

/// An image, and offsets in it, in bytes.
struct Fixture {
    bytes: Vec<u8>,
    block_bytes: usize,
    /// The attribute block that `a` and `b` share, and the attribute block of `c`.
    shared: usize,
    alone: usize,
    /// The inode of `b`.
    inode: usize,
    /// Blocks that are not attribute blocks.
    others: Vec<(&'static str, u32)>,
}

impl Fixture {
    fn new(arguments: &str) -> Self {
        let (volume, device) = open(new_image(arguments, "8M").unwrap());
        let set = |ino, value| volume.set_xattr(ino, NAME, value, XattrMode::Any).unwrap();
        let [a, b, c, data] = ["a", "b", "c", "data"].map(|name| create(&volume, name));
        set(a, SHARED);
        set(b, SHARED);
        set(c, ALONE);
        set(data, NEIGHBOURS);
        volume.write_at(data, &content(), 0).unwrap();
        let dir = volume.make_dir(Ino::ROOT, b"dir", &NEW).unwrap().ino;
        volume.create(dir, b"inside", &NEW).unwrap();
        volume.close().unwrap();
        drop(volume);
        Self::find(device.to_bytes(), [b, c, data, dir])
    }

    fn find(bytes: Vec<u8>, [b, c, data, dir]: [Ino; 4]) -> Self {
        let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes.clone()));
        let sb = Superblock::read(&*device).unwrap();
        let block_bytes = usize::try_from(sb.block_size_bytes()).unwrap();
        let buffers = BufferCache::small(Arc::clone(&device), block_bytes);
        let fs = Filesystem::new(sb, Arc::new(buffers), None);
        let at = |block: u64| usize::try_from(block).unwrap() * block_bytes;
        let acl = |ino| at(fs.inode(ino).unwrap().file_acl().unwrap().0);
        let first = |ino| match fs.map(&fs.inode(ino).unwrap(), FileBlock(0), 1) {
            Ok(mapping) => match mapping.kind {
                MappingKind::Written(block) => u32::try_from(block.0).unwrap(),
                kind => panic!("inode {ino}: {kind:?}"),
            },
            Err(error) => panic!("inode {ino}: {error}"),
        };
        let table = fs.group(GroupNo(0)).unwrap().inode_table.0;
        let inode_bytes = usize::from(fs.superblock().inode_size_bytes);
        let blocks = u32::try_from(bytes.len() / block_bytes).unwrap();
        let others = vec![
            ("a free block", blocks - 1),
            ("the inode table", u32::try_from(table).unwrap()),
            ("a directory", first(dir)),
            ("content", first(data)),
            ("the superblock", u32::from(block_bytes == 1024)),
            ("the first block past the end", blocks),
            ("a block far past the end", u32::MAX),
        ];
        Self {
            block_bytes,
            shared: acl(b),
            alone: acl(c),
            inode: at(table) + usize::try_from(b.0 - 1).unwrap() * inode_bytes,
            others,
            bytes,
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(*self.bytes[at..].first_chunk().unwrap())
    }

    fn with_word(&self, at: usize, word: u32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    /// Returns the damaged images with their descriptions.
    fn damaged_images(&self) -> Vec<(String, Vec<u8>)> {
        let mut damaged_images = Vec::new();
        for users in [0, 1, 3, 1023, 1024, 1025, u32::MAX] {
            let bytes = self.with_word(self.shared + USERS_AT, users);
            damaged_images.push((format!("{users} users instead of 2"), bytes));
        }
        for (what, block) in &self.others {
            let bytes = self.with_word(self.inode + FILE_ACL_AT, *block);
            damaged_images.push((format!("attributes in {what}"), bytes));
        }
        let alone = u32::try_from(self.alone / self.block_bytes).unwrap();
        let bytes = self.with_word(self.inode + FILE_ACL_AT, alone);
        damaged_images.push(("a user that is not counted".to_owned(), bytes));
        damaged_images
    }
}

/// Checks that files without damage have not changed.
fn assert_neighbours(volume: &Volume, what: &str) {
    let found = |name: &[u8]| volume.lookup(Ino::ROOT, name).unwrap();
    let data = found(b"data");
    let value = volume.xattr(data, NAME).unwrap();
    assert!(value.as_deref() == Some(NEIGHBOURS), "{what}");
    let mut bytes = vec![0; content().len() + 1];
    let len = volume.read_at(data, &mut bytes, 0).unwrap();
    assert!(bytes[..len] == content(), "{what}");
    let mut names = Vec::new();
    let listed = volume.read_dir(found(b"dir"), 0, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    });
    listed.unwrap();
    names.sort();
    assert_eq!(names, [&b"."[..], b"..", b"inside"], "{what}");
}

/// Returns the values of the files.
fn values(volume: &Volume, names: &[&str]) -> Vec<Option<Vec<u8>>> {
    let value = |name: &&str| {
        let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap();
        volume.xattr(ino, NAME).unwrap()
    };
    names.iter().map(value).collect()
}

/// Sets, reads and removes attributes of all files with damaged attributes. Checks the effect of
/// each call that succeeds.
fn change_all(volume: &Volume, what: &str) {
    let files = ["a", "b", "c", "d", "e"].map(|name| {
        let found = volume.lookup(Ino::ROOT, name.as_bytes());
        found.unwrap_or_else(|_| create(volume, name))
    });
    for round in 0..3_u8 {
        for (number, ino) in (0..).zip(files) {
            let own = [number; 300];
            let values = [SHARED, ALONE, &own, SHARED];
            for value in &values[..usize::from(round) + 2] {
                let set = volume.set_xattr(ino, NAME, value, XattrMode::Any);
                if set.is_ok() {
                    let found = volume.xattr(ino, NAME).unwrap();
                    assert!(found.as_deref() == Some(*value), "{what}: inode {ino}");
                }
            }
            let _ = volume.xattrs(ino);
            if round > 0 && volume.remove_xattr(ino, NAME).is_ok() {
                assert_eq!(volume.xattr(ino, NAME).unwrap(), None, "{what}");
            }
        }
        // Meanwhile, the freed blocks are used for other content.
        let name = format!("other-{round}");
        let written = volume.write_at(create(volume, &name), &vec![round; 50_000], 0);
        written.unwrap();
        let _ = volume.sync();
    }
    for name in [&b"a"[..], b"b", b"c"] {
        let _ = volume.unlink(Ino::ROOT, name);
    }
}

/// Returns the image after a repair by e2fsck. A second run of e2fsck must find nothing.
fn repaired(bytes: &[u8], what: &str) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let repaired = e2fsck("-fy").accept(1).arg(file.path()).run();
    repaired.unwrap_or_else(|error| panic!("{what}: {error}"));
    check(file.path()).unwrap_or_else(|error| panic!("{what}, repaired: {error}"));
    std::fs::read(file.path()).unwrap()
}

#[test]
fn damaged_attribute_block_leaves_neighbours_intact() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for arguments in LAYOUTS {
        let fixture = Fixture::new(arguments);
        for (what, bytes) in fixture.damaged_images() {
            let what = format!("{arguments}: {what}");
            let (volume, device) = open(bytes);
            change_all(&volume, &what);
            assert_neighbours(&volume, &what);
            let _ = volume.close();
            drop(volume);
            let (volume, _) = open(repaired(&device.to_bytes(), &what));
            assert_neighbours(&volume, &what);
        }
    }
}

/// A hash only selects candidates. If a block has the hash of other contents, a file with those
/// other contents does not share the block.
#[test]
fn block_with_equal_hash_and_other_content_is_not_shared() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    for arguments in LAYOUTS {
        let fixture = Fixture::new(arguments);
        let hash = |block: usize| fixture.word(block + HASH_AT);
        for bytes in [
            fixture.with_word(fixture.alone + HASH_AT, hash(fixture.shared)),
            fixture.with_word(fixture.shared + HASH_AT, hash(fixture.alone)),
            fixture.with_word(fixture.shared + HASH_AT, 0),
            fixture.with_word(fixture.shared + ENTRY_HASH_AT, 7),
        ] {
            let (volume, device) = open(bytes);
            // A read of the attributes offers their blocks for sharing.
            let before = values(&volume, &["a", "b", "c", "data"]);
            for (name, value) in [("d", SHARED), ("e", ALONE), ("f", SHARED)] {
                let ino = create(&volume, name);
                let set = volume.set_xattr(ino, NAME, value, XattrMode::Any);
                set.unwrap();
            }
            assert_eq!(values(&volume, &["a", "b", "c", "data"]), before);
            volume.close().unwrap();
            drop(volume);
            // e2fsck removes the attributes whose own hash is wrong.
            let (volume, _) = open(repaired(&device.to_bytes(), arguments));
            let expected = [SHARED, ALONE, SHARED].map(|value| Some(value.to_vec()));
            assert_eq!(values(&volume, &["d", "e", "f"]), expected);
            assert_neighbours(&volume, arguments);
        }
    }
}
