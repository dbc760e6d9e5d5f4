//! The log: to standard error, or to a file.

use crate::failure::{Failure, Result};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;

/// What is logged, as in `info` or `larder_fuse=debug`.
pub(crate) const VARIABLE: &str = "LARDER_LOG";

/// Starts the log. Without a file, it ends when a server leaves its terminal.
pub(crate) fn start(file: Option<&Path>) -> Result<()> {
    let filter = EnvFilter::try_from_env(VARIABLE).or_else(|error| {
        if std::env::var_os(VARIABLE).is_none_or(|value| value.is_empty()) {
            Ok(EnvFilter::new("warn"))
        } else {
            Err(Failure::new(format!("{VARIABLE}: {error}")))
        }
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false);
    let started = if let Some(path) = file {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| {
                Failure::new(format!("cannot open the log {}: {error}", path.display()))
            })?;
        builder
            .with_ansi(false)
            .with_writer(Mutex::new(file))
            .try_init()
    } else {
        builder
            .with_ansi(false)
            .without_time()
            .with_writer(io::stderr)
            .try_init()
    };
    started.map_err(|error| Failure::new(format!("cannot start the log: {error}")))
}
