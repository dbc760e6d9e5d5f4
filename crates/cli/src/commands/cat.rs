//! The command `larder cat`: writes files of an image to standard output.

use super::operands::Operands;
use crate::args::CatArgs;
use crate::failure::of_path;
use crate::opening::open_image;
use larder::Volume;
use larder_console::{Failure, Result};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// The size of the buffer for one read and one write, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) fn run(args: &CatArgs) -> Result<ExitCode> {
    let files = Operands::new(&args.files.source, &args.files.paths, None)?;
    let volume = open_image(&files.source)?;
    let mut out = io::stdout().lock();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut code = ExitCode::SUCCESS;
    for path in &files.paths {
        match write_file(&volume, path.as_bytes(), &mut buffer, &mut out) {
            Ok(()) => {}
            Err(Failure::BrokenPipe) => return Err(Failure::BrokenPipe),
            Err(failure) => code = failure.print(1),
        }
    }
    out.flush()?;
    Ok(code)
}

fn write_file(volume: &Volume, path: &[u8], buffer: &mut [u8], out: &mut impl Write) -> Result<()> {
    let failed = |error| of_path(path, &error);
    let ino = volume.resolve(path).map_err(failed)?;
    let mut offset_bytes = 0;
    loop {
        let len = volume.read_at(ino, buffer, offset_bytes).map_err(failed)?;
        out.write_all(&buffer[..len])?;
        offset_bytes += len as u64;
        if len < buffer.len() {
            return Ok(());
        }
    }
}
