//! The command `larder cp`: copies files out of an image to the host. The module [`inward`] copies files into
//! an image.
//!
//! [`larder::fs::copy`] copies the files. The commands choose the destination of each source, report all errors,
//! and continue after an error.
//!
//! The image may be hostile, so nothing outside the destination is changed. The user chooses the destination
//! itself. If it is a device, a FIFO or a symbolic link to a file, and the source is a regular file, its content is
//! written to the destination, as cp(1) does.

pub(super) mod descriptors;
mod inward;
mod reporter;
mod special;

pub(super) use inward::tree_bytes as host_bytes;

use super::operands::{Operands, check_slash, in_image, is_same_image};
use super::tree_bytes::tree_bytes;
use super::unfinished;
use crate::args::{CpArgs, ImageArgs};
use crate::failure::of_path;
use crate::image_path::ImagePath;
use crate::opening;
use crate::progress;
use crate::remote;
use larder::fs::copy::CopyOut;
use larder::{FileKind, Ino, Volume};
use larder_console::{Failure, Result, name};
use reporter::Reporter;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, statat};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The path on the host to which one source is copied.
struct Target<'a> {
    /// The directory that contains the target.
    parent: OwnedFd,
    /// The name of the target in the directory; `None` if the target is the directory itself.
    name: Option<&'a OsStr>,
}

pub(super) fn run(args: &CpArgs) -> Result<ExitCode> {
    let wanted = || Failure::Usage {
        message: "cp needs IMAGE PATH... DEST, or FILE... IMAGE:/PATH".to_owned(),
        hint: Some("larder cp --help shows examples".to_owned()),
    };
    let (destination, sources) = args.paths.split_last().ok_or_else(wanted)?;
    if let Some(image_path) =
        ImagePath::parse(destination).filter(|image_path| !image_path.image.is_dir())
    {
        for source in sources {
            check_source(source, image_path)?;
        }
        return inward::run(args, sources, image_path);
    }
    let (image, paths) = sources.split_first().ok_or_else(wanted)?;
    if paths.is_empty() && ImagePath::parse(image).is_none() {
        check_slash(Path::new(image))?;
        check_slash(Path::new(destination))?;
        return Err(wanted());
    }
    let image = ImageArgs {
        volume: args.volume.clone(),
        image: image.into(),
    };
    outward(
        args,
        &Operands::new(&image, paths, None)?,
        Path::new(destination),
    )
}

/// Fails if `source`, which is to be copied to `destination`, is a path in an image that exists.
fn check_source(source: &OsStr, destination: ImagePath<'_>) -> Result<()> {
    let exists = |found: &ImagePath<'_>| found.image.exists() || remote::is_remote(found.image);
    let Some(found) = ImagePath::parse(source).filter(exists) else {
        return Ok(());
    };
    let source = name::escaped(source.as_bytes());
    Err(if is_same_image(found.image, destination.image) {
        Failure::usage_with_hint(
            format!("{source} and the destination are in the same image"),
            "use larder mv, or copy to a directory of this machine first, and then into the image",
        )
    } else {
        Failure::usage_with_hint(
            format!("{source} and the destination are both in images"),
            "copy to a directory of this machine first, and then into the other image",
        )
    })
}

/// Copies files out of an image.
fn outward(args: &CpArgs, files: &Operands, destination: &Path) -> Result<ExitCode> {
    if destination == Path::new("-") {
        return Err(Failure::Usage {
            message: "cp does not write to standard output".to_owned(),
            hint: Some("use larder cat IMAGE:/PATH; for a file named -, give ./-".to_owned()),
        });
    }
    let Operands { source, paths } = files;
    let volume = opening::open_image(source).map_err(|failure| with_right_form(args, failure))?;
    let volume = Arc::new(volume);
    if paths.len() > 1 && !destination.is_dir() {
        return Err(Failure::with_hint(
            format!("destination {} is not a directory", destination.display()),
            "to copy several paths, DEST must be an existing directory",
        ));
    }
    if !destination.is_dir() {
        special::check_not_image(&source.image, destination)?;
    }
    descriptors::raise_descriptor_limit();
    let progress = progress::bar(|| {
        let trees = paths
            .iter()
            .filter_map(|path| volume.resolve_no_follow(path.as_bytes()).ok());
        trees.map(|ino| tree_bytes(&volume, ino)).sum()
    });
    let mut reporter = Reporter::new(progress);
    for path in paths {
        let path = path.as_bytes();
        match copy_one(&volume, path, destination, args.recursive, &mut reporter) {
            Ok(()) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => {
                reporter.progress.suspend(|| failure.print(1));
                reporter.has_failed = true;
            }
        }
    }
    reporter.progress.finish_and_clear();
    Ok(ExitCode::from(u8::from(reporter.has_failed)))
}

