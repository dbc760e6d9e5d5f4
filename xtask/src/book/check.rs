//! Checks a built book: links, the search index, and that no page loads anything from elsewhere.
//!
//! The check of scripts is a scan: a URL in quotes is treated as loaded.

use super::files;
use anyhow::{Context, Result};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// What the script of mdBook loads on pages with code that a reader can run, which have elements of the class
/// `playground`. `book.toml` turns them off.
const PLAYGROUND: &str = "https://play.rust-lang.org/";

/// Returns what is wrong with the book in `folder`, one line for each finding.
///
/// # Errors
/// A file cannot be read.
pub(super) fn findings(folder: &Path) -> Result<Vec<String>> {
    let folder = &folder.canonicalize()?;
    let files = files::below(folder)?;
    let mut pages = HashMap::new();
    let mut loaded = Vec::new();
    let mut has_index = false;
    for file in &files {
        match file.extension().and_then(OsStr::to_str) {
            Some("html") => drop(pages.insert(file.clone(), Page::read(file)?)),
            Some("css") => loaded.push((file, loaded_by_style(&read(file)?)?)),
            // The index contains the texts of the pages.
            Some("js") if is_search_index(file) => has_index = true,
            Some("js") => loaded.push((file, loaded_by_script(&read(file)?)?)),
            _ => {}
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
    for (file, urls) in loaded {
        for url in urls {
            report(file, format!("loads {url}"));
        }
    }
    if !has_index {
        findings.push("the search index is missing".to_owned());
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
        let attributes =
            Regex::new(r#"(?:^|\s)(href|src|srcset|data|poster|id|class|style)="([^"]*)""#)?;
        let mut page = Self {
            links: Vec::new(),
            resources: Vec::new(),
            ids: HashSet::new(),
        };
        for tag in tags.captures_iter(&html) {
            for attribute in attributes.captures_iter(&tag[2]) {
                let value = attribute[2].replace("&quot;", "\"").replace("&amp;", "&");
                match (&tag[1], &attribute[1]) {
                    (_, "id") => drop(page.ids.insert(value)),
                    (_, "class") => {
                        let mut classes = value.split_whitespace();
                        if classes.any(|class| class == "playground") {
                            page.resources.push(PLAYGROUND.to_owned());
                        }
                    }
                    (_, "style") => page.resources.extend(loaded_by_style(&value)?),
                    (_, "srcset") => page.resources.extend(images(&value)),
                    _ if value.starts_with("data:") => {}
                    ("a", "href") => page.links.push(value),
                    _ => page.resources.push(value),
                }
            }
        }
        for style in captures(r"(?s)<style\b[^>]*>(.*?)</style>", &html)? {
            page.resources.extend(loaded_by_style(&style)?);
        }
        for script in captures(r"(?s)<script\b[^>]*>(.*?)</script>", &html)? {
            page.resources.extend(loaded_by_script(&script)?);
        }
        Ok(page)
    }
}

/// Returns the URLs of an attribute `srcset`: each image is a URL and, after a blank, its width or density.
fn images(srcset: &str) -> impl Iterator<Item = String> {
    let images = srcset.split(',');
    images.filter_map(|image| Some(image.split_whitespace().next()?.to_owned()))
}

/// Returns the URLs elsewhere that a style sheet loads.
fn loaded_by_style(style: &str) -> Result<Vec<String>> {
    captures(
        r#"(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)"#,
        style,
    )
}

/// Returns the URLs elsewhere in the strings of a script.
fn loaded_by_script(script: &str) -> Result<Vec<String>> {
    let mut urls = captures(r#"["'`]((?:https?:)?//[a-zA-Z0-9][^"'`\s]*)"#, script)?;
    urls.retain(|url| !url.starts_with(PLAYGROUND));
    Ok(urls)
}

/// Returns the first group of each match of `pattern` in `text`.
fn captures(pattern: &str, text: &str) -> Result<Vec<String>> {
    let found = Regex::new(pattern)?;
    let found = found.captures_iter(text);
    Ok(found.map(|groups| groups[1].to_owned()).collect())
}

/// Returns whether the script `file` is the search index of mdBook, whose name contains a checksum.
fn is_search_index(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("searchindex"))
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

    /// The search index of the books, which contains the text of a page.
    const INDEX: (&str, &str) = ("searchindex-1.js", r#"{"body": "https://a.example"}"#);

    /// Returns the findings for a book with `files`.
    fn findings_in(files: &[(&str, &str)]) -> Vec<String> {
        let book = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = book.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        findings(book.path()).unwrap()
    }

    /// Returns the findings for a book with `index.html` and an intact page, `folder/page.html`.
    fn findings_of(index: &str) -> Vec<String> {
        findings_in(&[
            INDEX,
            (
                "folder/page.html",
                r#"<h1 id="top">x</h1><a href="../index.html">y</a>"#,
            ),
            ("style.css", "a { background: url(b.png) }"),
            ("index.html", index),
        ])
    }

    #[test]
    fn intact_book_has_no_findings() {
        for index in [
            r#"<a href="folder/page.html#top">"#,
            r##"<h2 id="x"></h2><a class="header" href="#x">"##,
            r#"<link rel="stylesheet" href="style.css">"#,
            r#"<a href="https://example.org/">"#,
            r#"<code>&lt;a href="none.html"&gt;</code>"#,
            r#"<img srcset="style.css 1x, folder/page.html 2x">"#,
            r#"<p class="x" style="clear: both">"url(//a.example/b)"</p>"#,
            r#"<script>fetch("style.css") // https://a.example/</script>"#,
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
            (
                r#"<img srcset="style.css, https://cdn.example/x.png 2x">"#,
                "loads https://cdn.example/x.png",
            ),
            (
                "<style media='print'>\na { background: url('//cdn.example/x.png') }</style>",
                "loads //cdn.example/x.png",
            ),
            (
                r#"<p style="background: url(&quot;https://cdn.example/x.png&quot;)">"#,
                "loads https://cdn.example/x.png",
            ),
            (
                "<script>\nimport('https://cdn.example/x.js')</script>",
                "loads https://cdn.example/x.js",
            ),
            (
                r#"<pre class="x playground">"#,
                "loads https://play.rust-lang.org/",
            ),
        ] {
            assert_eq!(findings_of(index), [format!("index.html: {expected}")]);
        }
    }

    #[test]
    fn foreign_resources_of_styles_and_scripts_are_found() {
        for (file, text, expected) in [
            (
                "a.css",
                "@import 'https://fonts.example/f.css';",
                "a.css: loads https://fonts.example/f.css",
            ),
            (
                "a.js",
                "fetch(`//cdn.example/x.json`, 'https://play.rust-lang.org/meta')",
                "a.js: loads //cdn.example/x.json",
            ),
        ] {
            assert_eq!(findings_in(&[INDEX, (file, text)]), [expected]);
        }
    }

    #[test]
    fn book_without_a_search_index_is_found() {
        let findings = findings_in(&[("index.html", ""), ("searcher-1.js", "")]);
        assert_eq!(findings, ["the search index is missing"]);
    }
}
