//! Replays operations on a volume, where each user has a separate home.
//!
//! # Model
//! The working directory of each user is the user's home. A path is walked name by name through the dentry
//! cache, as in the kernel: from the home, or from the root for shared files. By default, a lookup of an inode
//! uses the hash table of inodes only after a miss in the dentry cache, as in the kernel, or if the inode cache
//! has no valid reference to the inode ([`InodeLookups`](larder_cache::tables::InodeLookups)).

use super::{Done, Error, Name, OpenMode, Operation, Operations, Part, SizedFile};
use crate::workload::chance::generator;
use larder::{DirEntry, FileKind, Ino, NewFile, OpenFile, RenameFlags, SetAttributes, Volume};
use rand::RngCore;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// The first component of the paths of a user's own files.
const HOME: &str = "home";

/// Maximum size of a read or write.
const BUFFER_BYTES: usize = 1 << 16;

/// Attributes of the files and directories that users create.
pub(crate) const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

/// The homes of users on a volume, and the operations that they replay.
#[derive(Debug)]
pub struct UserHomes<'o> {
    operations: &'o Operations,
    homes: Vec<Ino>,
    seed: u64,
}

/// Creates the files that all users share, with content from `seed`.
///
/// # Errors
/// Returns the errors of the volume.
pub fn create_shared_files(
    volume: &Volume,
    operations: &Operations,
    seed: u64,
) -> Result<(), Error> {
    let (directories, files) = operations.before.of(|path| !is_own(path));
    make(volume, Ino::ROOT, &directories, &files, &content(seed, 0))
}

impl<'o> UserHomes<'o> {
    /// Creates a home for each of `users` users, with content from `seed`. [`create_shared_files`] creates
    /// the files that the users share.
    ///
    /// # Errors
    /// Returns the errors of the volume, usually because it is full.
    pub fn new(
        volume: &Volume,
        operations: &'o Operations,
        users: u32,
        seed: u64,
    ) -> Result<Self, Error> {
        let (directories, files) = operations.before.of(is_own);
        let mut homes = Vec::new();
        for user in 0..users {
            let home = volume.make_dir(Ino::ROOT, &home_name(user), &NEW)?.ino;
            make(
                volume,
                home,
                &directories,
                &files,
                &content(seed, 1 + u64::from(user)),
            )?;
            homes.push(home);
        }
        Ok(Self {
            operations,
            homes,
            seed,
        })
    }

    /// Removes all homes.
    ///
    /// # Errors
    /// Returns the errors of the volume.
    pub fn remove(self, volume: &Volume) -> Result<(), Error> {
        for (user, home) in (0..).zip(self.homes) {
            remove_all(volume, home)?;
            volume.remove_dir(Ino::ROOT, &home_name(user))?;
        }
        Ok(())
    }

    /// Returns the names of all files that are directly in a home, each with its home.
    pub(crate) fn files(&self) -> Vec<Name> {
        let (_, files) = self.operations.before.of(is_own);
        let names = files.iter().filter_map(|(path, _)| own(path));
        let names: Vec<&str> = names.filter(|name| !name.contains('/')).collect();
        let of_home = |home: &Ino| {
            names
                .iter()
                .map(|name| (*home, name.as_bytes().to_vec()))
                .collect::<Vec<_>>()
        };
        self.homes.iter().flat_map(of_home).collect()
    }

    /// Returns a user that is ready to begin.
    #[must_use]
    pub fn user(&self, user: u32) -> User<'_> {
        User {
            operations: self.operations,
            home: self.homes[user as usize],
            number: user,
            content: content(self.seed, 1 + u64::from(user)),
            buffer: vec![0; BUFFER_BYTES],
            open: HashMap::new(),
        }
    }
}

/// One user, with its open files.
#[derive(Debug)]
pub struct User<'o> {
    operations: &'o Operations,
    home: Ino,
    number: u32,
    content: Vec<u8>,
    buffer: Vec<u8>,
    open: HashMap<u32, Opened>,
}

/// An open file.
#[derive(Debug)]
struct Opened {
    ino: Ino,
    file: OpenFile,
}

