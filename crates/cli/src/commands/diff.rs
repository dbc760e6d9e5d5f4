//! The command `larder diff`: compares images, or trees and files in them.
//!
//! Model: `diff -rq` for the walk and the exit codes, and `rsync -n` for the attributes. The times of modification are only
//! compared on request: they differ between two builds of one tree.
//!
//! Cost: that of a [`Comparison`]. Each difference is printed when it is found.

use super::compare::found::Found;
pub(crate) use super::compare::found::TROUBLE;
use super::compare::{Change, Comparison, Options, Shared, SharedRanges, Times, Tree};
use super::operands::{Operands, is_same_image};
use crate::args::{DiffArgs, ImageArgs};
use crate::opening::open_raw;
use crate::{json, remote};
use larder::{Fs, JournalState, Metadata, Volume};
use larder_console::{Failure, Result, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

/// The exit code if there are differences. All failures of the command have the exit code [`TROUBLE`].
const DIFFERENT: u8 = 1;

pub(super) fn run(args: &DiffArgs) -> Result<ExitCode> {
    if args.volume.overlay.is_some() {
        return Err(Failure::usage_with_hint(
            "--overlay cannot be used with diff",
            "larder overlay diff lists the changes in an overlay",
        ));
    }
    let (old, old_root) = operand(args, &args.old)?;
    let (new, new_root) = operand(args, &args.new)?;
    let (old_volume, is_old_raw) = open_raw(&old)?;
    let is_old_stored = is_old_raw && is_stored(&old_volume);
    let old_fs = Fs::new(old_volume);
    let (new_fs, shared) = if is_same_image(&old.image, &new.image) {
        (old_fs.clone(), Shared::Volume)
    } else {
        let (new_volume, is_new_raw) = open_raw(&new)?;
        let shared = if is_old_stored && is_new_raw && is_stored(&new_volume) {
            Shared::Ranges(SharedRanges::of(&old.image, &new.image))
        } else {
            Shared::Nothing
        };
        (Fs::new(new_volume), shared)
    };
    let options = Options {
        times: if args.times {
            Times::All
        } else {
            Times::Ignored
        },
        is_brief: false,
    };
    let tree = |fs, source: ImageArgs, root| Tree {
        fs,
        is_remote: remote::is_remote(&source.image),
        image: source.image,
        root,
    };
    let comparison = Comparison::new(
        tree(old_fs, old, old_root),
        tree(new_fs, new, new_root),
        shared,
        options,
    )?;
    let mut found = Found::new(comparison);
    let printed = if args.json {
        let entries = json::Stream::new(std::iter::from_fn(|| next_json(&mut found)));
        write_json(&BTreeMap::from([("differences", entries)]))
    } else {
        found.print(|difference| {
            let changes = difference.changes.iter().map(|change| change.as_str());
            changes.collect::<Vec<_>>().join(",")
        })
    };
    match printed {
        // The reader has closed the output early. The exit code is that of the differences found so far.
        Err(Failure::BrokenPipe) => {}
        other => other?,
    }
    if found.has_failures {
        return Ok(ExitCode::from(TROUBLE));
    }
    if !found.has_differences {
        return Ok(ExitCode::SUCCESS);
    }
    // The caller writes the profile only if the exit code is 0.
    remote::finish_profile()?;
    Ok(ExitCode::from(DIFFERENT))
}

/// Returns whether the image has all content of the volume. What was replayed in memory is not in it.
fn is_stored(volume: &Volume) -> bool {
    !matches!(volume.info().journal, JournalState::Recovered { .. })
}

/// Returns how the image of an operand is opened, and the path inside it.
fn operand(args: &DiffArgs, text: &Path) -> Result<(ImageArgs, Vec<u8>)> {
    let first = ImageArgs {
        volume: args.volume.clone(),
        image: text.to_owned(),
    };
    let Operands { source, mut paths } = Operands::new(&first, &[], Some("/"))?;
    let path = paths.pop().unwrap_or_default();
    Ok((source, path.into_vec()))
}

#[derive(Serialize)]
struct JsonDifference {
    #[serde(flatten)]
    path: json::FilePath,
    changes: Vec<Change>,
    old: Option<json::File>,
    new: Option<json::File>,
}

/// Returns the next difference for JSON.
fn next_json(found: &mut Found) -> Option<JsonDifference> {
    let difference = found.next()?;
    let [old, new] = found.trees();
    let file = |tree: &Tree, metadata: &Metadata| {
        // A target that cannot be read is left out.
        let target = metadata
            .is_symlink()
            .then(|| tree.fs.volume().read_link(metadata.ino).ok())
            .flatten();
        json::File::new(metadata, target.as_deref())
    };
    Some(JsonDifference {
        path: json::FilePath::new(&difference.path),
        changes: difference.changes,
        old: difference.old.map(|metadata| file(old, &metadata)),
        new: difference.new.map(|metadata| file(new, &metadata)),
    })
}
