//! Tests the quick reproduction of Lever 2000, and its replay.

use larder::{CacheKind, OpenOptions, Volume};
use larder_block::MemoryDevice;
use larder_instruments::mke2fs;
use larder_lab::operations::{Error, Operations, UserHomes, create_shared_files};
use larder_lab::output::Report as _;
use larder_lab::reproduce::finding::Verdict;
use larder_lab::reproduce::lever2000::{self, Lever2000, Size, State};
use larder_lab::reproduce::program::Program;
use larder_lab::reproduce::state::Found;
use larder_lab::sdm;
use larder_testkit::report_skipped;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;

/// Measures with the finished runs in the file at `path`; `None` without mke2fs.
fn reproduce(path: &Path) -> Option<Lever2000> {
    let (mut state, found) = State::open(Size::quick(2000), path).unwrap();
    let finished = state.progress().finished;
    let results = lever2000::reproduce(&mut state, |progress| {
        assert!(
            (finished..=progress.rounds).contains(&progress.finished),
            "{progress:?}"
        );
    });
    match results {
        Ok(results) => {
            assert_eq!(finished == 0, found == Found::Nothing);
            Some(results)
        }
        Err(lever2000::Error::Mke2fs(missing)) => {
            report_skipped(&missing);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the quick reproduction, and the same one resumed after its last run. They run only once.
fn quick_and_resumed() -> Option<&'static [Lever2000; 2]> {
    static QUICK: OnceLock<Option<[Lever2000; 2]>> = OnceLock::new();
    let made = QUICK.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        Some([reproduce(&path)?, reproduce(&path)?])
    });
    made.as_ref()
}

/// Returns the quick reproduction; `None` without mke2fs.
fn quick() -> Option<&'static Lever2000> {
    quick_and_resumed().map(|[quick, _]| quick)
}

#[test]
fn quick_reproduction_has_every_published_row_and_histogram() {
    let Some(results) = quick() else { return };
    let rows = results
        .tables
        .iter()
        .map(|rows| rows.iter().filter(|row| row.is_published).count());
    assert_eq!(rows.collect::<Vec<_>>(), [7, 3, 9, 7, 4, 5]);
    let files = results.report().unwrap();
    let text = &files[0].content;
    for table in 1..=6 {
        assert!(text.contains(&format!("## Table {table}:")), "{table}");
    }
    for histogram in 1..=5 {
        assert!(
            text.contains(&format!("### Histogram {histogram}:")),
            "{histogram}"
        );
    }
    assert!(text.contains("proves nothing"));
    let sections = [
        "## Findings",
        "## Table 1",
        "## Method",
        "## Limits",
        "## Changes since",
    ];
    let at = sections.map(|section| text.find(section).unwrap());
    assert!(at.is_sorted(), "{at:?}");
    let json: Value = serde_json::from_str(&files[3].content).unwrap();
    assert_eq!(
        json["tables"][0].as_array().unwrap().len(),
        results.tables[0].len()
    );
}

#[test]
fn finished_runs_are_not_measured_again() {
    let Some([first, again]) = quick_and_resumed() else {
        return;
    };
    let times = |results: &Lever2000| -> Vec<_> {
        let loads = results.tables.iter().flatten().flat_map(|row| &row.loads);
        let times = loads.map(|load| (load.runs.elapsed_s.clone(), load.runs.processor_s.clone()));
        times.collect()
    };
    assert_eq!(times(again), times(first));
    assert_eq!((first.resumed, again.resumed), (0, 1));
}

#[test]
fn report_that_is_judged_again_from_its_json_is_the_same() {
    let Some(results) = quick() else { return };
    let files = results.report().unwrap();
    let json = files[3].content.as_bytes();
    let program = results.provenance.judged.clone();
    let again = lever2000::judge_again(json, program).unwrap();
    assert_eq!(again.summary(), results.summary());
    let files_again = again.report().unwrap();
    assert_eq!(files_again.len(), files.len());
    for (again, file) in files_again.iter().zip(&files) {
        assert!(again == file, "{} differs", file.name);
    }
}

