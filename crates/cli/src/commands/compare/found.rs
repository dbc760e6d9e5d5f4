//! The differences that a command prints. A failure to compare a file is printed, and the comparison continues.

use super::{Comparison, Difference, Tree};
use larder_console::{Result, name};
use std::fmt::Display;
use std::io::{self, BufWriter, Write};

/// The exit code if a file cannot be compared.
pub(crate) const TROUBLE: u8 = 2;

/// An iterator over differences, which prints the failures among them.
#[derive(Debug)]
pub(in crate::commands) struct Found {
    comparison: Comparison,
    /// Whether there was a difference so far.
    pub has_differences: bool,
    /// Whether there was a failure so far.
    pub has_failures: bool,
}

impl Found {
    pub(in crate::commands) fn new(comparison: Comparison) -> Self {
        Self {
            comparison,
            has_differences: false,
            has_failures: false,
        }
    }

    /// Returns the old tree and the new one.
    pub(in crate::commands) fn trees(&self) -> [&Tree; 2] {
        self.comparison.trees()
    }

    /// Prints a line for each difference: its `label`, and the path.
    pub(in crate::commands) fn print<L: Display>(
        &mut self,
        label: impl Fn(&Difference) -> L,
    ) -> Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        for difference in self {
            let path = name::escaped(&difference.marked_path());
            writeln!(out, "{} {path}", label(&difference))?;
        }
        Ok(out.flush()?)
    }
}

impl Iterator for Found {
    type Item = Difference;

    fn next(&mut self) -> Option<Difference> {
        loop {
            match self.comparison.next()? {
                Ok(difference) => {
                    self.has_differences = true;
                    return Some(difference);
                }
                Err(failure) => {
                    failure.print(TROUBLE);
                    self.has_failures = true;
                }
            }
        }
    }
}
