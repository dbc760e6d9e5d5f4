//! The command `larder ls`: lists directories and files of an image.

use super::expand::{NamedFile, NamedFiles, is_one_file, push};
use super::reading::{Failures, allocated_bytes, check_kind, open};
use crate::args::LsArgs;
use crate::failure::{of_cause, of_path};
use crate::{json, mode};
use larder::fs::{DirEntry, Step, Walk};
use larder::{FileKind, Fs, Ino, Metadata, Volume};
use larder_console::name::Names;
use larder_console::{Failure, Result, size, time, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;
use std::vec;

/// The exit code if a path of the command line cannot be listed, as in ls(1).
const PATH_FAILED: u8 = 2;

/// A listed file. If its attributes cannot be read, `metadata` is `None`, and the failure is
/// reported.
struct Entry {
    name: Vec<u8>,
    ino: Ino,
    /// The type that the directory records, if it was read.
    kind: Option<FileKind>,
    metadata: Option<Metadata>,
    target: Option<Vec<u8>>,
}

/// A directory and its entries, or a file, which is its only entry.
struct Listing {
    path: Vec<u8>,
    entries: Vec<Entry>,
}

/// The listings that the command prints.
struct Listings<'a> {
    fs: &'a Fs,
    args: &'a LsArgs,
    failures: &'a Failures,
    /// The directories of the command line that are not listed yet.
    directories: vec::IntoIter<Entry>,
    /// The walk through the present directory of the command line, if directories below it are listed.
    walk: Option<Walk>,
    /// Whether the walk has not returned an entry yet. Until then, its errors are those of the root.
    is_at_start: bool,
    /// The entry that the walk has returned last.
    last: Option<DirEntry>,
}

pub(super) fn run(args: &LsArgs) -> Result<ExitCode> {
    let (fs, paths) = open(&args.files)?;
    let failures = Failures::new(PATH_FAILED);
    let (files, mut listings) = Listings::new(&fs, args, &paths, &failures);
    let is_single = is_one_file(&paths);
    if args.json {
        print_json(&mut listings, files, is_single && !args.recursive)?;
    } else {
        let count = files.len() + listings.directories.len();
        let has_headers = args.recursive || paths.len() > 1 || count > 1;
        print_text(&mut listings, &files, has_headers)?;
    }
    Ok(failures.exit_code())
}

impl<'a> Listings<'a> {
    /// Finds the files of the command line. Returns those that are listed themselves, and the listings of the others.
    fn new(
        fs: &'a Fs,
        args: &'a LsArgs,
        paths: &[OsString],
        failures: &'a Failures,
    ) -> (Vec<Entry>, Self) {
        // As in ls(1), a symbolic link is followed, unless the output shows attributes: it then shows those of the link
        // itself.
        let follows_links = !args.long && !args.json && !args.directory;
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for NamedFile { path, metadata } in NamedFiles::new(fs, paths, follows_links, failures) {
            let is_listed = metadata.is_dir() && !args.directory;
            let list = if is_listed {
                &mut directories
            } else {
                &mut files
            };
            list.push(Entry::new(path, metadata.ino));
        }
        directories.sort_unstable_by(by_name);
        let listings = Self {
            fs,
            args,
            failures,
            directories: directories.into_iter(),
            walk: None,
            is_at_start: false,
            last: None,
        };
        listings.complete(None, &mut files);
        (files, listings)
    }

