//! Images at URLs.
//!
//! # Model
//! `larder` does not contain clients for servers. If an argument is a URL, `larder` runs the program larder-remote
//! with the same arguments. That program has the same commands, and passes its clients, [`RemoteImages`], to
//! [`run_with`](crate::run_with).
//!
//! # Secrets
//! A URL can contain credentials. Therefore [`prepare`] replaces each URL among the arguments by its label, which has
//! no secrets, before the arguments are parsed. No command sees the URL; [`open`] finds the URL by its label.

use crate::stage::{Stage, own_args};
use crate::{holder, option_list, programs};
use clap::{Args, ValueHint};
use larder_block::BlockDevice;
use larder_console::{Failure, Result, size};
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const PROGRAM: &str = "larder-remote";
/// The beginnings of URLs, in lower case.
const SCHEMES: [&str; 5] = ["http://", "https://", "s3://", "gs://", "az://"];
/// The subcommand that needs clients although none of its arguments is a URL.
const CACHE: &str = "cache";
/// The subcommands that accept a path inside an image after its URL, as in `s3://bucket/disk.img:/etc`.
const ACCEPT_PATHS: [&str; 14] = [
    "ls", "find", "tree", "du", "diff", "export", "tar", "stat", "cat", "cp", "put", "mkdir", "rm",
    "mv",
];
/// The subcommands whose first argument is not, or not always, the image at a URL.
const IMAGE_IS_NOT_FIRST: [&str; 3] = ["diff", "overlay", "profile"];
/// The option whose value is the URL of a server, not of an image.
const ENDPOINT: &str = "--endpoint";
/// The option whose value can be the URL of a profile.
const PROFILE: &str = "--profile";
/// The option whose value names a file that contains a URL.
const URL_FILE: &str = "--url-file";
/// The mount option with the same meaning.
pub(crate) const URL_FILE_OPTION: &str = "url_file";
/// The subcommand whose mount options can name a file that contains a URL, besides those of [`Stage`].
const MOUNT: &str = "mount";
/// The heading of the arguments in the help.
pub(crate) const HEADING: &str = "Images at URLs";
/// The maximum length of a file with a URL, in bytes.
const MAX_URL_BYTES: u64 = 64 << 10;

/// The options for images at URLs: how to access the server, the disk cache and profiles.
// Each argument has the heading: `next_help_heading` would also apply to the arguments that follow these.
#[derive(Clone, Debug, Default, Args)]
pub struct RemoteArgs {
    /// URL of a server for s3://, gs:// or az://
    ///
    /// The server must be compatible with S3, Google Cloud Storage or Azure.
    #[arg(long, value_name = "URL", help_heading = HEADING)]
    pub endpoint: Option<String>,
    /// Send no credentials to an object store
    #[arg(long, help_heading = HEADING)]
    pub anonymous: bool,
    /// Whether an object without a strong `ETag` is accepted.
    // The help is given separately, because help made from the doc comment would show its backticks.
    #[arg(
        long,
        help_heading = HEADING,
        help = "Accept an object without a strong ETag",
        long_help = "\
Accept an object without a strong ETag

larder then detects a replaced object only if its length or its time of modification has changed. The disk cache \
does not store an object without a strong ETag."
    )]
    pub allow_unversioned: bool,
    /// The directory of the disk cache; `None` for the default.
    // The help is separate, as above.
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        help_heading = HEADING,
        help = "Directory of the disk cache [default: $XDG_CACHE_HOME/larder]",
        long_help = "\
Directory of the disk cache [default: $XDG_CACHE_HOME/larder]

