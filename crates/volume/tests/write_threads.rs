//! Many threads that write, read, truncate and sync concurrently, with a tiny cache and a flusher.
//! A read never returns a mixture of two writes, and the final contents are complete.

use larder::{Ino, NewFile, OpenOptions, Volume};
use larder_block::{BackEnd, BlockDevice, DirectDevice, FileDevice, FileRange};
use larder_instruments::OverlayDevice;
use larder_testkit::crash::LAYOUTS;
use larder_testkit::e2fsprogs::check_bytes;
use larder_testkit::{Random, Requirement, Seed, report_skipped, skip};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use tempfile::NamedTempFile;

const UNIT: usize = 4096;
const UNITS: u64 = 200;
const WRITES: u32 = 400;
const WRITERS: u64 = 3;

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.commit_seconds = 1;
    options.cache_size_bytes = 1 << 20;
    options
}

fn create(volume: &Volume, name: &str) -> Ino {
    let new = NewFile {
        permissions: 0o600,
        umask: 0,
        uid: 0,
        gid: 0,
    };
    volume.create(Ino::ROOT, name.as_bytes(), &new).unwrap().ino
}

/// Writes units that no other thread writes, each filled with one repeated byte. Returns each unit
/// with its final byte.
fn write_units(volume: &Volume, ino: Ino, writer: u64, seed: Seed) -> Vec<(u64, u8)> {
    let mut random = Random::new(seed.part(writer));
    let mut units = vec![0; usize::try_from(UNITS).unwrap()];
    for _ in 0..WRITES {
        let unit = random.below(UNITS / WRITERS) * WRITERS + writer;
        let byte = random.byte() | 1;
        let at = unit * UNIT as u64;
        volume.write_at(ino, &[byte; UNIT], at).unwrap();
        units[usize::try_from(unit).unwrap()] = byte;
        let mut back = [0; UNIT];
        volume.read_at(ino, &mut back, at).unwrap();
        assert!(back == [byte; UNIT], "unit {unit} reads as it was written");
    }
    (0..).zip(units).filter(|(_, byte)| *byte != 0).collect()
}

fn read_units(volume: &Volume, ino: Ino, is_over: &AtomicBool, seed: Seed) {
    let mut random = Random::new(seed);
    let mut buf = vec![0; 8 * UNIT];
    while !is_over.load(Relaxed) {
        let at = random.below(UNITS) * UNIT as u64;
        let len = match random.below(3) {
            0 => volume.read_past_cache(ino, &mut buf, at),
            1 => volume.read_once(ino, &mut buf, at),
            _ => volume.read_at(ino, &mut buf, at),
        };
        for unit in buf[..len.unwrap()].chunks(UNIT) {
            assert!(unit.iter().all(|byte| *byte == unit[0]), "half a write");
        }
    }
}

/// Extends and truncates a file that only this thread uses, concurrently with the flusher. Returns
/// the expected content.
fn churn(volume: &Volume, ino: Ino, seed: Seed) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut model: Vec<u8> = Vec::new();
    for _ in 0..WRITES / 4 {
        let len = 1 + usize::try_from(random.below(60_000)).unwrap();
        let bytes = random.bytes(len);
        volume.write_at(ino, &bytes, model.len() as u64).unwrap();
        model.extend(&bytes);
        if random.below(3) == 0 || model.len() > 500_000 {
            let size = random.below(model.len() as u64);
            volume.truncate(ino, size).unwrap();
            model.truncate(usize::try_from(size).unwrap());
        }
        if random.below(10) == 0 {
            volume.sync_file(ino, true).unwrap();
        }
    }
    model
}

fn run(device: Arc<dyn BlockDevice>, seed: Seed) {
    let volume = Volume::open_device(Arc::clone(&device), &options()).unwrap();
    let shared = create(&volume, "shared");
    let own = create(&volume, "own");
    let (is_over, running) = (AtomicBool::new(false), AtomicU32::new(4));
    let ended = || {
        if running.fetch_sub(1, Relaxed) == 1 {
            is_over.store(true, Relaxed);
        }
    };
    let (units, left) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let volume = &volume;
                scope.spawn(move || write_units(volume, shared, writer, seed))
            })
            .collect();
        let churner = scope.spawn(|| churn(&volume, own, seed.part(10)));
        for reader in 0..2 {
            let (volume, is_over) = (&volume, &is_over);
            scope.spawn(move || read_units(volume, shared, is_over, seed.part(20 + reader)));
        }
        let mut units = Vec::new();
        for writer in writers {
            let written = writer.join();
            ended();
            units.extend(written.unwrap());
        }
        let left = churner.join();
        ended();
        (units, left.unwrap())
    });
    volume.close().unwrap();
    drop(volume);
    let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
    device.read_at(&mut bytes, 0).unwrap();
    check_bytes(&bytes).unwrap();
    let reading = Volume::open_device(device, &OpenOptions::default()).unwrap();
    for (unit, byte) in units {
        let mut buf = [0; UNIT];
        reading
            .read_at(shared, &mut buf, unit * UNIT as u64)
            .unwrap();
        assert!(buf == [byte; UNIT], "unit {unit} after all");
    }
    let mut buf = vec![0; left.len() + 1];
    assert_eq!(reading.read_at(own, &mut buf, 0).unwrap(), left.len());
    assert!(buf[..left.len()] == left, "the truncated file");
}

#[test]
fn threads_that_write_read_and_truncate_see_whole_writes() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x6000);
    for (number, layout) in (0..).zip(LAYOUTS.iter().take(6)) {
        let seed = seed.part(number);
        println!("{}, seed {seed}", layout.name);
        run(Arc::new(OverlayDevice::new(layout.base().unwrap())), seed);
    }
}

#[test]
fn threads_see_whole_writes_with_each_back_end() {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let seed = Seed::from_environment(0x6100);
    for (number, layout) in (0..).zip(LAYOUTS.iter().take(2)) {
        for back_end in [BackEnd::IoUring, BackEnd::Threads] {
            let mut file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            file.write_all(&layout.base().unwrap()).unwrap();
            let device = FileDevice::open_writable(file.path(), FileRange::default()).unwrap();
            let device = device.with_back_end(back_end);
            if device.back_end() != back_end {
                report_skipped(format!("{back_end} is not available"));
                continue;
            }
            let seed = seed.part(number);
            println!("{}, {back_end}, seed {seed}", layout.name);
            run(Arc::new(device), seed);
        }
        let mut file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.write_all(&layout.base().unwrap()).unwrap();
        match DirectDevice::open_writable(file.path(), FileRange::default()) {
            Ok(device) => run(Arc::new(device), seed.part(10 + number)),
            Err(error) => report_skipped(error),
        }
    }
}
