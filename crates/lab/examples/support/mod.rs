//! The command line of the examples that write a trace.

use larder_lab::trace::Error;
use std::env::args;
use std::path::Path;
use std::process::ExitCode;

/// Calls `write` with the file, the number of events and the number of objects on the command line of `program`.
pub fn run(program: &str, write: fn(&Path, u64, u64) -> Result<(), Error>) -> ExitCode {
    let arguments: Vec<String> = args().skip(1).collect();
    let number = |at: usize| arguments.get(at)?.parse().ok();
    let (Some(path), Some(events), Some(objects)) = (arguments.first(), number(1), number(2))
    else {
        eprintln!("usage: {program} FILE EVENTS OBJECTS");
        return ExitCode::from(2);
    };
    match write(Path::new(path), events, objects) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}
