//! Runs the Python and SQL blocks of the page on traces. Spark, which one of them uses, needs Java.

use super::{events, read, write};
use larder_cache::tape::{CacheKind, Operation};
use larder_lab::trace::Tolerance;
use larder_testkit::page::blocks;
use larder_testkit::{Seed, report_skipped, tool};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the programs in the section `heading`, with their languages.
fn programs(heading: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/traces.md")).unwrap();
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let programs = blocks(section).filter(|(_, block)| !block.contains("pyspark"));
    programs
        .map(|(language, block)| (language.to_owned(), block.to_owned()))
        .collect()
}

/// Runs a program in `directory`, and returns its output. If a package is missing, reports this, and returns `None`.
fn output(python: &Path, language: &str, program: &str, directory: &Path) -> Option<String> {
    let mut command = Command::new(python);
    match language {
        "python" => command.args(["-c", program]),
        "sql" => command.args([
            "-c",
            "import sys, duckdb; print(duckdb.sql(sys.argv[1]))",
            program,
        ]),
        other => panic!("unknown language {other}: {program}"),
    };
    let output = command.current_dir(directory).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if let Some((_, missing)) = errors.split_once("ModuleNotFoundError: ") {
        report_skipped(format!("{}: make python-tools", missing.trim()));
        return None;
    }
    assert!(output.status.success(), "{program}\n{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn programs_on_the_page_count_the_lookups_of_each_cache() {
    let Some(python) = tool::python() else {
        return report_skipped("python3 is not installed");
    };
    let dir = tempfile::tempdir().unwrap();
    let events = events(Seed::from_environment(13), 2000);
    write(&dir.path().join("trace.parquet"), &events, 800);
    let programs = programs("Reading a trace");
    assert_eq!(programs.len(), 3);
    for (language, program) in programs {
        let Some(printed) = output(&python, &language, &program, dir.path()) else {
            continue;
        };
        for cache in CacheKind::ALL {
            let lookups = events.iter().filter(|event| {
                event.cache == cache && matches!(event.operation, Operation::Lookup { .. })
            });
            for expected in [cache.as_str(), &lookups.count().to_string()] {
                assert!(
                    printed.contains(expected),
                    "{expected}: {program}\n{printed}"
                );
            }
        }
    }
}

#[test]
fn traces_that_programs_on_the_page_rewrite_are_read() {
    let Some(python) = tool::python() else {
        return report_skipped("python3 is not installed");
    };
    let dir = tempfile::tempdir().unwrap();
    let rewritten = dir.path().join("pages.parquet");
    let events = events(Seed::from_environment(11), 5000);
    write(&dir.path().join("trace.parquet"), &events, 2000);
    let pages: Vec<_> = events
        .into_iter()
        .filter(|event| event.cache == CacheKind::Page)
        .collect();
    let programs = programs("Rewriting a trace");
    assert_eq!(programs.len(), 3);
    for (language, program) in programs {
        if output(&python, &language, &program, dir.path()).is_some() {
            let read = read(&rewritten, Tolerance::Whole).unwrap();
            assert!(read == pages, "{program}");
            fs::remove_file(&rewritten).unwrap();
        }
    }
}
