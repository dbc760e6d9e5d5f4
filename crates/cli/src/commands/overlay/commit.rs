//! Writes the changes in an overlay to its base, or uploads the base with the changes.
//!
//! See [`Overlay::commit`]. When all changes are durable in the base, the overlay is removed.

use crate::args::{ImageArgs, OverlayCommitArgs};
use crate::commands::operands::is_same_image;
use crate::overlay;
use crate::{opening, progress, remote};
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_console::{Failure, Result, name, size};
use larder_image::{CommitState, ImageFormat, Overlay};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

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
    // A symbolic link to the overlay stays, and refers to nothing.
    let path = &fs::canonicalize(path).map_err(|error| of_overlay(&error))?;
    let image_name = fs::canonicalize(image).unwrap_or_else(|_| image.to_owned());
    let format = opening::format_of((&overlay::with(source, path)?).into())?;
    if let Some(format) = format.filter(|format| *format != ImageFormat::Raw) {
        return Err(Failure::with_hint(
            format!(
                "{} is not a raw image, but has the format {format}: larder does not write it",
                image.display(),
            ),
            "give --to URL to upload the disk with the changes, or mount it and copy the files",
        ));
    }
    let device = FileDevice::open_writable(image, FileRange::default())
        .map_err(|error| Failure::new(format!("image {}: {error}", image.display())))?;
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let file = overlay::open_file(path, device.size_bytes(), true)
        .map_err(|error| overlay::not_opened(path, &error))?;
    let name = image_name.as_os_str().as_bytes();
    let not_usable = |error| overlay::not_usable(path, image, &error);
    let info = Overlay::info(&*file).map_err(not_usable)?;
    let [shown_image, shown_overlay] =
        [image, path.as_path()].map(|path| name::escaped(path.as_os_str().as_bytes()));
    let recorded = Path::new(OsStr::from_bytes(&info.base.name));
    if matches!(info.commit, CommitState::Begun { .. })
        && recorded.exists()
        && !is_same_image(recorded, image)
    {
        // This image can be a copy of the other one, and would pass the check of its content.
        let (message, hint) = overlay::committing(path, &info.base.name);
        return Err(Failure::with_hint(message, hint));
    }
    // An earlier commit to this image may have been interrupted before it removed the overlay.
    let is_done = info.commit == CommitState::Complete
        && info.base.name == name
        && Overlay::is_in_base(&file, &device).map_err(not_usable)?;
    let done = if is_done {
        format!("removed {shown_overlay}: {shown_image} has its changes already")
    } else {
        let mut bar = None;
        let show = |copied_bytes, total_bytes| {
            bar.get_or_insert_with(|| progress::bar(|| total_bytes))
                .set_position(copied_bytes);
        };
        let total_bytes = Overlay::commit(&file, &device, name, show).map_err(not_usable)?;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        let written = size::human(total_bytes);
        format!("wrote {written} to {shown_image}, and removed {shown_overlay}")
    };
    fs::remove_file(path).map_err(|error| of_overlay(&error))?;
    writeln!(io::stdout().lock(), "{done}")?;
    Ok(())
}
