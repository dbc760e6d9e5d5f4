//! The side that is tested: [`Fs`].

use crate::side::{Entries, Facts, PAST, Side};
use larder::{FileKind, FileOptions, Fs, SetTime, Timestamp, XattrMode};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

fn image_facts(metadata: &larder::Metadata) -> Facts {
    Facts {
        kind: metadata.kind,
        permissions: metadata.permissions,
        links: metadata.links.into(),
        owner: (metadata.uid, metadata.gid),
        size_bytes: (!metadata.is_dir()).then_some(metadata.size_bytes),
        modified_seconds: Some(metadata.modified.seconds).filter(|seconds| *seconds < PAST),
    }
}

impl Side for Fs {
    type File = larder::File;

    fn open(&self, path: &str, options: u8) -> io::Result<larder::File> {
        let bit = |bit: u8| options & 1 << bit != 0;
        let options = FileOptions::new()
            .read(bit(0))
            .write(bit(1))
            .append(bit(2))
            .truncate(bit(3))
            .create(bit(4))
            .create_new(bit(5))
            .mode(0o640);
        self.open_with(path, options)
    }

    fn set_len(&self, file: &larder::File, size_bytes: u64) -> io::Result<()> {
        file.set_len(size_bytes)
    }

    fn sync(&self, file: &larder::File, data_only: bool) -> io::Result<()> {
        if data_only {
            file.sync_data()
        } else {
            file.sync_all()
        }
    }

    fn set_file_permissions(&self, file: &larder::File, permissions: u16) -> io::Result<()> {
        file.set_permissions(permissions)
    }

    fn set_file_times(
        &self,
        file: &larder::File,
        accessed: Option<u64>,
        modified: Option<u64>,
    ) -> io::Result<[Option<i64>; 2]> {
        let time = |seconds| SetTime::from(UNIX_EPOCH + Duration::from_secs(seconds));
        file.set_times(accessed.map(time), modified.map(time))?;
        let found = file.metadata()?;
        Ok([
            accessed.map(|_| found.accessed.seconds),
            modified.map(|_| found.modified.seconds),
        ])
    }

    fn file_facts(&self, file: &larder::File) -> io::Result<Facts> {
        Ok(image_facts(&file.metadata()?))
    }

    fn facts(&self, path: &str, follow: bool) -> io::Result<Facts> {
        Ok(image_facts(&if follow {
            self.metadata(path)?
        } else {
            self.symlink_metadata(path)?
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Fs::exists(self, path)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        Fs::read(self, path)
    }

    fn read_to_string(&self, path: &str) -> io::Result<String> {
        Fs::read_to_string(self, path)
    }

    fn write(&self, path: &str, content: &[u8]) -> io::Result<()> {
        Fs::write(self, path, content)
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<u64> {
        Fs::copy(self, from, to)
    }

    fn entries(&self, path: &str) -> io::Result<Vec<(OsString, FileKind)>> {
        self.read_dir(path)?
            .map(|entry| {
                let entry = entry?;
                assert_eq!(entry.metadata()?.kind, entry.kind()?);
                Ok((entry.file_name().to_owned(), entry.kind()?))
            })
            .collect()
    }

    fn listing(&self, path: &str) -> io::Result<Entries> {
        let entries = self.read_dir(path)?.map(|entry| -> io::Result<_> {
            let entry = entry?;
            Ok((entry.file_name().to_owned(), entry.kind()?))
        });
        Ok(Box::new(entries))
    }

    fn walk(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        Fs::walk(self, path)?
            .map(|entry| Ok(entry?.path().strip_prefix(path).unwrap().to_owned()))
            .collect()
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        Fs::create_dir(self, path)
    }

    fn create_dir_all(&self, path: &str) -> io::Result<()> {
        Fs::create_dir_all(self, path)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        Fs::remove_file(self, path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        Fs::remove_dir(self, path)
    }

    fn remove_dir_all(&self, path: &str) -> io::Result<()> {
        Fs::remove_dir_all(self, path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Fs::rename(self, from, to)
    }

    fn hard_link(&self, original: &str, link: &str) -> io::Result<()> {
        Fs::hard_link(self, original, link)
    }

    fn symlink(&self, original: &str, link: &str) -> io::Result<()> {
        Fs::symlink(self, original, link)
    }

    fn read_link(&self, path: &str) -> io::Result<PathBuf> {
        Fs::read_link(self, path)
    }

    fn set_permissions(&self, path: &str, permissions: u16) -> io::Result<()> {
        Fs::set_permissions(self, path, permissions)
    }

    fn chown(&self, path: &str, id: u32, follow: bool) -> io::Result<()> {
        if follow {
            Fs::chown(self, path, Some(id), Some(id + 1))
        } else {
            self.lchown(path, Some(id), Some(id + 1))
        }
    }

    fn set_modified(&self, path: &str, seconds: u64, follow: bool) -> io::Result<()> {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let stamp = Timestamp::from(time);
        let (accessed, modified) = (Some(SetTime::from(stamp)), Some(time.into()));
        if follow {
            self.set_times(path, accessed, modified)
        } else {
            self.set_times_nofollow(path, accessed, modified)
        }
    }

    fn xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<Option<Vec<u8>>> {
        let value = if follow {
            Fs::xattr(self, path, name)?
        } else {
            self.xattr_nofollow(path, name)?
        };
        let names = Side::xattrs(self, path, follow)?;
        let is_listed = names.iter().any(|listed| listed == name);
        assert_eq!(is_listed, value.is_some());
        Ok(value)
    }

    fn xattrs(&self, path: &str, follow: bool) -> io::Result<Vec<OsString>> {
        if follow {
            Fs::xattrs(self, path)
        } else {
            self.xattrs_nofollow(path)
        }
    }

    fn set_xattr(
        &self,
        path: &str,
        name: &str,
        value: &[u8],
        mode: XattrMode,
        follow: bool,
    ) -> io::Result<()> {
        match (mode, follow) {
            (XattrMode::Any, true) => Fs::set_xattr(self, path, name, value),
            (XattrMode::Any, false) => self.set_xattr_nofollow(path, name, value),
            (mode, true) => self.set_xattr_with(path, name, value, mode),
            (mode, false) => self.set_xattr_with_nofollow(path, name, value, mode),
        }
    }

    fn remove_xattr(&self, path: &str, name: &str, follow: bool) -> io::Result<()> {
        if follow {
            Fs::remove_xattr(self, path, name)
        } else {
            self.remove_xattr_nofollow(path, name)
        }
    }
}
