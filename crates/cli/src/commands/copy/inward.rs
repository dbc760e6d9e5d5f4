//! The command `larder cp` into an image: copies files of the host, with their metadata.

use super::descriptors::raise_descriptor_limit;
use super::reporter::Reporter;
use crate::args::CpArgs;
use crate::commands::operands::{self, Target, directory};
use crate::image_path::ImagePath;
use crate::progress;
use larder::Volume;
use larder::fs::copy::CopyIn;
use larder_console::{Failure, Result, name, print_error, print_hint};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

/// Copies `sources` of the host to `image_path`.
pub(super) fn run(
    args: &CpArgs,
    sources: &[OsString],
    image_path: ImagePath<'_>,
) -> Result<ExitCode> {
    raise_descriptor_limit();
    operands::change(&image_path.source(&args.volume), |volume| {
        copy_all(volume, args, sources, image_path)
    })
}

fn copy_all(
    volume: &Volume,
    args: &CpArgs,
    sources: &[OsString],
    image_path: ImagePath<'_>,
) -> Result<ExitCode> {
    if sources.len() > 1 && directory(volume, image_path.path).is_none() {
        return Err(Failure::with_hint(
            format!(
                "{} in the image is not a directory",
                name::escaped(image_path.path)
            ),
            "to copy several files, DEST must be an existing directory; larder mkdir creates one",
        ));
    }
    let progress = progress::bar(|| {
        sources
            .iter()
            .map(|source| tree_bytes(source.as_ref()))
            .sum()
    });
    let mut reporter = Reporter::new(progress.clone());
    let mut copy = CopyIn::new(volume, &mut reporter);
    let mut has_refused = false;
    for source in sources {
        let source = Path::new(source);
        if let Err(failure) = copy_one(volume, &mut copy, source, image_path.path, args.recursive) {
            let path = name::escaped(source.as_os_str().as_bytes());
            progress.suspend(|| print_error(&format!("{path}: {failure}")));
            has_refused = true;
        }
    }
    progress.finish_and_clear();
    if reporter.has_filled_image {
        print_hint(
            "the image is unchanged at the paths named above; a copy needs space in addition to the \
             file that it replaces, and larder rm frees space",
        );
    }
    Ok(ExitCode::from(u8::from(reporter.has_failed || has_refused)))
}

/// Copies one source. A directory is copied with its content. Fails if the source cannot be found, or if its
/// destination is invalid.
fn copy_one(
    volume: &Volume,
    copy: &mut CopyIn<'_>,
    source: &Path,
    destination: &[u8],
    is_recursive: bool,
) -> Result<()> {
    let metadata = if is_recursive {
        fs::symlink_metadata(source)
    } else {
        fs::metadata(source)
    }
    .map_err(|error| unreadable(&error))?;
    if metadata.is_dir() && !is_recursive {
        return Err(Failure::with_hint(
            "is a directory",
            "give -r to copy directories",
        ));
    }
    let name = own_name(source);
    // If the source is a directory without a name, such as `.`, its content is copied into the destination
    // itself.
    let into = directory(volume, destination).filter(|_| metadata.is_dir() && name.is_none());
    if let Some(into) = into {
        copy.copy_into(source, into);
    } else {
        let target = Target::in_or_at(volume, destination, name)?;
        copy.copy(source, !is_recursive, target.parent, &target.name);
    }
    Ok(())
}

/// Returns the last name of the path `source`. Returns `None` for a path without a last name, such as `.`,
/// which stands for the content of a directory.
fn own_name(source: &Path) -> Option<&[u8]> {
    let bytes = source.as_os_str().as_bytes();
    let name = bytes
        .split(|&byte| byte == b'/')
        .rfind(|name| !name.is_empty())?;
    (!matches!(name, b"." | b"..")).then_some(name)
}

/// Returns the number of bytes of data below `root`. Files and directories that cannot be read count as 0.
pub(in crate::commands) fn tree_bytes(root: &Path) -> u64 {
    let mut total_bytes = 0_u64;
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if metadata.is_file() {
            let stored_bytes = metadata.blocks().saturating_mul(512);
            total_bytes = total_bytes.saturating_add(metadata.len().min(stored_bytes));
        } else if metadata.is_dir() {
            // Directories that cannot be listed are reported when they are copied.
            let entries = fs::read_dir(&path).into_iter().flatten();
            left.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
        }
    }
    total_bytes
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(format!("cannot read the source: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_directory_content_has_no_name() {
        for (source, name) in [
            ("a/b", Some("b")),
            ("a/b//", Some("b")),
            ("a/.", None),
            ("..", None),
            ("/", None),
        ] {
            assert_eq!(
                own_name(Path::new(source)),
                name.map(str::as_bytes),
                "{source}"
            );
        }
    }
}