impl User<'_> {
    /// Executes all operations on `volume`: the volume on which the homes were created, or a copy of that volume.
    ///
    /// # Errors
    /// Returns [`Error::Differs`] if an operation does not return the recorded result.
    pub fn replay(mut self, volume: &Volume) -> Result<(), Error> {
        self.replay_part(volume, Part::WHOLE)?;
        self.close(volume)
    }

    /// Executes a part of the operations, as [`User::replay`] does. Files that are still open at the end of the
    /// part remain open.
    ///
    /// # Errors
    /// Returns [`Error::Differs`] if an operation does not return the recorded result.
    pub fn replay_part(&mut self, volume: &Volume, part: Part) -> Result<(), Error> {
        let operations = self.operations.done.iter().enumerate();
        for (index, Done(operation, recorded)) in part.of(operations) {
            let number = index + 1;
            let returned = match self.perform(volume, operation) {
                Some(Ok(returned)) => returned,
                Some(Err(error)) => -i64::from(error.errno().raw_os_error()),
                None => return Err(Error::NotOpen(number)),
            };
            if returned != *recorded {
                return Err(Error::Differs {
                    user: self.number,
                    number,
                    operation: Box::new(operation.clone()),
                    recorded: *recorded,
                    returned,
                });
            }
        }
        Ok(())
    }

    /// Closes all files that are still open.
    ///
    /// # Errors
    /// Returns the errors of the volume.
    pub fn close(self, volume: &Volume) -> Result<(), Error> {
        for (_, opened) in self.open {
            volume.release(opened.ino, 1)?;
        }
        Ok(())
    }

    /// Returns the result of the operation; `None` if it refers to a file that is not open.
    fn perform(&mut self, volume: &Volume, operation: &Operation) -> Option<larder::Result<i64>> {
        match operation {
            Operation::Open(path, file, mode) => done(self.open(volume, path, *file, *mode)),
            Operation::Read(file, offset, bytes) => {
                let opened = self.open.get(file)?;
                Some(read(&opened.file, &mut self.buffer, *offset, *bytes))
            }
            Operation::Write(file, offset, bytes) => {
                let ino = self.open.get(file)?.ino;
                Some(write(volume, ino, &self.content, *offset, *bytes))
            }
            Operation::Size(file) => {
                let size_bytes = self.open.get(file)?.file.size_bytes();
                Some(Ok(i64::try_from(size_bytes).unwrap_or(i64::MAX)))
            }
            Operation::Truncate(file, bytes) => {
                done(volume.truncate(self.open.get(file)?.ino, *bytes))
            }
            Operation::Close(file) => done(volume.release(self.open.remove(file)?.ino, 1)),
            Operation::Stat(path) => {
                done(self.find(volume, path).and_then(|ino| volume.metadata(ino)))
            }
            Operation::Readlink(path) => done(
                self.find(volume, path)
                    .and_then(|ino| volume.read_link(ino)),
            ),
            Operation::List(path) => {
                let all = &mut |_: DirEntry<'_>| ControlFlow::Continue(());
                done(
                    self.find(volume, path)
                        .and_then(|ino| volume.read_dir(ino, 0, all)),
                )
            }
            Operation::Chmod(path) => done(self.find(volume, path).and_then(|ino| {
                let set = SetAttributes {
                    permissions: Some(NEW.permissions),
                    ..SetAttributes::default()
                };
                volume.set_attributes(ino, &set)
            })),
            Operation::MakeDir(path) => {
                let parent = self.parent(volume, path);
                done(parent.and_then(|(parent, name)| volume.make_dir(parent, name, &NEW)))
            }
            Operation::Rename(path, new) => done(self.rename(volume, path, new)),
            Operation::Unlink(path) => {
                let parent = self.parent(volume, path);
                done(parent.and_then(|(parent, name)| volume.unlink(parent, name)))
            }
            Operation::RemoveDir(path) => {
                let parent = self.parent(volume, path);
                done(parent.and_then(|(parent, name)| volume.remove_dir(parent, name)))
            }
        }
    }

    fn open(
        &mut self,
        volume: &Volume,
        path: &str,
        file: u32,
        mode: OpenMode,
    ) -> larder::Result<()> {
        let (parent, name) = self.parent(volume, path)?;
        let ino = match volume.lookup(parent, name) {
            Err(error) if mode.create && error.errno() == Errno::NOENT => {
                volume.create(parent, name, &NEW)?.ino
            }
            Ok(_) if mode.exclusive => volume.create(parent, name, &NEW)?.ino,
            found => found?,
        };
        volume.hold(ino)?;
        if mode.truncate {
            volume.truncate(ino, 0)?;
        }
        let opened = Opened {
            ino,
            file: volume.open_file(ino)?,
        };
        self.open.insert(file, opened);
        Ok(())
    }

    fn rename(&self, volume: &Volume, path: &str, new: &str) -> larder::Result<()> {
        let (parent, name) = self.parent(volume, path)?;
        let (new_parent, new_name) = self.parent(volume, new)?;
        volume.rename(parent, name, new_parent, new_name, RenameFlags::empty())
    }

    /// Returns the directory where the walk of a path begins, and the remaining names.
    fn start<'p>(&self, path: &'p str) -> (Ino, &'p str) {
        match own(path) {
            Some(rest) => (self.home, rest),
            None => (Ino::ROOT, path),
        }
    }

    fn find(&self, volume: &Volume, path: &str) -> larder::Result<Ino> {
        let (start, names) = self.start(path);
        walk(volume, start, names)
    }

    fn parent<'p>(&self, volume: &Volume, path: &'p str) -> larder::Result<(Ino, &'p [u8])> {
        let (start, names) = self.start(path);
        let (folder, name) = names.rsplit_once('/').unwrap_or(("", names));
        Ok((walk(volume, start, folder)?, name.as_bytes()))
    }
}

