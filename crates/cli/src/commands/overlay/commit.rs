//! Writes the changes in an overlay to its base, or uploads the base with the changes.
//!
//! The overlay records that the commit has begun, before the base changes. When all changes in the base are durable, the
//! overlay records this, too, and is removed. In between, it has all changes, so a commit that was interrupted can be
//! repeated from the start.

use crate::args::{ImageArgs, OverlayCommitArgs};
use crate::overlay;
use crate::{opening, progress, remote};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_console::{Failure, Result, name, size};
use larder_image::{ImageFormat, Overlay};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// The number of bytes that are copied at once.
const PART_BYTES: u64 = 1 << 20;

pub(super) fn run(args: &OverlayCommitArgs) -> Result<()> {
    match &args.to {
        Some(target) => upload(args, target),
        None => commit(&args.changes, &args.source),
    }
}

/// Uploads the disk with the changes to `target`.
fn upload(args: &OverlayCommitArgs, target: &Path) -> Result<()> {
    let disk = opening::open_disk_of(&overlay::with(&args.source, &args.changes)?)?;
    let bar = progress::bar(|| disk.size_bytes());
    let remote = &args.source.volume.remote;
    remote::upload(target, remote, &*disk, &mut |len_bytes| bar.inc(len_bytes))?;
    bar.finish_and_clear();
    writeln!(
        io::stdout().lock(),
        "wrote {} to {}",
        size::human(disk.size_bytes()),
        name::escaped(target.as_os_str().as_bytes()),
    )?;
    Ok(())
}

/// Writes the changes in the overlay at `path` to the image of `source`, and removes the overlay.
fn commit(path: &Path, source: &ImageArgs) -> Result<()> {
    let image: &Path = &source.image;
    if remote::is_remote(image) {
        return Err(Failure::with_hint(
            format!(
                "{} is not local, and is never changed in place",
                image.display()
            ),
            "give --to URL to upload the image with the changes as a new object",
        ));
    }
    let of_overlay = |error: &dyn std::fmt::Display| {
        Failure::new(format!("overlay {}: {error}", path.display()))
    };
    let of_image =
        |error: larder_block::Error| Failure::new(format!("image {}: {error}", image.display()));
    // A symbolic link to the overlay stays, and refers to nothing.
    let path = &fs::canonicalize(path).map_err(|error| of_overlay(&error))?;
    let image_name = fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let file = FileDevice::open_writable(path, FileRange::default())
        .map_err(|error| overlay::not_opened(path, &error.into()))?;
    let file: Arc<dyn BlockDevice> = Arc::new(file);
    let base = Overlay::record(&*file).map_err(|error| overlay::not_usable(path, image, &error))?;
    let format = overlay::format_of_base(path, &base, source.volume.format)?;
    if format != ImageFormat::Raw {
        return Err(Failure::with_hint(
            format!(
                "{} is not a raw image, but has the format {format}: larder does not write it",
                image.display(),
            ),
            "give --to URL to upload the disk with the changes, or mount it and copy the files",
        ));
    }
    let device = FileDevice::open_writable(image, FileRange::default()).map_err(of_image)?;
    let device = Arc::new(device);
    let name = image_name.as_os_str().as_bytes();
    let opened = Overlay::begin_commit(&file, Arc::clone(&device) as _, name)
        .map_err(|error| overlay::not_usable(path, image, &error))?;
    let changes = opened.changes();
    let total_bytes = changes.iter().map(|range| range.end - range.start).sum();
    let bar = progress::bar(|| total_bytes);
    let mut bytes = vec![0; usize::try_from(PART_BYTES).unwrap_or(usize::MAX)];
    for range in changes {
        let mut at_bytes = range.start;
        while at_bytes < range.end {
            let len_bytes = PART_BYTES.min(range.end - at_bytes);
            let part = &mut bytes[..usize::try_from(len_bytes).unwrap_or(0)];
            opened
                .read_at(part, at_bytes)
                .map_err(|error| of_overlay(&error))?;
            device.write_at(part, at_bytes).map_err(of_image)?;
            at_bytes += len_bytes;
            bar.inc(len_bytes);
        }
    }
    device.flush().map_err(of_image)?;
    opened.finish_commit().map_err(|error| of_overlay(&error))?;
    bar.finish_and_clear();
    fs::remove_file(path).map_err(|error| of_overlay(&error))?;
    writeln!(
        io::stdout().lock(),
        "wrote {} to {}, and removed {}",
        size::human(total_bytes),
        name::escaped(image.as_os_str().as_bytes()),
        name::escaped(path.as_os_str().as_bytes()),
    )?;
    Ok(())
}
