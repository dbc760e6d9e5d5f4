//! Copies the pages of the book, and adapts their links.

use super::files;
use anyhow::{Context, Result, ensure};
use regex::{Captures, Regex};
use std::fs;
use std::path::Path;

/// The first page, and the folder of the other pages, below the root of the repository.
const README: &str = "README.md";
const DOCS: &str = "docs";
/// The page with the order of the pages.
const SUMMARY: &str = "SUMMARY.md";
/// The files that are copied. The reports in HTML are not among them: they have the names of pages.
const EXTENSIONS: [&str; 5] = ["md", "svg", "json", "csv", "css"];

/// Copies the pages of the repository at `root`, and what they show, to the folder `to`.
///
/// # Errors
/// A link names no file, or an image is not in the book.
pub(super) fn copy(root: &Path, to: &Path) -> Result<()> {
    let mut files = files::below(&root.join(DOCS))?;
    files.push(root.join(README));
    let mut links = Links::new(root)?;
    for from in files {
        let file = from.strip_prefix(root)?;
        let Some(place) = place(file) else { continue };
        let target = to.join(place);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        if file.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&from).with_context(|| file.display().to_string())?;
            fs::write(target, links.adapted(&text, file))?;
        } else {
            fs::copy(&from, target)?;
        }
    }
    let broken = links.broken.join("\n");
    ensure!(broken.is_empty(), "broken links:\n{broken}");
    Ok(())
}

/// Returns the place in the book of a file, whose path is relative to the repository. Returns `None` if the file is
/// not in the book.
fn place(file: &Path) -> Option<&Path> {
    if file == Path::new(README) {
        return Some(file);
    }
    let extension = file.extension()?.to_str()?;
    let place = file.strip_prefix(DOCS).ok()?;
    EXTENSIONS.contains(&extension).then_some(place)
}

/// Adapts links to the book.
struct Links<'r> {
    /// The root of the repository.
    root: &'r Path,
    /// Matches a link or an image in Markdown.
    link: Regex,
    /// A line for each link without a target.
    broken: Vec<String>,
}

impl<'r> Links<'r> {
    fn new(root: &'r Path) -> Result<Self> {
        Ok(Self {
            root,
            link: Regex::new(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")?,
            broken: Vec::new(),
        })
    }

    /// Returns `text`, the page `page`, with links for the book. Code blocks stay as they are.
    fn adapted(&mut self, text: &str, page: &Path) -> String {
        let mut adapted = String::with_capacity(text.len());
        let mut prose = String::new();
        let mut in_code = false;
        for line in text.split_inclusive('\n') {
            let is_fence = line.trim_start().starts_with("```");
            if is_fence && !in_code {
                adapted += &self.adapted_prose(&prose, page);
                prose.clear();
            }
            if is_fence || in_code {
                adapted += line;
            } else {
                prose += line;
            }
            in_code ^= is_fence;
        }
        adapted + &self.adapted_prose(&prose, page)
    }

    fn adapted_prose(&mut self, prose: &str, page: &Path) -> String {
        let Self { root, link, broken } = self;
        let adapted = link.replace_all(prose, |found: &Captures<'_>| {
            let (whole, image, text, target) = (&found[0], &found[1], &found[2], &found[3]);
            if target.starts_with('#') || target.contains(':') {
                return whole.to_owned();
            }
            let (path, anchor) = target
                .find('#')
                .map_or((target, ""), |at| target.split_at(at));
            let parent = page.parent().unwrap_or(Path::new(""));
            let file = files::normal(&parent.join(path));
            if !root.join(&file).exists() {
                broken.push(format!("{}: {target}", page.display()));
                return whole.to_owned();
            }
            match (place(&file), place(page)) {
                (Some(to), Some(from)) => {
                    // mdBook makes index.html of the README of a folder.
                    let is_index = from != Path::new(SUMMARY) && to.ends_with(README);
                    let to = if is_index {
                        to.with_file_name("index.md")
                    } else {
                        to.to_owned()
                    };
                    format!("{image}[{text}]({}{anchor})", relative(from, &to))
                }
                _ if image.is_empty() => text.to_owned(),
                _ => {
                    broken.push(format!("{}: {target} is not in the book", page.display()));
                    whole.to_owned()
                }
            }
        });
        adapted.into_owned()
    }
}

/// Returns the link from the page `from` to the file `to`.
fn relative(from: &Path, to: &Path) -> String {
    let depth = from.components().count().saturating_sub(1);
    format!("{}{}", "../".repeat(depth), to.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn adapted(page: &str, text: &str) -> (String, Vec<String>) {
        let mut links = Links::new(Path::new(ROOT)).unwrap();
        let text = links.adapted(text, Path::new(page));
        (text, links.broken)
    }

    #[test]
    fn links_are_adapted_to_the_book() {
        for (page, text, expected) in [
            ("README.md", "[a](docs/glossary.md#b)", "[a](glossary.md#b)"),
            ("README.md", "[c](CONTRIBUTING.md), [d](#e)", "c, [d](#e)"),
            (
                "docs/guide/lab.md",
                "[a\nb](../glossary.md) [`c`](../../Makefile)",
                "[a\nb](../glossary.md) `c`",
            ),
            ("docs/glossary.md", "[a](../README.md)", "[a](index.md)"),
            ("docs/SUMMARY.md", "[a](../README.md)", "[a](README.md)"),
            (
                "docs/guide/lab.md",
                "[a](tuning.md)",
                "[a](../guide/tuning.md)",
            ),
            (
                "README.md",
                "[a](https://b.example/c)",
                "[a](https://b.example/c)",
            ),
            (
                "README.md",
                "```\n[a](docs/none.md)\n```\n",
                "```\n[a](docs/none.md)\n```\n",
            ),
        ] {
            assert_eq!(adapted(page, text), (expected.to_owned(), vec![]));
        }
    }

    #[test]
    fn links_without_a_target_are_reported() {
        for target in ["docs/none.md", "../outside.md", "none.svg"] {
            let (_, broken) = adapted("README.md", &format!("[a]({target})"));
            assert_eq!(broken, [format!("README.md: {target}")]);
        }
    }

    #[test]
    fn pages_of_the_repository_have_no_broken_links() {
        let to = tempfile::tempdir().unwrap();
        copy(Path::new(ROOT), to.path()).unwrap();
        assert!(to.path().join("SUMMARY.md").exists());
    }
}
