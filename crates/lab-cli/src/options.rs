//! Options that several commands have, and how their values are read.

mod names;

pub(crate) use names::{Names, NamesParser};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;

// Without a comment of its own for help: that would take the place of a command's.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Write JSON, one object, instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write the figures to FILE, too; a replaced file is named
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write a report to DIR, too: Markdown, HTML, CSV, JSON and all plots; replaced
    /// files are named
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Reads what chance is drawn from.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "`{text}` is not a seed: write a whole number from 0 to {}",
            u64::MAX
        )
    })
}

/// Reads the one of `all` that has the given name.
pub(crate) fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(move |one| name(*one))).try_map(move |given| {
        let mut all = all.iter().copied();
        all.find(|one| name(*one) == given).ok_or("no such name")
    })
}

/// Each of `items` once, in the order given.
pub(crate) fn each_once<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for item in items {
        if !once.contains(&item) {
            once.push(item);
        }
    }
    once
}
