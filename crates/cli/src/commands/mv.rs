//! The command `larder mv`: moves or renames files in an image.

use super::operands::{self, Operands, Target, directory};
use crate::args::MvArgs;
use crate::failure::of_path;
use larder::{RenameFlags, Volume};
use larder_console::{Failure, Result, name};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

pub(super) fn run(args: &MvArgs) -> Result<ExitCode> {
    let files = Operands::new(&args.files.source, &args.files.paths, None)?;
    let Some((destination, sources @ [_, ..])) = files.paths.split_last() else {
        return Err(Failure::usage_with_hint(
            "mv needs a path and a destination",
            "larder mv --help shows examples",
        ));
    };
    operands::change(&files.source, |volume| {
        move_all(volume, args, sources, destination.as_bytes())
    })
}

fn move_all(
    volume: &Volume,
    args: &MvArgs,
    sources: &[OsString],
    destination: &[u8],
) -> Result<ExitCode> {
    if sources.len() > 1 && directory(volume, destination).is_none() {
        return Err(Failure::with_hint(
            format!("{} is not a directory", name::escaped(destination)),
            "to move several paths, DEST must be an existing directory",
        ));
    }
    let flags = if args.no_clobber {
        RenameFlags::NOREPLACE
    } else {
        RenameFlags::empty()
    };
    let mut code = ExitCode::SUCCESS;
    for source in sources {
        let source = source.as_bytes();
        let moved = Target::of(volume, source).and_then(|old| {
            let new = Target::in_or_at(volume, destination, Some(&old.name))?;
            volume
                .rename(old.parent, &old.name, new.parent, &new.name, flags)
                .map_err(|error| of_path(source, &error))
        });
        if let Err(failure) = moved {
            code = failure.print(1);
        }
    }
    Ok(code)
}
