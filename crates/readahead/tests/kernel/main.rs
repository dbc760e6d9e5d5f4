//! Compares the `modern` policy with the kernel: the same reads must produce the same windows.
//!
//! The kernel's windows are recorded in `tests/golden`, in one file for each group of patterns.
//! `make record-readahead` writes these files. The replay simulates the rest of the kernel (page
//! cache, reads, faults and advice) with the [driver](larder_readahead::driver).

mod cache;
mod replay;
mod walk;

use larder_testkit::readahead::groups::{self, Group};
use larder_testkit::readahead::{Folios, Golden, Outcome, Recorder};
use larder_testkit::report_skipped;
use larder_testkit::seed::{SEED_VARIABLE, Seed};
use replay::Replay;
use std::path::PathBuf;

/// Returns all golden files of a folder, by name.
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

/// The counts of what was compared, and the differences.
#[derive(Default)]
struct Comparison {
    patterns: usize,
    windows: usize,
    differences: Vec<String>,
}

impl Comparison {
    /// Replays each pattern up to the first difference, since later results depend on it.
    fn add(&mut self, group: &str, golden: &Golden) {
        for (pattern, outcomes) in &golden.recordings {
            self.patterns += 1;
            let mut replay = Replay::new(pattern, golden.folios);
            for (operation, kernel) in pattern.operations.iter().zip(outcomes) {
                self.windows += kernel.windows.len();
                let modern = replay.perform(operation);
                if modern != replay::comparable(kernel, pattern) {
                    self.differences.push(format!(
                        "{group}/{}, {operation:?}\n  kernel {}\n  modern {}",
                        pattern.name,
                        shown(kernel),
                        shown(&modern),
                    ));
                    break;
                }
            }
        }
    }

    fn assert_equal(&self) {
        println!("{} patterns, {} windows", self.patterns, self.windows);
        assert!(
            self.differences.is_empty(),
            "{} of {} patterns differ:\n{}",
            self.differences.len(),
            self.patterns,
            self.differences.join("\n")
        );
    }
}

fn shown(outcome: &Outcome) -> String {
    format!(
        "{:?} new {:?} dropped {}",
        outcome.windows, outcome.added, outcome.dropped_pages
    )
}

fn assert_every_window_equal(folios: Folios) {
    let mut comparison = Comparison::default();
    for (group, golden) in goldens(folios) {
        assert_eq!(golden.folios, folios, "{group}");
        comparison.add(&group, &golden);
    }
    comparison.assert_equal();
    assert!(comparison.patterns >= 200, "only {}", comparison.patterns);
}

#[test]
fn modern_with_single_pages_matches_recorded_windows() {
    assert_every_window_equal(Folios::Single);
}

#[test]
fn modern_with_large_folios_matches_recorded_windows() {
    assert_every_window_equal(Folios::Large);
}

#[test]
fn recordings_of_both_folio_kinds_have_the_same_patterns() {
    let [single, large] = [Folios::Single, Folios::Large].map(|folios| {
        let goldens = goldens(folios).into_iter();
        let recordings = goldens.flat_map(|(_, golden)| golden.recordings);
        recordings.collect::<Vec<_>>()
    });
    assert_eq!(single.len(), large.len());
    let mut differ = 0;
    for ((pattern, in_single), (same, in_large)) in single.iter().zip(&large) {
        assert_eq!(pattern, same);
        let places = |outcomes: &[Outcome]| -> Vec<Vec<(u64, u64)>> {
            let compared = outcomes.iter().map(|o| replay::comparable(o, pattern));
            compared
                .map(|o| o.windows.iter().map(|w| (w.start, w.size)).collect())
                .collect()
        };
        differ += usize::from(places(in_single) != places(in_large));
    }
    println!(
        "large folios changed the kernel's windows in {differ} of {} patterns",
        single.len()
    );
}

/// The seed of the patterns that are recorded while the test runs.
const LIVE_SEED: u64 = 0x6_1844;

#[test]
fn running_kernel_matches_the_recordings() {
    if skip_live() {
        return;
    }
    let name = "end-of-file";
    let group = groups::named(name).unwrap();
    for folios in [Folios::Single, Folios::Large] {
        let recorded = read(&folder(folios).join(name).with_extension("txt"));
        let live = Recorder::new(folios).unwrap().record_group(&group).unwrap();
        if live.kernel == recorded.kernel {
            assert_eq!(live.recordings, recorded.recordings, "{}", folios.as_str());
        } else if live.recordings != recorded.recordings {
            note_other_kernel(&live.kernel, &recorded.kernel);
        }
    }
}

#[test]
fn modern_on_seeded_patterns_matches_the_running_kernel() {
    if skip_live() {
        return;
    }
    let seed = Seed::from_environment(LIVE_SEED);
    println!("{SEED_VARIABLE}={seed}");
    let group = Group {
        name: "live",
        patterns: (0..30).map(|n| groups::seeded(seed.part(n))).collect(),
    };
    let recorded = read(&folder(Folios::Single).join("mixed.txt")).kernel;
    for folios in [Folios::Single, Folios::Large] {
        let live = Recorder::new(folios).unwrap().record_group(&group).unwrap();
        let mut comparison = Comparison::default();
        comparison.add("live", &live);
        if live.kernel == recorded {
            comparison.assert_equal();
        } else if !comparison.differences.is_empty() {
            note_other_kernel(&live.kernel, &recorded);
        }
    }
}

fn skip_live() -> bool {
    let missing = larder_testkit::readahead::missing();
    if let Some(reason) = &missing {
        report_skipped(reason);
    }
    missing.is_some()
}

fn note_other_kernel(live: &str, recorded: &str) {
    println!(
        "note: the readahead of kernel {live} differs from that of {recorded}, which `modern` follows: \
         run `make record-readahead` to see the changes"
    );
}
