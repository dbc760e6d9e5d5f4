//! Writes results in the forms that the arguments select.

use crate::options::ResultArgs;
use larder_console::{Failure, Result, print_note};
use larder_lab::output::{Report, ReportFile};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Writes the results of a command in the forms that `args` select; `print_text` prints the tables.
pub(super) fn write_results(
    report: &impl Report,
    args: &ResultArgs,
    print_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<ExitCode> {
    if let Some(path) = &args.csv {
        write("--csv", path, &report.to_csv()?)?;
    }
    if let Some(dir) = &args.output {
        write_report(dir, &report.report()?)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(report.to_json()?.as_bytes())?;
    } else {
        print_text(&mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the file that `option` names, and prints a note if the file existed before.
pub(super) fn write(option: &str, path: &Path, content: &str) -> Result<()> {
    let exists = fs::metadata(path).is_ok_and(|present| present.is_file());
    fs::write(path, content).map_err(|error| {
        Failure::with_hint(
            format!("cannot write {}: {error}", path.display()),
            format!("{option} must name a file in a writable directory"),
        )
    })?;
    if exists {
        print_note(&format!("replaced {}", path.display()));
    }
    Ok(())
}

/// Writes a report to `dir`, which is created if necessary.
pub(super) fn write_report(dir: &Path, files: &[ReportFile]) -> Result<()> {
    fs::create_dir_all(dir).map_err(|error| {
        Failure::with_hint(
            format!("cannot create {}: {error}", dir.display()),
            "--output must name a directory that exists or can be created",
        )
    })?;
    for file in files {
        write("--output", &dir.join(&file.name), &file.content)?;
    }
    Ok(())
}
