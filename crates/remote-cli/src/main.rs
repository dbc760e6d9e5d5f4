//! The program `larder-remote`: the commands of `larder`, with clients for images at URLs. `larder`
//! runs this program if an argument is a URL.

#![forbid(unsafe_code)]

use larder_block::BlockDevice;
use larder_cli::{CachedImage, Pruned, RemoteArgs, RemoteFailure, RemoteImages, RemoteSettings};
use larder_remote::disk_cache::{self, CacheDir};
use larder_remote::profile::{self, Location, Recorder};
use larder_remote::{
    CacheOptions, ContentDigest, Error, ImageUrl, RemoteDevice, RemoteOptions, UploadOptions,
};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// The clients of `larder-remote`.
#[derive(Debug, Default)]
struct Images {
    /// The URL of the image that was opened with `--profile-record`, and its recording.
    recorder: Mutex<Option<(String, Arc<Recorder>)>>,
}

impl Images {
    /// Returns the recording of the image at `url`, for a profile at `path`.
    fn recorder(&self, url: &str, path: &Path) -> Result<Arc<Recorder>, RemoteFailure> {
        let mut kept = lock(&self.recorder);
        if let Some((recorded, recorder)) = &*kept {
            return if recorded == url {
                Ok(Arc::clone(recorder))
            } else {
                Err(RemoteFailure {
                    message: "--profile-record records one image, but two images at URLs are given"
                        .to_owned(),
                    hint: Some("record each image with a command of its own".to_owned()),
                })
            };
        }
        let recorder = Recorder::create(path).map_err(|why| cannot_write(path, &why))?;
        let recorder = Arc::new(recorder);
        *kept = Some((url.to_owned(), Arc::clone(&recorder)));
        Ok(recorder)
    }
}

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
        let mut options = options(&settings.args)?;
        options.memory_bytes = settings.memory_bytes;
        if let Some(deadline) = settings.deadline {
            options.deadline = deadline;
        }
        if let Some(path) = &settings.args.profile_record {
            options.recorder = Some(self.recorder(url, path)?);
        }
        Ok(Arc::new(open(url, options, &settings.args)?))
    }

    fn finish_profile(&self) -> Result<(), RemoteFailure> {
        match lock(&self.recorder).take() {
            Some((_, recorder)) => {
                let path = recorder.path();
                recorder.finish().map_err(|why| cannot_write(path, &why))
            }
            None => Ok(()),
        }
    }

    fn pack_profile(
        &self,
        url: &str,
        args: &RemoteArgs,
        output: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), RemoteFailure> {
        let device = open(url, options(args)?, args)?;
        let packed = device.write_pack(output, progress);
        packed.map_err(|why| cannot_write(output, &why))
    }

    fn upload(
        &self,
        url: &str,
        args: &RemoteArgs,
        content: &dyn BlockDevice,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), RemoteFailure> {
        let failed = |url: &str, error| failure(&format!("upload to {url}"), &error);
        let url = ImageUrl::parse(url).map_err(|error| failed(url, error))?;
        let options = UploadOptions {
            endpoint: args.endpoint.as_deref(),
            anonymous: args.anonymous,
        };
        let uploaded = larder_remote::upload(&url, options, content, progress);
        uploaded.map_err(|error| failed(&url.to_string(), error))
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

/// Returns the options that `args` request.
fn options(args: &RemoteArgs) -> Result<RemoteOptions, RemoteFailure> {
    let mut options = RemoteOptions::default();
    options.endpoint.clone_from(&args.endpoint);
    options.anonymous = args.anonymous;
    options.allow_unversioned = args.allow_unversioned;
    options.offline = args.offline;
    options.cache = CacheOptions::new(args.cache_dir.clone(), args.cache_disk_size);
    options.sha256 = args.sha256.as_deref().map(digest).transpose()?;
    options.progress = std::io::stderr()
        .is_terminal()
        .then_some(larder_cli::show_check);
    options.profile = args.profile.as_deref().map(location).transpose()?;
    Ok(options)
}

/// Parses the value of `--sha256`.
fn digest(text: &str) -> Result<ContentDigest, RemoteFailure> {
    text.parse().map_err(|why| RemoteFailure {
        message: format!("--sha256 {text}: {why}"),
        hint: Some("sha256sum prints the SHA-256 of a file".to_owned()),
    })
}

/// Returns the place of the profile or the pack at `path`, which can be a URL.
fn location(path: &Path) -> Result<Location, RemoteFailure> {
    match path.to_str().filter(|text| ImageUrl::is_url(text)) {
        Some(url) => {
            let url = ImageUrl::parse(url).map_err(|error| not_opened("the profile", &error))?;
            Ok(Location::Url(url))
        }
        None => Ok(Location::File(path.to_owned())),
    }
}

/// Opens the image at `url`. If the default directory of the disk cache cannot be used, opens it without a disk cache.
fn open(
    url: &str,
    mut options: RemoteOptions,
    args: &RemoteArgs,
) -> Result<RemoteDevice, RemoteFailure> {
    let parsed = ImageUrl::parse(url).map_err(|error| not_opened(url, &error))?;
    let mut opened = RemoteDevice::open(&parsed, &options);
    if let Err(Error::Cache(why)) = &opened
        && args.cache_dir.is_none()
        && !options.offline
    {
        eprintln!("warning: nothing is cached on disk: {why}");
        options.cache = None;
        opened = RemoteDevice::open(&parsed, &options);
    }
    larder_cli::end_check();
    let device = opened.map_err(|error| not_opened(&parsed.to_string(), &error))?;
    if !device.version().is_strong() {
        eprintln!(
            "warning: the server sends no strong ETag for {parsed}: a replaced image is detected only by its length and \
             its time of modification"
        );
    }
    Ok(device)
}

fn cannot_write(path: &Path, why: &profile::Error) -> RemoteFailure {
    let hint = match why {
        profile::Error::NoVersion => "use the profile itself with --profile",
        _ => "name a file in a directory to which you can write",
    };
    RemoteFailure {
        message: format!("cannot write {}: {why}", path.display()),
        hint: Some(hint.to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the disk cache in `directory`, or in the default directory. Returns `None` if the directory does not exist.
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
    let open = || {
        CacheDir::open(&directory, CacheOptions::DEFAULT_MAX_BYTES)
            .map_err(|error| unusable(&error))
    };
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
        disk_cache::Error::Locked { .. } => {
            Some("end the process that holds the lock; fuser(1) and lslocks(8) show it")
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

/// Describes why the image at `label` cannot be opened.
fn not_opened(label: &str, error: &Error) -> RemoteFailure {
    failure(&format!("open {label}"), error)
}

/// Describes the failure of `action`, such as "open URL".
fn failure(action: &str, error: &Error) -> RemoteFailure {
    let hint = match error {
        Error::NotFound => {
            Some("check the URL, and --endpoint for a server that is compatible with S3")
        }
        Error::Denied => Some(
            "give credentials as the tools of the server expect them, for example in AWS_ACCESS_KEY_ID and \
             AWS_SECRET_ACCESS_KEY or in ~/.aws/credentials, or use --anonymous for a public object",
        ),
        Error::Status(300..400) => Some(
            "give the URL to which the server redirects, or check --endpoint and the region of the bucket \
             (AWS_REGION)",
        ),
        Error::Status(_) => Some(
            "check the URL, --endpoint, the region of the bucket (AWS_REGION) and the credentials",
        ),
        Error::NoCredentials(_) => Some("give credentials, or use --anonymous for a public object"),
        Error::Certificate(_) => {
            Some("if you trust the server, name the certificate of its authority in SSL_CERT_FILE")
        }
        Error::Exists => {
            Some("choose another name, or remove the object with the tools of the server")
        }
        Error::Unconfirmed(_) => Some(
            "check with the tools of the server, for example aws s3 ls, whether the object exists and is complete; \
             if it does not exist, check again after some minutes",
        ),
        Error::NoVersion => Some("if the object never changes, use --allow-unversioned"),
        Error::Cache(_) => {
            Some("name another directory with --cache-dir, or use --cache-disk-size 0")
        }
        Error::Profile { why, .. } => match why {
            profile::Error::OtherVersion { .. } => {
                Some("record a new profile with --profile-record, and pack it again")
            }
            profile::Error::Io(_) => Some("check the name of the profile or the pack"),
            _ => Some("record a new profile with --profile-record"),
        },
        Error::NotCached => Some("mount the image once without --offline"),
        Error::OtherContent { .. } => {
            Some("check the URL and the SHA-256; the image may have been replaced or forged")
        }
        Error::Deadline(..) => Some("check the network; --offline reads only the disk cache"),
        Error::NoRanges => {
            Some("copy the image to a local file, or to a server that supports ranges")
        }
        _ => None,
    };
    RemoteFailure {
        message: format!("cannot {action}: {error}"),
        hint: hint.map(str::to_owned),
    }
}

fn main() -> ExitCode {
    larder_cli::run_with(std::env::args_os(), Box::new(Images::default()))
}
