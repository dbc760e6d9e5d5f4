//! Generates files, records test data, and checks sources.
//!
//! Files that are installed with the programs:
//!
//! - `xtask man DIR`: manual pages, such as `man1/larder-mount.1`, in the folders below DIR (as in `/usr/share/man`);
//! - `xtask completions DIR`: completions of bash, zsh and fish, in the folders below DIR (as in
//!   `/usr/share`) in which the shells look for them.
//!
//! The documentation as a site:
//!
//! - `xtask book MDBOOK`: the book, with mdBook.
//!
//! Test data:
//!
//! - `xtask record-readahead DIR [GROUP…]`: the readahead of this machine's kernel.
//!
//! Checks of the sources:
//!
//! - `xtask module-cycles [FOLDER…]`: cyclic dependencies between the files of a crate;
//! - `xtask prose [PATH…]`: wording that the style rejects;
//! - `xtask figures [--check]`: figures of the documentation, from the results of the benches.
//!
//! A test of this package checks that the public structs of the crates have constructors.

mod book;
#[cfg(test)]
mod constructors;
mod figures;
mod manual;
mod module_cycles;
mod prose;
mod record;

use clap::{Parser, Subcommand};
use std::fs;
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
    /// Write manual pages
    Man {
        /// Output directory, such as /usr/local/share/man
        dir: PathBuf,
    },
    /// Write shell completions
    Completions {
        /// Output directory, such as /usr/local/share
        dir: PathBuf,
    },
    /// Build the book
    Book {
        /// The program mdbook
        mdbook: PathBuf,
    },
    /// Record the readahead of this machine's kernel, as root
    RecordReadahead {
        /// Output directory, such as crates/readahead/tests/golden
        dir: PathBuf,
        /// Groups of patterns [default: all]
        groups: Vec<String>,
    },
    /// Check that the files of a crate have no cyclic dependencies
    ModuleCycles {
        /// Folders of crates, such as crates/cache [default: all crates]
        folders: Vec<PathBuf>,
    },
    /// Write the newest results of the benches into README.md and docs
    Figures {
        /// Write nothing; fail if a page differs
        #[arg(long)]
        check: bool,
    },
    /// Fail if a text or a name has wording that the style rejects
    Prose {
        /// Print only the number of findings for each rule and folder
        #[arg(long)]
        summary: bool,
        /// Files or folders below the root of the repository [default: all]
        paths: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Man { dir } => manual::write(&dir),
        Task::Completions { dir } => completions(&dir),
        Task::RecordReadahead { dir, groups } => record::readahead(&dir, &groups),
        Task::ModuleCycles { folders } => module_cycles::check(&folders),
        Task::Book { mdbook } => book::build(&mdbook).map_err(|error| described(&error)),
        Task::Figures { check } => figures::update(check).map_err(|error| described(&error)),
        Task::Prose { summary, paths } => prose::check(&paths, summary),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the error with its causes.
fn described(error: &anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}

/// The programs whose command lines the scripts complete.
const PROGRAMS: [&str; 3] = ["larder", "larder-lab", "larder-remote"];

/// The completion scripts, and the paths at which the shells look for them: before and after the name of the program.
const COMPLETIONS: [(&str, &str, &str); 3] = [
    (
        include_str!("../../crates/cli/completions/larder.bash"),
        "bash-completion/completions/",
        "",
    ),
    (
        include_str!("../../crates/cli/completions/_larder"),
        "zsh/site-functions/_",
        "",
    ),
    (
        include_str!("../../crates/cli/completions/larder.fish"),
        "fish/vendor_completions.d/",
        ".fish",
    ),
];

/// Writes a copy of each script for each program, because each Debian package has the scripts of its programs.
fn completions(dir: &Path) -> io::Result<()> {
    for (script, before, after) in COMPLETIONS {
        for program in PROGRAMS {
            let path = dir.join(format!("{before}{program}{after}"));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, script)?;
        }
    }
    Ok(())
}