In DIR, larder stores the parts of images that it has read from a server. If XDG_CACHE_HOME is not set, the default is \
~/.cache/larder."
    )]
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of the disk cache; 0 disables it [default: 10G]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = HEADING)]
    pub cache_disk_size: Option<u64>,
    /// Use only the disk cache, and send no requests
    #[arg(long, help_heading = HEADING)]
    pub offline: bool,
    /// Refuse the image unless its content has this SHA-256
    ///
    /// To check the content, larder reads the whole image once. The result is recorded in the disk
    /// cache, and is valid until the image is replaced. Without a disk cache, each command reads the
    /// whole image.
    #[arg(long, value_name = "HEX", help_heading = HEADING)]
    pub sha256: Option<String>,
    /// Prefetch the parts of the image that FILE lists
    ///
    /// FILE is a file or a URL. It is a profile that --profile-record has written, or a pack that the
    /// command 'larder profile pack' has made from a profile. FILE must belong to the same version of the image. larder
    /// requests the parts as soon as the image is opened, before a program reads them.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub profile: Option<PathBuf>,
    /// Record a profile: which parts of the image are read
    ///
    /// larder mount writes FILE when the image is unmounted. Other commands write FILE when they
    /// succeed. An existing file is replaced. During the recording, larder does not read ahead. Reads
    /// are therefore slower, but the profile contains few parts that were not needed.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub profile_record: Option<PathBuf>,
    /// File with the URL of the image (-: standard input)
    ///
    /// Give this option instead of the URL. Other users of the machine can see the arguments of a
    /// command, but not the URL in FILE.
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub url_file: Option<PathBuf>,
}

/// How an image at a URL is opened.
#[derive(Clone, Debug)]
pub struct RemoteSettings {
    /// What the user requests of the server.
    pub args: RemoteArgs,
    /// The time after which a read fails, or `None` for the default.
    pub deadline: Option<Duration>,
    /// The memory for parts of the image that were fetched, in bytes.
    pub memory_bytes: u64,
}

/// Why an image at a URL cannot be opened. Neither text contains a secret.
#[derive(Clone, Debug)]
pub struct RemoteFailure {
    /// What is wrong.
    pub message: String,
    /// What the user can do.
    pub hint: Option<String>,
}

/// An image in the disk cache.
#[derive(Clone, Debug, Serialize)]
pub struct CachedImage {
    /// The URL of the image, without secrets. `None` if the cache file is damaged.
    pub image: Option<String>,
    /// The size of the image in bytes. `None` if the cache file is damaged.
    pub size_bytes: Option<u64>,
    /// The space on the disk, in bytes.
    pub stored_bytes: u64,
    /// The time of the last use, in seconds since 1970.
    pub last_use_s: i64,
    /// Whether the image is in use, and is therefore not removed.
    pub in_use: bool,
}

/// What was removed from the disk cache.
#[derive(Clone, Copy, Debug)]
pub struct Pruned {
    /// The number of images whose cached parts were removed.
    pub images: u64,
    /// The disk space that was freed, in bytes.
    pub bytes: u64,
    /// The disk space that the remaining images take, in bytes.
    pub left_bytes: u64,
}

/// Clients for servers with images, and their disk cache.
pub trait RemoteImages: Debug + Send + Sync {
    /// Returns `url` without its secrets.
    ///
    /// # Errors
    /// The URL is invalid.
    fn label(&self, url: &str) -> std::result::Result<String, RemoteFailure>;

    /// Opens the image at `url`.
    ///
    /// # Errors
    /// The server does not send the image as requested.
    fn open(
        &self,
        url: &str,
        settings: &RemoteSettings,
    ) -> std::result::Result<Arc<dyn BlockDevice>, RemoteFailure>;

    /// Writes the profile of the image that was opened with `--profile-record`, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    fn finish_profile(&self) -> std::result::Result<(), RemoteFailure>;

