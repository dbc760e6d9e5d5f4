//! Fast commits written by the kernel. The tree that is read through the overlay is compared with
//! the tree at the time of the crash.

mod dirty;
mod image;

use dirty::Dirty;
use larder_block::{BlockDevice, FileDevice, FileRange, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_ext4::journal::{JournalState, recover};
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{FileBlock, FileKind, Filesystem, Ino, Inode, MappingKind, WriteOptions};
use larder_testkit::e2fsprogs::check;
use larder_testkit::{Access, LoopMount, Requirement, skip};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// The target of a path: inode, mode, links, size, content.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    ino: u64,
    mode: u32,
    links: u64,
    size_bytes: u64,
    content: Vec<u8>,
}

type Tree = BTreeMap<Vec<u8>, Node>;

struct Ours {
    fs: Filesystem,
    device: Arc<dyn BlockDevice>,
    fast_commits: u32,
}

impl Ours {
    fn open(image: &Path) -> Self {
        let device: Arc<dyn BlockDevice> =
            Arc::new(FileDevice::open(image, FileRange::default()).unwrap());
        let superblock = Superblock::read(&*device).unwrap();
        let recovery = recover(superblock, device).unwrap();
        println!("{:?}", recovery.counts);
        assert_ne!(recovery.state, JournalState::None);
        let block_bytes = usize::try_from(recovery.superblock.block_size_bytes()).unwrap();
        let buffers = Arc::new(BufferCache::small(recovery.device.clone(), block_bytes));
        Self {
            fs: Filesystem::new(recovery.superblock, buffers, recovery.overlay),
            device: recovery.device,
            fast_commits: recovery.counts.fast_commits,
        }
    }

    fn content(&self, inode: &Inode) -> Vec<u8> {
        let block_bytes = u64::from(self.fs.superblock().block_size_bytes());
        let size = usize::try_from(inode.size_bytes()).unwrap();
        if inode.has_inline_data() {
            return self.fs.inline_data(inode).unwrap();
        }
        let mut bytes = Vec::new();
        while bytes.len() < size {
            let at = u32::try_from(bytes.len() as u64 / block_bytes).unwrap();
            let mapping = self.fs.map(inode, FileBlock(at), 1000).unwrap();
            let len = usize::try_from(u64::from(mapping.blocks) * block_bytes).unwrap();
            let mut run = vec![0; len.min(size - bytes.len())];
            if let MappingKind::Written(block) = mapping.kind {
                self.device
                    .read_at(&mut run, block.0 * block_bytes)
                    .unwrap();
            }
            bytes.extend(run);
        }
        bytes
    }

    fn walk(&self, ino: Ino, path: &[u8], tree: &mut Tree) {
        let inode = self.fs.inode(ino).unwrap();
        let mut children = Vec::new();
        if inode.kind() == FileKind::Directory {
            self.fs
                .read_dir(&inode, 0, &mut |entry| {
                    let found = self.fs.lookup(&inode, entry.name).unwrap().unwrap();
                    assert_eq!((entry.ino, entry.file_type), found, "{:?}", entry.name);
                    children.push((entry.name.to_vec(), entry.ino));
                    ControlFlow::Continue(())
                })
                .unwrap();
            let dots = |name: &[u8]| children.iter().filter(|(n, _)| n == name).count();
            assert_eq!((dots(b"."), dots(b"..")), (1, 1), "dots of {ino}");
            children.retain(|(name, _)| name != b"." && name != b"..");
        }
        let content = match inode.kind() {
            FileKind::Regular => self.content(&inode),
            _ => Vec::new(),
        };
        let node = Node {
            ino: ino.0.into(),
            mode: inode.mode().into(),
            links: inode.links().into(),
            size_bytes: inode.size_bytes(),
            content,
        };
        assert!(tree.insert(path.to_vec(), node).is_none(), "{path:?} twice");
        for (name, child) in children {
            self.walk(child, &[path, b"/", &name].concat(), tree);
        }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.walk(Ino::ROOT, b"", &mut tree);
        tree
    }
}

fn walk_mounted(at: &Path, path: &[u8], tree: &mut Tree) {
    let stat = fs::symlink_metadata(at).unwrap();
    let content = if stat.is_file() {
        fs::read(at).unwrap()
    } else {
        Vec::new()
    };
    let node = Node {
        ino: stat.ino(),
        mode: stat.mode(),
        links: stat.nlink(),
        size_bytes: stat.size(),
        content,
    };
    tree.insert(path.to_vec(), node);
    if stat.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_encoded_bytes();
            walk_mounted(&entry.path(), &[path, b"/", &name].concat(), tree);
        }
    }
}

fn tree_of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    walk_mounted(root, b"", &mut tree);
    tree
}

/// Returns the tree after the kernel's replay, which requires a writable mount.
fn replayed_by_kernel(image: &Dirty) -> Tree {
    let copy = image.copy();
    let mount = LoopMount::new(copy.path(), Access::ReadWrite, &[]).unwrap();
    tree_of(&mount.path())
}

