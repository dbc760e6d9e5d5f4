//! Generates files, records test data, and checks sources.
//!
//! Files that are installed with the programs, generated from the definitions of their command lines:
//!
//! - `xtask man DIR`: manual pages: `larder.1`, `larder-mount.1` and so on;
//! - `xtask completions DIR`: completions of bash, zsh and fish, in the folders below DIR (as in
//!   `/usr/share`) in which the shells look for them.
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

mod figures;
mod module_cycles;
mod prose;
mod record;

use clap::builder::Resettable;
use clap::{Command, Parser, Subcommand};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
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
    /// Write manual pages
    Man {
        /// Output directory, such as /usr/local/share/man/man1
        dir: PathBuf,
    },
    /// Write shell completions
    Completions {
        /// Output directory, such as /usr/local/share
        dir: PathBuf,
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
        Task::Man { dir } => manual_pages(&dir),
        Task::Completions { dir } => completions(&dir),
        Task::RecordReadahead { dir, groups } => record::readahead(&dir, &groups),
        Task::ModuleCycles { folders } => module_cycles::check(&folders),
        Task::Figures { check } => {
            figures::update(check).map_err(|error| io::Error::other(format!("{error:#}")))
        }
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

/// Returns the command line of larder, with that of larder-lab as its subcommand `lab`.
fn command() -> Command {
    larder_cli::command().mut_subcommand("lab", |_| {
        larder_lab_cli::command().name("lab").version(None)
    })
}

fn manual_pages(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut larder = command().disable_help_subcommand(true);
    larder.build();
    manual_page(&larder, dir)
}

/// Writes the pages of `command` and of its subcommands. The usage is as in `--help`, which names
/// the options' values, and the text after the options is kept as it is.
fn manual_page(command: &Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        manual_page(subcommand, dir)?;
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let shown = command.clone().override_usage(usage);
    let page = Man::new(shown.after_help(Resettable::Reset));
    let mut file = File::create(dir.join(page.get_filename()))?;
    page.render(&mut file)?;
    match command.get_after_help() {
        Some(help) => notes(&help.to_string()).to_writer(&mut file),
        None => Ok(()),
    }
}

/// Formats a section of `text`. Indented lines are rows and are kept; the other lines are filled.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    for line in text.lines() {
        if line.is_empty() {
            roff.control("PP", []);
        } else if line.starts_with(' ') {
            roff.control("nf", []);
            roff.text([roman(line)]);
            roff.control("fi", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    roff
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
        generate(shell, &mut command(), "larder", &mut file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_manual_page_keep_rows_and_fill_paragraphs() {
        let page = notes("Options:\n  ro     read only\n\nThe rest.").render();
        assert!(
            page.contains("\nOptions:\n.nf\n  ro     read only\n.fi\n.PP\nThe rest.\n"),
            "{page}"
        );
    }

    #[test]
    fn completions_omit_hidden_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut command(), "larder", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("xattr-bench"), "{shell}");
            assert!(!script.contains("worker"), "{shell}");
        }
    }
}
