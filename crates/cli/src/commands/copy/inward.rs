//! The command `larder cp` into an image: copies files of the host, with their metadata.
//!
//! Invariants:
//! 1. A symbolic link is copied as a link and not followed. The exception is a link that is named on the
//!    command line without `-r`.
//! 2. A new file has no name until its content and metadata are complete. It then gets its name, and replaces
//!    the file that had the name before. A directory that exists already is kept, and files are copied into
//!    it.
//! 3. The image is not copied into itself.

use super::descriptors::raise_descriptor_limit;
use super::metadata;
use crate::args::CpArgs;
use crate::commands::image_path::{self, ImagePath, Target, directory};
use crate::commands::unnamed::Unnamed;
use crate::failure::without_inode;
use crate::progress;
use indicatif::ProgressBar;
use larder::{DeviceNumber, FileKind, Ino, Make, NewFile, Volume};
use larder_console::{Failure, Result, name, print_error, print_hint};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The size of the buffer for one read and one write, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A copy in progress.
struct InwardCopy<'a> {
    volume: &'a Volume,
    progress: &'a ProgressBar,
    /// The device and inode number of the image file.
    image: Option<(u64, u64)>,
    /// The copies of files with several hard links, by the device and inode number of the source. A copy is
    /// kept here so that it is not deleted if its name is replaced during the copy.
    linked: HashMap<(u64, u64), Unnamed<'a>>,
    buffer: Vec<u8>,
    has_failed: bool,
    has_filled_image: bool,
}

/// A directory that is being copied.
struct Level {
    path: PathBuf,
    metadata: Metadata,
    copy: Ino,
    left: fs::ReadDir,
}

/// Copies `sources` of the host to `image_path`.
pub(super) fn run(
    args: &CpArgs,
    sources: &[OsString],
    image_path: ImagePath<'_>,
) -> Result<ExitCode> {
    raise_descriptor_limit();
    image_path::change(&image_path.source(&args.volume), |volume| {
        copy_all(volume, args, sources, image_path)
    })
}

fn copy_all(
    volume: &Volume,
    args: &CpArgs,
    sources: &[OsString],
    image_path: ImagePath<'_>,
) -> Result<ExitCode> {
    if sources.len() > 1 && directory(volume, image_path.path).is_none() {
        return Err(Failure::with_hint(
            format!(
                "{} in the image is not a directory",
                name::escaped(image_path.path)
            ),
            "to copy several files, DEST must be an existing directory; larder mkdir creates one",
        ));
    }
    let progress = progress::bar(|| {
        sources
            .iter()
            .map(|source| tree_bytes(source.as_ref()))
            .sum()
    });
    let mut copy = InwardCopy {
        volume,
        progress: &progress,
        image: fs::metadata(image_path.image)
            .ok()
            .map(|image| identity(&image)),
        linked: HashMap::new(),
        buffer: vec![0; BUFFER_BYTES],
        has_failed: false,
        has_filled_image: false,
    };
    for source in sources {
        let source = Path::new(source);
        if let Err(failure) = copy.source(source, image_path.path, args.recursive) {
            copy.report(source, &failure);
        }
    }
    progress.finish_and_clear();
    if copy.has_filled_image {
        print_hint(
            "the image is unchanged at the paths named above; a copy needs space in addition to the \
             file that it replaces, and larder rm frees space",
        );
    }
    Ok(ExitCode::from(u8::from(copy.has_failed)))
}

impl Level {
    fn enter(path: &Path, metadata: Metadata, copy: Ino) -> Result<Self> {
        let left = fs::read_dir(path).map_err(|error| unreadable(&error))?;
        Ok(Self {
            path: path.to_owned(),
            metadata,
            copy,
            left,
        })
    }
}

