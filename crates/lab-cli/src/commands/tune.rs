//! `larder lab tune`.

use super::Results;
use super::hash::{failure, open, replaying};
use crate::args::TuneArgs;
use larder_console::Result;
use larder_lab::tune::{Conditions, tune};
use std::process::ExitCode;

pub(super) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let source = open(&args.trace, args.salvage)?;
    let bar = replaying(0, "{spinner} {human_pos} events replayed, {elapsed}");
    let tick = &mut |events| bar.inc(events);
    let conditions = Conditions {
        memory_bytes: args.memory,
        miss_ns: args.miss_ns.into(),
        seed: args.seed,
    };
    let advice = tune(&source, conditions, tick);
    bar.finish_and_clear();
    let advice = advice.map_err(|error| failure(&error))?;
    let results = Results {
        json: advice.to_json()?,
        csv: advice.to_csv()?,
        report: advice.report()?,
        text: &|out| {
            writeln!(out, "{}\n", advice.source)?;
            write!(out, "{}\n{}", advice.table().to_text(), advice.summary())
        },
    };
    results.write(&args.results)?;
    Ok(ExitCode::SUCCESS)
}