    /// Returns the listing of the directory `ino`, which contains the entries `found`.
    fn listing<'e>(
        &self,
        path: Vec<u8>,
        ino: Ino,
        found: impl Iterator<Item = &'e DirEntry>,
    ) -> Listing {
        let mut entries = if self.args.all {
            dots(self.fs.volume(), ino)
        } else {
            Vec::new()
        };
        for entry in found {
            if self.args.all || !is_hidden(entry) {
                let mut listed = Entry::new(name(entry).to_vec(), entry.ino());
                if self.shows_attributes() {
                    listed.kind = entry.kind().ok();
                }
                entries.push(listed);
            }
        }
        self.complete(Some(&path), &mut entries);
        Listing { path, entries }
    }

    fn shows_attributes(&self) -> bool {
        self.args.long || self.args.json
    }

    /// Sorts the entries of a directory, or the files of the command line, and reads what the output shows of them.
    fn complete(&self, directory: Option<&[u8]>, entries: &mut [Entry]) {
        entries.sort_unstable_by(by_name);
        if !self.shows_attributes() {
            return;
        }
        for entry in entries {
            let Err(error) = entry.load_metadata(self.fs.volume()) else {
                continue;
            };
            let mut path = directory.unwrap_or_default().to_vec();
            push(&mut path, &entry.name);
            self.report(&of_path(&path, &error), directory.is_none());
        }
    }

    /// Prints the failure of a path of the command line, or of a file below one.
    fn report(&self, failure: &Failure, is_path: bool) {
        if is_path {
            self.failures.report_path(failure);
        } else {
            self.failures.report(failure);
        }
    }

    /// Returns the listing of the directory `entry` of the command line. With `--recursive`, begins the walk through it.
    fn enter(&mut self, entry: Entry) -> Option<Listing> {
        let path = OsStr::from_bytes(&entry.name);
        let report = |error: io::Error| {
            let failure = of_cause(path.as_bytes(), &error);
            self.failures.report_path(&failure);
        };
        if self.args.recursive {
            let walk = self.fs.walk(path).map_err(report).ok()?.sorted();
            let listing = self.listing(entry.name, entry.ino, walk.rest());
            self.walk = Some(walk);
            self.is_at_start = true;
            return Some(listing);
        }
        let found = self.fs.read_dir(path).map_err(report).ok()?;
        let found: Vec<_> = found
            .filter_map(|found| found.map_err(report).ok())
            .collect();
        Some(self.listing(entry.name, entry.ino, found.iter()))
    }

    /// Continues the walk until it enters a directory, whose listing is returned, or ends.
    fn step_to_directory(&mut self, mut walk: Walk) -> Option<Listing> {
        loop {
            let step = match walk.step()? {
                Ok(step) => step,
                Err(error) => {
                    self.report(&of_cause(b"", &error), self.is_at_start);
                    continue;
                }
            };
            self.is_at_start = false;
            match step {
                Step::Entry(entry) => {
                    if (!self.args.all && is_hidden(&entry)) || self.is_reported(&entry) {
                        walk.skip_directory();
                    }
                    self.last = Some(entry);
                }
                Step::Entered => {
                    let directory = self.last.take()?;
                    let path = directory.path().into_os_string().into_vec();
                    let listing = self.listing(path, directory.ino(), walk.rest());
                    self.walk = Some(walk);
                    return Some(listing);
                }
                Step::Left => {}
            }
        }
    }

    /// Returns whether `complete` has reported an entry, so that the walk must not report it again. It has if the
    /// attributes of the entry cannot be read, or if the entry is recorded as a directory but is not one.
    fn is_reported(&self, entry: &DirEntry) -> bool {
        let is_entered = entry
            .kind()
            .ok()
            .is_none_or(|kind| kind == FileKind::Directory);
        let metadata = || self.fs.volume().metadata(entry.ino());
        self.shows_attributes() && is_entered && !metadata().is_ok_and(|metadata| metadata.is_dir())
    }
}

impl Iterator for Listings<'_> {
    type Item = Listing;

    fn next(&mut self) -> Option<Listing> {
        if let Some(walk) = self.walk.take()
            && let Some(listing) = self.step_to_directory(walk)
        {
            return Some(listing);
        }
        loop {
            let directory = self.directories.next()?;
            if let Some(listing) = self.enter(directory) {
                return Some(listing);
            }
        }
    }
}

impl Entry {
    fn new(name: Vec<u8>, ino: Ino) -> Self {
        Self {
            name,
            ino,
            kind: None,
            metadata: None,
            target: None,
        }
    }

    fn load_metadata(&mut self, volume: &Volume) -> larder::Result<()> {
        let metadata = volume.metadata(self.ino)?;
        self.metadata = Some(metadata);
        if metadata.kind == FileKind::Symlink {
            self.target = Some(volume.read_link(self.ino)?);
        }
        check_kind(self.kind, &metadata)
    }
}

fn by_name(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    a.name.cmp(&b.name)
}

fn name(entry: &DirEntry) -> &[u8] {
    entry.file_name().as_bytes()
}

fn is_hidden(entry: &DirEntry) -> bool {
    name(entry).starts_with(b".")
}