    /// Writes a pack of the parts that the profile in `args` lists, with their content in the image at `url`, to a
    /// file at `output`. `progress` is called with two numbers: the bytes of content read so far, and all bytes of content that
    /// the pack will have.
    ///
    /// # Errors
    /// The profile cannot be used, the server does not send the image as requested, or the file cannot be written.
    fn pack_profile(
        &self,
        url: &str,
        args: &RemoteArgs,
        output: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> std::result::Result<(), RemoteFailure>;

    /// Uploads `content` to `url`, as a new object. `progress` is called with the number of bytes of each part.
    ///
    /// # Errors
    /// The object exists, the server refuses it, or the content cannot be read.
    fn upload(
        &self,
        url: &str,
        args: &RemoteArgs,
        content: &dyn BlockDevice,
        progress: &mut dyn FnMut(u64),
    ) -> std::result::Result<(), RemoteFailure>;

    /// Returns the images in the disk cache, the least recently used first. `directory` is the directory of the
    /// cache, or `None` for the default directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    fn list_cache(
        &self,
        directory: Option<&Path>,
    ) -> std::result::Result<Vec<CachedImage>, RemoteFailure>;

    /// Removes images from the disk cache, the least recently used first, until the others take at most `max_bytes`.
    /// Images in use are not removed.
    ///
    /// # Errors
    /// The directory cannot be read, or a file in it cannot be removed.
    fn prune_cache(
        &self,
        directory: Option<&Path>,
        max_bytes: u64,
    ) -> std::result::Result<Pruned, RemoteFailure>;
}

/// The clients of this process, and the URLs among its arguments.
#[derive(Debug)]
struct Known {
    images: Box<dyn RemoteImages>,
    urls: HashMap<PathBuf, String>,
    /// The URL that was read from standard input.
    from_stdin: Option<String>,
}

