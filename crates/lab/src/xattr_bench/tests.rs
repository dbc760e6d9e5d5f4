//! Tests of the behaviour that all targets share, and of the engine's blocks.

use super::draws::{Draw, Draws, bytes_of};
use super::engine::{Blocks, MAX_USERS, Process, cache};
use super::image::{Image, Room};
use super::*;
use larder::XattrMode;
use std::collections::HashMap;

const CONFIG: BenchConfig = BenchConfig {
    operations: 500,
    is_warm: false,
    runs: 1,
    seed: 2016,
};

const CASE: Case = Case {
    processes: 3,
    files: 20,
    values: 30,
};

/// The value number of each file, by process and file.
type Values = HashMap<(u32, u32), u32>;

fn draws_of_all(case: Case) -> impl Iterator<Item = (u32, Draw)> {
    (0..case.processes).flat_map(move |process| {
        Draws::new(case, &CONFIG, process).map(move |draw| (process, draw))
    })
}

/// Returns the expected final values, computed with a map.
fn predicted(case: Case) -> Values {
    draws_of_all(case)
        .map(|(process, draw)| ((process, draw.file), draw.value))
        .collect()
}

fn on_engine(variant: MbCacheVariant, case: Case) -> Values {
    let (cache, blocks) = (cache(variant, ()).unwrap(), Blocks::new(case, &CONFIG));
    let mut values = Values::new();
    for number in 0..case.processes {
        let mut process = Process::new(number, &blocks, &*cache, case, &CONFIG);
        while process.step() {}
        let of = |file: u32| Some(((number, file), process.value(file as usize)?));
        values.extend((0..case.files).filter_map(of));
    }
    cache.check_invariants();
    values
}

fn on_volume(variant: MbCacheVariant, case: Case) -> Values {
    let image = Image::new(case, Room::EachFile, true).unwrap();
    let volume = image.open(variant, false).unwrap();
    let ino = |process: u32, file: u32| image.files[process as usize][file as usize];
    for (process, Draw { file, value }) in draws_of_all(case) {
        let value = bytes_of(value, CONFIG.seed);
        let ino = ino(process, file);
        volume
            .set_xattr(ino, ATTRIBUTE.as_bytes(), &value, XattrMode::Any)
            .unwrap();
    }
    let numbers: HashMap<_, _> = (0..case.values)
        .map(|value| (bytes_of(value, CONFIG.seed).to_vec(), value))
        .collect();
    let files = (0..case.processes).flat_map(|process| (0..case.files).map(move |f| (process, f)));
    files
        .filter_map(|(process, file)| {
            let value = volume.xattr(ino(process, file), ATTRIBUTE.as_bytes());
            Some(((process, file), numbers[&value.unwrap()?]))
        })
        .collect()
}

fn has_mke2fs() -> bool {
    !larder_testkit::skip(&[larder_testkit::Requirement::Tool("mke2fs")])
}

#[test]
fn final_values_are_equal_on_every_target_with_every_variant() {
    let expected = predicted(CASE);
    assert_eq!(expected.len(), 60);
    for variant in MbCacheVariant::ALL {
        assert_eq!(on_engine(variant, CASE), expected, "engine, {variant}");
        if has_mke2fs() {
            assert_eq!(on_volume(variant, CASE), expected, "volume, {variant}");
        }
    }
}

#[test]
fn run_on_engine_and_volume_verifies_the_values() {
    let mut targets = MbCacheVariant::ALL.map(Target::Engine).to_vec();
    if has_mke2fs() {
        targets.extend(MbCacheVariant::ALL.map(Target::Volume));
    }
    let mut runs = 0;
    let measured = measure(&targets, CASE, &CONFIG, &mut || runs += 1).unwrap();
    assert_eq!((measured.len(), runs), (targets.len(), targets.len()));
    for (target, measured) in targets.iter().zip(&measured) {
        assert_eq!(measured.variant, target.variant());
        let shares = measured.stats.unwrap().shares;
        let is_off = measured.variant == Some(MbCacheVariant::Off);
        assert_eq!(shares == 0, is_off, "{target:?}: {shares} shares");
    }
}

