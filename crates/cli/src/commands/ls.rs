//! The command `larder ls`: lists directories and files of an image.

use super::expand::{NamedFile, named_files};
use super::image_path::Operands;
use crate::args::LsArgs;
use crate::failure::{of_cause, of_path};
use crate::opening::open_image;
use crate::pattern::is_pattern;
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

/// The exit code if a file below a path cannot be listed, as in ls(1).
const PART_FAILED: u8 = 1;
/// The exit code if a path of the command line cannot be listed.
const PATH_FAILED: u8 = 2;

/// A listed file. If its attributes cannot be read, `metadata` is `None`, and the failure is
/// reported.
struct Entry {
    name: Vec<u8>,
    ino: Ino,
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
    /// The directories of the command line that are not listed yet.
    directories: vec::IntoIter<Entry>,
    /// The walk through the present one, if directories below it are listed.
    walk: Option<Walk>,
    /// The entry that the walk has returned last.
    last: Option<DirEntry>,
    code: u8,
}

pub(super) fn run(args: &LsArgs) -> Result<ExitCode> {
    let Operands { source, paths } =
        Operands::new(&args.files.source, &args.files.paths, Some("/"))?;
    let fs = Fs::new(open_image(&source)?);
    let mut listings = Listings {
        fs: &fs,
        args,
        directories: Vec::new().into_iter(),
        walk: None,
        last: None,
        code: 0,
    };
    let files = listings.find(&paths);
    let is_single = matches!(&*paths, [path] if !is_pattern(path.as_bytes()));
    if args.json {
        print_json(&mut listings, files, is_single && !args.recursive)?;
    } else {
        let count = files.len() + listings.directories.len();
        let has_headers = args.recursive || paths.len() > 1 || count > 1;
        print_text(&mut listings, &files, has_headers)?;
    }
    Ok(ExitCode::from(listings.code))
}

impl Listings<'_> {
    /// Finds the files of the command line. Returns those that are listed themselves, and sets `directories` to those
    /// whose content is listed.
    fn find(&mut self, paths: &[OsString]) -> Vec<Entry> {
        let (args, fs) = (self.args, self.fs);
        // As in ls(1), a symbolic link is followed, unless the output shows attributes: it then shows those of the link
        // itself.
        let follows_links = !args.long && !args.json && !args.directory;
        let named = named_files(fs, paths, follows_links, |failure| {
            self.report(failure, PATH_FAILED);
        });
        let (mut files, mut directories) = (Vec::new(), Vec::new());
        for NamedFile { path, metadata } in named {
            let is_listed = metadata.is_dir() && !args.directory;
            let list = if is_listed { &mut directories } else { &mut files };
            list.push(Entry::new(path, metadata.ino));
        }
        self.complete(&mut files);
        directories.sort_unstable_by(by_name);
        self.directories = directories.into_iter();
        files
    }

    /// Returns the listing of the directory `ino`, which contains the entries `found`.
    fn listing<'e>(
        &mut self,
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
                entries.push(Entry::new(name(entry).to_vec(), entry.ino()));
            }
        }
        self.complete(&mut entries);
        Listing { path, entries }
    }

    /// Sorts entries, and reads what the output shows of them.
    fn complete(&mut self, entries: &mut [Entry]) {
        entries.sort_unstable_by(by_name);
        if self.args.long || self.args.json {
            for entry in entries {
                if let Err(error) = entry.load_metadata(self.fs.volume()) {
                    self.report(&of_path(&entry.name, &error), PART_FAILED);
                }
            }
        }
    }

    /// Prints a failure. The exit code of the command is the largest one.
    fn report(&mut self, failure: &Failure, code: u8) {
        failure.print(code);
        self.code = self.code.max(code);
    }

    /// Returns the value. Prints a failure.
    fn succeeded<T>(&mut self, result: Result<T>, code: u8) -> Option<T> {
        result.map_err(|failure| self.report(&failure, code)).ok()
    }

    /// Returns the listing of the directory `entry` of the command line. With `--recursive`, begins the walk through it.
    fn enter(&mut self, entry: Entry) -> Option<Listing> {
        let path = OsStr::from_bytes(&entry.name);
        let failed = |error| of_cause(path.as_bytes(), &error);
        if self.args.recursive {
            let walk = self.fs.walk(path).map_err(failed);
            let walk = self.succeeded(walk, PATH_FAILED)?.sorted();
            let listing = self.listing(entry.name, entry.ino, walk.rest());
            self.walk = Some(walk);
            return Some(listing);
        }
        let found = self.fs.read_dir(path).map_err(failed);
        let found = self.succeeded(found, PATH_FAILED)?;
        let found = found.filter_map(|found| self.succeeded(found.map_err(failed), PART_FAILED));
        let found: Vec<_> = found.collect();
        Some(self.listing(entry.name, entry.ino, found.iter()))
    }

    /// Continues the walk until it enters a directory, whose listing is returned, or ends.
    fn step_to_directory(&mut self, mut walk: Walk) -> Option<Listing> {
        loop {
            match walk.step()? {
                Ok(Step::Entry(entry)) => {
                    if !self.args.all && is_hidden(&entry) {
                        walk.skip_directory();
                    }
                    self.last = Some(entry);
                }
                Ok(Step::Entered) => {
                    let directory = self.last.take()?;
                    let path = directory.path().into_os_string().into_vec();
                    let listing = self.listing(path, directory.ino(), walk.rest());
                    self.walk = Some(walk);
                    return Some(listing);
                }
                Ok(Step::Left) => {}
                Err(error) => self.report(&of_cause(b"", &error), PART_FAILED),
            }
        }
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
        Ok(())
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
    path: String,
    entries: Vec<JsonEntry>,
}

/// Prints one listing as an object, or an object with an array of all of them.
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
            path: String::from_utf8_lossy(&listing.path).into_owned(),
            entries: listing.entries.iter().map(entry).collect(),
        }
    }
}