/// Converts the result of an operation whose recorded result is 0 on success.
#[expect(
    clippy::unnecessary_wraps,
    reason = "`perform` returns an option, which is `None` if a file is not open"
)]
fn done<T>(result: larder::Result<T>) -> Option<larder::Result<i64>> {
    Some(result.map(|_| 0))
}

fn walk(volume: &Volume, start: Ino, names: &str) -> larder::Result<Ino> {
    let mut names = names.split('/').filter(|name| !name.is_empty());
    names.try_fold(start, |at, name| volume.lookup(at, name.as_bytes()))
}

/// Returns the part of `path` after the home, or `None` if it is the path of a shared file.
fn own(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(HOME)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

fn is_own(path: &str) -> bool {
    own(path).is_some()
}

fn read(file: &OpenFile, buffer: &mut [u8], offset: u64, bytes: u64) -> larder::Result<i64> {
    let (mut at, end) = (offset, offset.saturating_add(bytes));
    while at < end {
        let part = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let count = file.read_at(&mut buffer[..part], at)?;
        at += count as u64;
        if count < part {
            break;
        }
    }
    Ok(i64::try_from(at - offset).unwrap_or(i64::MAX))
}

fn write(
    volume: &Volume,
    ino: Ino,
    content: &[u8],
    offset: u64,
    bytes: u64,
) -> larder::Result<i64> {
    let (mut at, end) = (offset, offset.saturating_add(bytes));
    while at < end {
        let part = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(content.len());
        at += volume.write_at(ino, &content[..part], at)? as u64;
    }
    Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
}

fn home_name(user: u32) -> Vec<u8> {
    format!("user{user}").into_bytes()
}

/// Removes all entries of a directory.
fn remove_all(volume: &Volume, directory: Ino) -> larder::Result<()> {
    let mut entries = Vec::new();
    volume.read_dir(directory, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            entries.push((entry.name.to_vec(), entry.ino, entry.kind));
        }
        ControlFlow::Continue(())
    })?;
    for (name, ino, kind) in entries {
        if kind == Some(FileKind::Directory) {
            remove_all(volume, ino)?;
            volume.remove_dir(directory, &name)?;
        } else {
            volume.unlink(directory, &name)?;
        }
    }
    Ok(())
}

/// Creates directories and files below `start`.
fn make(
    volume: &Volume,
    start: Ino,
    directories: &[&String],
    files: &[&SizedFile],
    content: &[u8],
) -> Result<(), Error> {
    let below = |path: &str| -> larder::Result<(Ino, Vec<u8>)> {
        let names = own(path).unwrap_or(path);
        let (folder, name) = names.rsplit_once('/').unwrap_or(("", names));
        Ok((walk(volume, start, folder)?, name.as_bytes().to_vec()))
    };
    for path in directories.iter().filter(|path| own(path) != Some("")) {
        let (parent, name) = below(path)?;
        volume.make_dir(parent, &name, &NEW)?;
    }
    for (path, bytes) in files {
        let (parent, name) = below(path)?;
        let ino = volume.create(parent, &name, &NEW)?.ino;
        write(volume, ino, content, 0, *bytes)?;
    }
    Ok(())
}

fn content(seed: u64, stream: u64) -> Vec<u8> {
    let mut bytes = vec![0; BUFFER_BYTES];
    generator(seed, stream).fill_bytes(&mut bytes);
    bytes
}
