use super::*;
use larder_block::BlockDevice;
use larder_instruments::{OverlayDevice, PowerCuts, RecordingDevice};
use larder_testkit::seed::SEED_VARIABLE;
use larder_testkit::{Random, Seed};
use std::sync::Arc;

/// The number of units of an object. The last one is short.
const UNITS: u64 = 10;
const SIZE_BYTES: u64 = (UNITS - 1) * UNIT_BYTES as u64 + 1000;
const DIGEST: Digest = [9; 32];

/// A cache file on a device.
struct OnDevice<'a>(&'a dyn BlockDevice);

impl Storage for OnDevice<'_> {
    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> io::Result<()> {
        self.0.read_at(buf, offset_bytes).map_err(io::Error::other)
    }

    fn write_at(&self, bytes: &[u8], offset_bytes: u64) -> io::Result<()> {
        self.0
            .write_at(bytes, offset_bytes)
            .map_err(io::Error::other)
    }
}

fn layout() -> Layout {
    Layout::new(SIZE_BYTES).unwrap()
}

fn on(device: &dyn BlockDevice) -> Units<OnDevice<'_>> {
    Units::new(OnDevice(device), layout(), &DIGEST)
}

fn empty() -> OverlayDevice {
    OverlayDevice::zeros(layout().file_bytes())
}

fn content(unit: u64) -> Vec<u8> {
    let len = if unit == UNITS - 1 { 1000 } else { UNIT_BYTES };
    Random::new(Seed(unit)).bytes(len)
}

fn read(units: &Units<impl Storage>, unit: u64) -> Outcome {
    let expected = content(unit);
    let mut buf = vec![0; expected.len()];
    let outcome = units.read(unit, &mut buf);
    assert!(
        outcome != Outcome::Read || buf == expected,
        "wrong bytes in unit {unit}"
    );
    outcome
}

/// Writes random units, sometimes the same one again, as two mounts do. Flushes the device at random times, as the
/// kernel does.
fn write_units(device: &RecordingDevice, random: &mut Random) {
    let units = on(device);
    for _ in 0..UNITS + 5 {
        let unit = random.below(UNITS);
        units.write(unit, &content(unit)).unwrap();
        if random.below(6) == 0 {
            device.flush().unwrap();
        }
    }
}

/// Checks states that a loss of power can leave after each write. The units that are absent in a state must
/// be storable again. Returns how many units were damaged.
fn check_power_cuts(start: &OverlayDevice, seed: Seed) -> usize {
    let mut random = Random::new(seed);
    eprintln!("{SEED_VARIABLE}={seed}");
    let device = RecordingDevice::new(Arc::new(start.clone()));
    write_units(&device, &mut random);
    let changes = device.take_changes();
    let mut cuts = PowerCuts::new(start, &changes);
    let mut damaged = 0;
    for position in 0..=changes.len() {
        cuts.advance_to(position).unwrap();
        for _ in 0..3 {
            let device = cuts.reordered(random.next_u64()).unwrap();
            let units = on(&device);
            for unit in 0..UNITS {
                match read(&units, unit) {
                    Outcome::Read => continue,
                    Outcome::Absent => {}
                    Outcome::Damaged => damaged += 1,
                }
                assert_eq!(read(&units, unit), Outcome::Absent);
                units.write(unit, &content(unit)).unwrap();
            }
            assert!((0..UNITS).all(|unit| read(&units, unit) == Outcome::Read));
        }
    }
    damaged
}

/// Returns the number of sequences of writes: `LARDER_CRASH=full` (`make crash`) tries more.
fn rounds() -> usize {
    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    if is_full { 200 } else { 2 }
}

#[test]
fn unit_after_power_cut_is_right_or_absent() {
    for seed in Seed::parts_from_environment(21).take(rounds()) {
        let damaged = check_power_cuts(&empty(), seed);
        assert!(damaged > 0, "no write was torn");
    }
}

/// On a file system that does not order data and metadata, blocks that were allocated but not written can
/// contain anything.
#[test]
fn unit_after_power_cut_over_stale_blocks_is_right_or_absent() {
    let len = usize::try_from(layout().file_bytes()).unwrap();
    for seed in Seed::parts_from_environment(22).take(rounds()) {
        let stale = OverlayDevice::new(Random::new(seed).bytes(len).into());
        assert!(check_power_cuts(&stale, seed) > 0);
    }
}

/// A unit and its checksum, moved to the place of another unit of the same length.
#[test]
fn unit_in_the_place_of_another_is_damaged() {
    let device = empty();
    let units = on(&device);
    units.write(3, &content(3)).unwrap();
    let mut bytes = content(3);
    units
        .storage
        .read_at(&mut bytes, units.data_offset_bytes(3))
        .unwrap();
    units
        .storage
        .write_at(&bytes, units.data_offset_bytes(4))
        .unwrap();
    units.write_entry(4, units.entry(3)).unwrap();
    assert_eq!(read(&units, 3), Outcome::Read);
    assert_eq!(units.read(4, &mut bytes), Outcome::Damaged);
    assert_eq!(units.read(4, &mut bytes), Outcome::Absent);
}

#[test]
fn unit_of_another_object_is_damaged() {
    let device = empty();
    on(&device).write(3, &content(3)).unwrap();
    let other = Units::new(OnDevice(&device), layout(), &[8; 32]);
    assert_eq!(read(&other, 3), Outcome::Damaged);
}

#[test]
fn offsets_that_overflow_have_no_layout() {
    assert!(Layout::new(u64::MAX).is_none());
    assert_eq!(Layout::new(0).unwrap().file_bytes(), MAP_OFFSET_BYTES);
}
