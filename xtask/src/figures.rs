//! The figures of the documentation, written from the newest results of the benches.
//!
//! A page marks each block of figures with two comments, each on a line of its own:
//!
//! ```text
//! <!-- figures: measures untar remove -->
//! (written by this task)
//! <!-- end of figures -->
//! ```
//!
//! | view | results of | contents |
//! |---|---|---|
//! | `overview` | `make bench` | the table of the README |
//! | `measures NAME…` | `make bench`: the newest run that has all of them | these measures and their targets |
//! | `attributes` | `make bench-xattr` | all cases and the targets |
//! | `hash-tables` | `make bench-tables` | all cases and the targets |
//! | `readahead` | `make bench-readahead` | the whole report |
//! | `readahead-targets` | `make bench-readahead` | the targets |
//! | `newcomer` | `make newcomer` | the times from the installation to the first file read |
//! | `python` | `make bench-python` | the table |
//! | `create` | `make bench-create` | the table |
//! | `missed` | the first four | every target that is missed |
//! | `findings DOCUMENT` | `make reproduce` | the findings of a document with their verdicts |

use anyhow::{Context, Result, bail, ensure};
use larder_benches::measure::Measure;
use larder_benches::origin::Origin;
use larder_benches::verdict;
use larder_benches::{create, hash_table, origin, python, readahead, report, results, xattr};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// The folder of results, and that of the pages besides the README, below the root of the repository.
const RESULTS: &str = "benches/results";
const PAGES: &str = "docs";

/// The folder of the reports of reproduced documents, below the root of the repository.
const REPORTS: &str = "docs/reproduce";

/// Writes all blocks of figures. With `check`, only compares them.
///
/// # Errors
/// A page or a result cannot be read, a view is unknown or, with `check`, a block differs from what would
/// be written.
pub fn update(check: bool) -> Result<()> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut pages = vec![root.join("README.md")];
    markdown_files(&root.join(PAGES), &mut pages)?;
    let mut outdated = Vec::new();
    for path in pages {
        let page = path.strip_prefix(root).unwrap_or(&path);
        let up = "../".repeat(page.components().count().saturating_sub(1));
        let before = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let after = with_figures(&before, |view| figures(view, root, &up))
            .with_context(|| page.display().to_string())?;
        if after == before {
            continue;
        }
        if check {
            outdated.push(page.display().to_string());
        } else {
            fs::write(&path, after).with_context(|| path.display().to_string())?;
            println!("updated {}", page.display());
        }
    }
    ensure!(
        outdated.is_empty(),
        "figures differ from the newest results in {RESULTS}: {}; run `make figures`",
        outdated.join(", ")
    );
    Ok(())
}

fn markdown_files(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            markdown_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// Returns `page` with each block of figures replaced by what `figures` returns for its view.
fn with_figures(page: &str, figures: impl Fn(&str) -> Result<String>) -> Result<String> {
    let mut text = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        let Some(view) = line.strip_prefix(BEGIN) else {
            continue;
        };
        let view = view.trim_end().trim_end_matches("-->").trim_end();
        ensure!(
            lines.any(|line| line == END),
            "the block '{view}' has no line '{END}'"
        );
        let figures = figures(view).with_context(|| format!("figures '{view}'"))?;
        let _ = writeln!(text, "\n{}\n\n{END}", figures.trim_end());
    }
    Ok(text)
}