impl<'a> InwardCopy<'a> {
    /// Copies one source. A directory is copied with its content.
    fn source(&mut self, source: &Path, destination: &[u8], is_recursive: bool) -> Result<()> {
        let metadata = if is_recursive {
            fs::symlink_metadata(source)
        } else {
            fs::metadata(source)
        }
        .map_err(|error| unreadable(&error))?;
        if metadata.is_dir() && !is_recursive {
            return Err(Failure::with_hint(
                "is a directory",
                "give -r to copy directories",
            ));
        }
        let name = own_name(source);
        // If the source is a directory without a name, such as `.`, its content is copied into the
        // destination itself.
        let into =
            directory(self.volume, destination).filter(|_| metadata.is_dir() && name.is_none());
        let first = if let Some(copy) = into {
            Some(Level::enter(source, metadata, copy)?)
        } else {
            let target = Target::in_or_at(self.volume, destination, name)?;
            self.entry(source, metadata, target.parent, &target.name)?
        };
        self.walk(first);
        Ok(())
    }

    fn walk(&mut self, first: Option<Level>) {
        let mut levels: Vec<Level> = first.into_iter().collect();
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.left.next() else {
                self.leave(level);
                levels.pop();
                continue;
            };
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let path = level.path.clone();
                    self.report(&path, &unreadable(&error));
                    continue;
                }
            };
            let path = entry.path();
            let copied = fs::symlink_metadata(&path)
                .map_err(|error| unreadable(&error))
                .and_then(|metadata| {
                    self.entry(&path, metadata, level.copy, entry.file_name().as_bytes())
                });
            match copied {
                Ok(below) => levels.extend(below),
                Err(failure) => self.report(&path, &failure),
            }
        }
    }

    /// Copies one file. For a directory, creates only the directory and returns it; the caller copies its
    /// content.
    fn entry(
        &mut self,
        path: &Path,
        metadata: Metadata,
        parent: Ino,
        name: &[u8],
    ) -> Result<Option<Level>> {
        if self.image == Some(identity(&metadata)) {
            return Err(Failure::new("is the image itself"));
        }
        let target = Target {
            parent,
            name: name.to_vec(),
        };
        let present = target.present(self.volume);
        let present = present.map_err(|error| self.written(&error))?;
        if metadata.is_dir() {
            let copy = match present {
                Some(present) if present.kind == FileKind::Directory => {
                    if let Err(failure) = self.keep(present.ino, path, &metadata) {
                        self.report(path, &failure);
                    }
                    present.ino
                }
                Some(_) => {
                    return Err(Failure::new(
                        "cannot create the directory: another file has its name",
                    ));
                }
                None => self.directory(path, &metadata, &target)?,
            };
            return Level::enter(path, metadata, copy).map(Some);
        }
        if present.is_some_and(|present| present.kind == FileKind::Directory) {
            return Err(Failure::new("cannot replace a directory with a file"));
        }
        if let Some(first) = self.linked.get(&identity(&metadata))
            && first.link_as(&target).is_ok()
        {
            return Ok(None);
        }
        let copy = self.file(path, &metadata, parent)?;
        self.keep(copy.ino(), path, &metadata)?;
        copy.link_as(&target)
            .map_err(|error| self.written(&error))?;
        if metadata.nlink() > 1 {
            self.linked.insert(identity(&metadata), copy);
        }
        Ok(None)
    }

    /// Creates a directory with the metadata of the directory at `path`. If the metadata cannot be set,
    /// removes the new directory.
    fn directory(&mut self, path: &Path, metadata: &Metadata, target: &Target) -> Result<Ino> {
        let made = self
            .volume
            .make_dir(target.parent, &target.name, &new(metadata));
        let copy = made.map_err(|error| self.written(&error))?.ino;
        let Err(failure) = self.keep(copy, path, metadata) else {
            return Ok(copy);
        };
        let removed = self.volume.remove_dir(target.parent, &target.name);
        removed.map_err(|error| self.written(&error))?;
        Err(Failure::new(format!(
            "{failure}; the directory and its content were not copied"
        )))
    }

    /// Sets the metadata of `copy` to that of the file at `path`.
    fn keep(&mut self, copy: Ino, path: &Path, metadata: &Metadata) -> Result<()> {
        let what = match metadata::set(self.volume, copy, path, metadata) {
            Ok(()) => return Ok(()),
            Err(what) => what,
        };
        self.has_filled_image |= what.is_no_space;
        Err(Failure::new(what.message))
    }

    /// Sets the times of a directory again, because creating its entries has changed them.
    fn leave(&mut self, level: &Level) {
        if let Err(error) = metadata::set_times(self.volume, level.copy, &level.metadata) {
            let failure = self.written(&error);
            self.report(&level.path, &failure);
        }
    }

    /// Creates a copy of any file that is not a directory. The copy has no name yet.
    fn file(&mut self, path: &Path, metadata: &Metadata, parent: Ino) -> Result<Unnamed<'a>> {
        let new = new(metadata);
        let kind = metadata.file_type();
        if kind.is_file() {
            return self.regular(path, parent, &new);
        }
        let made = if kind.is_symlink() {
            let target = fs::read_link(path).map_err(|error| unreadable(&error))?;
            Unnamed::new(self.volume, |volume| {
                let target = target.as_os_str().as_bytes();
                volume.make_unnamed(parent, Make::Symlink { target }, &new)
            })
        } else {
            let (kind, is_device) = special(kind);
            let device = is_device.then(|| DeviceNumber {
                major: rustix::fs::major(metadata.rdev()),
                minor: rustix::fs::minor(metadata.rdev()),
            });
            Unnamed::new(self.volume, |volume| {
                volume.make_unnamed(parent, Make::Node { kind, device }, &new)
            })
        };
        made.map_err(|error| self.written(&error))
    }

    /// Creates a regular file with the data and holes of the file at `path`.
    fn regular(&mut self, path: &Path, parent: Ino, new: &NewFile) -> Result<Unnamed<'a>> {
        // The file may have been replaced by a FIFO. Without NONBLOCK, opening the FIFO would wait for a
        // writer.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path)
            .or_else(|error| match Errno::from_io_error(&error) {
                // A symbolic link that is named on the command line is followed.
                Some(Errno::LOOP) => File::open(path),
                _ => Err(error),
            })
            .map_err(|error| unreadable(&error))?;
        let copy = Unnamed::new(self.volume, |volume| {
            volume.make_unnamed(parent, Make::FILE, new)
        });
        let copy = copy.map_err(|error| self.written(&error))?;
        self.content(&file, copy.ino())?;
        Ok(copy)
    }

    fn content(&mut self, file: &File, copy: Ino) -> Result<()> {
        let size_bytes = file.metadata().map_err(|error| unreadable(&error))?.len();
        let mut at_bytes = 0;
        while at_bytes < size_bytes {
            let (start_bytes, end_bytes) = match data_run(file, at_bytes, size_bytes) {
                Ok(Some(run)) => run,
                Ok(None) => {
                    // If the file ends in a hole, writing the data has not set the size of the copy.
                    at_bytes = size_bytes;
                    let grown = self.volume.truncate(copy, size_bytes);
                    grown.map_err(|error| self.written(&error))?;
                    break;
                }
                Err(errno) => return Err(unreadable(&errno.into())),
            };
            at_bytes = self.run(file, copy, start_bytes, end_bytes)?;
            if at_bytes < end_bytes {
                // The source was truncated during the copy.
                return Ok(());
            }
        }
        // There may be more data: the file may have grown, or its size is not known, as in /proc.
        self.run(file, copy, at_bytes, u64::MAX).map(drop)
    }

    /// Copies a run of data. Returns the offset where the copy ended.
    fn run(&mut self, file: &File, copy: Ino, start_bytes: u64, end_bytes: u64) -> Result<u64> {
        let mut at_bytes = start_bytes;
        while at_bytes < end_bytes {
            let left = usize::try_from(end_bytes - at_bytes).unwrap_or(usize::MAX);
            let buffer = &mut self.buffer[..left.min(BUFFER_BYTES)];
            let len = match file.read_at(buffer, at_bytes) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            let written = self.volume.write_all_at(copy, &buffer[..len], at_bytes);
            written.map_err(|error| self.written(&error))?;
            at_bytes += len as u64;
            self.progress.inc(len as u64);
        }
        Ok(at_bytes)
    }

    fn written(&mut self, error: &larder::Error) -> Failure {
        self.has_filled_image |= error.errno() == Errno::NOSPC;
        Failure::new(format!("cannot write the copy: {}", without_inode(error)))
    }

    fn report(&mut self, path: &Path, failure: &Failure) {
        self.has_failed = true;
        let path = name::escaped(path.as_os_str().as_bytes());
        self.progress
            .suspend(|| print_error(&format!("{path}: {failure}")));
    }
}

