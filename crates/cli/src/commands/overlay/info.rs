//! Shows what an overlay records. Its image is not opened.

use crate::args::OverlayInfoArgs;
use crate::json::Name;
use crate::overlay;
use larder_block::{FileDevice, FileRange, lock_holder};
use larder_console::{Failure, Result, name, size, write_json};
use larder_image::{CommitState, Overlay};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

#[derive(Serialize)]
struct JsonInfo<'i> {
    #[serde(flatten)]
    image: Name,
    format: &'i str,
    version: &'i str,
    size_bytes: u64,
    stored_bytes: u64,
    commit: &'static str,
}

pub(super) fn run(args: &OverlayInfoArgs) -> Result<()> {
    let path = &args.changes;
    // What is read changes only while an overlay is created or committed. So the overlay can be in use.
    let file = FileDevice::open_unlocked(path, FileRange::default())
        .map_err(|error| overlay::not_opened(path, &error.into()))?;
    let info = Overlay::info(&file)
        .map_err(|error| Failure::new(format!("overlay {}: {error}", path.display())))?;
    let stored_bytes = fs::metadata(path)?.blocks() * 512;
    let (commit, described) = match info.commit {
        CommitState::None => ("none", "none"),
        CommitState::Begun { .. } if lock_holder(path).is_some() => ("running", "running"),
        CommitState::Begun { .. } => (
            "interrupted",
            "interrupted: the image has only a part of the changes",
        ),
        CommitState::Complete => ("complete", "complete: the image has all changes"),
    };
    if args.json {
        return write_json(&JsonInfo {
            image: Name::new(&info.base.name),
            format: &info.base.format,
            version: &info.base.version,
            size_bytes: info.size_bytes,
            stored_bytes,
            commit,
        });
    }
    let mut out = io::stdout().lock();
    for (key, value) in [
        ("Image", name::escaped(&info.base.name)),
        ("Format", name::escaped(info.base.format.as_bytes())),
        ("Version", name::escaped(info.base.version.as_bytes())),
        ("Size", size::human(info.size_bytes)),
        ("Stored", size::human(stored_bytes)),
        ("Commit", described.to_owned()),
    ] {
        writeln!(out, "{key:<14} {value}")?;
    }
    Ok(out.flush()?)
}
