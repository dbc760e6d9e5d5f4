//! Random operations and damage, compared with a model.

use crate::support::{Fixture, Object, UNLIMITED_BYTES, object};
use larder_remote::disk_cache::{CachedObject, UNIT_BYTES};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

const UNITS: usize = 6;

/// Where the map and the units start.
const MAP_OFFSET_BYTES: u64 = 4096;
const DATA_OFFSET_BYTES: u64 = 8192;

#[derive(Clone, Debug)]
enum Operation {
    Write(usize),
    Read(usize),
    /// Flips a bit of a unit.
    FlipData(usize, u64),
    /// Flips a bit of the map entry of a unit.
    FlipEntry(usize, u64),
    FlipHeader(u64),
    Truncate(u64),
    Reopen,
}

fn operations() -> impl Strategy<Value = Operation> {
    let unit = || 0..UNITS;
    prop_oneof![
        6 => unit().prop_map(Operation::Write),
        6 => unit().prop_map(Operation::Read),
        2 => (unit(), 0..8000_u64).prop_map(|(unit, bit)| Operation::FlipData(unit, bit)),
        2 => (unit(), 0..128_u64).prop_map(|(unit, bit)| Operation::FlipEntry(unit, bit)),
        1 => (0..512 * 8_u64).prop_map(Operation::FlipHeader),
        1 => (0..DATA_OFFSET_BYTES).prop_map(Operation::Truncate),
        2 => Just(Operation::Reopen),
    ]
}

/// The expected state of a cache file.
#[derive(Default)]
struct Model {
    /// For each unit that has a map entry, the bits of the unit and of its entry that are flipped.
    units: [Option<HashSet<u64>>; UNITS],
    header_flips: HashSet<u64>,
    is_truncated: bool,
}

fn toggle(flips: &mut HashSet<u64>, bit: u64) {
    if !flips.remove(&bit) {
        flips.insert(bit);
    }
}

struct Test {
    object: Object,
    fixture: Fixture,
    cached: CachedObject,
    model: Model,
}

impl Test {
    fn new() -> Self {
        let fixture = Fixture::new();
        let object = object("1", UNITS as u64);
        Self {
            cached: object.open(&fixture.cache(UNLIMITED_BYTES)),
            object,
            fixture,
            model: Model::default(),
        }
    }

    fn flip(&self, bit: u64) {
        let file = File::options()
            .read(true)
            .write(true)
            .open(self.fixture.file())
            .unwrap();
        let mut byte = [0];
        // After a truncation, the bit may not exist.
        if file.read_exact_at(&mut byte, bit / 8).is_ok() {
            file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8)
                .unwrap();
        }
    }

    fn flip_in_unit(&mut self, unit: usize, bit: u64) {
        self.flip(bit);
        if let Some(flips) = &mut self.model.units[unit] {
            toggle(flips, bit);
        }
    }

    fn read(&mut self, unit: usize) {
        let state = &mut self.model.units[unit];
        let expected = state.as_ref().is_some_and(HashSet::is_empty);
        assert_eq!(
            self.object.read(&self.cached, unit as u64),
            expected,
            "unit {unit}"
        );
        if !expected {
            *state = None;
            assert!(!self.cached.contains_unit(unit as u64));
        }
    }

    fn reopen(&mut self) {
        self.cached = self.object.open(&self.fixture.cache(UNLIMITED_BYTES));
        if self.model.is_truncated || !self.model.header_flips.is_empty() {
            self.model = Model::default();
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match *operation {
            Operation::Write(unit) => {
                self.object.write(&self.cached, unit as u64);
                self.model.units[unit] = Some(HashSet::new());
            }
            Operation::Read(unit) => self.read(unit),
            Operation::FlipData(unit, bit) => {
                let start_bytes = DATA_OFFSET_BYTES + (unit * UNIT_BYTES) as u64;
                self.flip_in_unit(unit, start_bytes * 8 + bit);
            }
            Operation::FlipEntry(unit, bit) => {
                self.flip_in_unit(unit, (MAP_OFFSET_BYTES + unit as u64 * 16) * 8 + bit);
            }
            Operation::FlipHeader(bit) => {
                self.flip(bit);
                toggle(&mut self.model.header_flips, bit);
            }
            Operation::Truncate(len_bytes) => {
                let file = File::options()
                    .write(true)
                    .open(self.fixture.file())
                    .unwrap();
                file.set_len(len_bytes).unwrap();
                self.model.units = Default::default();
                self.model.is_truncated = true;
                // A write makes the file long enough again, but does not restore its header and map.
                self.reopen();
            }
            Operation::Reopen => self.reopen(),
        }
    }
}

proptest! {
    #![proptest_config(larder_testkit::proptest_config!(21, cases: 100))]

    #[test]
    fn cache_equals_model_after_any_operations_and_damage(operations in vec(operations(), 1..60)) {
        let mut test = Test::new();
        for operation in &operations {
            test.perform(operation);
        }
        for unit in 0..UNITS {
            test.read(unit);
        }
    }
}
