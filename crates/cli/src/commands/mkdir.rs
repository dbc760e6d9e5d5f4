//! The command `larder mkdir`: creates directories in an image.

use super::operands::{self, Operands, Target, new_file};
use crate::args::MkdirArgs;
use crate::failure::of_path;
use larder::{FileKind, Ino, Volume};
use larder_console::{Failure, Result, name};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub(super) fn run(args: &MkdirArgs) -> Result<ExitCode> {
    let permissions = args.mode.unwrap_or(0o777 & !operands::umask());
    let files = Operands::new(&args.files.source, &args.files.paths, None)?;
    operands::change(&files.source, |volume| {
        let mut code = ExitCode::SUCCESS;
        for path in &files.paths {
            let path = path.as_bytes();
            let made = if args.parents {
                make_all(volume, path, permissions)
            } else {
                make(volume, path, permissions)
            };
            if let Err(failure) = made {
                code = failure.print(1);
            }
        }
        Ok(code)
    })
}

fn make(volume: &Volume, path: &[u8], permissions: u16) -> Result<()> {
    let target = Target::of(volume, path)?;
    volume
        .make_dir(target.parent, &target.name, &new_file(permissions))
        .map_err(|error| of_path(path, &error))?;
    Ok(())
}

/// Creates the missing directories of the path, as mkdir(1) does with `-p`.
fn make_all(volume: &Volume, path: &[u8], permissions: u16) -> Result<()> {
    let failed = |error| of_path(path, &error);
    let mut at = Ino::ROOT;
    for end in ends(path) {
        at = match volume.resolve(&path[..end]) {
            Ok(ino) if volume.metadata(ino).map_err(failed)?.kind == FileKind::Directory => ino,
            Ok(_) => {
                let existing = name::escaped(&path[..end]);
                return Err(Failure::new(format!(
                    "{existing} exists and is not a directory"
                )));
            }
            Err(larder::Error::NotFound(_)) => {
                let start = path[..end]
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .map_or(0, |at| at + 1);
                let made = volume.make_dir(at, &path[start..end], &new_file(permissions));
                made.map_err(failed)?.ino
            }
            Err(error) => return Err(failed(error)),
        };
    }
    Ok(())
}

/// Returns the offset of the end of each name in a path.
fn ends(path: &[u8]) -> impl Iterator<Item = usize> {
    (1..=path.len())
        .filter(|&end| path[end - 1] != b'/' && path.get(end).is_none_or(|&byte| byte == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_path_end_where_slashes_begin() {
        assert!(ends(b"/a//bc/d").eq([2, 6, 8]));
        assert!(ends(b"a/").eq([1]));
        assert_eq!(ends(b"/").count(), 0);
    }
}
