//! The `modern` policy against the kernel: the same reads must choose the same windows.
//!
//! What the kernel chose is in `tests/golden`, one file for a group of patterns, written by
//! `make record-readahead`. The replay plays the rest of the kernel: page cache, reads, faults
//! and advice, by the contract of [`Policy`](larder_readahead::Policy).

mod cache;
mod replay;
mod walk;

use larder_testkit::readahead::{Folios, Golden, Outcome, Recorder, groups};
use larder_testkit::tell_skipped;
use replay::Replay;
use std::path::PathBuf;

/// All golden files of a folder, by name.
fn goldens(folios: Folios) -> Vec<(String, Golden)> {
    let folder = folder(folios);
    let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names
        .iter()
        .map(|path| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            (name.into_owned(), read(path))
        })
        .collect()
}

fn folder(folios: Folios) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(folios.as_str())
}

fn read(path: &std::path::Path) -> Golden {
    let text = std::fs::read_to_string(path).unwrap();
    text.parse()
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What was compared and what differed.
#[derive(Default)]
struct Comparison {
    patterns: usize,
    windows: usize,
    differences: Vec<String>,
}

/// Replays all patterns; of each, the first difference is kept, since what follows depends on it.
fn compare(folios: Folios) -> Comparison {
    let mut comparison = Comparison::default();
    for (group, golden) in goldens(folios) {
        assert_eq!(golden.folios, folios, "{group}");
        for (pattern, outcomes) in &golden.recordings {
            comparison.patterns += 1;
            let mut replay = Replay::new(pattern, folios);
            for (operation, kernel) in pattern.operations.iter().zip(outcomes) {
                comparison.windows += kernel.windows.len();
                let ours = replay.perform(operation);
                if ours != replay::as_judged(kernel, pattern) {
                    comparison.differences.push(format!(
                        "{group}/{}, {operation:?}\n  kernel {}\n  modern {}",
                        pattern.name,
                        shown(kernel),
                        shown(&ours),
                    ));
                    break;
                }
            }
        }
    }
    comparison
}

fn shown(outcome: &Outcome) -> String {
    format!(
        "{:?} new {:?} dropped {}",
        outcome.windows, outcome.added, outcome.dropped_pages
    )
}

fn assert_every_window_equal(folios: Folios) {
    let comparison = compare(folios);
    println!(
        "{} patterns, {} windows",
        comparison.patterns, comparison.windows
    );
    assert!(
        comparison.differences.is_empty(),
        "{} of {} patterns differ:\n{}",
        comparison.differences.len(),
        comparison.patterns,
        comparison.differences.join("\n")
    );
    assert!(comparison.patterns >= 200, "only {}", comparison.patterns);
}

#[test]
fn modern_with_single_pages_chooses_every_window_that_the_kernel_chose() {
    assert_every_window_equal(Folios::Single);
}

#[test]
fn modern_with_large_folios_chooses_every_window_that_the_kernel_chose() {
    assert_every_window_equal(Folios::Large);
}

#[test]
fn running_kernel_chooses_what_was_recorded() {
    if let Some(reason) = larder_testkit::readahead::missing() {
        tell_skipped(reason);
        return;
    }
    let name = "end-of-file";
    let group = groups::named(name).unwrap();
    for folios in [Folios::Single, Folios::Large] {
        let recorded = read(&folder(folios).join(name).with_extension("txt"));
        let live = Recorder::new(folios).unwrap().record_group(&group).unwrap();
        if live.kernel != recorded.kernel && live.recordings != recorded.recordings {
            println!(
                "note: kernel {} reads ahead in other ways than {}, which was recorded: \
                 run `make record-readahead` and see what changed",
                live.kernel, recorded.kernel
            );
            continue;
        }
        assert_eq!(live.recordings, recorded.recordings, "{}", folios.as_str());
    }
}