#[test]
fn measurements_that_contradict_each_other_are_not_judged() {
    let Some(results) = quick() else { return };
    let json = &results.report().unwrap()[3].content;
    let json: Value = serde_json::from_str(json).unwrap();
    let judge = |json: &Value| {
        let program = results.provenance.judged.clone();
        lever2000::judge_again(json.to_string().as_bytes(), program)
    };
    assert!(judge(&json).is_ok());
    let largest = u64::MAX;
    let kernel = "/tables/2/0";
    let load = "/tables/2/0/loads/0";
    for (place, value) in [
        ("/divisor".to_owned(), json!(0)),
        ("/runs".to_owned(), json!(0)),
        ("/runs".to_owned(), json!(1)),
        ("/tables".to_owned(), json!([])),
        ("/tables/0".to_owned(), json!([])),
        (format!("{kernel}/kernel"), json!("another")),
        (format!("{kernel}/loads"), json!([])),
        (format!("{load}/runs/users"), json!(0)),
        (format!("{load}/runs/scripts"), json!(largest)),
        (format!("{load}/runs/elapsed_s"), json!([1.0])),
        (format!("{load}/runs/round_elapsed_s"), json!([])),
        (format!("{load}/runs/round_processor_s/0"), json!(-1.0)),
        (format!("{load}/runs/round_processor_s/0"), json!(1e300)),
        (format!("{load}/caches"), json!([])),
        (format!("{load}/caches/1/hits"), json!(largest)),
        (format!("{load}/caches/1/links_on_misses"), json!(largest)),
        (
            format!("{load}/caches/1/full/histogram/buckets"),
            json!({ "18446744073709551615": largest }),
        ),
        (format!("{load}/caches/1/after/counts/hits"), json!(largest)),
        ("/misses/rounds".to_owned(), json!([])),
        ("/misses/rounds/0/2".to_owned(), json!(0.0)),
        ("/disk_misses/devices/0/device".to_owned(), json!("floppy")),
        ("/layouts".to_owned(), json!([])),
        ("/layouts/0/inode_bytes".to_owned(), json!(100)),
        ("/layouts/0/allocation".to_owned(), json!("adjacent")),
        ("/layouts/0/chains".to_owned(), json!([])),
        ("/layouts/0/chains/0/table".to_owned(), json!(2)),
        ("/layouts/0/chains/0/kernel".to_owned(), json!("another")),
        ("/layouts/0/chains/0/links".to_owned(), json!(0.0)),
        ("/layouts/3/chains/0/range".to_owned(), json!([-1.0, 9e9])),
        (
            "/provenance/measured/processor".to_owned(),
            json!("<script>"),
        ),
    ] {
        let mut changed = json.clone();
        *changed.pointer_mut(&place).expect(&place) = value;
        assert!(judge(&changed).is_err(), "{place}");
    }
    let mut without_a_kernel = json.clone();
    for layout in without_a_kernel["layouts"].as_array_mut().unwrap() {
        layout["chains"].as_array_mut().unwrap().pop();
    }
    assert!(judge(&without_a_kernel).is_err());
}

#[test]
fn text_that_is_not_the_json_of_a_report_is_rejected() {
    let program = Program::current().unwrap();
    for text in ["", "{", "{}", "[]", "null", "{\"tables\": 1e999}"] {
        let error = lever2000::judge_again(text.as_bytes(), program.clone()).unwrap_err();
        assert!(
            error.to_string().contains("not the JSON of a report"),
            "{error}"
        );
    }
}

#[test]
fn eager_shrinking_under_memory_pressure_leaves_fewer_dentries() {
    let Some(results) = quick() else { return };
    let dentries = |kernel| {
        let row = results.row(4, kernel).unwrap();
        let dentries = row.loads[0].cache(CacheKind::Dentry);
        dentries.full.histogram.objects()
    };
    let (eager, normal) = (dentries("shrink + mult 11"), dentries("mult shift 11"));
    assert!(
        eager < normal,
        "{eager} with eager shrinking, {normal} without"
    );
}

#[test]
fn programs_fill_the_page_cache() {
    let Some(results) = quick() else { return };
    // A sixteenth of the programs, with 64 pages each.
    for (table, programs) in [(1, 28), (2, 117), (6, 117)] {
        let row = results
            .row(table, "reference")
            .or(results.row(table, "2048"));
        let pages = row.unwrap().loads[0].cache(CacheKind::Page);
        let objects = pages.full.histogram.objects();
        assert!(objects > programs * 64, "table {table}: {objects}");
    }
}

#[test]
fn few_buffers_remain_after_they_were_displaced() {
    let Some(results) = quick() else { return };
    for row in &results.tables[2] {
        let buffers = row.loads[0].cache(CacheKind::Buffer);
        let [full, after] =
            [&buffers.full, &buffers.after].map(|report| report.histogram.objects());
        assert!(after < full / 4, "{}: {after} of {full}", row.kernel);
    }
}

#[test]
fn xor_of_blocks_walks_more_links_than_multiplication() {
    let Some(results) = quick() else { return };
    let links = |kernel| {
        let row = results.row(3, kernel).unwrap();
        row.loads[0].cache(CacheKind::Buffer).links_per_lookup()
    };
    let (xor, mult) = (links("reference, 16384"), links("mult shift 11, 16384"));
    assert!(xor > mult, "{xor} with xor, {mult} with mult-11");
}

#[test]
fn page_table_of_11_bits_has_longer_chains_than_one_of_15() {
    let Some(results) = quick() else { return };
    let longest = |kernel| {
        let row = results.row(2, kernel).unwrap();
        row.loads[0].cache(CacheKind::Page).longest_chain
    };
    let (small, large) = (longest("2048"), longest("32768"));
    assert!(
        small > large,
        "{small} with 2048 buckets, {large} with 32768"
    );
}

