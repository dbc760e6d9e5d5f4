//! A directory that is changed through handles, with a map of the same names.
#![allow(dead_code, reason = "each test binary uses a part of this module")]

use crate::image::{self, Image};
use larder_block::{BlockDevice, MemoryDevice};
use larder_ext4::ondisk::time::Timestamp;
use larder_ext4::{
    Error, FileKind, FileTypeByte, Filesystem, Handle, Ino, Inode, NewInode, WriteOptions,
};
use larder_testkit::seed::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The number of blocks that one change of a directory may modify.
const CREDITS: u32 = 100;
/// The number of files to which the names refer.
const TARGETS: usize = 4;

pub const NOW: Timestamp = Timestamp {
    seconds: 1_700_000_000,
    nanoseconds: 5,
};

/// A file system in memory with one directory, `/d`, and its expected entries.
pub struct Subject {
    pub fs: Filesystem,
    pub device: Arc<MemoryDevice>,
    pub image: Image,
    pub random: Random,
    pub dir: Inode,
    targets: Vec<Inode>,
    pub model: BTreeMap<Vec<u8>, Ino>,
    made_by: String,
}

/// Returns a new inode of `kind`.
pub fn new_inode(kind: FileKind) -> NewInode {
    image::new_inode(kind, 0o755, NOW)
}

/// Opens the file system in `bytes` for writing.
pub fn open_for_writing(bytes: Vec<u8>) -> (Filesystem, Arc<MemoryDevice>) {
    let device = Arc::new(MemoryDevice::new(bytes));
    let shared: Arc<dyn BlockDevice> = device.clone();
    let mut fs = image::open(&shared);
    fs.enable_writing(shared, WriteOptions::default())
        .expect("writable");
    (fs, device)
}

/// Creates a file or directory `name` in `parent`.
pub fn make(
    fs: &Filesystem,
    handle: &mut Handle<'_>,
    parent: &mut Inode,
    name: &[u8],
    kind: FileKind,
) -> Result<Inode, Error> {
    let mut inode = fs.create_inode(handle, parent, &new_inode(kind))?;
    let file_type = FileTypeByte::of(kind);
    if kind == FileKind::Directory {
        fs.init_directory(handle, &mut inode, parent.ino())?;
        parent.set_links(parent.links() + 1);
    }
    fs.write_inode(handle, &inode)?;
    fs.add_entry(handle, parent, name, (inode.ino(), file_type))?;
    fs.write_inode(handle, parent)?;
    Ok(inode)
}

impl Subject {
    /// Creates a subject on an image made by mke2fs. Without mke2fs, prints a note and
    /// returns `None`.
    pub fn new(arguments: &str, size: &str, random: Random) -> Option<Self> {
        let image = Image::make(arguments, size)?;
        let made_by = format!("mke2fs {arguments} {size}");
        Some(Self::of(image, made_by, random))
    }

    /// Creates a subject on `image`, which messages call `made_by`.
    pub fn of(image: Image, made_by: String, random: Random) -> Self {
        let (fs, device) = open_for_writing(image.bytes());
        let mut root = fs.inode(Ino::ROOT).expect("root");
        let mut handle = fs.start(CREDITS).expect("handle");
        let dir = make(&fs, &mut handle, &mut root, b"d", FileKind::Directory).expect("directory");
        let targets = (0..TARGETS)
            .map(|number| {
                let name = format!("target-{number}");
                make(
                    &fs,
                    &mut handle,
                    &mut root,
                    name.as_bytes(),
                    FileKind::Regular,
                )
                .expect("file")
            })
            .collect();
        handle.stop();
        Self {
            fs,
            device,
            image,
            random,
            dir,
            targets,
            model: BTreeMap::new(),
            made_by,
        }
    }

