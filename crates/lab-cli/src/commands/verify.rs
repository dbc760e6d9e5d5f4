//! `larder lab advise --verify`: measures recommended mount options.

use super::interrupt::{interrupt, is_interrupted};
use super::progress::{progress, set_total};
use super::record::exit_code;
use clap::{Args, ValueHint};
use larder_console::{Failure, Result, count};
use larder_instruments::tool;
use larder_lab::advise::Advice;
use larder_lab::output::{Report, ReportFile};
use larder_lab::verify::{self, Error, Temperature, Verified, VerifyConfig};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The exit code after Ctrl-C, as in shells.
const INTERRUPTED: u8 = 130;

// This structure has no doc comment, because clap would show the comment instead of the help of the command.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Measure the recommended options on mounts of IMAGE
    ///
    /// COMMAND is run on new mounts of IMAGE, with the current and with the recommended options in turn. Each mount has
    /// an overlay of its own, which is deleted after the run: IMAGE is not changed. COMMAND is not run by a shell. Its
    /// working directory is the mount point. Its standard output is discarded. If COMMAND fails, the measurement ends
    /// with its exit status.
    #[arg(long, value_name = "IMAGE", value_hint = ValueHint::FilePath, requires = "command")]
    pub verify: Option<PathBuf>,
    /// Measure these mount options instead of the recommended ones
    ///
    /// The options are those of larder mount -o. TRACE can then be omitted.
    #[arg(long, value_name = "OPTIONS", requires = "verify")]
    #[arg(allow_hyphen_values = true)]
    pub options: Option<String>,
    /// Number of pairs of runs, at least 5
    #[arg(long, value_name = "N", default_value_t = 5, requires = "verify")]
    #[arg(value_parser = count::within(5..=10_000_u32))]
    pub pairs: u32,
    /// Evict the pages of IMAGE before each run (the default)
    #[arg(long, requires = "verify", conflicts_with = "warm")]
    pub cold: bool,
    /// Begin with an unmeasured pair of runs, and evict nothing
    #[arg(long, requires = "verify")]
    pub warm: bool,
    /// Command to measure, and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "verify")]
    pub command: Vec<OsString>,
}

impl VerifyArgs {
    /// Returns the options of `--options`.
    pub fn given_options(&self) -> Option<Vec<String>> {
        let list = self.options.as_ref()?.split(',');
        let options = list.filter(|option| !option.is_empty());
        Some(options.map(str::to_owned).collect())
    }
}

/// Advice, and its measurement.
#[derive(Debug, Serialize)]
pub(super) struct MeasuredAdvice {
    #[serde(flatten)]
    pub advice: Advice,
    pub verification: Verified,
}

impl Report for MeasuredAdvice {
    const NAME: &'static str = Advice::NAME;
    const TITLE: &'static str = Advice::TITLE;

    fn body(&self) -> String {
        let (advice, verification) = (self.advice.body(), self.verification.body());
        format!("{advice}\n## {}\n\n{verification}", Verified::TITLE)
    }

    fn to_csv(&self) -> io::Result<String> {
        self.advice.to_csv()
    }

    fn plots(&self) -> Vec<ReportFile> {
        let mut plots = self.advice.plots();
        plots.extend(self.verification.plots());
        plots
    }
}

/// Prints a measurement for people.
pub(super) fn print_verified(out: &mut dyn Write, verified: &Verified) -> io::Result<()> {
    let (table, summary) = (verified.table().to_text(), verified.summary());
    write!(out, "{}\n\n{table}\n{summary}", verified.title())
}

/// Measures the options `recommended` against `current` on mounts of `image`. If the user interrupts the measurement,
/// or the command fails, prints the failure and returns the exit code of this program.
pub(super) fn verify(
    args: &VerifyArgs,
    image: PathBuf,
    current: Vec<String>,
    recommended: Vec<String>,
) -> Result<ControlFlow<ExitCode, Verified>> {
    let config = VerifyConfig {
        larder: larder()?,
        image,
        command: args.command.clone(),
        current,
        recommended,
        pairs: usize::try_from(args.pairs).unwrap_or(usize::MAX),
        temperature: if args.warm {
            Temperature::Warm
        } else {
            Temperature::Cold
        },
        scratch: std::env::temp_dir(),
    };
    let interrupt = interrupt()?;
    let bar = progress(2 * u64::from(args.pairs));
    let verified = verify::run(
        &config,
        &mut || is_interrupted(&interrupt, Duration::ZERO),
        &mut |finished, total| {
            set_total(&bar, total as u64);
            bar.set_position(finished as u64);
        },
    );
    bar.finish_and_clear();
    match verified {
        Ok(verified) => Ok(ControlFlow::Continue(verified)),
        Err(error) => {
            let code = match &error {
                Error::Command { status, .. } => Some(exit_code(*status)),
                Error::Interrupted => Some(ExitCode::from(INTERRUPTED)),
                _ => None,
            };
            let failure = failure(&error);
            match code {
                Some(code) => {
                    failure.print(1);
                    Ok(ControlFlow::Break(code))
                }
                None => Err(failure),
            }
        }
    }
}

/// Returns the program `larder`: beside this program, or in `PATH`.
fn larder() -> Result<PathBuf> {
    // Without /proc, the path of this program is unknown.
    let beside = std::env::current_exe().map(|path| path.with_file_name("larder"));
    let beside = beside.ok().filter(|path| path.is_file());
    beside.or_else(|| tool::find("larder")).ok_or_else(|| {
        Failure::with_hint(
            "--verify needs the program larder, which was not found beside larder-lab or in PATH",
            "install larder, or add its directory to PATH; make install installs all programs",
        )
    })
}

/// Converts an error of the measurement to a failure of the command.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Command { .. } => Failure::with_hint(
            format!("{message}; the measurement was ended"),
            "the working directory of the command is the mount point; try the command on a mount first",
        ),
        Error::Interrupted => {
            Failure::new("the measurement was interrupted; its mount and overlay were removed")
        }
        Error::Mount { .. } => Failure::with_hint(
            message,
            "the options must be those of larder mount -o, and this user must be able to mount IMAGE",
        ),
        Error::Unmount(_) => Failure::with_hint(
            message,
            "the command must not leave processes that use the mount",
        ),
        _ => Failure::new(message),
    }
}