fn assert_same(ours: &Tree, theirs: &Tree, what: &str, links_of_directories: bool) {
    let names = |tree: &Tree| -> Vec<String> {
        tree.keys()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect()
    };
    assert_eq!(names(ours), names(theirs), "{what}: names");
    for (path, ours) in ours {
        let theirs = &theirs[path];
        let path = String::from_utf8_lossy(path);
        let is_directory = ours.mode & 0o170_000 == 0o040_000;
        assert_eq!(ours.ino, theirs.ino, "{what}: inode of {path}");
        assert_eq!(ours.mode, theirs.mode, "{what}: mode of {path}");
        assert_eq!(ours.size_bytes, theirs.size_bytes, "{what}: size of {path}");
        if links_of_directories || !is_directory {
            assert_eq!(ours.links, theirs.links, "{what}: links of {path}");
        }
        assert!(ours.content == theirs.content, "{what}: content of {path}");
    }
}

fn needs() -> bool {
    skip(&[Requirement::LoopMount, Requirement::Tool("mke2fs")])
}

fn fsync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Creates the files that a full commit contains before the fast commits start.
fn prepare(root: &Path) {
    for name in ["a", "b", "c", "d", "linked"] {
        fs::write(root.join(name), name.repeat(3000)).unwrap();
    }
    fs::hard_link(root.join("linked"), root.join("linked2")).unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    fs::create_dir(root.join("removed")).unwrap();
    fs::write(root.join("dir/inside"), "inside").unwrap();
    // Fragments, so that the tree of extents has more than its root.
    let file = File::create(root.join("fragments")).unwrap();
    for index in 0..400_u32 {
        file.write_all_at(
            &[index.to_le_bytes()[0] | 1; 1000],
            u64::from(index * 2) * 4096,
        )
        .unwrap();
    }
}

/// Makes changes that the kernel can log as fast commits, and syncs them.
fn steps(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::write(at("new"), "hello").unwrap();
    fsync(&at("new"));
    fs::hard_link(at("new"), at("dir/new2")).unwrap();
    fsync(&at("new"));
    fs::remove_file(at("linked2")).unwrap();
    fsync(&at("linked"));
    fs::rename(at("dir/inside"), at("dir/renamed")).unwrap();
    fsync(&at("dir/renamed"));
    fs::rename(at("a"), at("b")).unwrap();
    fsync(&at("b"));
    OpenOptions::new()
        .write(true)
        .open(at("c"))
        .unwrap()
        .set_len(100)
        .unwrap();
    fsync(&at("c"));
    let mut file = OpenOptions::new().write(true).open(at("c")).unwrap();
    file.seek(SeekFrom::Start(50_000)).unwrap();
    file.write_all(&[9; 9000]).unwrap();
    file.sync_all().unwrap();
    let mut file = OpenOptions::new()
        .write(true)
        .open(at("fragments"))
        .unwrap();
    file.seek(SeekFrom::Start(4096 * 101)).unwrap();
    file.write_all(&[3; 4096]).unwrap();
    file.sync_all().unwrap();
    file.set_len(4096 * 500).unwrap();
    file.sync_all().unwrap();
    file.set_len(4096 * 900).unwrap();
    file.sync_all().unwrap();
    fs::remove_file(at("d")).unwrap();
    fs::write(at("reused"), "r".repeat(7000)).unwrap();
    fsync(&at("reused"));
}

/// Returns a copy of `image` whose journal, including fast commits, was written home.
fn checkpointed(image: &Dirty) -> Dirty {
    let copy = image.copy();
    let bytes = fs::read(copy.path()).unwrap();
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let mut opened = image::open(&device);
    opened
        .enable_writing(Arc::clone(&device), WriteOptions::default())
        .unwrap();
    assert!(opened.recovered().fast_commits > 0);
    opened.close().unwrap();
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(&mut bytes, 0).unwrap();
    fs::write(copy.path(), bytes).unwrap();
    copy
}

