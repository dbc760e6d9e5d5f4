//! Checks a built book: links, and that no page loads anything from elsewhere.

use super::files;
use anyhow::{Context, Result};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// Returns what is wrong with the book in `folder`, one line for each finding.
///
/// # Errors
/// A file cannot be read.
pub(super) fn findings(folder: &Path) -> Result<Vec<String>> {
    let folder = &folder.canonicalize()?;
    let files = files::below(folder)?;
    let has_extension =
        |file: &Path, extension: &str| file.extension().is_some_and(|e| e == extension);
    let mut pages = HashMap::new();
    let mut styles = Vec::new();
    for file in &files {
        if has_extension(file, "html") {
            pages.insert(file.clone(), Page::read(file)?);
        } else if has_extension(file, "css") {
            styles.push((file, read(file)?));
        }
    }
    let mut findings = Vec::new();
    let mut report = |file: &Path, what: String| {
        let file = file.strip_prefix(folder).unwrap_or(file);
        findings.push(format!("{}: {what}", file.display()));
    };
    for (file, page) in &pages {
        for resource in page.resources.iter().filter(|url| is_elsewhere(url)) {
            report(file, format!("loads {resource}"));
        }
        let links = page.links.iter().chain(&page.resources);
        for link in links.filter(|url| !is_elsewhere(url)) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.clone(),
                path => files::normal(&file.with_file_name(path)),
            };
            if !target.exists() {
                report(file, format!("{link} does not exist"));
            } else if let Some(page) = pages.get(&target)
                && !anchor.is_empty()
                && !page.ids.contains(anchor)
            {
                report(file, format!("{link}: there is no such heading"));
            }
        }
    }
    let loads = Regex::new(r#"(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)"#)?;
    for (file, style) in styles {
        for found in loads.captures_iter(&style) {
            report(file, format!("loads {}", &found[1]));
        }
    }
    findings.sort();
    Ok(findings)
}

/// What a page refers to.
struct Page {
    /// The targets of links that a reader follows.
    links: Vec<String>,
    /// What the browser loads.
    resources: Vec<String>,
    /// The places in the page that a link can name.
    ids: HashSet<String>,
}

impl Page {
    fn read(file: &Path) -> Result<Self> {
        let html = read(file)?;
        let tags = Regex::new(r"<([a-z][a-z0-9]*)\b([^<>]*)>")?;
        let attributes = Regex::new(r#"(?:^|\s)(href|src|data|id)="([^"]*)""#)?;
        let mut page = Self {
            links: Vec::new(),
            resources: Vec::new(),
            ids: HashSet::new(),
        };
        for tag in tags.captures_iter(&html) {
            for attribute in attributes.captures_iter(&tag[2]) {
                let value = attribute[2].replace("&amp;", "&");
                match (&tag[1], &attribute[1]) {
                    (_, "id") => drop(page.ids.insert(value)),
                    _ if value.starts_with("data:") => {}
                    ("a", "href") => page.links.push(value),
                    _ => page.resources.push(value),
                }
            }
        }
        Ok(page)
    }
}

fn is_elsewhere(url: &str) -> bool {
    ["http:", "https:", "//", "mailto:"]
        .iter()
        .any(|start| url.starts_with(start))
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for a book with `index.html` and an intact page, `folder/page.html`.
    fn findings_of(index: &str) -> Vec<String> {
        let book = tempfile::tempdir().unwrap();
        let page = r#"<h1 id="top">x</h1><a href="../index.html">y</a>"#;
        fs::create_dir(book.path().join("folder")).unwrap();
        fs::write(book.path().join("folder/page.html"), page).unwrap();
        fs::write(
            book.path().join("style.css"),
            "a { background: url(b.png) }",
        )
        .unwrap();
        fs::write(book.path().join("index.html"), index).unwrap();
        findings(book.path()).unwrap()
    }

    #[test]
    fn intact_book_has_no_findings() {
        for index in [
            r#"<a href="folder/page.html#top">"#,
            r##"<h2 id="x"></h2><a class="header" href="#x">"##,
            r#"<link rel="stylesheet" href="style.css">"#,
            r#"<a href="https://example.org/">"#,
            r#"<code>&lt;a href="none.html"&gt;</code>"#,
        ] {
            assert_eq!(findings_of(index), [""; 0], "{index}");
        }
    }

    #[test]
    fn broken_links_and_foreign_resources_are_found() {
        for (index, expected) in [
            (r#"<a href="none.html">"#, "none.html does not exist"),
            (r#"<img src="none.svg">"#, "none.svg does not exist"),
            (
                r#"<a href="folder/page.html#none">"#,
                "folder/page.html#none: there is no such heading",
            ),
            (r##"<a href="#none">"##, "#none: there is no such heading"),
            (
                r#"<script defer src="https://cdn.example/x.js">"#,
                "loads https://cdn.example/x.js",
            ),
            (
                r#"<link href="//cdn.example/x.css">"#,
                "loads //cdn.example/x.css",
            ),
        ] {
            assert_eq!(findings_of(index), [format!("index.html: {expected}")]);
        }
    }

    #[test]
    fn foreign_resources_of_styles_are_found() {
        let book = tempfile::tempdir().unwrap();
        fs::write(
            book.path().join("a.css"),
            "@import 'https://fonts.example/f.css';",
        )
        .unwrap();
        let expected = "a.css: loads https://fonts.example/f.css";
        assert_eq!(findings(book.path()).unwrap(), [expected]);
    }
}
