//! Starts the log, which is written to standard error or to a file.

use crate::{Failure, Result};
use std::env::VarError;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{fmt, util::SubscriberInitExt};

/// The environment variable that selects the messages to log, such as `info` or `larder_fuse=debug`.
pub const VARIABLE: &str = "LARDER_LOG";

/// Returns the failure for an invalid value of the environment variable.
fn invalid(error: impl Display) -> Failure {
    Failure::with_hint(
        format!("invalid value of {VARIABLE}: {error}"),
        "use error, warn, info, debug or trace, or MODULE=LEVEL as in larder_fuse=debug",
    )
}

/// Starts the log. If `file` is `None`, messages are written to standard error, and those of a server are
/// lost after it has detached from its terminal.
pub fn start(file: Option<&Path>) -> Result<()> {
    let filter = match std::env::var(VARIABLE) {
        Ok(value) if !value.is_empty() => value.parse(),
        Ok(_) | Err(VarError::NotPresent) => Ok(Targets::new().with_default(LevelFilter::WARN)),
        Err(error) => return Err(invalid(error)),
    }
    .map_err(invalid)?;
    let log = tracing_subscriber::registry().with(filter);
    let lines = fmt::layer().with_target(false).with_ansi(false);
    let started = if let Some(path) = file {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                Failure::new(format!("cannot open the log {}: {error}", path.display()))
            })?;
        log.with(lines.with_writer(Mutex::new(file))).try_init()
    } else {
        log.with(lines.without_time().with_writer(io::stderr))
            .try_init()
    };
    started.map_err(|error| Failure::new(format!("cannot start the log: {error}")))
}