/// The URL in the file that `--url-file` names.
struct UrlOfFile {
    url: String,
    /// Whether the URL was read from standard input.
    is_stdin: bool,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// The arguments after [`prepare`].
pub(crate) enum Prepared {
    Args(Vec<OsString>),
    /// The attempt to replace this process by larder-remote has failed. The result is an error.
    Ended(Result<ExitCode>),
}

impl From<RemoteFailure> for Failure {
    fn from(failure: RemoteFailure) -> Self {
        match failure.hint {
            Some(hint) => Self::with_hint(failure.message, hint),
            None => Self::new(failure.message),
        }
    }
}

/// Replaces each URL among `args` by its label. If this process has no clients (`images`), and `args` contain a URL,
/// `--url-file` or the subcommand `cache`, replaces this process by larder-remote instead.
pub(crate) fn prepare(
    mut args: Vec<OsString>,
    images: Option<Box<dyn RemoteImages>>,
) -> Result<Prepared> {
    let with_flag = with_url_file_flag(&args);
    let has_url_file = with_flag.is_some() || own_args(&args).iter().any(|arg| is_url_file(arg));
    let is_cache = is_cache_command(&args);
    if !has_url_file && !is_cache && urls(&args).next().is_none() {
        return Ok(Prepared::Args(args));
    }
    let Some(images) = images else {
        // larder-remote must know the name of this program, which can be mount.larder.
        let purpose = if is_cache {
            "the disk cache"
        } else {
            "an image at a URL"
        };
        let replaced = programs::replace_by(PROGRAM, &args, purpose);
        return Ok(Prepared::Ended(replaced));
    };
    args = with_flag.unwrap_or(args);
    let of_file = if has_url_file {
        insert_url_of_file(&mut args)?
    } else {
        None
    };
    let accepts_paths = ACCEPT_PATHS
        .iter()
        .any(|&name| args.get(1).is_some_and(|arg| arg == name));
    let mut known = HashMap::new();
    let found: Vec<usize> = urls(&args).collect();
    for index in found {
        let is_whole = of_file
            .as_ref()
            .is_some_and(|file| args[index] == *file.url);
        let is_operand = args[index - 1] != PROFILE;
        let has_path = accepts_paths && is_operand && !is_whole;
        let end = end_of_url(&args[index]).filter(|_| has_path);
        let bytes = args[index].as_bytes();
        let (url, path) = bytes.split_at(end.unwrap_or(bytes.len()));
        let invalid = |_| Failure::usage("the URL is not valid UTF-8");
        let url = std::str::from_utf8(url).map_err(invalid)?;
        let label = distinct_label(&images.label(url)?, url, &mut known);
        let mut label = OsString::from(label);
        label.push(OsStr::from_bytes(path));
        args[index] = label;
    }
    // The arguments of a process are prepared only once, so `KNOWN` is not set yet.
    let _ = KNOWN.set(Known {
        images,
        urls: known,
        from_stdin: of_file.filter(|file| file.is_stdin).map(|file| file.url),
    });
    Ok(Prepared::Args(args))
}

/// Adds `url`, whose label is `label`, to `known`. If another URL has the same label, because they differ only in parts
/// that can be secret, adds a number to the label. Returns the label.
fn distinct_label(label: &str, url: &str, known: &mut HashMap<PathBuf, String>) -> String {
    let mut distinct = label.to_owned();
    let mut number = 1;
    while known
        .entry(PathBuf::from(&distinct))
        .or_insert_with(|| url.to_owned())
        != url
    {
        number += 1;
        distinct = format!("{label} ({number})");
    }
    distinct
}

/// Returns whether `args` are those of `larder cache`, except to print its help.
fn is_cache_command(args: &[OsString]) -> bool {
    holder::subcommand(args).is_some_and(|subcommand| subcommand == CACHE)
        && !args
            .iter()
            .any(|arg| arg == "--help" || arg == "-h" || arg == "help")
}

fn is_url_file(arg: &OsStr) -> bool {
    arg.to_str()
        .and_then(|arg| arg.strip_prefix(URL_FILE))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Returns whether `arg` is a URL, which can be followed by a path inside the image.
pub(crate) fn is_url(arg: &OsStr) -> bool {
    scheme(arg).is_some()
}

/// Returns the beginning of `arg` up to and including `://`, if `arg` is a URL.
fn scheme(arg: &OsStr) -> Option<&'static str> {
    let bytes = arg.as_bytes();
    SCHEMES.into_iter().find(|scheme| {
        let start = bytes.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    })
}

/// Returns the length of the URL in `arg`, if it is followed by a colon and a path inside the image.
///
/// A URL can contain `:/`. Therefore it ends before the last `:/` that does not begin `://`. If a `?` or `&` follows
/// this `:/`, all of `arg` is the URL: the text can be part of the URL's query, which can be secret.
pub(crate) fn end_of_url(arg: &OsStr) -> Option<usize> {
    let start = scheme(arg)?.len();
    let bytes = arg.as_bytes();
    let is_end = |at: &usize| {
        let rest = &bytes[*at..];
        rest.starts_with(b":/") && !rest.starts_with(b"://")
    };
    let end = (start + 1..bytes.len()).rfind(is_end)?;
    let has_query = bytes[end..].iter().any(|byte| b"?&".contains(byte));
    (!has_query).then_some(end)
}

/// Returns the indices of the arguments that are URLs of images.
fn urls(args: &[OsString]) -> impl Iterator<Item = usize> {
    let end = args
        .iter()
        .position(|arg| arg == "--")
        .unwrap_or(args.len());
    (1..own_args(args).len())
        .filter(move |&index| is_url(&args[index]) && (args[index - 1] != ENDPOINT || index > end))
}

/// Returns `args` with `--url-file FILE` in place of the mount option `url_file=FILE`. Returns `None` if they do not have
/// this option. The first argument of mount.larder is always an image, such as `none`, and is removed.
fn with_url_file_flag(args: &[OsString]) -> Option<Vec<OsString>> {
    let program = args.first().map(Path::new).and_then(Path::file_name);
    let is_helper = program == Some(OsStr::new(holder::MOUNT_HELPER));
    let is_mount = holder::subcommand(args).is_some_and(|subcommand| subcommand == MOUNT);
    if !is_helper && !is_mount && Stage::of(args).is_none() {
        return None;
    }
    let own = own_args(args);
    let end = own.iter().position(|arg| arg == "--").unwrap_or(own.len());
    let (index, prefix, file, rest) = (1..end).find_map(|index| {
        let arg = own[index].as_bytes();
        let (prefix, list) = if own[index - 1] == "-o" {
            ("", arg)
        } else {
            // A list must not be empty if it is in the same argument, but options can be.
            ("-o,", arg.strip_prefix(b"-o")?)
        };
        let (file, rest) = option_list::without(OsStr::from_bytes(list), URL_FILE_OPTION)?;
        Some((index, prefix, file, rest))
    })?;
    let mut args = args.to_vec();
    args[index] = OsString::from(prefix);
    args[index].push(rest);
    args.insert(index + 1, URL_FILE.into());
    args.insert(index + 2, file);
    if is_helper && !args[1].as_bytes().starts_with(b"-") {
        args.remove(1);
    }
    Some(args)
}

/// Reads the URL from FILE, and removes `--url-file FILE` from the arguments. For the
/// subcommands in `IMAGE_IS_NOT_FIRST`, the URL takes the place of the option. For all others, it becomes the first
/// argument of the subcommand, or of a program without subcommands.
fn insert_url_of_file(args: &mut Vec<OsString>) -> Result<Option<UrlOfFile>> {
    let Some(index) = own_args(args).iter().position(|arg| is_url_file(arg)) else {
        return Ok(None);
    };
    let option = args.remove(index);
    let file = match option.to_str().and_then(|option| option.split_once('=')) {
        Some((_, file)) => OsString::from(file),
        None if index < args.len() => args.remove(index),
        None => return Err(Failure::usage("--url-file needs the name of a file")),
    };
    let url = read_url(Path::new(&file)).and_then(|url| {
        let is_url = is_url(url.as_ref());
        is_url
            .then_some(url)
            .ok_or_else(|| std::io::Error::other("the content is not a URL"))
    });
    let url = url.map_err(|error| {
        let name = if file == "-" {
            "standard input".into()
        } else {
            file.to_string_lossy()
        };
        Failure::new(format!("cannot read a URL from {name}: {error}"))
    })?;
    let is_first = !IMAGE_IS_NOT_FIRST
        .iter()
        .any(|&name| args.get(1).is_some_and(|arg| arg == name));
    let first = 1 + usize::from(holder::subcommand(args).is_some());
    let at = if is_first { first } else { index };
    args.insert(at.min(args.len()), url.clone().into());
    let is_stdin = file == "-";
    Ok(Some(UrlOfFile { url, is_stdin }))
}

fn read_url(file: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin()
            .take(MAX_URL_BYTES)
            .read_to_string(&mut text)?;
    } else {
        std::fs::File::open(file)?
            .take(MAX_URL_BYTES)
            .read_to_string(&mut text)?;
    }
    Ok(text.trim().to_owned())
}