/// Returns the figures of `view`. `up` leads from the page's folder to the root.
fn figures(view: &str, root: &Path, up: &str) -> Result<String> {
    let mut words = view.split_whitespace();
    let (kind, names) = (words.next().unwrap_or_default(), words);
    let source = Source { root, up };
    match kind {
        "overview" => {
            let (raw, run) = source.run(&report::overview_measures())?;
            let (table, origin) = (report::overview(&run), report::origin(&run));
            Ok(format!("{table}\n`make bench`: {origin} {raw}"))
        }
        "measures" => {
            let measures = names.map(measure).collect::<Result<Vec<_>>>()?;
            let (raw, run) = source.run(&measures)?;
            let table = report::table(&run, &measures);
            let ratios = report::ratios(&run, &measures)
                .map_or_else(String::new, |ratios| format!("\n{ratios}"));
            let verdicts = report::verdicts(&run, &measures);
            let verdicts = if verdicts.is_empty() {
                String::new()
            } else {
                format!("\n{}", verdict::table(&verdicts))
            };
            let origin = report::origin(&run);
            Ok(format!(
                "{table}{ratios}{verdicts}\n`make bench`: {origin} {raw}"
            ))
        }
        "attributes" => {
            let (raw, run) = source.read::<xattr::results::Results>("-xattr")?;
            let (tables, verdicts) = (xattr::report::tables(&run), xattr::report::verdicts(&run));
            let (verdicts, origin) = (verdict::table(&verdicts), xattr::report::origin(&run));
            Ok(format!(
                "{tables}\n{verdicts}\n`make bench-xattr`: {origin} {raw}"
            ))
        }
        "hash-tables" => {
            let (raw, run) = source.read::<hash_table::results::Results>("-tables")?;
            let verdicts = verdict::table(&hash_table::report::verdicts(&run));
            let tables = hash_table::report::tables(&run);
            let origin = hash_table::report::origin(&run);
            Ok(format!(
                "{tables}\n{verdicts}\n`make bench-tables`: {origin} {raw}"
            ))
        }
        "readahead" => {
            let (raw, run) = source.read::<readahead::results::Results>("-readahead")?;
            Ok(format!("{raw}\n\n{}", readahead::report::page(&run)))
        }
        "readahead-targets" => {
            let (raw, run) = source.read::<readahead::results::Results>("-readahead")?;
            let (verdicts, origin) = (
                verdict::table(&readahead::report::verdicts(&run)),
                &run.origin,
            );
            Ok(format!(
                "{verdicts}\n`make bench-readahead`: {origin}. {raw}"
            ))
        }
        "python" => {
            let (raw, run) = source.read::<python::results::Results>("-python")?;
            let (table, origin) = (python::report::table(&run), python::report::origin(&run));
            Ok(format!("{table}\n`make bench-python`: {origin} {raw}"))
        }
        "create" => {
            let (raw, run) = source.read::<create::Results>("-create")?;
            let (table, origin) = (run.table(), run.origin());
            Ok(format!("{table}\n`make bench-create`: {origin} {raw}"))
        }
        "newcomer" => {
            let (raw, run) = source.read::<Newcomer>("-newcomer")?;
            Ok(format!("{}{raw}", newcomer(&run)))
        }
        "missed" => missed(&source),
        "findings" => {
            let document = names
                .last()
                .context("the view `findings` needs a document")?;
            let path = root.join(REPORTS).join(document).with_extension("json");
            let text = fs::read(&path).with_context(|| path.display().to_string())?;
            Ok(findings(&serde_json::from_slice(&text)?))
        }
        _ => bail!("unknown view '{kind}'"),
    }
}

/// Where results are read from, and how a page refers to them.
struct Source<'p> {
    root: &'p Path,
    up: &'p str,
}

impl Source<'_> {
    /// Reads the newest results of a kind. Returns a sentence that links to the results, and the results.
    fn read<R: DeserializeOwned>(&self, part: &str) -> Result<(String, R)> {
        self.read_where(part, |_| true)
    }

    /// Reads the newest results of `make bench` that contain all of `measures`.
    fn run(&self, measures: &[Measure]) -> Result<(String, results::Results)> {
        self.read_where("", |run: &results::Results| {
            measures.iter().all(|&one| run.of(one).is_some())
        })
    }

    fn read_where<R: DeserializeOwned>(
        &self,
        part: &str,
        is_wanted: impl Fn(&R) -> bool,
    ) -> Result<(String, R)> {
        let (path, results) = origin::newest(&self.root.join(RESULTS), part, is_wanted)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let raw = format!("[Raw results]({}{RESULTS}/{name}).", self.up);
        Ok((raw, results))
    }
}

fn measure(name: &str) -> Result<Measure> {
    let found = Measure::ALL.into_iter().find(|one| one.name() == name);
    found.with_context(|| format!("unknown measure '{name}'"))
}

/// The results of `make newcomer`.
#[derive(Deserialize)]
struct Newcomer {
    #[serde(flatten)]
    origin: Origin,
    samples: Vec<Installation>,
}

/// The times from one way of installation to the first file read.
#[derive(Deserialize)]
struct Installation {
    from: String,
    milliseconds: Vec<u32>,
}

/// Returns a table of the median times, and their origin.
fn newcomer(run: &Newcomer) -> String {
    let mut text = "| from | to the first file read |\n|---|---|\n".to_owned();
    for Installation { from, milliseconds } in &run.samples {
        let mut sorted = milliseconds.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let _ = writeln!(text, "| {from} | {:.2} s |", f64::from(median) / 1000.0);
    }
    let runs = run.samples.first().map_or(0, |one| one.milliseconds.len());
    let origin = &run.origin;
    let _ = write!(
        text,
        "\n`make newcomer`: medians of {runs} runs on {origin}. "
    );
    text
}

/// The findings of a reproduced document.
#[derive(Deserialize)]
struct Findings {
    #[serde(default)]
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    claim: String,
    verdict: String,
    /// The verdict on results in which nothing differs.
    if_nothing_changed: Option<String>,
    /// Whether the claim is that something is not worse, so that it holds if nothing differs.
    #[serde(default)]
    is_non_inferiority: bool,
    /// The table that decided the verdict, if there are several.
    decided_by: Option<String>,
    /// The verdicts of all tables, if there are several.
    #[serde(default, rename = "ours")]
    tables: Vec<TableVerdict>,
}

/// The verdict of one table on a finding.
#[derive(Deserialize)]
struct TableVerdict {
    source: String,
    verdict: String,
}