/// Asserts that the tree at home is `expected` for Larder and the kernel, and that e2fsck finds no
/// errors.
fn assert_home(image: &Dirty, expected: &Tree, what: &str) {
    let home = checkpointed(image);
    assert_same(&Ours::open(home.path()).tree(), expected, what, true);
    // Mounting also deletes orphans.
    let mount = LoopMount::new(home.path(), Access::ReadWrite, &[]).unwrap();
    assert_same(&tree_of(&mount.path()), expected, what, true);
    drop(mount);
    check(home.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn files_changed_by_fast_commits_read_as_at_the_crash() {
    if needs() {
        return;
    }
    for arguments in [
        "-t ext4 -O fast_commit -b 4096",
        "-t ext4 -O fast_commit -b 1024 -I 128",
        "-t ext4 -O fast_commit -b 4096 -N 64",
    ] {
        let mut at_crash = Tree::new();
        let dirty = Dirty::make(arguments, "64M", "", |root, sync| {
            prepare(root);
            sync();
            steps(root);
            at_crash = tree_of(root);
        });
        let ours = Ours::open(dirty.path());
        assert!(
            ours.fast_commits >= 8,
            "{arguments}: {} fast commits",
            ours.fast_commits
        );
        assert_same(&ours.tree(), &at_crash, arguments, true);
        assert_same(&ours.tree(), &replayed_by_kernel(&dirty), arguments, true);
        assert_home(&dirty, &at_crash, arguments);
    }
}

#[test]
fn directories_made_and_removed_have_right_links() {
    if needs() {
        return;
    }
    let mut at_crash = Tree::new();
    let dirty = Dirty::make("-t ext4 -O fast_commit", "64M", "", |root, sync| {
        prepare(root);
        sync();
        fs::create_dir(root.join("made")).unwrap();
        fs::create_dir(root.join("made/below")).unwrap();
        fs::write(root.join("made/below/file"), "file").unwrap();
        fsync(&root.join("made/below/file"));
        fs::create_dir(root.join("made/later")).unwrap();
        fs::remove_dir(root.join("removed")).unwrap();
        fs::write(root.join("made/later/file"), "file").unwrap();
        fsync(&root.join("made/later/file"));
        at_crash = tree_of(root);
    });
    let ours = Ours::open(dirty.path());
    assert!(ours.fast_commits >= 1);
    assert_same(&ours.tree(), &at_crash, "directories", true);
    assert_home(&dirty, &at_crash, "directories");
    // The kernel's replay does not update the link counts of directories.
    assert_same(
        &ours.tree(),
        &replayed_by_kernel(&dirty),
        "directories",
        false,
    );
}

#[test]
fn commit_of_several_blocks_is_applied_whole() {
    if needs() {
        return;
    }
    let dirty = Dirty::make("-t ext4 -O fast_commit", "64M", "", |root, sync| {
        prepare(root);
        sync();
        for number in 0..40 {
            fs::write(root.join(format!("dir/{number}")), number.to_string()).unwrap();
        }
        fsync(&root.join("dir/39"));
    });
    let ours = Ours::open(dirty.path());
    assert_eq!(ours.fast_commits, 1);
    let tree = ours.tree();
    assert_eq!(tree[b"/dir/39".as_slice()].content, b"39");
    // Only the file that was synced is certain to have content.
    assert_same(&tree, &replayed_by_kernel(&dirty), "several blocks", true);
    assert_home(&dirty, &tree, "several blocks");
}

#[test]
fn mapping_block_is_not_allocated_from_blocks_of_another_file() {
    if needs() {
        return;
    }
    for arguments in [
        "-t ext4 -O fast_commit -b 1024 -I 128 -J size=1",
        "-t ext4 -O fast_commit -b 4096",
        "-t ext4 -O fast_commit,bigalloc -b 4096",
    ] {
        let mut at_crash = Tree::new();
        let dirty = Dirty::make(arguments, "8M", "", |root, sync| {
            let dir = root.join("dir");
            fs::create_dir(&dir).unwrap();
            sync();
            // More runs than fit in an inode, and then a file in the first free block.
            let file = File::create(dir.join("runs")).unwrap();
            let mut at = 0;
            for length in [16_384, 16_384, 32_768, 65_536, 131_072] {
                file.write_all_at(&vec![7; length], at).unwrap();
                file.sync_all().unwrap();
                at += length as u64;
                let other = File::create(dir.join(format!("other{at}"))).unwrap();
                other.write_all_at(b"other", 0).unwrap();
                other.sync_all().unwrap();
            }
            at_crash = tree_of(root);
        });
        let ours = Ours::open(dirty.path());
        assert!(ours.fast_commits >= 5, "{}", ours.fast_commits);
        assert_same(&ours.tree(), &at_crash, arguments, true);
        assert_home(&dirty, &at_crash, arguments);
    }
}

/// A quarter of a small log, which is the usual limit of a transaction, has no space for so many
/// inode blocks.
#[test]
fn fast_commit_of_many_inodes_is_applied_in_one_transaction() {
    if needs() {
        return;
    }
    let arguments = "-t ext4 -O fast_commit -b 4096 -J size=4 -N 8192";
    let mut at_crash = Tree::new();
    let dirty = Dirty::make(arguments, "64M", "", |root, sync| {
        let name = |number: u32| root.join(format!("{number:04}"));
        for number in 0..4400 {
            File::create(name(number)).unwrap();
        }
        sync();
        for number in (0..4400).step_by(16) {
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(name(number), mode).unwrap();
        }
        fsync(&name(0));
        at_crash = tree_of(root);
    });
    let ours = Ours::open(dirty.path());
    assert_eq!(ours.fast_commits, 1);
    assert_same(&ours.tree(), &at_crash, arguments, true);
    assert_home(&dirty, &at_crash, arguments);
}
