//! `larder put`: the content of one file, or of standard input, into an image.

use super::place::{self, Place, Target, new_file};
use crate::args::PutArgs;
use crate::failure::{Failure, Result, of_path};
use crate::name;
use larder::{FileKind, Ino, Volume};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

/// What is read and written at once, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Where the content comes from.
struct Source {
    input: Box<dyn Read>,
    /// The name that it has, if it has one.
    name: Option<Vec<u8>>,
    permissions: u16,
}

pub(super) fn run(args: &PutArgs) -> Result<ExitCode> {
    let place = Place::required(&args.destination)?;
    let source = Source::open(&args.file)?;
    place::change(place.image, &args.volume, |volume| {
        put(volume, source, place.path)?;
        Ok(ExitCode::SUCCESS)
    })
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                input: Box::new(io::stdin()),
                name: None,
                permissions: 0o666 & !place::umask(),
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
        })
    }
}

/// A file that is there keeps its owner, permissions and names.
fn put(volume: &Volume, mut source: Source, path: &[u8]) -> Result<()> {
    let failed = |error| of_path(path, &error);
    let ino = match volume.resolve(path) {
        Ok(ino) if volume.metadata(ino).map_err(failed)?.kind == FileKind::Regular => {
            volume.truncate(ino, 0).map_err(failed)?;
            ino
        }
        _ => {
            let target = Target::in_or_at(volume, path, source.name.as_deref())?;
            at_target(volume, &target, source.permissions, path)?
        }
    };
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset_bytes = 0;
    loop {
        let len = fill(&mut source.input, &mut piece)
            .map_err(|error| Failure::new(format!("cannot read the source: {error}")))?;
        if len > 0 {
            volume
                .write_all_at(ino, &piece[..len], offset_bytes)
                .map_err(failed)?;
        }
        offset_bytes += len as u64;
        if len < piece.len() {
            return Ok(());
        }
    }
}

/// The file at `target`, empty: made, or cut.
fn at_target(volume: &Volume, target: &Target, permissions: u16, path: &[u8]) -> Result<Ino> {
    let failed = |error| of_path(path, &error);
    match target.present(volume).map_err(failed)? {
        None => {
            let made = volume.create(target.parent, &target.name, &new_file(permissions));
            made.map(|metadata| metadata.ino).map_err(failed)
        }
        Some(present) if present.kind == FileKind::Regular => {
            volume.truncate(present.ino, 0).map_err(failed)?;
            Ok(present.ino)
        }
        Some(_) => Err(Failure::with_hint(
            format!(
                "{} is there, and no regular file",
                name::escaped(&target.name)
            ),
            "remove it first: larder rm",
        )),
    }
}

/// Reads until `piece` is full or the input ends.
fn fill(input: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < piece.len() {
        match input.read(&mut piece[done..]) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
