//! `larder cp`: copies files out of an image into the system's file system. The other direction is
//! [`inward`].
//!
//! The image is hostile: its names, links and loops must not lead outside the destination or to an
//! endless copy.
//!
//! Invariants:
//! 1. Everything below the destination is reached from an open directory by one name, never through a
//!    symbolic link. The name is not empty, `.` or `..`, and contains no slash.
//! 2. An existing file is replaced by a complete copy, never written into. An existing directory is
//!    entered only if it really is one. The destination itself is the user's choice: a device, a FIFO
//!    or a symbolic link there is written into, as cp(1) does, and never replaced by a regular file.
//! 3. No directory of the image is entered twice, so loops end.

mod attributes;
mod content;
mod inward;
mod metadata;
mod progress;
mod special;
mod tree;

use super::place::Place;
use crate::args::CpArgs;
use crate::failure::of_path;
use crate::{mount_options, opening};
use indicatif::ProgressBar;
use larder::{FileKind, Ino, Volume};
use larder_console::{Failure, Result, name};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use tree::TreeCopy;

/// The target of one source.
struct Target<'a> {
    /// The directory that contains it.
    parent: OwnedFd,
    /// The name in the directory; `None` for the directory itself.
    name: Option<&'a OsStr>,
}

pub(super) fn run(args: &CpArgs) -> Result<ExitCode> {
    let wanted = || Failure::Usage {
        message: "cp needs IMAGE PATH... DEST, or FILE... IMAGE:/PATH".to_owned(),
        hint: Some("larder cp --help shows examples".to_owned()),
    };
    let (destination, sources) = args.paths.split_last().ok_or_else(wanted)?;
    if let Some(place) = Place::parse(destination).filter(|place| !place.image.is_dir()) {
        return inward::run(args, sources, place);
    }
    match sources.split_first() {
        Some((image, paths)) if !paths.is_empty() => {
            outward(args, Path::new(image), paths, Path::new(destination))
        }
        _ => Err(wanted()),
    }
}

/// Copies files out of an image.
fn outward(
    args: &CpArgs,
    image: &Path,
    sources: &[OsString],
    destination: &Path,
) -> Result<ExitCode> {
    if destination == Path::new("-") {
        return Err(Failure::Usage {
            message: "cp does not write to standard output".to_owned(),
            hint: Some("use larder cat IMAGE PATH; for a file named -, give ./-".to_owned()),
        });
    }
    let volume = opening::open(image, &mount_options::open_options(&args.volume))?;
    if sources.len() > 1 && !destination.is_dir() {
        return Err(Failure::with_hint(
            format!("destination {} is not a directory", destination.display()),
            "to copy several paths, DEST must be an existing directory",
        ));
    }
    if !destination.is_dir() {
        special::check_not_image(image, destination)?;
    }
    raise_descriptor_limit();
    let progress = progress::bar(|| {
        let trees = sources
            .iter()
            .filter_map(|source| volume.resolve_no_follow(source.as_bytes()).ok());
        trees.map(|ino| progress::tree_bytes(&volume, ino)).sum()
    });
    let mut has_failed = false;
    for source in sources {
        let source = source.as_bytes();
        let copied = copy_one(&volume, source, destination, args.recursive, &progress);
        match copied {
            Ok(is_complete) => has_failed |= !is_complete,
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => {
                progress.suspend(|| failure.print(1));
                has_failed = true;
            }
        }
    }
    progress.finish_and_clear();
    Ok(ExitCode::from(u8::from(has_failed)))
}

/// Copies one source. Returns false if some of it could not be copied; the reason was reported.
fn copy_one(
    volume: &Volume,
    source: &[u8],
    destination: &Path,
    is_recursive: bool,
    progress: &ProgressBar,
) -> Result<bool> {
    let ino = resolve(volume, source, is_recursive)?;
    let metadata = volume
        .metadata(ino)
        .map_err(|error| of_path(source, &error))?;
    if metadata.kind == FileKind::Directory && !is_recursive {
        return Err(Failure::with_hint(
            format!("{} is a directory", name::escaped(source)),
            "give -r to copy directories",
        ));
    }
    if let Some(output) = special::opened(&metadata, destination)? {
        special::write(volume, &metadata, &output, progress)
            .map_err(|failure| failure.at(source))?;
        return Ok(true);
    }
    let target = target(source, destination)?;
    if metadata.kind == FileKind::Regular && destination.is_dir() {
        check_not_special(&target)?;
    }
    let mut copy = TreeCopy::new(volume, target.parent.as_fd(), progress);
    match target.name {
        Some(name) => copy.copy(ino, name, source),
        None if metadata.kind == FileKind::Directory => copy.copy_into(ino, source),
        None => {
            return Err(Failure::new(format!(
                "destination {} is a directory",
                destination.display()
            )));
        }
    }
    Ok(!copy.has_failed())
}

/// Resolves a source. As in cp(1), links named on the command line are followed, except when trees are
/// copied.
fn resolve(volume: &Volume, source: &[u8], is_recursive: bool) -> Result<Ino> {
    if is_recursive {
        volume.resolve_no_follow(source)
    } else {
        volume.resolve(source)
    }
    .map_err(|error| of_path(source, &error))
}

/// Returns the target as cp(1) does: in the destination if it is a directory, otherwise in its place.
fn target<'a>(source: &'a [u8], destination: &'a Path) -> Result<Target<'a>> {
    if destination.is_dir() {
        return Ok(Target {
            parent: open_directory(destination)?,
            name: last_name(source),
        });
    }
    let name = destination.file_name().ok_or_else(|| {
        Failure::new(format!(
            "destination {} does not exist",
            destination.display()
        ))
    })?;
    let parent = match destination.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok(Target {
        parent: open_directory(parent)?,
        name: Some(name),
    })
}

/// Fails if the target is a device or FIFO in a directory. It is not replaced by a regular file, since
/// it may be the system's, and not written into, since it may come from the image.
fn check_not_special(target: &Target<'_>) -> Result<()> {
    let Some(name) = target.name else {
        return Ok(());
    };
    let Ok(present) = statat(&target.parent, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(());
    };
    match FileType::from_raw_mode(present.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Ok(()),
        _ => Err(Failure::with_hint(
            format!(
                "{} in the destination is not a regular file",
                name::escaped(name.as_bytes())
            ),
            "to write into it, give its path as DEST",
        )),
    }
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| Failure::new(format!("cannot open directory {}: {errno}", path.display())))
}

/// Returns the last name of a path inside the image; `None` for the root, and for names such as `..`.
fn last_name(path: &[u8]) -> Option<&OsStr> {
    path.split(|&byte| byte == b'/')
        .rfind(|name| !name.is_empty())
        .filter(|&name| tree::is_plain_name(name))
        .map(OsStr::from_bytes)
}

/// Raises the limit of open files to the maximum: a tree keeps one descriptor open for each level.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(errno) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!("cannot raise the limit of open files: {errno}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_name_of_a_path_is_its_file() {
        for (path, name) in [
            ("/etc/passwd", Some("passwd")),
            ("etc//init.d/", Some("init.d")),
            ("/", None),
            ("", None),
            ("/etc/..", None),
            ("/etc/.", None),
        ] {
            assert_eq!(last_name(path.as_bytes()), name.map(OsStr::new), "{path:?}");
        }
    }
}
