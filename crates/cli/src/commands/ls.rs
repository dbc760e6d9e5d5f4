//! The command `larder ls`: lists a directory or a file of an image.

use crate::args::LsArgs;
use crate::failure::of_path;
use crate::opening::open_image;
use crate::{failure, json, mode};
use larder::{FileKind, Ino, Metadata, Volume};
use larder_console::name::Names;
use larder_console::{Result, time, write_json};
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// A listed file. If its attributes cannot be read, `metadata` is `None`, and the failure is
/// reported.
struct Entry {
    name: Vec<u8>,
    ino: Ino,
    metadata: Option<Metadata>,
    target: Option<Vec<u8>>,
}

pub(super) fn run(args: &LsArgs) -> Result<ExitCode> {
    let volume = open_image(&args.source)?;
    let path = args.path.as_bytes();
    let failed = |error| of_path(path, &error);
    // As in ls(1), a symbolic link named on the command line is followed, unless the output shows
    // attributes: it then shows those of the link itself.
    let shows_links = (args.long || args.json) && !path.ends_with(b"/");
    let ino = if shows_links {
        volume.resolve_no_follow(path)
    } else {
        volume.resolve(path)
    }
    .map_err(failed)?;
    let mut entries = match volume.metadata(ino).map_err(failed)?.kind {
        FileKind::Directory => listed(&volume, ino, args.all).map_err(failed)?,
        _ => vec![Entry::new(path.to_vec(), ino)],
    };
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let mut code = ExitCode::SUCCESS;
    if args.long || args.json {
        for entry in &mut entries {
            if let Err(error) = entry.load_metadata(&volume) {
                code = failure::of_path(&entry.name, &error).print(1);
            }
        }
    }
    if args.json {
        print_json(path, &entries)?;
    } else if args.long {
        print_long(&entries)?;
    } else {
        print_names(&entries)?;
    }
    Ok(code)
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

fn listed(volume: &Volume, directory: Ino, all: bool) -> larder::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    volume.read_dir(directory, 0, &mut |entry| {
        if all || !entry.name.starts_with(b".") {
            entries.push(Entry::new(entry.name.to_vec(), entry.ino));
        }
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

fn print_names(entries: &[Entry]) -> Result<()> {
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    for entry in entries {
        names.write(&mut out, &entry.name)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Prints one line for each file. Each column is as wide as its widest cell.
fn print_long(entries: &[Entry]) -> Result<()> {
    let rows: Vec<[String; 6]> = entries.iter().map(columns).collect();
    let mut widths = [0; 6];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let names = Names::for_stdout();
    let mut out = BufWriter::new(io::stdout().lock());
    for (entry, row) in entries.iter().zip(&rows) {
        for (cell, width) in row.iter().zip(widths) {
            write!(out, "{cell:>width$} ")?;
        }
        names.write(&mut out, &entry.name)?;
        if let Some(target) = &entry.target {
            out.write_all(b" -> ")?;
            names.write(&mut out, target)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Returns mode, links, owner, group, size or device number, and time.
fn columns(entry: &Entry) -> [String; 6] {
    let Some(metadata) = &entry.metadata else {
        return ["??????????", "?", "?", "?", "?", "?"].map(str::to_owned);
    };
    let size = if mode::is_device(metadata.kind) {
        format!("{}, {}", metadata.rdev_major, metadata.rdev_minor)
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

fn print_json(path: &[u8], entries: &[Entry]) -> Result<()> {
    let file = |entry: &Entry| {
        let metadata = entry.metadata.as_ref()?;
        Some(json::File::new(metadata, entry.target.as_deref()))
    };
    let entry = |entry: &Entry| JsonEntry {
        name: json::Name::new(&entry.name),
        file: file(entry),
    };
    write_json(&JsonListing {
        path: String::from_utf8_lossy(path).into_owned(),
        entries: entries.iter().map(entry).collect(),
    })
}
