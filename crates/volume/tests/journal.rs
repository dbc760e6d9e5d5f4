//! Images after a power cut: a volume that is opened for reading finds the same as the kernel after
//! recovery, and does not write to the image.

use larder::{JournalState, OpenOptions, Volume};
use larder_testkit::image::recipe;
use larder_testkit::{Comparison, Image, MATRIX, Oracle, Requirement, VolumeSource, compare, skip};
use std::path::Path;

const TOOLS: [Requirement; 4] = [
    Requirement::Tool("mke2fs"),
    Requirement::Tool("debugfs"),
    Requirement::Tool("tune2fs"),
    Requirement::LoopMount,
];

fn image(name: &str) -> Image {
    let recipe = recipe(name).unwrap_or_else(|| panic!("no recipe {name}"));
    Image::get(recipe).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns a hash of all bytes of the file.
fn fingerprint(path: &Path) -> u64 {
    let mut file = std::fs::File::open(path).unwrap();
    let mut hash = 0;
    let mut buf = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut buf).unwrap() {
            0 => return hash,
            read => {
                for word in buf[..read].chunks(8) {
                    let word = word
                        .iter()
                        .fold(0, |word, &byte| word << 8 | u64::from(byte));
                    hash = larder_testkit::seed::mix(hash ^ word);
                }
            }
        }
    }
}

fn check_recovery(name: &str) {
    if skip(&TOOLS) {
        return;
    }
    let image = image(name);
    let before = fingerprint(image.path());
    let oracle = Oracle::of(&image).unwrap_or_else(|error| panic!("{name}: {error}"));
    let volume = Volume::open(image.path(), &OpenOptions::default())
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: &[],
    };
    let report = compare(oracle.source(), &VolumeSource::new(&volume), &comparison);
    report.assert_same(name);
    assert_eq!(before, fingerprint(image.path()), "{name} was written to");

    let JournalState::Recovered {
        transactions,
        blocks,
        fast_commits,
    } = volume.info().journal
    else {
        panic!("{name}: {:?}", volume.info().journal);
    };
    if name.contains("fast-commit") {
        assert!(fast_commits > 0, "{name}: no fast commits");
    } else {
        assert!(
            transactions > 1 && blocks > 10,
            "{name}: {transactions} transactions, {blocks} blocks"
        );
    }
    assert!(
        volume.resolve(b"/work/last-synced").is_ok(),
        "{name}: the last commit is missing"
    );
}

macro_rules! recoveries {
    ($($test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                check_recovery($name);
            }
        )*

        #[test]
        fn every_dirty_configuration_has_a_recovery() {
            let tested = [$($name),*];
            for recipe in MATRIX.iter().filter(|recipe| recipe.name.starts_with("dirty-")) {
                assert!(tested.contains(&recipe.name), "{} has no recovery", recipe.name);
            }
        }
    };
}

recoveries! {
    dirty_ext3_recovered_equals_kernel "dirty-ext3"
    dirty_ext4_recovered_equals_kernel "dirty-ext4"
    dirty_journalled_data_recovered_equals_kernel "dirty-journalled-data"
    dirty_no_checksums_recovered_equals_kernel "dirty-no-checksums"
    dirty_orphan_file_recovered_equals_kernel "dirty-orphan-file"
    dirty_fast_commit_recovered_equals_kernel "dirty-fast-commit"
    dirty_fast_commit_1k_recovered_equals_kernel "dirty-fast-commit-1k"
}

#[test]
fn noload_shows_the_home_blocks_of_a_dirty_image() {
    if skip(&TOOLS) {
        return;
    }
    let image = image("dirty-ext4");
    let mut options = OpenOptions::default();
    options.noload = true;
    let volume = Volume::open(image.path(), &options).unwrap();
    assert_eq!(volume.info().journal, JournalState::Ignored);
    let oracle = Oracle::mounted(image.path(), larder_testkit::Access::ReadOnly, None);
    // The kernel also ignores the journal here, and may find damaged metadata at the final
    // locations.
    let Ok(oracle) = oracle else {
        return;
    };
    let comparison = Comparison {
        fields: oracle.fields(),
        closed: &["work"],
    };
    compare(oracle.source(), &VolumeSource::new(&volume), &comparison).assert_same("noload");
}