/// Returns the start and the end of the next run of data at or after `at_bytes`, or `None` if there is no
/// more data. If the host's file system does not report holes, the run is the rest of the file.
fn data_run(file: &File, at_bytes: u64, size_bytes: u64) -> Result<Option<(u64, u64)>, Errno> {
    let start_bytes = match rustix::fs::seek(file, SeekFrom::Data(at_bytes)) {
        Ok(start_bytes) => start_bytes,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => return Ok(Some((at_bytes, size_bytes))),
        Err(errno) => return Err(errno),
    };
    let end_bytes = rustix::fs::seek(file, SeekFrom::Hole(start_bytes))?;
    Ok(Some((start_bytes, end_bytes.min(size_bytes))).filter(|(start, end)| start < end))
}

/// Returns the last name of the path `source`. Returns `None` for a path without a last name, such as `.`,
/// which stands for the content of a directory.
fn own_name(source: &Path) -> Option<&[u8]> {
    let bytes = source.as_os_str().as_bytes();
    let name = bytes
        .split(|&byte| byte == b'/')
        .rfind(|name| !name.is_empty())?;
    (!matches!(name, b"." | b"..")).then_some(name)
}

/// Returns the attributes with which a copy is created. Only the owner has access to the copy until the
/// metadata of the copy is complete.
fn new(metadata: &Metadata) -> NewFile {
    NewFile {
        permissions: if metadata.is_dir() { 0o700 } else { 0o600 },
        umask: 0,
        uid: metadata.uid(),
        gid: metadata.gid(),
    }
}

fn special(kind: fs::FileType) -> (FileKind, bool) {
    if kind.is_char_device() {
        (FileKind::CharDevice, true)
    } else if kind.is_block_device() {
        (FileKind::BlockDevice, true)
    } else if kind.is_fifo() {
        (FileKind::Fifo, false)
    } else {
        (FileKind::Socket, false)
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Returns the number of bytes of data below `root`. Files and directories that cannot be read count as 0.
fn tree_bytes(root: &Path) -> u64 {
    let mut total_bytes = 0_u64;
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_file() {
            let stored_bytes = metadata.blocks().saturating_mul(512);
            total_bytes = total_bytes.saturating_add(metadata.len().min(stored_bytes));
        } else if metadata.is_dir() {
            // Directories that cannot be listed are reported when they are copied.
            let entries = fs::read_dir(&path).into_iter().flatten();
            left.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    total_bytes
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(format!("cannot read the source: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_directory_content_has_no_name() {
        for (source, name) in [
            ("a/b", Some("b")),
            ("a/b//", Some("b")),
            ("a/.", None),
            ("..", None),
            ("/", None),
        ] {
            assert_eq!(
                own_name(Path::new(source)),
                name.map(str::as_bytes),
                "{source}"
            );
        }
    }
}