/// Returns the entries `.` and `..` of a directory, which a walk omits.
fn dots(volume: &Volume, directory: Ino) -> Vec<Entry> {
    let mut entries = Vec::new();
    // The walk reports errors of the listing.
    let _ = volume.read_dir(directory, 0, &mut |entry| {
        if matches!(entry.name, b"." | b"..") {
            entries.push(Entry::new(entry.name.to_vec(), entry.ino));
        }
        if entries.len() < 2 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    entries
}

/// Prints the files, and then the listings of directories, separated by empty lines.
fn print_text(listings: &mut Listings<'_>, files: &[Entry], has_headers: bool) -> Result<()> {
    let args = listings.args;
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut is_first = files.is_empty();
    print_entries(&mut out, args, files)?;
    for listing in listings {
        if has_headers {
            if !is_first {
                out.write_all(b"\n")?;
            }
            names.write(&mut out, &listing.path)?;
            out.write_all(b":\n")?;
        }
        is_first = false;
        if args.long {
            let metadata = listing
                .entries
                .iter()
                .filter_map(|entry| entry.metadata.as_ref());
            let total = metadata.map(allocated_bytes).fold(0, u64::saturating_add);
            let total = size::shown(total, args.human_readable);
            writeln!(out, "total {total}")?;
        }
        print_entries(&mut out, args, &listing.entries)?;
    }
    Ok(out.flush()?)
}

/// Prints one line for each file. Each column is as wide as its widest cell.
fn print_entries(out: &mut impl Write, args: &LsArgs, entries: &[Entry]) -> Result<()> {
    let names = Names::for_stdout();
    let rows: Vec<[String; 6]> = if args.long {
        entries.iter().map(|entry| columns(entry, args)).collect()
    } else {
        Vec::new()
    };
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let mut rows = rows.iter();
    for entry in entries {
        for (cell, width) in rows.next().into_iter().flatten().zip(widths) {
            write!(out, "{cell:>width$} ")?;
        }
        names.write(out, &entry.name)?;
        if let Some(target) = &entry.target {
            out.write_all(b" -> ")?;
            names.write(out, target)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Returns mode, links, owner, group, size or device number, and time.
fn columns(entry: &Entry, args: &LsArgs) -> [String; 6] {
    let Some(metadata) = &entry.metadata else {
        return ["??????????", "?", "?", "?", "?", "?"].map(str::to_owned);
    };
    let size = if mode::is_device(metadata.kind) {
        format!("{}, {}", metadata.rdev_major, metadata.rdev_minor)
    } else if args.human_readable {
        size::short(metadata.size_bytes)
    } else {
        metadata.size_bytes.to_string()
    };
    [
        mode::string(metadata),
        metadata.links.to_string(),
        metadata.uid.to_string(),
        metadata.gid.to_string(),
        size,
        time::short(metadata.modified),
    ]
}

#[derive(Serialize)]
struct JsonEntry {
    #[serde(flatten)]
    name: json::Name,
    #[serde(flatten)]
    file: Option<json::File>,
}

#[derive(Serialize)]
struct JsonListing {
    #[serde(flatten)]
    path: json::FilePath,
    entries: Vec<JsonEntry>,
}

/// Prints a single listing as an object, or all listings as an array in an object.
fn print_json(listings: &mut Listings<'_>, files: Vec<Entry>, is_single: bool) -> Result<()> {
    let of_file = |file: Entry| Listing {
        path: file.name.clone(),
        entries: vec![file],
    };
    let all = files.into_iter().map(of_file).chain(listings);
    let mut all = all.map(JsonListing::from);
    if is_single {
        return all.next().map_or(Ok(()), |listing| write_json(&listing));
    }
    write_json(&BTreeMap::from([("listings", json::Stream::new(all))]))
}

impl From<Listing> for JsonListing {
    fn from(listing: Listing) -> Self {
        let entry = |entry: &Entry| JsonEntry {
            name: json::Name::new(&entry.name),
            file: entry
                .metadata
                .as_ref()
                .map(|metadata| json::File::new(metadata, entry.target.as_deref())),
        };
        Self {
            path: json::FilePath::new(&listing.path),
            entries: listing.entries.iter().map(entry).collect(),
        }
    }
}
