//! The command `larder find`: searches for files in an image.

use super::expand::{NamedFile, named_files};
use super::image_path::Operands;
use crate::args::FindArgs;
use crate::failure::{of_cause, of_path};
use crate::json;
use crate::opening::open_image;
use crate::pattern::Pattern;
use larder::fs::{DirEntry, Walk};
use larder::{FileKind, Fs, Ino, Metadata, Timestamp};
use larder_console::name::Names;
use larder_console::{Failure, Result, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::time::SystemTime;
use std::vec;

/// The files that meet all criteria.
struct Search<'a> {
    fs: &'a Fs,
    args: &'a FindArgs,
    name: Option<Pattern>,
    now: Timestamp,
    /// The files of the command line that were not examined yet.
    roots: vec::IntoIter<NamedFile>,
    /// The walk through the last one.
    walk: Option<Walk>,
    has_failed: bool,
}

/// A file that was found.
struct Found {
    path: Vec<u8>,
    ino: Ino,
}

pub(super) fn run(args: &FindArgs) -> Result<ExitCode> {
    let Operands { source, paths } =
        Operands::new(&args.files.source, &args.files.paths, Some("/"))?;
    let fs = Fs::new(open_image(&source)?);
    let mut search = Search {
        fs: &fs,
        args,
        name: args.name.as_ref().map(|name| Pattern::new(name.as_bytes())),
        now: SystemTime::now().into(),
        roots: Vec::new().into_iter(),
        walk: None,
        has_failed: false,
    };
    let roots = named_files(&fs, &paths, false, |failure| search.report(failure));
    search.roots = roots.into_iter();
    if args.json {
        let entries = std::iter::from_fn(|| search.next_entry());
        write_json(&BTreeMap::from([("entries", json::Stream::new(entries))]))?;
    } else {
        print_paths(&mut search)?;
    }
    Ok(ExitCode::from(u8::from(search.has_failed)))
}

impl Search<'_> {
    /// Returns the file that the walk has reached, if it meets the criteria.
    fn examined(&mut self, entry: &DirEntry) -> Option<Found> {
        let path = || entry.path().into_os_string().into_vec();
        let kind = entry.kind().map_err(|error| of_cause(&path(), &error));
        let kind = self.succeeded(kind)?;
        let metadata = || {
            let metadata = self.fs.volume().metadata(entry.ino());
            metadata.map_err(|error| of_path(&path(), &error))
        };
        let is_found = self.meets_criteria(entry.file_name().as_bytes(), kind, metadata);
        self.succeeded(is_found)?.then(|| Found {
            path: path(),
            ino: entry.ino(),
        })
    }

    /// Begins the walk through `root`. Returns it if it meets the criteria.
    fn begin(&mut self, root: NamedFile) -> Option<Found> {
        let NamedFile { path, metadata } = root;
        if metadata.is_dir() {
            let walk = self.fs.walk(OsStr::from_bytes(&path));
            self.walk = self.succeeded(walk.map_err(|error| of_cause(&path, &error)));
        }
        let name = path.split(|&byte| byte == b'/').rfind(|name| !name.is_empty());
        let name = name.unwrap_or(b"/");
        let is_found = self.meets_criteria(name, metadata.kind, || Ok(metadata));
        self.succeeded(is_found)?.then_some(Found {
            path,
            ino: metadata.ino,
        })
    }

    /// Returns whether a file meets the criteria. `metadata` reads its attributes.
    fn meets_criteria(
        &self,
        name: &[u8],
        kind: FileKind,
        metadata: impl FnOnce() -> Result<Metadata>,
    ) -> Result<bool> {
        let FindArgs {
            kind: kinds,
            size,
            mtime,
            newer_than,
            ..
        } = self.args;
        let has_name = self.name.as_ref().is_none_or(|pattern| pattern.matches(name));
        if !has_name || kinds.as_ref().is_some_and(|kinds| !kinds.matches(kind)) {
            return Ok(false);
        }
        if size.is_none() && mtime.is_none() && newer_than.is_none() {
            return Ok(true);
        }
        let Metadata {
            size_bytes,
            modified,
            ..
        } = metadata()?;
        Ok(size.is_none_or(|size| size.matches(size_bytes))
            && mtime.is_none_or(|mtime| mtime.matches(modified, self.now))
            && newer_than.is_none_or(|time| modified > time))
    }

    /// Returns the next file with its attributes. Reports files whose attributes cannot be read.
    fn next_entry(&mut self) -> Option<JsonEntry> {
        loop {
            let found = self.next()?;
            let entry = JsonEntry::new(self.fs, &found);
            let entry = entry.map_err(|error| of_path(&found.path, &error));
            if let Some(entry) = self.succeeded(entry) {
                return Some(entry);
            }
        }
    }

    fn report(&mut self, failure: &Failure) {
        failure.print(1);
        self.has_failed = true;
    }

    /// Returns the value. Prints a failure.
    fn succeeded<T>(&mut self, result: Result<T>) -> Option<T> {
        result.map_err(|failure| self.report(&failure)).ok()
    }
}

impl Iterator for Search<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = if let Some(step) = self.walk.as_mut().and_then(Iterator::next) {
                let entry = step.map_err(|error| of_cause(b"", &error));
                let entry = self.succeeded(entry);
                entry.and_then(|entry| self.examined(&entry))
            } else {
                let root = self.roots.next()?;
                self.begin(root)
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
