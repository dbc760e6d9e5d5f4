//! The command `larder du`: shows the space that directories of an image use.
//!
//! Cost: the inode number of each file with several hard links. If the command line names several files, one can be
//! below another, and the cost is the inode number of each file.

use super::expand::{NamedFile, NamedFiles, is_one_file};
use super::reading::{Failures, allocated_bytes, check_kind, open};
use crate::args::DuArgs;
use crate::failure::{of_cause, of_path};
use crate::json;
use larder::fs::{DirEntry, Step, Walk};
use larder::{Fs, Ino, Metadata};
use larder_console::name::Names;
use larder_console::{Result, size, write_json};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::ExitCode;

/// The space of a directory, or of a file of the command line.
struct Total {
    path: Vec<u8>,
    bytes: u64,
}

/// A directory that the walk has entered.
struct Level {
    ino: Ino,
    /// The entry of the directory, or `None` if the command line names it.
    entry: Option<DirEntry>,
    bytes: u64,
}

/// The totals that the command prints.
struct Totals<'a> {
    fs: &'a Fs,
    args: &'a DuArgs,
    failures: &'a Failures,
    /// The files of the command line that are not counted yet.
    roots: NamedFiles<'a>,
    /// Whether the command line can name several files, so that one can be below another.
    has_several_roots: bool,
    /// The walk through the present root.
    walk: Option<Walk>,
    /// The path of the present root.
    root: Vec<u8>,
    levels: Vec<Level>,
    /// The directory that the walk has returned last.
    last: Option<Level>,
    /// The counted files that can be reached a second time, and the counted directories if there are several roots.
    counted: HashSet<Ino>,
}

pub(super) fn run(args: &DuArgs) -> Result<ExitCode> {
    let (fs, paths) = open(&args.files)?;
    let failures = Failures::new(1);
    let mut totals = Totals {
        fs: &fs,
        args,
        failures: &failures,
        roots: NamedFiles::new(&fs, &paths, false, &failures),
        has_several_roots: !is_one_file(&paths),
        walk: None,
        root: Vec::new(),
        levels: Vec::new(),
        last: None,
        counted: HashSet::new(),
    };
    if args.json {
        let entries = totals.by_ref().map(JsonTotal::from);
        write_json(&BTreeMap::from([("entries", json::Stream::new(entries))]))?;
    } else {
        print_text(&mut totals, args.human_readable)?;
    }
    Ok(failures.exit_code())
}

impl Totals<'_> {
    /// Begins with `root`. If it is not a directory, returns its total.
    fn begin(&mut self, root: NamedFile) -> Option<Total> {
        let NamedFile { path, metadata } = root;
        let bytes = allocated_bytes(&metadata);
        if !metadata.is_dir() {
            return self.is_new(&metadata).then_some(Total { path, bytes });
        }
        if self.counted.contains(&metadata.ino) {
            return None;
        }
        match self.fs.walk(OsStr::from_bytes(&path)) {
            Ok(walk) => {
                self.walk = Some(walk);
                self.root = path;
                self.levels.push(Level {
                    ino: metadata.ino,
                    entry: None,
                    bytes,
                });
            }
            Err(error) => self.failures.report_path(&of_cause(&path, &error)),
        }
        None
    }

    /// Counts an entry, unless it is counted already. If it is a directory that the walk must not enter, returns false.
    fn count(&mut self, entry: DirEntry) -> bool {
        let report = |error: larder::Error| {
            let path = entry.path().into_os_string().into_vec();
            self.failures.report(&of_path(&path, &error));
        };
        let metadata = match self.fs.volume().metadata(entry.ino()) {
            Ok(metadata) => metadata,
            Err(error) => {
                report(error);
                return false;
            }
        };
        let bytes = allocated_bytes(&metadata);
        let checked = check_kind(entry.kind().ok(), &metadata).map_err(report);
        if metadata.is_dir() && checked.is_ok() {
            // Its space is added when the walk leaves it.
            self.last = Some(Level {
                ino: metadata.ino,
                entry: Some(entry),
                bytes,
            });
            return !self.counted.contains(&metadata.ino);
        }
        if self.is_new(&metadata) {
            self.add(bytes);
        }
        checked.is_ok()
    }

    /// Returns whether a file is not counted yet, and records that it is counted now.
    fn is_new(&mut self, metadata: &Metadata) -> bool {
        let has_one_path = metadata.links <= 1 && !self.has_several_roots;
        has_one_path || self.counted.insert(metadata.ino)
    }

    /// Adds the space of a file to that of its directory.
    fn add(&mut self, bytes: u64) {
        if let Some(level) = self.levels.last_mut() {
            level.bytes = level.bytes.saturating_add(bytes);
        }
    }

    /// Ends the present directory. Returns its total; with `--summarize`, only if the command line names the directory.
    fn leave(&mut self) -> Option<Total> {
        let Level { ino, entry, bytes } = self.levels.pop()?;
        self.add(bytes);
        if self.has_several_roots {
            self.counted.insert(ino);
        }
        let path = match entry {
            None => std::mem::take(&mut self.root),
            Some(_) if self.args.summarize => return None,
            Some(entry) => entry.path().into_os_string().into_vec(),
        };
        Some(Total { path, bytes })
    }
}

impl Iterator for Totals<'_> {
    type Item = Total;

    fn next(&mut self) -> Option<Total> {
        loop {
            let mut total = None;
            if let Some(mut walk) = self.walk.take() {
                match walk.step() {
                    Some(Ok(Step::Entry(entry))) => {
                        if !self.count(entry) {
                            walk.skip_directory();
                        }
                    }
                    Some(Ok(Step::Entered)) => self.levels.extend(self.last.take()),
                    Some(Ok(Step::Left)) => total = self.leave(),
                    Some(Err(error)) => self.failures.report(&of_cause(b"", &error)),
                    // The next root follows.
                    None => continue,
                }
                self.walk = Some(walk);
            } else {
                let root = self.roots.next()?;
                total = self.begin(root);
            }
            if total.is_some() {
                return total;
            }
        }
    }
}

fn print_text(totals: &mut Totals<'_>, is_human_readable: bool) -> Result<()> {
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    for Total { path, bytes } in totals {
        write!(out, "{}\t", size::shown(bytes, is_human_readable))?;
        names.write(&mut out, &path)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct JsonTotal {
    #[serde(flatten)]
    path: json::FilePath,
    allocated_bytes: u64,
}

impl From<Total> for JsonTotal {
    fn from(total: Total) -> Self {
        Self {
            path: json::FilePath::new(&total.path),
            allocated_bytes: total.bytes,
        }
    }
}
