//! `larder lab sdm`.

use super::{Results, interrupt, progress, write};
use crate::args::SdmArgs;
use larder_console::{Failure, Result};
use larder_lab::sdm::{self, Error, SdmConfig};
use std::io;
use std::process::ExitCode;

pub(super) fn run(args: &SdmArgs) -> Result<ExitCode> {
    if !args.dir.is_dir() {
        return Err(Failure::with_hint(
            format!("{} is not a directory", args.dir.display()),
            "give a directory that users can work in",
        ));
    }
    if let Some(path) = &args.record {
        let interrupt = interrupt()?;
        let operations =
            sdm::record(&args.dir, args.seed, Some(&interrupt)).map_err(|error| failure(&error))?;
        let mut text = Vec::new();
        operations.write(&mut text)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        write("--record", path, &text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = SdmConfig {
        users: once(&args.users),
        runs: args.runs,
        seed: args.seed,
    };
    let bar = progress(config.users.len() as u64 * u64::from(args.runs));
    let measured = sdm::measure(&args.dir, &config, Some(&interrupt()?), &mut || bar.inc(1));
    bar.finish_and_clear();
    let sdm = measured.map_err(|error| failure(&error))?;
    let results = Results {
        json: sdm.to_json()?,
        csv: sdm.to_csv()?,
        report: sdm.report()?,
        text: &|out| write!(out, "{}", sdm.table().to_text()),
    };
    results.write(&args.results)?;
    Ok(ExitCode::SUCCESS)
}

/// What is given, each once.
fn once(users: &[u32]) -> Vec<u32> {
    let mut once = Vec::new();
    for &users in users {
        if !once.contains(&users) {
            once.push(users);
        }
    }
    once
}

/// What a workload that cannot be run means for the command line.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Missing { packages, .. } => {
            let packages = packages.join(" ");
            Failure::with_hint(message, format!("on Debian: apt-get install {packages}"))
        }
        Error::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            Failure::with_hint(message, "give less with --users: each needs about 2 MB")
        }
        Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::with_hint(message, "DIR must be a directory that you can write")
        }
        Error::Start { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            Failure::with_hint(
                message,
                "DIR must be on a file system that programs may be run from: not mounted with noexec",
            )
        }
        _ => Failure::new(message),
    }
}
