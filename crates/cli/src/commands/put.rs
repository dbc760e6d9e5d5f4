//! The command `larder put`: writes the content of one file, or of standard input, into an image.
//!
//! The content is written to a new file without a name. When the new file is complete, it gets the name of
//! the destination. If the command fails or is interrupted before that, the files in the image are unchanged.

use super::operands::{self, Target, new_file};
use super::unnamed::Unnamed;
use crate::args::PutArgs;
use crate::failure::of_path;
use crate::image_path::ImagePath;
use crate::progress;
use indicatif::ProgressBar;
use larder::{FileKind, Ino, Make, Metadata, SetAttributes, Volume, XattrMode};
use larder_console::{Failure, Result, name, print_note};
use larder_ext4::ondisk::inode::InodeFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

/// The size of the buffer for one read and one write, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// The flags of chattr(1) that are copied from a replaced file to the new one. Flags that forbid replacing a file are
/// not among them.
const KEPT_FLAGS: InodeFlags = InodeFlags::SECRM
    .union(InodeFlags::UNRM)
    .union(InodeFlags::COMPR)
    .union(InodeFlags::SYNC)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::JOURNAL_DATA)
    .union(InodeFlags::NOTAIL);

/// The source of the content.
struct Source {
    input: Box<dyn Read>,
    /// The name of the source; `None` for standard input.
    name: Option<Vec<u8>>,
    permissions: u16,
    /// The length of the content in bytes, or `None` if it is not known.
    len_bytes: Option<u64>,
}

pub(super) fn run(args: &PutArgs) -> Result<ExitCode> {
    if let Some(rest) = &args.rest {
        return Err(too_many(args, rest));
    }
    let image_path = ImagePath::required(&args.destination, || {
        "write IMAGE:/PATH, as in disk.img:/etc/fstab".to_owned()
    })?;
    let source = Source::open(&args.file)?;
    operands::change(&image_path.source(&args.volume), |volume| {
        put(volume, source, image_path.path)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the failure for the operand `rest`, which follows the destination.
fn too_many(args: &PutArgs, rest: &OsStr) -> Failure {
    let hint = if ImagePath::split(&args.destination).is_some() {
        "larder cp copies several files into an image".to_owned()
    } else {
        let file = name::escaped(args.file.as_os_str().as_bytes());
        let image = Path::new(&args.destination);
        let target = operands::in_image(image, rest.as_bytes());
        format!("write larder put {file} {target}")
    };
    Failure::usage_with_hint("put needs FILE IMAGE:/PATH", hint)
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                input: Box::new(io::stdin()),
                name: None,
                permissions: 0o666 & !operands::umask(),
                len_bytes: None,
            });
        }
        let failed = |error| Failure::new(format!("cannot read {}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(Failure::with_hint(
                format!("{} is a directory", path.display()),
                "larder cp -r copies directories",
            ));
        }
        Ok(Self {
            input: Box::new(file),
            name: path.file_name().map(|name| name.as_bytes().to_vec()),
            permissions: u16::try_from(metadata.permissions().mode() & 0o777).unwrap_or(0o644),
            len_bytes: metadata.is_file().then_some(metadata.len()),
        })
    }
}

/// Writes `source` to `path`. If a file exists there, the new file replaces it, with the same owner,
/// permissions, extended attributes and [`KEPT_FLAGS`].
fn put(volume: &Volume, source: Source, path: &[u8]) -> Result<()> {
    let failed = |error: larder::Error| of_path(path, &error);
    let target = match volume.resolve(path) {
        Ok(ino) if volume.metadata(ino).map_err(failed)?.kind == FileKind::Regular => {
            Target::followed(volume, path)?
        }
        _ => Target::in_or_at(volume, path, source.name.as_deref())?,
    };
    let replaced = target.present(volume).map_err(failed)?;
    if let Some(replaced) = &replaced
        && replaced.kind != FileKind::Regular
    {
        return Err(Failure::with_hint(
            format!(
                "{}: exists in the image, and is not a regular file",
                name::escaped(&target.name)
            ),
            "remove it first: larder rm",
        ));
    }
    let new = new_file(source.permissions);
    let file = Unnamed::new(volume, |volume| {
        volume.make_unnamed(target.parent, Make::FILE, &new)
    });
    let file = file.map_err(failed)?;
    let failed = |error: larder::Error| match &replaced {
        Some(_) if error.errno() == Errno::NOSPC => Failure::with_hint(
            of_path(path, &error).to_string(),
            "the old file is kept until the new one is complete, so both need space; to free the \
             space of the old file first, use larder rm",
        ),
        _ => of_path(path, &error),
    };
    if let Some(replaced) = &replaced {
        keep(volume, replaced, file.ino()).map_err(failed)?;
    }
    let progress = match source.len_bytes {
        Some(len_bytes) => progress::bar(|| len_bytes),
        None => progress::spinner(),
    };
    let filled = fill(volume, file.ino(), source.input, &progress, failed);
    progress.finish_and_clear();
    filled?;
    file.link_as(&target).map_err(failed)?;
    if let Some(replaced) = replaced.filter(|replaced| replaced.links > 1) {
        let others = match replaced.links - 1 {
            1 => "1 other hard link keeps".to_owned(),
            count => format!("{count} other hard links keep"),
        };
        print_note(&format!(
            "{} has the new content; {others} the old content",
            name::escaped(path)
        ));
    }
    Ok(())
}

/// Copies the owner, permissions, extended attributes and [`KEPT_FLAGS`] from `replaced` to `new`.
fn keep(volume: &Volume, replaced: &Metadata, new: Ino) -> larder::Result<()> {
    let owner = SetAttributes {
        uid: Some(replaced.uid),
        gid: Some(replaced.gid),
        ..SetAttributes::default()
    };
    volume.set_attributes(new, &owner)?;
    let names = volume.xattrs(replaced.ino)?;
    // The new file has inherited some attributes from its directory. Remove those that the replaced file
    // does not have.
    for name in volume.xattrs(new)? {
        if !names.contains(&name) {
            volume.remove_xattr(new, &name)?;
        }
    }
    for name in names {
        if let Some(value) = volume.xattr(replaced.ino, &name)? {
            volume.set_xattr(new, &name, &value, XattrMode::Any)?;
        }
    }
    let permissions = SetAttributes {
        permissions: Some(replaced.permissions),
        ..SetAttributes::default()
    };
    let made = volume.set_attributes(new, &permissions)?;
    let kept = KEPT_FLAGS.bits();
    volume.set_flags(new, made.flags & !kept | replaced.flags & kept)
}

/// Writes all of `input` to the empty file `ino`.
fn fill(
    volume: &Volume,
    ino: Ino,
    mut input: impl Read,
    progress: &ProgressBar,
    failed: impl Fn(larder::Error) -> Failure,
) -> Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut offset_bytes = 0;
    loop {
        buffer.clear();
        let len = input
            .by_ref()
            .take(BUFFER_BYTES as u64)
            .read_to_end(&mut buffer)
            .map_err(|error| Failure::new(format!("cannot read the source: {error}")))?;
        volume
            .write_all_at(ino, &buffer, offset_bytes)
            .map_err(&failed)?;
        offset_bytes += len as u64;
        progress.inc(len as u64);
        if len < BUFFER_BYTES {
            return Ok(());
        }
    }
}
