//! The command `larder find`: searches for files in an image.

use super::expand::{NamedFile, NamedFiles};
use super::reading::{Failures, check_kind, open};
use crate::args::FindArgs;
use crate::failure::{of_cause, of_path};
use crate::json;
use crate::pattern::Pattern;
use larder::fs::{DirEntry, Walk};
use larder::{FileKind, Fs, Ino, Metadata, Timestamp};
use larder_console::name::Names;
use larder_console::{Result, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::time::SystemTime;

/// The files that meet all criteria.
struct Search<'a> {
    fs: &'a Fs,
    args: &'a FindArgs,
    name: Option<Pattern>,
    now: Timestamp,
    failures: &'a Failures,
    /// The files of the command line that were not examined yet.
    roots: NamedFiles<'a>,
    /// The walk through the root that was examined last.
    walk: Option<Walk>,
}

/// A file that was found.
struct Found {
    path: Vec<u8>,
    ino: Ino,
}

pub(super) fn run(args: &FindArgs) -> Result<ExitCode> {
    let (fs, paths) = open(&args.files)?;
    let failures = Failures::new(1);
    let mut search = Search {
        fs: &fs,
        args,
        name: args.name.as_ref().map(|name| Pattern::new(name.as_bytes())),
        now: SystemTime::now().into(),
        failures: &failures,
        roots: NamedFiles::new(&fs, &paths, false, &failures),
        walk: None,
    };
    if args.json {
        let entries = std::iter::from_fn(|| search.next_entry());
        write_json(&BTreeMap::from([("entries", json::Stream::new(entries))]))?;
    } else {
        print_paths(&mut search)?;
    }
    Ok(failures.exit_code())
}

impl Search<'_> {
    /// Returns the file that the walk has reached, if it meets the criteria.
    fn examined(&self, entry: &DirEntry) -> Option<Found> {
        let args = self.args;
        let kind = entry.kind().ok();
        let reads_inode = args.json
            || args.kind.is_some()
            || args.size.is_some()
            || args.mtime.is_some()
            || args.newer_than.is_some();
        let path = || entry.path().into_os_string().into_vec();
        let report = |error: larder::Error| self.failures.report(&of_path(&path(), &error));
        let metadata = || self.fs.volume().metadata(entry.ino());
        if reads_inode {
            // The walk reports errors of directories, and of files whose type cannot be read.
            let is_reported = match kind {
                None => true,
                Some(FileKind::Directory) => metadata().is_err(),
                Some(_) => false,
            };
            if is_reported {
                return None;
            }
            if kind != Some(FileKind::Directory)
                && let Ok(metadata) = metadata()
                && let Err(error) = check_kind(kind, &metadata)
            {
                report(error);
            }
        }
        let metadata = || metadata().map_err(report).ok();
        self.meets_criteria(entry.file_name().as_bytes(), kind, metadata)
            .then(|| Found {
                path: path(),
                ino: entry.ino(),
            })
    }

    /// Begins the walk through `root`. Returns `root` itself if it meets the criteria.
    fn begin(&mut self, root: NamedFile) -> Option<Found> {
        let NamedFile { path, metadata } = root;
        if metadata.is_dir() {
            match self.fs.walk(OsStr::from_bytes(&path)) {
                Ok(walk) => self.walk = Some(walk),
                Err(error) => self.failures.report_path(&of_cause(&path, &error)),
            }
        }
        let mut names = path.split(|&byte| byte == b'/');
        let name = names.rfind(|name| !name.is_empty()).unwrap_or(b"/");
        self.meets_criteria(name, Some(metadata.kind), || Some(metadata))
            .then_some(Found {
                path,
                ino: metadata.ino,
            })
    }

    /// Returns whether a file meets the criteria. `metadata` reads its attributes, or reports why they cannot be read.
    fn meets_criteria(
        &self,
        name: &[u8],
        kind: Option<FileKind>,
        metadata: impl FnOnce() -> Option<Metadata>,
    ) -> bool {
        let FindArgs {
            kind: kinds,
            size,
            mtime,
            newer_than,
            ..
        } = self.args;
        let has_name = self
            .name
            .as_ref()
            .is_none_or(|pattern| pattern.matches(name));
        let is_of_kind = kinds
            .as_ref()
            .is_none_or(|kinds| kind.is_some_and(|kind| kinds.matches(kind)));
        if !has_name || !is_of_kind {
            return false;
        }
        if size.is_none() && mtime.is_none() && newer_than.is_none() {
            return true;
        }
        let Some(Metadata {
            size_bytes,
            modified,
            ..
        }) = metadata()
        else {
            return false;
        };
        size.is_none_or(|size| size.matches(size_bytes))
            && mtime.is_none_or(|mtime| mtime.matches(modified, self.now))
            && newer_than.is_none_or(|time| modified > time)
    }

    /// Returns the next file with its attributes. Reports files whose attributes cannot be read.
    fn next_entry(&mut self) -> Option<JsonEntry> {
        loop {
            let found = self.next()?;
            match JsonEntry::new(self.fs, &found) {
                Ok(entry) => return Some(entry),
                Err(error) => self.failures.report(&of_path(&found.path, &error)),
            }
        }
    }
}

impl Iterator for Search<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = match self.walk.as_mut().and_then(Iterator::next) {
                Some(Ok(entry)) => self.examined(&entry),
                Some(Err(error)) => {
                    self.failures.report(&of_cause(b"", &error));
                    None
                }
                None => {
                    let root = self.roots.next()?;
                    self.begin(root)
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

fn print_paths(search: &mut Search<'_>) -> Result<()> {
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    for found in search {
        names.write(&mut out, &found.path)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct JsonEntry {
    #[serde(flatten)]
    path: json::FilePath,
    #[serde(flatten)]
    file: json::File,
}

impl JsonEntry {
    fn new(fs: &Fs, found: &Found) -> larder::Result<Self> {
        let volume = fs.volume();
        let metadata = volume.metadata(found.ino)?;
        let target = match metadata.kind {
            FileKind::Symlink => Some(volume.read_link(found.ino)?),
            _ => None,
        };
        Ok(Self {
            path: json::FilePath::new(&found.path),
            file: json::File::new(&metadata, target.as_deref()),
        })
    }
}
