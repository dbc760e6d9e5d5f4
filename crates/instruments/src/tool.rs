//! Execution of external tools: mke2fs, debugfs, tune2fs, losetup, …
//!
//! The tools are started directly, without a shell. Their clock, time zone and language are fixed, so that the
//! host's settings do not affect the result.

pub use larder_block::programs::find;

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The time that e2fsprogs use: 2020-09-13 12:26:40 UTC.
const FAKE_TIME: &str = "1600000000";

/// The error of a tool that could not be started, or failed.
#[derive(Debug, thiserror::Error)]
#[error("{command}: {reason}")]
pub struct Error {
    /// The command line.
    pub command: String,
    /// The exit status and the output of the tool, or the reason why it could not be started.
    pub reason: String,
}

/// One run of a tool.
#[derive(Debug)]
pub struct Tool {
    command: Command,
    accepted: Vec<i32>,
}

impl Tool {
    /// Creates a run of the tool `name`, without arguments.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let program = find(name).unwrap_or_else(|| PathBuf::from(name));
        let mut command = Command::new(program);
        command
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("E2FSPROGS_FAKE_TIME", FAKE_TIME)
            .stdin(Stdio::null());
        Self {
            command,
            accepted: vec![0],
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    /// Sets a variable of the tool's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Passes `file` to the tool as its standard input. By default, it is empty.
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Accepts the exit code `code` as success.
    #[must_use]
    pub fn accept(mut self, code: i32) -> Self {
        self.accepted.push(code);
        self
    }

    /// Runs the tool and returns what it wrote to standard output.
    pub fn run(self) -> Result<String, Error> {
        Ok(self.output()?.0)
    }

    /// Runs the tool and returns what it wrote to standard error.
    pub fn messages(self) -> Result<String, Error> {
        Ok(self.output()?.1)
    }

    fn output(mut self) -> Result<(String, String), Error> {
        let line = format!("{:?}", self.command);
        let failed = |reason: String| Error {
            command: line.clone(),
            reason,
        };
        let output = self
            .command
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(code) if self.accepted.contains(&code) => Ok((text, messages)),
            _ => Err(failed(format!("{}: {messages}{text}", output.status))),
        }
    }
}
