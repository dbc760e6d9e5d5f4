//! Options that several commands share, and the parsing of their values.

mod names;

pub(crate) use names::{Named, Names, NamesParser, deduplicated};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};
use std::path::PathBuf;

// This structure has no doc comment, because clap would show the comment instead of the help of a
// command.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Write one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write the results to FILE as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Also write a report to DIR
    ///
    /// The report consists of Markdown, HTML, CSV, JSON and all plots. The command lists the files in
    /// DIR that it replaces.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
}

/// Parses a seed.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is not a seed: use a whole number from 0 to {}",
            u64::MAX
        )
    })
}

/// Returns a parser that selects one of `all` by name.
pub(crate) fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |one| name(*one))).try_map(move |given| {
        let mut all = all.iter().copied();
        all.find(|one| name(*one) == given).ok_or("unknown name")
    })
}