/// Returns the URL that this process has read from standard input. A child process with the same arguments expects
/// this URL on its own standard input.
pub(crate) fn url_from_stdin() -> Option<&'static str> {
    KNOWN.get()?.from_stdin.as_deref()
}

/// Returns the clients, if this process needs any.
pub(crate) fn images() -> Option<&'static dyn RemoteImages> {
    Some(&*KNOWN.get()?.images)
}

/// Returns whether `image` is the label of a URL.
pub(crate) fn is_remote(image: &Path) -> bool {
    KNOWN
        .get()
        .is_some_and(|known| known.urls.contains_key(image))
}

/// Opens the image at the URL whose label is `image`.
///
/// # Errors
/// If no URL has this label, or if the image cannot be opened.
pub(crate) fn open(image: &Path, settings: &RemoteSettings) -> Result<Arc<dyn BlockDevice>> {
    let known = KNOWN.get();
    let Some((known, url)) = known.and_then(|known| Some((known, known.urls.get(image)?))) else {
        return Err(Failure::new(format!("{} is not a URL", image.display())));
    };
    let settings = RemoteSettings {
        args: known.with_urls(&settings.args),
        ..settings.clone()
    };
    Ok(known.images.open(url, &settings)?)
}

/// Writes the profile of the image that was opened with `--profile-record`, if there is one.
pub(crate) fn finish_profile() -> Result<()> {
    match KNOWN.get() {
        Some(known) => Ok(known.images.finish_profile()?),
        None => Ok(()),
    }
}

