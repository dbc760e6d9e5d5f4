//! Completion of paths inside an image.

use crate::args::{Cli, ImageArgs, VolumeArgs};
use crate::image_path::ImagePath;
use crate::{opening, remote};
use clap::{ArgMatches, Command, CommandFactory};
use larder::{FileKind, Ino, Volume};
use larder_console::complete::{Candidate, Completion, Cursor, Kind};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// If more names than this number match, there is no completion.
const MAX_NAMES: usize = 10_000;

/// The memory for the caches of the volume, in bytes.
const CACHE_BYTES: u64 = 16 << 20;

/// Returns whether paths inside the image can follow it among the operands of `command`.
pub(super) fn follow_image(command: &Command) -> bool {
    let mut operands = command.get_positionals().map(|arg| arg.get_id().as_str());
    operands.any(|id| id == "path" || id == "paths")
}

/// Returns the completion of a path that can be inside an image.
///
/// This is a path of the form `IMAGE:/path`, or a path inside the image that the first operand names. For `cp`, `put`
/// and `diff`, it can also be a file of the machine.
pub(super) fn complete(cursor: &Cursor<'_>) -> Completion {
    let command = cursor.command.get_name();
    let is_any = ["cp", "put", "diff"].contains(&command);
    let text = cursor.text;
    let first = cursor.operands.first();
    let image = first.filter(|first| ImagePath::parse(first).is_none());
    // After a file of the machine, only these commands accept the form IMAGE:/path.
    if (image.is_none() || is_any)
        && let Some(target) = ImagePath::parse(OsStr::from_bytes(text))
    {
        return inside(cursor, target.image, target.path);
    }
    let inside = match image
        .map(Path::new)
        .filter(|_| command != "put" && command != "diff")
    {
        Some(image) => inside(cursor, image, text),
        None => Completion::files(Kind::Files),
    };
    if is_any && inside.candidates.is_empty() {
        return Completion::files(Kind::Files);
    }
    inside
}

/// Returns the completion of `path`, the end of the text at the cursor, inside `image`.
fn inside(cursor: &Cursor<'_>, image: &Path, path: &[u8]) -> Completion {
    let mut completion = Completion {
        kind: Kind::Paths,
        kept_bytes: cursor.text.len() - path.len(),
        candidates: Vec::new(),
    };
    if let Some(args) = image_args(cursor.words, image)
        && let Ok(volume) = opening::open_image(&args)
        && let Some(names) = names(&volume, path)
    {
        completion.candidates = names;
    }
    completion
}

/// Returns how `image` is opened, or `None` if it must not be opened: it is not a file or block device of the machine.
fn image_args(words: &[OsString], image: &Path) -> Option<ImageArgs> {
    let cli = Cli::command().ignore_errors(true);
    let matches = cli.try_get_matches_from(words).ok()?;
    let (_, options) = matches.subcommand()?;
    if remote::is_url(image.as_os_str()) || value::<PathBuf>(options, "url_file").is_some() {
        return None;
    }
    let image = expanded(image);
    let kind = fs::metadata(&image).ok()?.file_type();
    (kind.is_file() || kind.is_block_device()).then(|| ImageArgs {
        volume: VolumeArgs {
            offset: value(options, "offset"),
            partition: value(options, "partition"),
            format: value(options, "format"),
            cache_size: Some(CACHE_BYTES),
            noload: value(options, "noload").unwrap_or_default(),
            overlay: value(options, "overlay"),
            ..VolumeArgs::default()
        },
        image,
    })
}

fn value<T: Clone + Send + Sync + 'static>(options: &ArgMatches, id: &str) -> Option<T> {
    options.try_get_one(id).ok().flatten().cloned()
}

/// Replaces `~` at the beginning of `path`, as the shell does before it runs the command.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

/// Returns the paths that begin with `typed`, with a slash after a directory. Returns `None` if there are too many.
/// Names that begin with a dot are omitted unless the dot is typed.
fn names(volume: &Volume, typed: &[u8]) -> Option<Vec<Candidate>> {
    let slash = typed.iter().rposition(|&byte| byte == b'/');
    let (directory, beginning) = typed.split_at(slash.map_or(0, |at| at + 1));
    let mut found: Vec<(Vec<u8>, Ino, Option<FileKind>)> = Vec::new();
    let parent = volume.resolve(directory).ok()?;
    let listed = volume.read_dir(parent, 0, &mut |entry| {
        let is_hidden = entry.name.starts_with(b".") && beginning.is_empty();
        let is_self = entry.name == b"." || entry.name == b"..";
        if entry.name.starts_with(beginning) && !is_hidden && !is_self {
            found.push((entry.name.to_vec(), entry.ino, entry.kind));
        }
        if found.len() > MAX_NAMES {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if listed.is_err() || found.len() > MAX_NAMES {
        return None;
    }
    found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let candidates = found.into_iter().map(|(name, ino, kind)| {
        let mut path = [directory, &name].concat();
        if is_directory(volume, &path, ino, kind) {
            path.push(b'/');
        }
        Candidate::new(path)
    });
    Some(candidates.collect())
}

/// Returns whether the file at `path` is a directory, or a symbolic link to one.
fn is_directory(volume: &Volume, path: &[u8], ino: Ino, kind: Option<FileKind>) -> bool {
    let kind_of = |ino| volume.metadata(ino).ok().map(|metadata| metadata.kind);
    match kind.or_else(|| kind_of(ino)) {
        Some(FileKind::Symlink) => {
            volume.resolve(path).ok().and_then(kind_of) == Some(FileKind::Directory)
        }
        kind => kind == Some(FileKind::Directory),
    }
}