#[test]
fn spool_fills_the_buffer_cache_with_directory_blocks() {
    let Some(results) = quick() else { return };
    // Eight users, with 18 directories of 16 blocks each.
    let listed = 8 * 18 * 16;
    for row in &results.tables[2] {
        let buffers = row.loads[0].cache(CacheKind::Buffer);
        let objects = buffers.full.histogram.objects();
        assert!(
            (listed..2 * listed).contains(&objects),
            "{}: {objects}",
            row.kernel
        );
        assert!(buffers.lookups >= listed * u64::from(results.size.runs.unwrap()));
    }
}

#[test]
fn verdict_on_64_bits_uses_the_figures_of_lab_constant() {
    let Some(results) = quick() else { return };
    let constants = results.constants.unwrap();
    assert!(constants.is_another_needed(), "{constants:?}");
    let mut findings = results.findings.iter();
    let finding = findings
        .find(|judged| judged.finding.name == "64 bits")
        .unwrap();
    assert_eq!(finding.verdict, Verdict::Holds);
    let published = format!(
        "{:.2} times the links of a random distribution",
        constants.published
    );
    assert!(
        finding.observed.figures.contains(&published),
        "{}",
        finding.observed.figures
    );
}

#[test]
fn figures_of_single_runs_have_no_deviation() {
    let Some(results) = quick() else { return };
    let rows = results.tables.iter().flatten();
    let loads = rows.flat_map(|row| &row.loads);
    // Table 1 omits other runs.
    let steady = loads.filter_map(|load| load.runs.without_first());
    assert!(steady.map(|figures| figures.s).all(|s| s.is_none()));
    assert!(
        results.report().unwrap()[0]
            .content
            .contains("no deviation is known")
    );
}

#[test]
fn quick_reproduction_gives_no_verdict_that_requires_all_scripts() {
    let Some(results) = quick() else { return };
    for finding in &results.findings {
        let needs_all = !matches!(
            finding.finding.name,
            "64 bits"
                | "shift-add or multiply"
                | "inlined or stand-alone"
                | "swap-like keys"
                | "miss of the dentry cache, buffer miss with a disk"
                | "miss of the dentry cache, page fault with a disk"
                | "process table"
                | "process table, 4000 slots"
                | "user table"
                | "memory areas"
        );
        assert_eq!(
            finding.verdict == Verdict::QuickRun,
            needs_all,
            "{}",
            finding.finding.name
        );
    }
}

/// Returns an ext4 in memory with the shared files of `operations`; `None` without mke2fs.
fn volume(operations: &Operations) -> Option<Volume> {
    let mut bytes = Vec::new();
    match mke2fs::formatted(64 << 20, "-t ext4") {
        Ok(mut image) => image.read_to_end(&mut bytes).unwrap(),
        Err(missing) => {
            report_skipped(&missing);
            return None;
        }
    };
    let mut options = OpenOptions::default();
    options.read_write = true;
    let volume = Volume::open_device(Arc::new(MemoryDevice::new(bytes)), &options).unwrap();
    create_shared_files(&volume, operations, 1).unwrap();
    Some(volume)
}

#[test]
fn repeated_concurrent_replays_return_the_recorded_results() {
    let operations = Operations::sdm();
    let Some(volume) = volume(&operations) else {
        return;
    };
    for _ in 0..2 {
        let homes = UserHomes::new(&volume, &operations, 4, 1).unwrap();
        thread::scope(|scope| {
            let users = (0..4).map(|user| {
                let user = homes.user(user);
                scope.spawn(|| user.replay(&volume))
            });
            for user in users.collect::<Vec<_>>() {
                user.join().unwrap().unwrap();
            }
        });
        homes.remove(&volume).unwrap();
    }
    volume.close().unwrap();
}

#[test]
fn operation_with_a_different_result_is_reported() {
    let mut operations = Operations::sdm();
    operations.done[10].1 += 1;
    let Some(volume) = volume(&operations) else {
        return;
    };
    let homes = UserHomes::new(&volume, &operations, 1, 1).unwrap();
    let error = homes.user(0).replay(&volume).unwrap_err();
    assert!(
        matches!(error, Error::Differs { number: 11, .. }),
        "{error}"
    );
}

#[test]
fn new_recording_of_the_script_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = sdm::check_commands().and_then(|()| sdm::record(dir.path(), 2000, None));
    let operations = match recorded {
        Ok(operations) => operations,
        Err(missing @ sdm::Error::Missing { .. }) => return report_skipped(&missing),
        Err(error) => panic!("{error}"),
    };
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
    let Some(volume) = volume(&operations) else {
        return;
    };
    let homes = UserHomes::new(&volume, &operations, 1, 1).unwrap();
    homes.user(0).replay(&volume).unwrap();
}
