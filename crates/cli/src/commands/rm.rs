//! The command `larder rm`: removes files from an image.

use super::operands::{self, Operands, split};
use crate::args::RmArgs;
use crate::failure::{CHECK_IT, of_path};
use larder::{FileKind, Ino, Volume};
use larder_console::{Failure, Result, name, print_error, print_hint};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub(super) fn run(args: &RmArgs) -> Result<ExitCode> {
    let files = Operands::new(&args.files.source, &args.files.paths, None)?;
    operands::change(&files.source, |volume| {
        let mut code = ExitCode::SUCCESS;
        for path in &files.paths {
            match remove(volume, args, path.as_bytes()) {
                Ok(true) => {}
                Ok(false) => code = ExitCode::from(1),
                Err(failure) => code = failure.print(1),
            }
        }
        Ok(code)
    })
}

/// Removes the file or directory at `path`. Returns false if a part of a directory could not be removed; the
/// reason was already reported.
fn remove(volume: &Volume, args: &RmArgs, path: &[u8]) -> Result<bool> {
    let failed = |error| of_path(path, &error);
    let Some((directory, name)) = split(path) else {
        return Err(Failure::new(format!(
            "{}: refusing to remove this directory; name the files in it",
            name::escaped(path)
        )));
    };
    let found = volume
        .resolve(directory)
        .and_then(|parent| Ok((parent, volume.lookup(parent, name)?)));
    let (parent, ino) = match found {
        Err(larder::Error::NotFound(_)) if args.force => return Ok(true),
        other => other.map_err(failed)?,
    };
    if volume.metadata(ino).map_err(failed)?.kind != FileKind::Directory {
        volume.unlink(parent, name).map_err(failed)?;
        return Ok(true);
    }
    if !args.recursive {
        return Err(Failure::with_hint(
            format!("{} is a directory", name::escaped(path)),
            "give -r to remove directories with their content",
        ));
    }
    Ok(remove_tree(volume, parent, name, ino, path))
}

/// A directory that is being emptied.
struct Level {
    ino: Ino,
    parent: Ino,
    name: Vec<u8>,
    path: Vec<u8>,
    /// Entries that are not removed yet.
    left: Vec<(Vec<u8>, Ino)>,
}

/// Removes a directory with its content, depth first. A file that cannot be removed is reported and remains.
/// No directory is entered twice, so a loop in a damaged image does not make the removal endless.
fn remove_tree(volume: &Volume, parent: Ino, name: &[u8], ino: Ino, path: &[u8]) -> bool {
    let mut is_complete = true;
    let mut report = |path: &[u8], error: &larder::Error| {
        of_path(path, error).print(1);
        is_complete = false;
    };
    let mut entered = HashSet::from([ino]);
    let mut levels = vec![Level {
        ino,
        parent,
        name: name.to_vec(),
        path: path.to_vec(),
        left: listed(volume, ino, path, &mut report),
    }];
    while let Some(level) = levels.last_mut() {
        let Some((name, ino)) = level.left.pop() else {
            if let Err(error) = volume.remove_dir(level.parent, &level.name) {
                report(&level.path, &error);
            }
            levels.pop();
            continue;
        };
        let path = [&level.path[..], b"/", &name].concat();
        match volume.metadata(ino) {
            Ok(metadata) if metadata.kind == FileKind::Directory => {
                if !entered.insert(ino) {
                    print_error(&format!(
                        "{}: the directory has two names: the image is damaged",
                        name::escaped(&path)
                    ));
                    print_hint(CHECK_IT);
                    continue;
                }
                let (parent, left) = (level.ino, listed(volume, ino, &path, &mut report));
                levels.push(Level {
                    ino,
                    parent,
                    name,
                    path,
                    left,
                });
            }
            Ok(_) => {
                if let Err(error) = volume.unlink(level.ino, &name) {
                    report(&path, &error);
                }
            }
            Err(error) => report(&path, &error),
        }
    }
    is_complete
}

fn listed(
    volume: &Volume,
    directory: Ino,
    path: &[u8],
    report: &mut impl FnMut(&[u8], &larder::Error),
) -> Vec<(Vec<u8>, Ino)> {
    let mut entries = Vec::new();
    let listed = volume.read_dir(directory, 0, &mut |entry| {
        if !matches!(entry.name, b"." | b"..") {
            entries.push((entry.name.to_vec(), entry.ino));
        }
        ControlFlow::Continue(())
    });
    if let Err(error) = listed {
        report(path, &error);
    }
    entries
}
