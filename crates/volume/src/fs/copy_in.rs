//! Copies a tree of the host into the image.
//!
//! A new file has no name until its content and metadata are complete. It then replaces the file that
//! had its name. The metadata of a directory is set after its entries are copied, because they change
//! its times, and would inherit its default access control list.

use super::path::{Fs, Last, Pinned, at, path_bytes};
use crate::{
    DeviceNumber, Errno, FileKind, Ino, Make, NewFile, SetAttributes, SetTime, Timestamp, Volume,
    XattrMode,
};
use rustix::fs::{OFlags, SeekFrom, lgetxattr, llistxattr, major, minor, seek};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata, ReadDir};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of the buffer for one read and one write, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The maximum length in bytes of a list of attribute names, and of the value of an attribute, in
/// Linux.
const MAX_XATTR_BYTES: usize = 64 << 10;

impl Fs {
    /// Copies the file or the tree at `from` on the host to `to` in the image, with owners,
    /// permissions, times, extended attributes, hard links, holes and special files.
    ///
    /// If `from` is a directory, its entries are copied into the directory `to`, which is created if
    /// it does not exist. In existing directories, files with the same names are replaced, and other
    /// files are kept. If `from` is another file, it is copied to the name `to`. Symbolic links are
    /// copied, and not followed. Attributes that the process may not read are not copied.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let image = dir.path().join("disk.img");
    /// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
    /// # let tree = dir.path().join("tree");
    /// # std::fs::create_dir(&tree)?;
    /// # std::fs::write(tree.join("file"), "content")?;
    /// # let out = dir.path().join("out");
    /// let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
    /// fs.copy_in(&tree, "/tree")?;
    /// fs.copy_out("/tree", &out)?;
    /// assert_eq!(std::fs::read_to_string(out.join("file"))?, "content");
    /// fs.close()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first error of reading or writing, with the path. What was copied before it remains.
    pub fn copy_in(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let mut copy = CopyIn {
            volume: self.volume(),
            linked: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES],
        };
        let metadata = std::fs::symlink_metadata(from).map_err(|error| at(from, error))?;
        if !metadata.is_dir() {
            let place = self.place(path_bytes(to)?, |_| Errno::ISDIR)?;
            return copy
                .entry(from, place.directory.ino(), place.name)
                .map(drop)
                .map_err(|error| at(from, error));
        }
        self.unless_directory(to, self.create_dir(to))?;
        let pinned = self.pin(to, Last::Follow)?;
        let first = Level::enter(from, metadata, pinned).map_err(|error| at(from, error))?;
        copy.run(first)
    }
}

/// A copy in progress.
struct CopyIn<'v> {
    volume: &'v Arc<Volume>,
    /// The copies of files with several hard links, by the device and inode number of the source.
    linked: HashMap<(u64, u64), Pinned>,
    buffer: Vec<u8>,
}

/// A directory that is being copied.
struct Level {
    path: PathBuf,
    metadata: Metadata,
    copy: Pinned,
    left: ReadDir,
}

impl Level {
    fn enter(path: &Path, metadata: Metadata, copy: Pinned) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            metadata,
            copy,
            left: std::fs::read_dir(path)?,
        })
    }
}

