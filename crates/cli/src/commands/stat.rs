//! The command `larder stat`: shows the attributes of a file in an image.

use super::operands::Operands;
use crate::args::StatArgs;
use crate::failure::of_path;
use crate::opening::open_image;
use crate::{json, mode};
use larder::{FileKind, Metadata};
use larder_console::{Failure, Result, name, time, write_json};
use serde::Serialize;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub(super) fn run(args: &StatArgs) -> Result<ExitCode> {
    let Operands { source, paths } = Operands::new(&args.source, args.path.as_slice(), None)?;
    let [path] = &*paths else {
        return Err(Failure::usage_with_hint(
            "stat shows a single file",
            "run the command once for each file",
        ));
    };
    let path = path.as_bytes();
    let volume = open_image(&source)?;
    let failed = |error| of_path(path, &error);
    let ino = volume.resolve_no_follow(path).map_err(failed)?;
    let metadata = volume.metadata(ino).map_err(failed)?;
    let target = match metadata.kind {
        FileKind::Symlink => Some(volume.read_link(ino).map_err(failed)?),
        _ => None,
    };
    let xattrs = volume.xattrs(ino).map_err(failed)?;
    if args.json {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        write_json(&JsonStat {
            path: text(path),
            file: json::File::new(&metadata, target.as_deref()),
            xattrs: xattrs.iter().map(|name| text(name)).collect(),
        })?;
    } else {
        print_text(path, &metadata, target.as_deref(), &xattrs)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_text(
    path: &[u8],
    metadata: &Metadata,
    target: Option<&[u8]>,
    xattrs: &[Vec<u8>],
) -> Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "      File: {}", name::escaped(path))?;
    if let Some(target) = target {
        write!(out, " -> {}", name::escaped(target))?;
    }
    writeln!(out)?;
    writeln!(out, "      Type: {}", mode::word(metadata.kind))?;
    if mode::is_device(metadata.kind) {
        writeln!(
            out,
            "    Device: {}, {}",
            metadata.rdev_major, metadata.rdev_minor
        )?;
    }
    writeln!(
        out,
        "      Size: {} bytes in {} blocks of 512 bytes",
        metadata.size_bytes, metadata.blocks_512
    )?;
    writeln!(
        out,
        "     Inode: {}, generation {}",
        metadata.ino, metadata.generation
    )?;
    writeln!(out, "     Links: {}", metadata.links)?;
    writeln!(
        out,
        "      Mode: {:04o} {}",
        metadata.permissions,
        mode::string(metadata)
    )?;
    writeln!(
        out,
        "     Owner: user {}, group {}",
        metadata.uid, metadata.gid
    )?;
    writeln!(out, "  Accessed: {}", time::full(metadata.accessed))?;
    writeln!(out, "  Modified: {}", time::full(metadata.modified))?;
    writeln!(out, "   Changed: {}", time::full(metadata.changed))?;
    if let Some(created) = metadata.created {
        writeln!(out, "   Created: {}", time::full(created))?;
    }
    writeln!(out, "     Flags: {:#x}", metadata.flags)?;
    if metadata.project_id != 0 {
        writeln!(out, "   Project: {}", metadata.project_id)?;
    }
    if !xattrs.is_empty() {
        let names: Vec<String> = xattrs.iter().map(|name| name::escaped(name)).collect();
        writeln!(out, "Attributes: {}", names.join(" "))?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct JsonStat {
    path: String,
    #[serde(flatten)]
    file: json::File,
    xattrs: Vec<String>,
}