#[test]
fn each_target_runs_first_in_one_of_the_rounds() {
    let orders: Vec<Vec<usize>> = (0..4).map(|round| turns(3, round).collect()).collect();
    assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

/// With one value, the sets of the measured time change nothing.
#[test]
fn files_are_set_once_before_the_measured_time_of_a_warm_run() {
    let config = BenchConfig {
        operations: 30,
        is_warm: true,
        ..CONFIG
    };
    let case = Case { values: 1, ..CASE };
    let referenced = MbCacheVariant::Referenced;
    let mut targets = vec![Target::Engine(referenced)];
    if has_mke2fs() {
        targets.extend([
            Target::Volume(referenced),
            Target::VolumeWithoutJournal(referenced),
        ]);
    }
    for measured in measure(&targets, case, &config, &mut || ()).unwrap() {
        assert_eq!(measured.operations, 30);
        // All files except those that made a block. Each process makes at most one.
        let files = u64::from(case.processes * case.files);
        let shares = measured.stats.unwrap().shares;
        assert!((files - 3..files).contains(&shares), "{shares}");
    }
}

#[test]
fn files_of_one_process_share_every_equal_block_unless_off() {
    let case = Case {
        processes: 1,
        ..CASE
    };
    for variant in MbCacheVariant::ALL {
        let (cache, blocks) = (cache(variant, ()).unwrap(), Blocks::new(case, &CONFIG));
        let mut process = Process::new(0, &blocks, &*cache, case, &CONFIG);
        let mut values = HashMap::new();
        for draw in Draws::new(case, &CONFIG, 0) {
            assert!(process.step());
            values.insert(draw.file, draw.value);
            let users = blocks.users();
            assert_eq!(users.iter().sum::<u32>() as usize, values.len());
            let mut distinct: Vec<_> = values.values().collect();
            distinct.sort_unstable();
            distinct.dedup();
            let expected = if variant == MbCacheVariant::Off {
                values.len()
            } else {
                distinct.len()
            };
            assert_eq!(users.len(), expected, "{variant}");
        }
        assert!(!process.step());
    }
}

#[test]
fn block_is_shared_by_at_most_1024_files() {
    let case = Case {
        processes: 1,
        files: MAX_USERS + 76,
        values: 1,
    };
    let config = BenchConfig {
        operations: case.files,
        ..CONFIG
    };
    for variant in MbCacheVariant::ALL {
        if variant == MbCacheVariant::Off {
            continue;
        }
        let (cache, blocks) = (cache(variant, ()).unwrap(), Blocks::new(case, &config));
        let mut process = Process::new(0, &blocks, &*cache, case, &config);
        while process.step() {}
        let mut users = blocks.users();
        users.sort_unstable();
        assert_eq!(users, [76, MAX_USERS], "{variant}");
    }
}

/// A process that sets one value on so many files that two blocks are full, and one file uses a third block.
fn two_full_blocks() -> (Case, BenchConfig) {
    let case = Case {
        processes: 1,
        files: 2 * MAX_USERS + 1,
        values: 1,
    };
    let config = BenchConfig {
        operations: case.files,
        ..CONFIG
    };
    (case, config)
}

#[test]
fn search_examines_full_blocks_only_without_the_reusable_flag() {
    let (case, config) = two_full_blocks();
    let key = super::draws::key_of(0, config.seed);
    for (blocks, expected) in [
        (Blocks::new(case, &config), 1),
        (Blocks::new(case, &config).without_reusable_flag(), 3),
    ] {
        let cache = cache(MbCacheVariant::Referenced, ()).unwrap();
        let mut process = Process::new(0, &blocks, &*cache, case, &config);
        while process.step() {}
        let mut users = blocks.users();
        users.sort_unstable();
        assert_eq!(users, [1, MAX_USERS, MAX_USERS]);
        let mut found = cache.find_first(key);
        let mut examined = 0;
        while let Some(entry) = found {
            examined += 1;
            found = cache.find_next(entry);
        }
        assert_eq!(examined, expected);
    }
}

#[test]
fn volume_without_the_reusable_flag_shares_the_same_blocks() {
    if !has_mke2fs() {
        return;
    }
    let (case, config) = two_full_blocks();
    let referenced = MbCacheVariant::Referenced;
    let targets = [
        Target::Volume(referenced),
        Target::VolumeWithoutFlag(referenced),
    ];
    assert_eq!(room(&targets, case), Room::Shared);
    let measured = measure(&targets, case, &config, &mut || ()).unwrap();
    for measured in measured {
        // Each block has a first user, which found none to share.
        let stats = measured.stats.unwrap();
        assert_eq!(stats.shares, u64::from(case.files) - 3);
        assert_eq!(stats.blocks.entries, 3);
    }
    let off = [targets[0].clone(), Target::Volume(MbCacheVariant::Off)];
    assert_eq!(room(&off, case), Room::EachFile);
}

#[test]
fn counts_of_block_users_are_correct_with_concurrent_processes() {
    let case = Case {
        processes: 4,
        files: 600,
        values: 2,
    };
    let config = BenchConfig {
        operations: 3000,
        ..CONFIG
    };
    for variant in MbCacheVariant::ALL {
        let (cache, blocks) = (cache(variant, ()).unwrap(), Blocks::new(case, &config));
        crate::concurrent::run_concurrently(case.processes, |number| {
            let mut process = Process::new(number, &blocks, &*cache, case, &config);
            move || while process.step() {}
        });
        cache.check_invariants();
        let users = blocks.users();
        assert_eq!(users.iter().sum::<u32>(), 2400, "{variant}");
        assert!(users.iter().all(|users| *users <= MAX_USERS), "{variant}");
    }
}