impl CopyIn<'_> {
    fn run(&mut self, first: Level) -> io::Result<()> {
        let mut levels = vec![first];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.left.next() else {
                self.keep(level.copy.ino(), &level.path, &level.metadata)
                    .map_err(|error| at(&level.path, error))?;
                levels.pop();
                continue;
            };
            let entry = entry.map_err(|error| at(&level.path, error))?;
            let path = entry.path();
            let below = self.entry(&path, level.copy.ino(), entry.file_name().as_bytes());
            levels.extend(below.map_err(|error| at(&path, error))?);
        }
        Ok(())
    }

    /// Copies the file at `path` to `name` in `directory`. For a directory, creates only the
    /// directory and returns it.
    fn entry(&mut self, path: &Path, directory: Ino, name: &[u8]) -> io::Result<Option<Level>> {
        let metadata = std::fs::symlink_metadata(path)?;
        let volume = self.volume;
        if metadata.is_dir() {
            match volume.make_dir(directory, name, &new(&metadata)) {
                Err(error) if error.errno() != Errno::EXIST => return Err(error.into()),
                _ => {}
            }
            let copy = Pinned::resolve(volume, || volume.lookup(directory, name))?;
            copy.check_directory(volume)?;
            return Level::enter(path, metadata, copy).map(Some);
        }
        let identity = (metadata.dev(), metadata.ino());
        if let Some(first) = self.linked.get(&identity) {
            volume.link_replacing(first.ino(), directory, name)?;
            return Ok(None);
        }
        let copy = self.unnamed(path, &metadata, directory)?;
        self.keep(copy.ino(), path, &metadata)?;
        volume.link_replacing(copy.ino(), directory, name)?;
        if metadata.nlink() > 1 {
            self.linked.insert(identity, copy);
        }
        Ok(None)
    }

    /// Creates a copy of a file that is not a directory. The copy has no name yet.
    fn unnamed(&mut self, path: &Path, metadata: &Metadata, parent: Ino) -> io::Result<Pinned> {
        let kind = metadata.file_type();
        let target = if kind.is_symlink() {
            std::fs::read_link(path)?
        } else {
            PathBuf::new()
        };
        let node = |kind, is_device: bool| Make::Node {
            kind,
            device: is_device.then(|| DeviceNumber {
                major: major(metadata.rdev()),
                minor: minor(metadata.rdev()),
            }),
        };
        let what = if kind.is_symlink() {
            let target = target.as_os_str().as_bytes();
            Make::Symlink { target }
        } else if kind.is_char_device() {
            node(FileKind::CharDevice, true)
        } else if kind.is_block_device() {
            node(FileKind::BlockDevice, true)
        } else if kind.is_fifo() {
            node(FileKind::Fifo, false)
        } else if kind.is_socket() {
            node(FileKind::Socket, false)
        } else {
            Make::FILE
        };
        let made = self.volume.make_unnamed(parent, what, &new(metadata))?;
        let copy = Pinned::new(self.volume, made.ino)?;
        if kind.is_file() {
            self.content(path, copy.ino())?;
        }
        Ok(copy)
    }

    /// Copies the content of a regular file, with its holes.
    fn content(&mut self, path: &Path, copy: Ino) -> io::Result<()> {
        // The file may have been replaced by a FIFO. Without NONBLOCK, opening the FIFO would wait
        // for a writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let size_bytes = file.metadata()?.len();
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let start_bytes = match seek(&file, SeekFrom::Data(at_bytes)) {
                Ok(start_bytes) => start_bytes,
                Err(Errno::NXIO) => {
                    self.volume.truncate(copy, size_bytes)?;
                    at_bytes = size_bytes;
                    break;
                }
                // The host's file system does not report holes.
                Err(Errno::INVAL) => break,
                Err(errno) => return Err(errno.into()),
            };
            let end_bytes = seek(&file, SeekFrom::Hole(start_bytes))?;
            at_bytes = self.run_of_data(&file, copy, start_bytes, end_bytes)?;
            if at_bytes < end_bytes {
                // The source was truncated during the copy.
                return Ok(());
            }
        }
        // There may be more data: the file may have grown, or its size is not known, as in /proc.
        self.run_of_data(&file, copy, at_bytes, u64::MAX).map(drop)
    }

    /// Copies a run of data. Returns the offset where the copy ended.
    fn run_of_data(&mut self, file: &File, copy: Ino, start: u64, end: u64) -> io::Result<u64> {
        let mut at_bytes = start;
        while at_bytes < end {
            let left = usize::try_from(end - at_bytes).unwrap_or(usize::MAX);
            let wanted = left.min(self.buffer.len());
            let buffer = self.buffer.get_mut(..wanted).unwrap_or_default();
            let len = match file.read_at(buffer, at_bytes) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let read = buffer.get(..len).unwrap_or_default();
            self.volume.write_all_at(copy, read, at_bytes)?;
            at_bytes += len as u64;
        }
        Ok(at_bytes)
    }

    /// Sets the metadata of `copy` to that of the file at `path`. The owner is set first, because
    /// this clears set-id bits and capabilities. The permissions are set after the attributes,
    /// because an access control list changes them.
    fn keep(&self, copy: Ino, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let owner = SetAttributes {
            uid: Some(metadata.uid()),
            gid: Some(metadata.gid()),
            ..SetAttributes::default()
        };
        self.volume.set_attributes(copy, &owner)?;
        self.keep_xattrs(copy, path)?;
        let others = SetAttributes {
            permissions: (!metadata.is_symlink()).then(|| permissions(metadata)),
            atime: Some(time(metadata.atime(), metadata.atime_nsec())),
            mtime: Some(time(metadata.mtime(), metadata.mtime_nsec())),
            ..SetAttributes::default()
        };
        self.volume.set_attributes(copy, &others)?;
        Ok(())
    }

    fn keep_xattrs(&self, copy: Ino, path: &Path) -> io::Result<()> {
        let mut names = vec![0; MAX_XATTR_BYTES];
        let len = match llistxattr(path, names.as_mut_slice()) {
            Ok(len) => len,
            Err(Errno::NOTSUP) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        names.truncate(len);
        let mut value = vec![0; MAX_XATTR_BYTES];
        let names = names.split(|&byte| byte == 0);
        for name in names.filter(|name| !name.is_empty()) {
            match lgetxattr(path, OsStr::from_bytes(name), value.as_mut_slice()) {
                Ok(len) => {
                    let value = value.get(..len).unwrap_or_default();
                    self.volume.set_xattr(copy, name, value, XattrMode::Any)?;
                }
                // The attribute was removed after the names were listed, or may not be read.
                Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Returns the attributes with which a copy is created.
fn new(metadata: &Metadata) -> NewFile {
    NewFile::new()
        .permissions(permissions(metadata))
        .owner(metadata.uid(), metadata.gid())
}

fn permissions(metadata: &Metadata) -> u16 {
    u16::try_from(metadata.mode() & 0o7777).unwrap_or(0)
}

fn time(seconds: i64, nanoseconds: i64) -> SetTime {
    SetTime::To(Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
    })
}
