//! The command `larder diff`: compares images, or trees and files in them.
//!
//! Model: `diff -rq` for the walk and the exit codes, and `rsync -n` for the attributes. The times of modification are only
//! compared on request: they differ between two builds of one tree.
//!
//! Cost: that of a [`Comparison`]. Each difference is printed when it is found.

use super::compare::{Change, Comparison, Difference, Options, Shared, Times, Tree};
use super::operands::{Operands, is_same_image};
use crate::args::{DiffArgs, ImageArgs};
use crate::opening::open_image;
use crate::{json, remote};
use larder::{Fs, Metadata};
use larder_console::{Failure, Result, name, write_json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;

/// The exit code if there are differences.
const DIFFERENT: u8 = 1;
/// The exit code if a file cannot be compared. All other failures of the command have it, too.
pub(crate) const TROUBLE: u8 = 2;

pub(super) fn run(args: &DiffArgs) -> Result<ExitCode> {
    if args.volume.overlay.is_some() {
        return Err(Failure::usage_with_hint(
            "--overlay cannot be used with diff",
            "larder overlay diff lists the changes in an overlay",
        ));
    }
    let (old, old_root) = operand(args, &args.old)?;
    let (new, new_root) = operand(args, &args.new)?;
    let old_fs = Fs::new(open_image(&old)?);
    let (new_fs, shared) = if is_same_image(&old.image, &new.image) {
        (old_fs.clone(), Shared::Volume)
    } else {
        (Fs::new(open_image(&new)?), Shared::Nothing)
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
    let mut found = Found {
        comparison,
        code: 0,
    };
    let printed = if args.json {
        let entries = json::Stream::new(std::iter::from_fn(|| found.next_json()));
        write_json(&BTreeMap::from([("differences", entries)]))
    } else {
        print_text(&mut found)
    };
    match printed {
        // The reader of the output has seen enough: there is a difference.
        Err(Failure::BrokenPipe) => {}
        other => other?,
    }
    if found.code == DIFFERENT {
        // Of the other commands, only those without a failure write it.
        remote::finish_profile()?;
    }
    Ok(ExitCode::from(found.code))
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

/// The differences, and the exit code that they cause. Failures are printed.
struct Found {
    comparison: Comparison,
    code: u8,
}

impl Iterator for Found {
    type Item = Difference;

    fn next(&mut self) -> Option<Difference> {
        loop {
            match self.comparison.next()? {
                Ok(difference) => {
                    self.code = self.code.max(DIFFERENT);
                    return Some(difference);
                }
                Err(failure) => {
                    failure.print(TROUBLE);
                    self.code = TROUBLE;
                }
            }
        }
    }
}

fn print_text(found: &mut Found) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for difference in found {
        let changes: Vec<&str> = difference
            .changes
            .iter()
            .map(|change| change.as_str())
            .collect();
        let path = name::escaped(&difference.marked_path());
        writeln!(out, "{} {path}", changes.join(","))?;
    }
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct JsonDifference {
    #[serde(flatten)]
    path: json::FilePath,
    changes: Vec<Change>,
    old: Option<json::File>,
    new: Option<json::File>,
}

impl Found {
    /// Returns the next difference for JSON.
    fn next_json(&mut self) -> Option<JsonDifference> {
        let difference = self.next()?;
        let [old, new] = self.comparison.trees();
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
}