impl Finding {
    /// Returns the tables that decide the opposite of the verdict.
    fn contrary(&self) -> impl Iterator<Item = &TableVerdict> {
        let is_decided = |verdict: &str| matches!(verdict, "holds" | "does-not-hold");
        self.tables
            .iter()
            .filter(move |table| is_decided(&table.verdict) && table.verdict != self.verdict)
    }
}

/// Returns the findings of a document with their verdicts.
fn findings(document: &Findings) -> String {
    let words = |name: &str| name.replace('-', " ");
    let mut text = "| finding | verdict | if nothing had changed |\n|---|---|---|\n".to_owned();
    for finding in &document.findings {
        let claim = &finding.claim;
        let mut verdict = words(&finding.verdict);
        if let Some(table) = &finding.decided_by {
            let _ = write!(verdict, " ({table}");
            for other in finding.contrary() {
                let _ = write!(verdict, "; {}: {}", other.source, words(&other.verdict));
            }
            verdict.push(')');
        }
        let mut unchanged = words(finding.if_nothing_changed.as_deref().unwrap_or_default());
        if finding.is_non_inferiority {
            unchanged.push_str(" (not worse)");
        }
        let _ = writeln!(text, "| {claim} | {verdict} | {unchanged} |");
    }
    text
}

/// Returns every target that is missed.
fn missed(source: &Source<'_>) -> Result<String> {
    let mut verdicts = Vec::new();
    let has_targets = |one: &Measure| !one.targets().is_empty();
    for one in Measure::ALL.into_iter().filter(has_targets) {
        let (_, run) = source.run(&[one])?;
        verdicts.extend(report::verdicts(&run, &[one]));
    }
    let (_, run) = source.read::<xattr::results::Results>("-xattr")?;
    verdicts.extend(xattr::report::verdicts(&run));
    let (_, run) = source.read::<readahead::results::Results>("-readahead")?;
    verdicts.extend(readahead::report::verdicts(&run));
    let (_, run) = source.read::<hash_table::results::Results>("-tables")?;
    verdicts.extend(hash_table::report::verdicts(&run));
    let all = verdicts.len();
    verdicts.retain(|one| !one.is_met());
    Ok(format!(
        "{} of the {all} targets of the benches are missed, at least in some cases:\n\n{}",
        verdicts.len(),
        verdict::table(&verdicts)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn replaced(page: &str) -> Result<String> {
        with_figures(page, |view| match view {
            "known NAME" => Ok("new\n".to_owned()),
            view => bail!("unknown view '{view}'"),
        })
    }

    #[test]
    fn block_is_replaced_and_the_rest_stays() {
        let page = |figures: &str| {
            format!(
                "before\n<!-- figures: known NAME -->\n{figures}<!-- end of figures -->\nafter\n"
            )
        };
        let once = replaced(&page("old\n")).unwrap();
        assert_eq!(once, page("\nnew\n\n"));
        assert_eq!(replaced(&once).unwrap(), once);
    }

    #[test]
    fn findings_are_listed_with_their_verdicts() {
        let verdicts = [
            ("kernel", "holds"),
            ("volume", "does-not-hold"),
            ("engine", "cannot-be-shown"),
        ];
        let verdicts = verdicts.map(
            |(source, verdict)| json!({"source": source, "observed": null, "verdict": verdict}),
        );
        let json = json!({"seed": 1, "findings": [
            {"claim": "a is faster", "verdict": "does-not-hold", "if_nothing_changed": "holds",
             "decided_by": "simulated"},
            {"claim": "b is not slower", "verdict": "holds", "if_nothing_changed": "holds",
             "is_non_inferiority": true},
            {"claim": "c is slower", "verdict": "holds", "if_nothing_changed": "within-noise",
             "decided_by": "kernel", "ours": verdicts},
        ]});
        let table = findings(&serde_json::from_value(json).unwrap());
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| a is faster | does not hold (simulated) | holds |",
                "| b is not slower | holds | holds (not worse) |",
                "| c is slower | holds (kernel; volume: does not hold) | within noise |"
            ]
        );
    }

    #[test]
    fn newcomers_times_are_listed_by_their_medians() {
        let json = r#"{"date": "2026-11-29T01:02:03Z", "commit": "abc", "kernel": "6.18", "processor": "P",
            "processors": 2, "samples": [{"from": "`dpkg -i`", "milliseconds": [1300, 900, 1100]}]}"#;
        assert_eq!(
            newcomer(&serde_json::from_str(json).unwrap()),
            "| from | to the first file read |\n|---|---|\n| `dpkg -i` | 1.10 s |\n\n\
             `make newcomer`: medians of 3 runs on 2 processors (P), Linux 6.18, 2026-11-29, commit abc. "
        );
    }

    #[test]
    fn block_without_end_is_an_error() {
        let error = replaced("<!-- figures: known NAME -->\nold\n").unwrap_err();
        assert!(error.to_string().contains("has no line"), "{error}");
    }

    #[test]
    fn unknown_view_is_an_error() {
        let page = "<!-- figures: other -->\n<!-- end of figures -->\n";
        let error = format!("{:#}", replaced(page).unwrap_err());
        assert!(error.contains("unknown view 'other'"), "{error}");
    }
}
