//! A directory of this machine as a source: the kernel's mount, or a FUSE mount.

use super::{Attributes, Entry, Source, Stat, Time};
use crate::error::{Context, Error, Result};
use larder::FileKind;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Statx, StatxFlags, StatxTimestamp,
    lgetxattr, llistxattr, readlinkat, seek, statx,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The maximum size of an attribute value, and of a list of names, in Linux.
const LARGEST_ATTRIBUTE_BYTES: usize = 1 << 16;

/// A directory and everything below it.
#[derive(Clone, Debug)]
pub struct DirectorySource {
    label: String,
    root: PathBuf,
}

impl DirectorySource {
    /// Creates a source for the directory `root`, which reports call `label`.
    #[must_use]
    pub fn new(label: &str, root: &Path) -> Self {
        Self {
            label: label.to_owned(),
            root: root.to_owned(),
        }
    }
}

impl Source for DirectorySource {
    type Node = PathBuf;

    fn label(&self) -> &str {
        &self.label
    }

    fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn entries(&self, node: &PathBuf) -> Result<Vec<Entry<PathBuf>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(node, flags, Mode::empty()).context("open", node)?;
        let mut entries = Vec::new();
        for entry in Dir::new(fd).context("list", node)? {
            let entry = entry.context("list", node)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            entries.push(Entry {
                name: name.to_vec(),
                node: node.join(OsStr::from_bytes(name)),
                ino: entry.ino(),
                kind: kind(entry.file_type()),
            });
        }
        Ok(entries)
    }

    fn stat(&self, node: &PathBuf) -> Result<Stat> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let found = statx(CWD, node, AtFlags::SYMLINK_NOFOLLOW, wanted).context("stat", node)?;
        stat_of(&found)
            .ok_or_else(|| Error::Inconsistent(format!("{}: unknown file type", node.display())))
    }

    fn target(&self, node: &PathBuf) -> Result<Vec<u8>> {
        let target = readlinkat(CWD, node, Vec::new()).context("read the symbolic link", node)?;
        Ok(target.into_bytes())
    }

    fn attributes(&self, node: &PathBuf) -> Result<Attributes> {
        let mut names = vec![0; LARGEST_ATTRIBUTE_BYTES];
        let len = match llistxattr(node, &mut names[..]) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP) => 0,
            Err(error) => return Err(error).context("list attributes of", node),
        };
        let mut attributes = Attributes::new();
        for name in names[..len].split(|&byte| byte == 0) {
            if name.is_empty() {
                continue;
            }
            let mut value = vec![0; LARGEST_ATTRIBUTE_BYTES];
            let len =
                lgetxattr(node, name, &mut value[..]).context("read an attribute of", node)?;
            value.truncate(len);
            value.shrink_to_fit();
            attributes.insert(name.to_vec(), value);
        }
        Ok(attributes)
    }

    fn data_runs(&self, node: &PathBuf, _size_bytes: u64) -> Result<Vec<Range<u64>>> {
        let file = File::open(node).context("open", node)?;
        let mut runs = Vec::new();
        let mut at = 0;
        loop {
            let start = match seek(&file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => return Ok(runs),
                Err(error) => return Err(error).context("seek data in", node),
            };
            at = seek(&file, SeekFrom::Hole(start)).context("seek a hole in", node)?;
            runs.push(start..at);
        }
    }

    fn read_at(&self, node: &PathBuf, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        let file = File::open(node).context("open", node)?;
        let mut done = 0;
        while done < buf.len() {
            let read = file
                .read_at(&mut buf[done..], offset_bytes + done as u64)
                .context("read", node)?;
            if read == 0 {
                break;
            }
            done += read;
        }
        Ok(done)
    }
}

fn kind(file_type: FileType) -> Option<FileKind> {
    Some(match file_type {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::Unknown => return None,
    })
}

fn stat_of(found: &Statx) -> Option<Stat> {
    let time = |time: StatxTimestamp| -> Time { (time.tv_sec, time.tv_nsec) };
    let born = StatxFlags::BTIME.bits() & found.stx_mask != 0;
    Some(Stat {
        ino: found.stx_ino,
        kind: kind(FileType::from_raw_mode(u32::from(found.stx_mode)))?,
        permissions: found.stx_mode & 0o7777,
        links: found.stx_nlink,
        owners: (found.stx_uid, found.stx_gid),
        rdev: (found.stx_rdev_major, found.stx_rdev_minor),
        size_bytes: found.stx_size,
        blocks_512: found.stx_blocks,
        accessed: time(found.stx_atime),
        modified: time(found.stx_mtime),
        changed: time(found.stx_ctime),
        created: born.then(|| time(found.stx_btime)),
    })
}
