//! Comparison of directories that fast commits changed with the kernel's replay.

mod image;

use image::Image;
use larder_block::{BlockDevice, MemoryDevice};
use larder_cache::buffer::BufferCache;
use larder_ext4::journal::recover;
use larder_ext4::ondisk::inode::InodeFlags;
use larder_ext4::ondisk::superblock::Superblock;
use larder_ext4::{Filesystem, Ino, Inode};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;
use std::sync::Arc;

/// Creates directories before the fast commits. `old` and `other` are large enough for an index.
fn before(root: &Path) {
    for dir in ["old", "other"] {
        fs::create_dir(root.join(dir)).expect("directory");
        for number in 0..60 {
            let name = format!("{number:02}-{}", "n".repeat(60));
            fs::write(root.join(dir).join(name), "").expect("file");
        }
        fs::create_dir(root.join(dir).join("sub")).expect("directory");
    }
    fs::create_dir(root.join("growing")).expect("directory");
    fs::write(root.join("growing/first"), "").expect("file");
}

/// Makes changes that fast commits log. Only `fsync` makes them durable.
fn change(root: &Path) {
    let old = root.join("old");
    let name = |number: usize| old.join(format!("{number:02}-{}", "n".repeat(60)));
    fs::create_dir(root.join("new")).expect("directory");
    fs::write(root.join("new/inside"), "content").expect("file");
    fs::create_dir(root.join("new/below")).expect("directory");
    fs::remove_file(name(3)).expect("removal");
    fs::remove_file(name(4)).expect("removal");
    fs::write(name(4), "again").expect("file");
    fs::hard_link(name(5), old.join("linked")).expect("link");
    // There is no symbolic link, because it would cause a full commit. There are enough names for
    // an index, of which fast commits log only the flag.
    for number in 0..90 {
        let name = format!("growing/{number:02}-{}", "g".repeat(60));
        fs::write(root.join(name), "").expect("file");
    }
    fs::write(old.join("added"), "added").expect("file");
    let dir = File::open(root.join("growing")).expect("directory");
    dir.sync_all().expect("fsync");
    let file = File::open(old.join("added")).expect("file");
    file.sync_all().expect("fsync");
}

fn recovered(bytes: Vec<u8>) -> (Filesystem, u32) {
    let device: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    let sb = Superblock::read(&*device).expect("superblock");
    let recovery = recover(sb, device).expect("recovery");
    let block_size = usize::try_from(recovery.superblock.block_size_bytes()).unwrap();
    let buffers = Arc::new(BufferCache::small(recovery.device, block_size));
    let fs = Filesystem::new(recovery.superblock, buffers, recovery.overlay);
    (fs, recovery.counts.fast_commits)
}

/// Returns Larder's listing, in calls of one entry each.
fn list(fs: &Filesystem, dir: &Inode) -> BTreeMap<Vec<u8>, u64> {
    let mut names = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let before = cookie;
        let mut left = 1;
        fs.read_dir(dir, cookie, &mut |entry| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            cookie = entry.next_cookie;
            let twice = names.insert(entry.name.to_vec(), u64::from(entry.ino.0));
            assert_eq!(twice, None, "{}", entry.name.escape_ascii());
            ControlFlow::Continue(())
        })
        .expect("listing");
        if cookie == before {
            return names;
        }
    }
}

fn compare(fs: &Filesystem, dir: &Inode, parent: Ino, mounted: &Path) {
    let at = mounted.display();
    let mut listed = list(fs, dir);
    assert_eq!(
        listed.remove(&b"."[..]),
        Some(u64::from(dir.ino().0)),
        "{at}"
    );
    assert_eq!(listed.remove(&b".."[..]), Some(u64::from(parent.0)), "{at}");
    let mut expected = BTreeMap::new();
    let mut directories = Vec::new();
    for entry in fs::read_dir(mounted).expect("listing") {
        let entry = entry.expect("entry");
        let name = entry.file_name().into_vec();
        let (ino, file_type) = fs.lookup(dir, &name).expect("lookup").expect("found");
        assert_eq!(u64::from(ino.0), entry.ino(), "{at}");
        if entry.file_type().expect("type").is_dir() {
            directories.push((ino, entry.path()));
        }
        assert!(file_type.kind().is_some());
        expected.insert(name, entry.ino());
    }
    assert_eq!(listed, expected, "{at}");
    for (ino, path) in directories {
        compare(fs, &fs.inode(ino).expect("inode"), dir.ino(), &path);
    }
}

#[test]
fn directories_that_fast_commits_changed_match_the_kernel() {
    for arguments in [
        "-t ext4 -b 1024 -O fast_commit,^metadata_csum",
        "-t ext4 -b 4096 -O fast_commit",
    ] {
        let (Some(image), Some(replayed)) =
            (Image::make(arguments, "60M"), Image::make(arguments, "60M"))
        else {
            return;
        };
        let Some(mount) = image.mount("rw,commit=300") else {
            return;
        };
        before(mount.path());
        rustix::fs::syncfs(File::open(mount.path()).expect("root")).expect("sync");
        change(mount.path());
        let crashed = image.bytes();
        drop(mount);
        fs::write(replayed.path(), &crashed).expect("copy");
        let Some(mount) = replayed.mount("rw") else {
            return;
        };
        let (fs, fast_commits) = recovered(crashed);
        println!("{arguments}: {fast_commits} fast commits");
        assert!(fast_commits > 0, "{arguments}");
        compare(
            &fs,
            &fs.inode(Ino::ROOT).expect("root"),
            Ino::ROOT,
            mount.path(),
        );
        let old = fs
            .lookup(&fs.inode(Ino::ROOT).unwrap(), b"old")
            .unwrap()
            .expect("old")
            .0;
        let removed = format!("03-{}", "n".repeat(60));
        assert_eq!(
            fs.lookup(&fs.inode(old).unwrap(), removed.as_bytes())
                .unwrap(),
            None
        );
        let root = fs.inode(Ino::ROOT).expect("root");
        let growing = fs.lookup(&root, b"growing").unwrap().expect("growing").0;
        let growing = fs.inode(growing).expect("growing");
        assert!(
            growing.flags().contains(InodeFlags::INDEX),
            "the flag was logged"
        );
        assert_eq!(fs.lookup(&growing, removed.as_bytes()).unwrap(), None);
    }
}
