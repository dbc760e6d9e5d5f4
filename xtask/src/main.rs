//! Makes what is generated. What is installed beside the binary, from the same
//! definition of the command line that the binary parses:
//!
//! - `xtask man DIR`: manual pages, `larder.1` and `larder-mount.1` and so on;
//! - `xtask completions DIR`: completions of bash, zsh and fish, in the places
//!   below DIR (as in `/usr/share`) where the shells look for them.
//!
//! And what tests compare with:
//!
//! - `xtask record-readahead DIR [GROUP…]`: what this machine's kernel reads ahead.

mod record;

use clap::{Parser, Subcommand};
use clap_complete::{Shell, generate};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write manual pages to DIR
    Man {
        /// Such as /usr/local/share/man/man1
        dir: PathBuf,
    },
    /// Write shell completions below DIR
    Completions {
        /// Such as /usr/local/share
        dir: PathBuf,
    },
    /// Write what this machine's kernel reads ahead below DIR; needs root
    RecordReadahead {
        /// Such as crates/readahead/tests/golden
        dir: PathBuf,
        /// Only these groups of patterns
        groups: Vec<String>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Man { dir } => manual_pages(&dir),
        Task::Completions { dir } => completions(&dir),
        Task::RecordReadahead { dir, groups } => record::readahead(&dir, &groups),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn manual_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    clap_mangen::generate_to(larder_cli::command(), dir)
}

fn completions(dir: &Path) -> io::Result<()> {
    for (shell, path) in [
        (Shell::Bash, "bash-completion/completions/larder"),
        (Shell::Zsh, "zsh/site-functions/_larder"),
        (Shell::Fish, "fish/vendor_completions.d/larder.fish"),
    ] {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::create(path)?;
        generate(shell, &mut larder_cli::command(), "larder", &mut file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_every_command_and_none_that_people_do_not_run() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut larder_cli::command(), "larder", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("xattr-bench"), "{shell}");
            assert!(!script.contains("worker"), "{shell}");
        }
    }
}
