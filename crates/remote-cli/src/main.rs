//! The program `larder-remote`: the commands of `larder`, with clients for images at URLs. `larder`
//! runs this program if an argument is a URL.

#![forbid(unsafe_code)]

use larder_block::BlockDevice;
use larder_cli::{CachedImage, Pruned, RemoteArgs, RemoteFailure, RemoteImages, RemoteSettings};
use larder_remote::disk_cache::{self, CacheDir};
use larder_remote::{CacheOptions, Error, ImageUrl, RemoteDevice, RemoteOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

/// The default size of the disk cache, in bytes.
const CACHE_BYTES: u64 = 10 << 30;

/// The clients of `larder-remote`.
#[derive(Debug)]
struct Images;

impl RemoteImages for Images {
    fn label(&self, url: &str) -> Result<String, RemoteFailure> {
        let url = ImageUrl::parse(url).map_err(|error| RemoteFailure {
            message: error.to_string(),
            hint: Some(
                "write a URL such as https://host/disk.img or s3://bucket/disk.img".to_owned(),
            ),
        })?;
        Ok(url.to_string())
    }

    fn open(
        &self,
        url: &str,
        settings: &RemoteSettings,
    ) -> Result<Arc<dyn BlockDevice>, RemoteFailure> {
        let parsed = ImageUrl::parse(url).map_err(|error| failure(url, &error))?;
        let mut options = RemoteOptions::default();
        options.endpoint.clone_from(&settings.args.endpoint);
        options.anonymous = settings.args.anonymous;
        options.allow_unversioned = settings.args.allow_unversioned;
        options.offset_bytes = settings.offset_bytes;
        options.memory_bytes = settings.memory_bytes;
        options.offline = settings.args.offline;
        options.cache = cache_options(&settings.args);
        if let Some(deadline) = settings.deadline {
            options.deadline = deadline;
        }
        let mut opened = RemoteDevice::open(&parsed, &options);
        if let Err(Error::Cache(why)) = &opened
            && settings.args.cache_dir.is_none()
            && !options.offline
        {
            eprintln!("warning: nothing is cached on disk: {why}");
            options.cache = None;
            opened = RemoteDevice::open(&parsed, &options);
        }
        let device = opened.map_err(|error| failure(&parsed.to_string(), &error))?;
        Ok(Arc::new(device))
    }

    fn list_cache(&self, directory: Option<&Path>) -> Result<Vec<CachedImage>, RemoteFailure> {
        let Some(cache) = existing_cache(directory)? else {
            return Ok(Vec::new());
        };
        let objects = cache.list().map_err(|error| unusable(&error))?;
        let images = objects.into_iter().map(|object| CachedImage {
            image: object.label,
            size_bytes: object.size_bytes,
            stored_bytes: object.stored_bytes,
            last_use_s: seconds(object.last_use),
            in_use: object.is_in_use,
        });
        Ok(images.collect())
    }

    fn prune_cache(
        &self,
        directory: Option<&Path>,
        max_bytes: u64,
    ) -> Result<Pruned, RemoteFailure> {
        let removed = match existing_cache(directory)? {
            Some(cache) => cache.prune(max_bytes).map_err(|error| unusable(&error))?,
            None => disk_cache::Removed::default(),
        };
        Ok(Pruned {
            images: removed.files,
            bytes: removed.bytes,
            left_bytes: removed.left_bytes,
        })
    }
}

/// Returns the disk cache in `directory`, or in the default directory, unless it does not exist.
fn existing_cache(directory: Option<&Path>) -> Result<Option<CacheDir>, RemoteFailure> {
    let directory: PathBuf = match directory {
        Some(directory) => directory.to_owned(),
        None => disk_cache::default_path().ok_or_else(|| RemoteFailure {
            message: "the directory of the disk cache is not known: HOME is not set".to_owned(),
            hint: Some("name the directory with --cache-dir".to_owned()),
        })?,
    };
    let exists = directory.try_exists().map_err(|error| RemoteFailure {
        message: format!("cannot access {}: {error}", directory.display()),
        hint: None,
    })?;
    let open = || CacheDir::open(&directory, CACHE_BYTES).map_err(|error| unusable(&error));
    exists.then(open).transpose()
}

fn unusable(error: &disk_cache::Error) -> RemoteFailure {
    let hint = match error {
        disk_cache::Error::OtherOwner { .. } => {
            Some("name a directory of your own with --cache-dir")
        }
        disk_cache::Error::WritableByOthers { .. } => {
            Some("remove the permission of others to write to it: chmod go-w")
        }
        _ => None,
    };
    RemoteFailure {
        message: error.to_string(),
        hint: hint.map(str::to_owned),
    }
}

/// Returns the seconds from 1970 to `time`.
fn seconds(time: SystemTime) -> i64 {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => signed(after.as_secs()),
        Err(before) => -signed(before.duration().as_secs()),
    }
}

/// Returns the disk cache, or `None` if it is disabled or has no directory.
fn cache_options(args: &RemoteArgs) -> Option<CacheOptions> {
    let max_bytes = args.cache_disk_size.unwrap_or(CACHE_BYTES);
    let directory = args.cache_dir.clone().or_else(disk_cache::default_path)?;
    (max_bytes > 0).then_some(CacheOptions {
        directory,
        max_bytes,
    })
}

/// Describes why the image at `label` cannot be opened.
fn failure(label: &str, error: &Error) -> RemoteFailure {
    let hint = match error {
        Error::NotFound => {
            Some("check the URL, and --endpoint for a server that is compatible with S3")
        }
        Error::Denied => Some(
            "give credentials as the tools of the server expect them, for example in AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY or in ~/.aws/credentials, or use --anonymous for a public object",
        ),
        Error::NoVersion => Some("if the object never changes, use --allow-unversioned"),
        Error::Cache(_) => {
            Some("name another directory with --cache-dir, or use --cache-disk-size 0")
        }
        Error::NotCached => Some("mount the image once without --offline"),
        Error::Deadline(..) => Some("check the network; --offline reads what the disk cache has"),
        Error::NoRanges => {
            Some("copy the image to a local file, or to a server that supports ranges")
        }
        _ => None,
    };
    RemoteFailure {
        message: format!("cannot open {label}: {error}"),
        hint: hint.map(str::to_owned),
    }
}

fn main() -> ExitCode {
    larder_cli::run_with(std::env::args_os(), Box::new(Images))
}
