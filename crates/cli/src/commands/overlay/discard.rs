//! Removes an overlay.

use crate::args::OverlayDiscardArgs;
use crate::overlay;
use larder_block::{FileDevice, FileRange};
use larder_console::{Failure, Result, name, size};
use larder_image::{CommitState, Overlay, OverlayError, OverlayInfo};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

pub(super) fn run(args: &OverlayDiscardArgs) -> Result<()> {
    let path = &fs::canonicalize(&args.changes)
        .map_err(|error| Failure::new(format!("overlay {}: {error}", args.changes.display())))?;
    // The lock excludes other users of the overlay.
    let file = FileDevice::open_writable(path, FileRange::default())
        .map_err(|error| overlay::not_opened(path, &error.into()))?;
    match Overlay::info(&file) {
        Ok(OverlayInfo {
            base,
            commit: CommitState::Begun { .. },
            ..
        }) if !args.force => {
            let (message, hint) = overlay::committing(path, &base.name);
            return Err(Failure::with_hint(
                format!("{message}; the others would be lost"),
                format!("{hint}; --force removes the overlay nevertheless"),
            ));
        }
        // Its commit may have been interrupted.
        Err(error @ OverlayError::Damaged(_)) if !args.force => {
            return Err(Failure::with_hint(
                format!("{}: {error}", path.display()),
                "--force removes the overlay with all of its changes nevertheless",
            ));
        }
        Ok(_) | Err(OverlayError::Damaged(_)) => {}
        Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
    }
    let stored_bytes = fs::metadata(path)?.blocks() * 512;
    fs::remove_file(path)
        .map_err(|error| Failure::new(format!("cannot remove {}: {error}", path.display())))?;
    writeln!(
        io::stdout().lock(),
        "removed {} ({})",
        name::escaped(path.as_os_str().as_encoded_bytes()),
        size::human(stored_bytes)
    )?;
    Ok(())
}
