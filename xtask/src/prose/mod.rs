//! Finds wording that the house style rejects, in everything that people read.
//!
//! These texts are checked: prose in Markdown files; comments and string literals in Rust sources; the
//! names that Rust sources define; comments and documentation strings of scripts, Makefiles and Python
//! modules. Code is not prose: code blocks, text in backticks and the targets of links are skipped. The
//! rules are in `rules.rs`; the style itself is explained in `CONTRIBUTING.md`.

mod hash;
mod markdown;
mod rules;
mod rust;
mod text;

use rules::{Finding, Rules};
use std::collections::BTreeMap;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::Command;
use text::Text;

/// Prints what the rules reject in `paths`, or in every tracked file if `paths` is empty.
///
/// With `summary`, prints only the number of findings for each rule and each folder.
///
/// # Errors
/// A file cannot be read or parsed, or something was found.
pub fn check(paths: &[PathBuf], summary: bool) -> io::Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let rules = Rules::new();
    let mut found = Vec::new();
    for path in tracked_files(root, paths)? {
        let Some(texts) = texts_of(root, &path)? else {
            continue;
        };
        for text in &texts {
            let findings = rules.check(text);
            found.extend(findings.into_iter().map(|finding| (path.clone(), finding)));
        }
    }
    if summary {
        print_summary(&found);
    } else {
        for (path, finding) in &found {
            println!("{}:{finding}", path.display());
        }
    }
    match found.len() {
        0 => Ok(()),
        count => {
            let phrases = if count == 1 { "phrase" } else { "phrases" };
            Err(Error::other(format!(
                "{count} {phrases} rejected by the style; see CONTRIBUTING.md"
            )))
        }
    }
}

/// Returns the files of the repository that git tracks, below `paths` if it is not empty.
fn tracked_files(root: &Path, paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--"])
        .args(paths)
        .output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(Error::other(format!("git ls-files: {}", message.trim())));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = names.split_terminator('\0').map(PathBuf::from);
    Ok(names.filter(|path| root.join(path).exists()).collect())
}

/// Returns the texts of the file at `path`, or `None` if the lint does not read files of its kind.
fn texts_of(root: &Path, path: &Path) -> io::Result<Option<Vec<Text>>> {
    let located =
        |error: &dyn std::fmt::Display| Error::other(format!("{}: {error}", path.display()));
    let read = || std::fs::read_to_string(root.join(path)).map_err(|error| located(&error));
    // The rules and their tests quote what they reject.
    if rules::EXEMPT_FILES
        .iter()
        .any(|exempt| path.starts_with(exempt))
    {
        return Ok(None);
    }
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => Ok(Some(markdown::texts(&read()?))),
        Some("py" | "pyi") | None => Ok(Some(hash::texts(&read()?))),
        Some("rs") => rust::texts(&read()?)
            .map(Some)
            .map_err(|error| located(&error)),
        _ => Ok(None),
    }
}

fn print_summary(found: &[(PathBuf, Finding)]) {
    let mut by_rule = BTreeMap::new();
    let mut by_folder = BTreeMap::new();
    for (path, finding) in found {
        *by_rule.entry(finding.rule).or_insert(0) += 1;
        let folder: PathBuf = path.iter().take(2).collect();
        *by_folder.entry(folder).or_insert(0) += 1;
    }
    for (rule, count) in by_rule {
        println!("{count:6}  {rule}");
    }
    println!();
    for (folder, count) in by_folder {
        println!("{count:6}  {}", folder.display());
    }
}

#[cfg(test)]
mod tests;