/// Writes a pack for the image at the URL whose label is `image` ([`RemoteImages::pack_profile`]). Returns `None` if no
/// URL has this label.
pub(crate) fn pack_profile(
    image: &Path,
    args: &RemoteArgs,
    output: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Option<Result<()>> {
    let known = KNOWN.get()?;
    let url = known.urls.get(image)?;
    let packed = known
        .images
        .pack_profile(url, &known.with_urls(args), output, progress);
    Some(packed.map_err(Failure::from))
}

/// Uploads `content` to the URL whose label is `target` ([`RemoteImages::upload`]).
///
/// # Errors
/// If no URL has this label, or if the upload fails.
pub(crate) fn upload(
    target: &Path,
    args: &RemoteArgs,
    content: &dyn BlockDevice,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let known = KNOWN.get();
    let Some((known, url)) = known.and_then(|known| Some((known, known.urls.get(target)?))) else {
        return Err(Failure::usage(format!(
            "{} is not a URL: --to needs a URL such as s3://bucket/new.img",
            target.display()
        )));
    };
    Ok(known.images.upload(url, args, content, progress)?)
}

impl Known {
    /// Returns `args` with the URL of the profile in place of its label.
    fn with_urls(&self, args: &RemoteArgs) -> RemoteArgs {
        let mut args = args.clone();
        if let Some(profile) = &mut args.profile
            && let Some(url) = self.urls.get(profile)
        {
            *profile = url.into();
        }
        args
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_is_a_command_of_larder_only() {
        let is_command = |args: &[&str]| {
            let args: Vec<OsString> = args.iter().map(OsString::from).collect();
            is_cache_command(&args)
        };
        assert!(is_command(&["/usr/bin/larder", "cache", "ls"]));
        assert!(is_command(&["larder-remote", "cache", "clear"]));
        assert!(!is_command(&["larder", "cache", "prune", "--help"]));
        assert!(!is_command(&["larder", "ls", "cache"]));
        assert!(!is_command(&["/sbin/mount.larder", "cache", "mnt"]));
        assert!(!is_command(&["fuse2fs", "cache", "mnt"]));
    }

    fn owned(args: &[&str]) -> Vec<OsString> {
        args.iter().map(OsString::from).collect()
    }

    #[test]
    fn mount_option_is_replaced_by_the_flag() {
        let with_flag = |args: &[&str]| with_url_file_flag(&owned(args));
        for (args, expected) in [
            (
                &["/sbin/mount.larder", "none", "mnt", "-o", "ro,url_file=/a"][..],
                &["/sbin/mount.larder", "mnt", "-o", "ro", "--url-file", "/a"][..],
            ),
            (
                &["larder", "mount", "-ourl_file=/a", "mnt"],
                &["larder", "mount", "-o,", "--url-file", "/a", "mnt"],
            ),
            (
                &["larder", "run", "-o", "url_file=/a,ro", "--", "x"],
                &["larder", "run", "-o", "ro", "--url-file", "/a", "--", "x"],
            ),
        ] {
            assert_eq!(with_flag(args), Some(owned(expected)));
        }
        for args in [
            &["larder", "mount", "-o", "ro", "disk.img", "mnt"][..],
            &["larder", "run", "x", "--", "mount", "-o", "url_file=/a"],
            &["larder", "find", "x", "-o", "url_file=/a"],
        ] {
            assert_eq!(with_flag(args), None);
        }
    }

    #[test]
    fn url_of_a_file_is_the_first_argument_of_the_mount_helper() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "s3://b/x\n").unwrap();
        let mut args = owned(&["mount.larder", "mnt", "-o", "ro", "--url-file"]);
        args.push(file.into());
        insert_url_of_file(&mut args).unwrap();
        assert_eq!(
            args,
            owned(&["mount.larder", "s3://b/x", "mnt", "-o", "ro"])
        );
    }

    #[test]
    fn urls_with_the_same_label_are_distinct() {
        let mut known = HashMap::new();
        let mut label = |url: &str| distinct_label("https://h/get", url, &mut known);
        assert_eq!(label("https://h/get?id=a"), "https://h/get");
        assert_eq!(label("https://h/get?id=b"), "https://h/get (2)");
        assert_eq!(label("https://h/get?id=a"), "https://h/get");
        assert_eq!(label("https://h/get?id=b"), "https://h/get (2)");
        assert_eq!(label("https://h/get?id=c"), "https://h/get (3)");
    }

    fn indices(args: &[&str]) -> Vec<usize> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        urls(&args).collect()
    }

    #[test]
    fn only_images_are_urls() {
        assert_eq!(indices(&["larder", "ls", "s3://b/x", "/etc"]), [2]);
        assert_eq!(indices(&["larder", "ls", "HTTPS://u:secret@h/x"]), [2]);
        assert_eq!(
            indices(&["larder", "ls", "--endpoint", "http://h", "s3://b/x"]),
            [4]
        );
        assert_eq!(
            indices(&["larder", "ls", "--endpoint=http://h", "disk.img"]),
            [0; 0]
        );
        assert_eq!(
            indices(&["larder", "mount", "-o", "fsname=http://h", "x", "mnt"]),
            [0; 0]
        );
        assert_eq!(
            indices(&["larder", "run", "s3://b/x", "--", "curl", "https://h"]),
            [2]
        );
    }

    #[test]
    fn url_ends_at_the_last_colon_before_a_slash() {
        for (arg, url) in [
            (
                "https://host:8080/x.img:/etc",
                Some("https://host:8080/x.img"),
            ),
            ("s3://b/k:/p", Some("s3://b/k")),
            (
                "http://h/x?sign=a:/b:/etc/c:d",
                Some("http://h/x?sign=a:/b"),
            ),
            ("https://host:8080/x.img", None),
            ("s3://b/k:etc", None),
            ("https://p/get?url=https://h/x.img", None),
            ("https://p/get?url=https://h/x.img&token=a", None),
            (
                "https://p/get?url=https://h/x:/etc",
                Some("https://p/get?url=https://h/x"),
            ),
            ("https://p/https://h/x.img", None),
            ("https://h/x?a=b:/c&token=d", None),
            ("https://h/x:/y?token=d", None),
            ("s3://b/k:/a://b", Some("s3://b/k")),
            ("s3://:/p", None),
            ("disk.img:/etc", None),
        ] {
            let end = end_of_url(arg.as_ref());
            assert_eq!(end.map(|end| &arg[..end]), url, "{arg}");
        }
    }

    #[test]
    fn url_of_a_file_is_the_first_argument() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        std::fs::write(&file, "https://host/x?secret\n").unwrap();
        for option in [
            vec![OsString::from("--url-file"), file.clone().into()],
            vec![OsString::from(format!("--url-file={}", file.display()))],
        ] {
            let mut args = vec![OsString::from("larder"), "mount".into()];
            args.extend(option);
            args.push("mnt".into());
            insert_url_of_file(&mut args).unwrap();
            assert_eq!(args, ["larder", "mount", "https://host/x?secret", "mnt"]);
        }
        let mut args: Vec<OsString> = vec!["larder".into(), "profile".into(), "pack".into()];
        args.extend([
            "start.profile".into(),
            "--url-file".into(),
            file.into(),
            "out".into(),
        ]);
        insert_url_of_file(&mut args).unwrap();
        assert_eq!(args[3..], ["start.profile", "https://host/x?secret", "out"]);
        let mut args: Vec<OsString> = vec!["larder".into(), "ls".into(), "--url-file".into()];
        assert!(insert_url_of_file(&mut args).is_err());
    }
}