    /// Changes the directory in its own handle, and writes it on success.
    fn change(
        &mut self,
        change: impl Fn(&Filesystem, &mut Handle<'_>, &mut Inode) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (handle, dir) = self.fs.change(CREDITS, |handle| -> Result<_, Error> {
            let mut dir = self.dir;
            change(&self.fs, handle, &mut dir)?;
            self.fs.write_inode(handle, &dir)?;
            Ok(dir)
        })?;
        handle.stop();
        self.dir = dir;
        Ok(())
    }

    fn target(&mut self) -> Ino {
        let at = self.random.below(self.targets.len() as u64);
        self.targets[usize::try_from(at).unwrap()].ino()
    }

    /// Adds `name`, which must not exist yet.
    pub fn add(&mut self, name: &[u8]) {
        let made_by = self.made_by.clone();
        self.try_add(name)
            .unwrap_or_else(|error| panic!("{made_by}: {}: {error}", name.escape_ascii()));
    }

    pub fn try_add(&mut self, name: &[u8]) -> Result<(), Error> {
        let ino = self.target();
        let target = (ino, FileTypeByte::of(FileKind::Regular));
        self.change(|fs, handle, dir| fs.add_entry(handle, dir, name, target))?;
        self.model.insert(name.to_vec(), ino);
        Ok(())
    }

    pub fn remove(&mut self, name: &[u8]) {
        self.change(|fs, handle, dir| fs.remove_entry(handle, dir, name))
            .unwrap_or_else(|error| panic!("{}: {error}", name.escape_ascii()));
        assert!(self.model.remove(name).is_some());
    }

    pub fn retarget(&mut self, name: &[u8]) {
        let ino = self.target();
        let target = (ino, FileTypeByte::of(FileKind::Regular));
        self.change(|fs, handle, dir| fs.set_entry(handle, dir, name, target))
            .unwrap_or_else(|error| panic!("{}: {error}", name.escape_ascii()));
        self.model.insert(name.to_vec(), ino);
    }

    /// Makes a change and undoes it.
    pub fn fail(&mut self, name: &[u8]) {
        let target = (self.target(), FileTypeByte::of(FileKind::Regular));
        let mut handle = self.fs.start(CREDITS).expect("handle");
        let mut dir = self.dir;
        self.fs
            .add_entry(&mut handle, &mut dir, name, target)
            .expect("room");
        drop(handle);
    }

    /// Returns a name of the model, if it has any.
    pub fn known(&mut self) -> Option<Vec<u8>> {
        let at = self.random.below(self.model.len().max(1) as u64);
        let mut names = self.model.keys();
        names.nth(usize::try_from(at).unwrap()).cloned()
    }

    pub fn commit(&self) {
        let tid = self.fs.running_tid().expect("writable");
        self.fs.commit(tid).expect("commit");
    }

    /// Compares the directory with the model, by a listing and lookups.
    pub fn check(&self) {
        assert_eq!(listed(&self.fs, &self.dir), self.model, "{}", self.made_by);
        for (name, ino) in &self.model {
            let found = self.fs.lookup(&self.dir, name).expect("lookup");
            assert_eq!(found.map(|found| found.0), Some(*ino), "{}", self.made_by);
        }
        let missing = self.fs.lookup(&self.dir, b"no such name").expect("lookup");
        assert_eq!(missing, None);
        let is_empty = self.fs.is_empty_directory(&self.dir).expect("listing");
        assert_eq!(is_empty, self.model.is_empty());
    }

    /// Corrects link counts, closes the file system, and checks it with e2fsck and the kernel.
    pub fn finish(&mut self) {
        self.check();
        let mut handle = self.fs.start(CREDITS).expect("handle");
        for target in &mut self.targets {
            let names = self.model.values().filter(|ino| **ino == target.ino());
            let links = u16::try_from(names.count() + 1).expect("few names");
            target.set_links(links);
            self.fs.write_inode(&mut handle, target).expect("inode");
        }
        handle.stop();
        self.fs.close().expect("closed");
        std::fs::write(self.image.path(), self.device.to_bytes()).expect("image");
        self.image.assert_clean(&self.made_by);
        let Some(mount) = self.image.mount("ro") else {
            return;
        };
        let kernel: BTreeSet<Vec<u8>> = crate::directory::kernel_names(&mount.path().join("d"))
            .into_keys()
            .collect();
        let ours: BTreeSet<Vec<u8>> = self.model.keys().cloned().collect();
        assert_eq!(kernel, ours, "{}", self.made_by);
        for name in ours.iter().take(500) {
            let path = mount.path().join("d").join(os(name));
            assert!(path.symlink_metadata().is_ok(), "{}", name.escape_ascii());
        }
    }
}

pub fn os(name: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}

/// Returns a listing in small pieces, without "." and "..".
pub fn listed(fs: &Filesystem, dir: &Inode) -> BTreeMap<Vec<u8>, Ino> {
    let mut names = BTreeMap::new();
    let mut cookie = 0;
    loop {
        let mut left = 7;
        let mut is_over = true;
        fs.read_dir(dir, cookie, &mut |entry| {
            if left == 0 {
                is_over = false;
                return ControlFlow::Break(());
            }
            left -= 1;
            cookie = entry.next_cookie;
            if !matches!(entry.name, b"." | b"..") {
                let before = names.insert(entry.name.to_vec(), entry.ino);
                assert_eq!(before, None, "{} twice", entry.name.escape_ascii());
            }
            ControlFlow::Continue(())
        })
        .expect("listing");
        if is_over {
            return names;
        }
    }
}
