//! The oracle: `std::fs` on a kernel mount.

use crate::side::{Entries, Facts, PAST, Side};
use larder::{Errno, FileKind, XattrMode};
use rustix::fs::{AtFlags, XattrFlags};
use std::ffi::{OsStr, OsString};
use std::fs::{self, FileTimes, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// `std::fs` on a mount.
pub(crate) struct Kernel(pub(crate) PathBuf);

impl Kernel {
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        // A path that begins with a slash begins at the root of the image.
        self.0.join(path.trim_start_matches('/'))
    }
}

fn kind(file_type: fs::FileType) -> FileKind {
    match file_type {
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_symlink() => FileKind::Symlink,
        kind if kind.is_fifo() => FileKind::Fifo,
        _ => FileKind::Regular,
    }
}

fn facts(metadata: &fs::Metadata) -> Facts {
    let is_dir = metadata.is_dir();
    Facts {
        kind: kind(metadata.file_type()),
        permissions: u16::try_from(metadata.mode() & 0o7777).unwrap(),
        links: metadata.nlink(),
        owner: (metadata.uid(), metadata.gid()),
        size_bytes: (!is_dir).then_some(metadata.len()),
        modified_seconds: Some(metadata.mtime()).filter(|seconds| *seconds < PAST),
    }
}

impl Side for Kernel {
    type File = fs::File;

    fn open(&self, path: &str, options: u8) -> io::Result<fs::File> {
        let bit = |bit: u8| options & 1 << bit != 0;
        fs::OpenOptions::new()
            .read(bit(0))
            .write(bit(1))
            .append(bit(2))
            .truncate(bit(3))
            .create(bit(4))
            .create_new(bit(5))
            .mode(0o640)
            .open(self.path(path))
    }

    fn set_len(&self, file: &fs::File, size_bytes: u64) -> io::Result<()> {
        file.set_len(size_bytes)
    }

    fn sync(&self, file: &fs::File, data_only: bool) -> io::Result<()> {
        if data_only {
            file.sync_data()
        } else {
            file.sync_all()
        }
    }

    fn set_file_permissions(&self, file: &fs::File, permissions: u16) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(permissions.into()))
    }

    fn set_file_times(
        &self,
        file: &fs::File,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> io::Result<[Option<i64>; 2]> {
        let mut times = FileTimes::new();
        if let Some(seconds) = accessed {
            times = times.set_accessed(UNIX_EPOCH + Duration::from_secs(seconds));
        }
        if let Some(seconds) = modified {
            times = times.set_modified(UNIX_EPOCH + Duration::from_secs(seconds));
        }
        file.set_times(times)?;
        let found = file.metadata()?;
        Ok([
            accessed.map(|_| found.atime()),
            modified.map(|_| found.mtime()),
        ])
    }

    fn file_facts(&self, file: &fs::File) -> io::Result<Facts> {
        Ok(facts(&file.metadata()?))
    }

    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts> {
        let path = self.path(path);
        Ok(facts(&if follow {
            fs::metadata(path)?
        } else {
            fs::symlink_metadata(path)?
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        fs::exists(self.path(path))
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path(path))
    }

    fn read_to_string(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        fs::write(self.path(path), content)
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<u64> {
        let (from, to) = (self.path(from), self.path(to));
        let ino = |path: &Path| fs::metadata(path).map(|metadata| metadata.ino()).ok();
        if fs::metadata(&from).is_ok_and(|from| from.is_file()) && ino(&from) == ino(&to) {
            // The standard library would empty a file that is copied to itself.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        fs::copy(from, to)
    }

    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>> {
        self.listing(path)?.collect()
    }

    fn listing(&self, path: &str) -> io::Result<Entries> {
        let entries = fs::read_dir(self.path(path))?.map(|entry| -> io::Result<_> {
            let entry = entry?;
            assert_ne!(entry.ino(), 0);
            Ok((entry.file_name(), kind(entry.file_type()?)))
        });
        Ok(Box::new(entries))
    }

    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        let root = self.path(path);
        let mut found = Vec::new();
        let mut left = vec![root.clone()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                found.push(entry.path().strip_prefix(&root).unwrap().to_owned());
                if entry.file_type()?.is_dir() {
                    left.push(entry.path());
                }
            }
        }
        Ok(found)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.path(path))
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(self.path(path))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        fs::remove_dir_all(self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn hard_link(&self, original: &str, link: &str) -> io::Result<()> {
        fs::hard_link(self.path(original), self.path(link))
    }

    fn symlink(&self, original: &str, link: &str) -> io::Result<()> {
        std::os::unix::fs::symlink(original, self.path(link))
    }

    fn read_link(&self, path: &str) -> io::Result<PathBuf> {
        fs::read_link(self.path(path))
    }

    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()> {
        fs::set_permissions(self.path(path), Permissions::from_mode(permissions.into()))
    }

    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()> {
        let (path, uid, gid) = (self.path(path), Some(id), Some(id + 1));
        if follow {
            std::os::unix::fs::chown(path, uid, gid)
        } else {
            std::os::unix::fs::lchown(path, uid, gid)
        }
    }

    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()> {
        let time = rustix::fs::Timespec {
            tv_sec: seconds.try_into().unwrap(),
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = if follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        Ok(rustix::fs::utimensat(
            rustix::fs::CWD,
            self.path(path),
            &times,
            flags,
        )?)
    }

    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; 4096];
        let path = self.path(path);
        let got = if follow {
            rustix::fs::getxattr(path, name, value.as_mut_slice())
        } else {
            rustix::fs::lgetxattr(path, name, value.as_mut_slice())
        };
        match got {
            Ok(len) => Ok(Some(value[..len].to_vec())),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>> {
        let mut names = vec![0; 4096];
        let path = self.path(path);
        let len = if follow {
            rustix::fs::listxattr(path, names.as_mut_slice())?
        } else {
            rustix::fs::llistxattr(path, names.as_mut_slice())?
        };
        let names = names[..len].split(|&byte| byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(|name| OsStr::from_bytes(name).to_owned())
            .collect())
    }

    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()> {
        let path = self.path(path);
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let set = if follow {
            rustix::fs::setxattr(path, name, value, flags)
        } else {
            rustix::fs::lsetxattr(path, name, value, flags)
        };
        Ok(set?)
    }

    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()> {
        let path = self.path(path);
        let removed = if follow {
            rustix::fs::removexattr(path, name)
        } else {
            rustix::fs::lremovexattr(path, name)
        };
        Ok(removed?)
    }
}
