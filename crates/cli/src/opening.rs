//! Opens images for all commands. If a server that was unmounted still uses the image, the functions wait
//! until the server ends, at most [`TIMEOUT`]. [`open_or_fall_back`] opens an image read-only if the image cannot
//! be written.

use crate::args::ImageArgs;
use crate::failure::{self, Access};
use crate::holder::is_ending;
use crate::mount_options;
use crate::remote::{self, RemoteArgs, RemoteSettings};
use larder::{OpenOptions, Volume};
use larder_block::{Error as DeviceError, lock_holder};
use larder_console::{Failure, Result, print_note, print_warning};
use larder_ext4::Error as Ext4Error;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// The maximum time for which a command waits for the end of a server that was unmounted.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between attempts to open the image.
const INTERVAL: Duration = Duration::from_millis(50);

/// The parts of an image at a URL are kept in the memory for all caches divided by this number, but in at most
/// [`MAX_UNITS_BYTES`].
const UNITS_DIVISOR: u64 = 8;
const MAX_UNITS_BYTES: u64 = 32 << 20;
/// The divisor and the maximum if there is a profile. Its parts may have to stay in memory until they are needed.
const PROFILE_DIVISOR: u64 = 4;
const MAX_PROFILE_BYTES: u64 = 128 << 20;

/// Opens an image read-only, for the commands that do not mount.
pub(crate) fn open_image(args: &ImageArgs) -> Result<Volume> {
    let mut options = mount_options::open_options(&args.volume);
    if remote::is_remote(&args.image) {
        mount_options::set_remote_defaults(&mut options);
    }
    open(&args.image, &options, &args.volume.remote)
}

/// Opens `image` with `options`.
pub(crate) fn open(image: &Path, options: &OpenOptions, remote: &RemoteArgs) -> Result<Volume> {
    check_profile(image, remote)?;
    // Part of the memory for all caches.
    let memory_bytes = if remote.profile.is_some() {
        MAX_PROFILE_BYTES.min(options.cache_size_bytes / PROFILE_DIVISOR)
    } else {
        MAX_UNITS_BYTES.min(options.cache_size_bytes / UNITS_DIVISOR)
    };
    let settings = RemoteSettings {
        args: remote.clone(),
        offset_bytes: options.offset_bytes,
        deadline: options.device_timeout,
        memory_bytes,
    };
    if let Some(device) = remote::open(image, &settings) {
        if options.read_write {
            return Err(Failure::with_hint(
                format!(
                    "image {} is not local, and cannot be written",
                    image.display()
                ),
                "copy the image to a local file first",
            ));
        }
        let mut options = options.clone();
        options.cache_size_bytes -= memory_bytes;
        let opened = Volume::open_device(device?, &options);
        return opened.map_err(|error| describe(image, &options, &error));
    }
    open_when_free(image, options).map_err(|error| describe(image, options, &error))
}

/// Opens `image` with `options`. If `options` request writing and the image cannot be written, prints a
/// warning, opens the image read-only, and changes `options` to read-only.
pub(crate) fn open_or_fall_back(
    image: &Path,
    options: &mut OpenOptions,
    remote: &RemoteArgs,
) -> Result<Volume> {
    if remote::is_remote(image) {
        options.read_write = false;
        return open(image, options, remote);
    }
    let error = match open_when_free(image, options) {
        Ok(volume) => return Ok(volume),
        Err(error) => error,
    };
    let Some(why) = read_only_reason(&error).filter(|_| options.read_write) else {
        return Err(describe(image, options, &error));
    };
    options.read_write = false;
    let volume = open(image, options, remote)?;
    print_warning(&format!(
        "image {} is mounted read-only: {why}",
        image.display()
    ));
    Ok(volume)
}

/// Checks that the options for profiles can be used with `image`.
fn check_profile(image: &Path, remote: &RemoteArgs) -> Result<()> {
    let has_profile = remote.profile.is_some() || remote.profile_record.is_some();
    if has_profile && !remote::is_remote(image) {
        return Err(Failure::usage(
            "--profile and --profile-record need an image at a URL",
        ));
    }
    if remote.profile.is_some() && remote.offline {
        return Err(Failure::Usage {
            message: "--profile and --offline cannot be used together".to_owned(),
            hint: Some(
                "omit --profile: --offline reads only the disk cache, and fetches nothing"
                    .to_owned(),
            ),
        });
    }
    Ok(())
}

fn describe(image: &Path, options: &OpenOptions, error: &larder::Error) -> Failure {
    let access = if options.read_write {
        Access::Write
    } else {
        Access::Read
    };
    failure::of_image(image, access, error)
}

/// Opens `image`. If a process of larder has locked the image, and the image is not mounted, waits until the image
/// is unlocked, at most [`TIMEOUT`]. The process is then a server that was unmounted, or a command.
fn open_when_free(image: &Path, options: &OpenOptions) -> larder::Result<Volume> {
    let start = Instant::now();
    let mut has_noted = false;
    loop {
        let opened = Volume::open(image, options);
        let is_locked = matches!(
            &opened,
            Err(larder::Error::Ext4(Ext4Error::Device(
                DeviceError::Locked { .. }
            )))
        );
        if !is_locked || start.elapsed() >= TIMEOUT {
            return opened;
        }
        match lock_holder(image) {
            // The process that held the lock may have ended after the first attempt.
            None => return Volume::open(image, options),
            Some(holder) if !is_ending(image, &holder) => return opened,
            Some(holder) if !has_noted => {
                has_noted = true;
                print_note(&format!(
                    "waiting for process {} ({}) to finish with image {}",
                    holder.pid,
                    holder.name,
                    image.display()
                ));
            }
            Some(_) => {}
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Returns the reason why an image can be read but not written, or `None` if `error` has another cause.
fn read_only_reason(error: &larder::Error) -> Option<&str> {
    let larder::Error::Ext4(error) = error else {
        return None;
    };
    match error {
        Ext4Error::Device(DeviceError::Open { source, .. }) => match source.kind() {
            io::ErrorKind::PermissionDenied => Some("no permission to write it"),
            io::ErrorKind::ReadOnlyFilesystem => Some("it is on a read-only file system or device"),
            _ => None,
        },
        Ext4Error::NotWritable(why) => Some(why),
        Ext4Error::ReadOnly(_) => Some("the device is read-only"),
        _ => None,
    }
}