/// Returns `failure`, which is the reason why the first operand cannot be opened as an image. If the operands are
/// files, an image and a path inside it, adds a hint with the right form of such a copy.
fn with_right_form(args: &CpArgs, failure: Failure) -> Failure {
    let [files @ .., image, path] = args.paths.as_slice() else {
        return failure;
    };
    let source = ImageArgs {
        volume: args.volume.clone(),
        image: image.into(),
    };
    let is_inward = !files.is_empty()
        && path.as_bytes().starts_with(b"/")
        && files.iter().all(|file| Path::new(file).exists())
        && opening::open_image(&source).is_ok();
    if !is_inward {
        return failure;
    }
    let files = files.iter().map(|file| name::escaped(file.as_bytes()));
    let files = files.collect::<Vec<_>>().join(" ");
    let option = if args.recursive { "-r " } else { "" };
    let target = in_image(&source.image, path.as_bytes());
    Failure::usage_with_hint(
        failure.to_string(),
        format!("to copy into the image, write larder cp {option}{files} {target}"),
    )
}

/// Copies one source. Reports each file that could not be copied.
fn copy_one(
    volume: &Arc<Volume>,
    source: &[u8],
    destination: &Path,
    is_recursive: bool,
    reporter: &mut Reporter,
) -> Result<()> {
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
        return special::write(volume, &metadata, &output, reporter)
            .map_err(|failure| failure.at(source));
    }
    let target = target(source, destination)?;
    if metadata.kind == FileKind::Regular && destination.is_dir() {
        check_not_special(&target)?;
    }
    let path = Path::new(OsStr::from_bytes(source));
    let mut copy = CopyOut::new(volume, target.parent.as_fd(), reporter);
    match target.name {
        Some(name) => copy.copy(ino, name, path),
        None if metadata.kind == FileKind::Directory => copy.copy_into(ino, path),
        None => {
            return Err(Failure::new(format!(
                "destination {} is a directory",
                destination.display()
            )));
        }
    }
    Ok(())
}

/// Returns the inode of a source. As in cp(1), a symbolic link that is named on the command line is followed
/// unless the copy is recursive.
fn resolve(volume: &Volume, source: &[u8], is_recursive: bool) -> Result<Ino> {
    if is_recursive {
        volume.resolve_no_follow(source)
    } else {
        volume.resolve(source)
    }
    .map_err(|error| of_path(source, &error))
}

/// Returns the target of `source`, as cp(1) chooses it: a file in `destination` if that is a directory,
/// otherwise `destination` itself.
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
    Ok(Target {
        parent: open_directory(unfinished::directory(destination))?,
        name: Some(name),
    })
}

/// Fails if the target is a device or FIFO in the destination directory. A regular file must not replace
/// such a target, which may belong to the host, as in `/dev`. Content must not be written to it either,
/// because the image may have determined its name.
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

/// Returns the last name of a path inside the image, or `None` for the root and for paths that end in `.` or
/// `..`.
fn last_name(path: &[u8]) -> Option<&OsStr> {
    path.split(|&byte| byte == b'/')
        .rfind(|name| !name.is_empty())
        .filter(|&name| !matches!(name, b"." | b".."))
        .map(OsStr::from_bytes)
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
