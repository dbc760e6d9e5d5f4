//! Where the lab's commands write what they measured: the same options for all.

use clap::Args;
use std::path::PathBuf;

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
