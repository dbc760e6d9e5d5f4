//! The book: the README and the pages in `docs`, as a site that mdBook builds.
//!
//! mdBook cannot use `docs` directly: the first page is the README, pages link to sources that are not in the book,
//! and the reports in HTML have the names of pages. Therefore the pages are copied to a folder first. A link
//! to a file that is not in the book becomes plain text. The pages in `docs` stay readable without the book.

mod check;
mod files;
mod pages;

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The folder with the pages for mdBook, as in `book.toml`, below the root of the repository.
const SOURCE: &str = "target/book-source";
/// The folder with the book, as in `book.toml`, below the root of the repository.
const BOOK: &str = "target/book";

/// Builds the book with the program `mdbook`, and checks it.
///
/// # Errors
/// A link in a page names no file, mdBook fails, or the book has a broken link or no search index, or loads something
/// from elsewhere.
pub fn build(mdbook: &Path) -> Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (source, book) = (root.join(SOURCE), root.join(BOOK));
    for folder in [&source, &book] {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
    }
    pages::copy(root, &source)?;
    let status = Command::new(mdbook).arg("build").arg(root).status();
    let status = status.with_context(|| mdbook.display().to_string())?;
    ensure!(status.success(), "mdbook has failed");
    let findings = check::findings(&book)?;
    ensure!(findings.is_empty(), "the book:\n{}", findings.join("\n"));
    println!("{BOOK}/index.html");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lists_every_page() {
        let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
        let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
        for path in files::below(docs).unwrap() {
            let page = path.strip_prefix(docs).unwrap();
            if page.extension().is_some_and(|extension| extension == "md")
                && page != Path::new("SUMMARY.md")
            {
                let link = format!("({})", page.display());
                assert!(summary.contains(&link), "{} is not listed", page.display());
            }
        }
    }
}
