//! `larder lab readahead`.

use super::{Results, progress, write};
use crate::args::ReadaheadArgs;
use larder_console::{Failure, Result};
use larder_lab::compare::{CompareConfig, compare};
use larder_lab::simulator::{CpuModel, Error};
use std::process::ExitCode;

pub(super) fn run(args: &ReadaheadArgs) -> Result<ExitCode> {
    let config = CompareConfig {
        workload: args.workload.clone(),
        device: args.device,
        memory_bytes: args.memory,
        readahead_max_bytes: args.readahead_max,
        seed: args.seed,
        cpu: CpuModel::default(),
    };
    let bar = progress(1);
    let compared = compare(&config, &args.policy.0);
    bar.finish_and_clear();
    let comparison = compared.map_err(|error| failure(&error))?;
    if let Some(path) = &args.plot {
        write("--plot", path, &comparison.plot())?;
    }
    let results = Results {
        json: comparison.to_json()?,
        csv: comparison.to_csv()?,
        report: comparison.report()?,
        text: &|out| {
            write!(
                out,
                "{}\n\n{}",
                comparison.title(),
                comparison.table().to_text()
            )
        },
    };
    results.write(&args.results)?;
    Ok(ExitCode::SUCCESS)
}

/// What a simulation that cannot be made means for the command line.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Map { .. } => Failure::with_hint(message, "give less with --memory SIZE"),
        Error::OutOfDevice { .. } => Failure::with_hint(
            message,
            "give smaller or fewer files with --workload NAME:PARAMETER=VALUE",
        ),
        _ => Failure::new(message),
    }
}
