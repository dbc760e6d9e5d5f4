use super::*;
use larder_block::{CancelToken, DeadlineDevice, MemoryDevice};
use larder_instruments::LazyDevice;
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// The size of a unit in bytes.
const UNIT: u64 = UNIT_LEN as u64;
const UNIT_LEN: usize = 4096;
const UNITS: u64 = 40;
/// The distance between a byte of the disk and the same byte of the file.
const SHIFT: u64 = SHIFT_LEN as u64;
const SHIFT_LEN: usize = 512;
/// Enough for all units at the same time.
const MEMORY_BYTES: u64 = 16 << 20;
/// The number of threads of a device.
const THREADS: usize = 8;
/// A timeout that passes only if a test fails.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(1);

/// A disk whose even units are compressed, and whose odd units are stored as they are. A compressed unit is stored as
/// the inverse of its bytes. The decoder panics if the first stored byte of a unit is [`PANIC`].
#[derive(Debug)]
struct TestLayout;

const PANIC: u8 = 250;

impl Layout for TestLayout {
    fn size_bytes(&self) -> u64 {
        UNITS * UNIT
    }

    fn unit_bytes(&self) -> u64 {
        UNIT
    }

    fn extent(&self, _: &Tables<'_>, offset_bytes: u64, len_bytes: u64) -> Result<Option<Extent>> {
        let start_bytes = offset_bytes / UNIT * UNIT;
        let end_bytes = (start_bytes + UNIT).min(offset_bytes + len_bytes);
        let place = if is_packed(start_bytes / UNIT) {
            Place::Packed(PackedUnit {
                start_bytes,
                len: UNIT_LEN,
                stored: SHIFT + start_bytes..SHIFT + start_bytes + UNIT,
            })
        } else {
            Place::Stored(SHIFT + offset_bytes)
        };
        let len_bytes = end_bytes - offset_bytes;
        Ok(Some(Extent { len_bytes, place }))
    }

    fn unpack_memory_bytes(&self, unit: &PackedUnit) -> u64 {
        unit.len as u64
    }

    fn unpack(&self, _: &PackedUnit, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        assert!(stored[0] != PANIC, "a panic that the test expects");
        Ok(stored.iter().map(|byte| !byte).collect())
    }
}

fn is_packed(unit: u64) -> bool {
    unit.is_multiple_of(2)
}

/// Returns the value of each stored byte of a unit: the number of the unit.
fn stored_byte(unit: u64) -> u8 {
    u8::try_from(unit).unwrap()
}

/// Returns the value of each byte of a unit of the disk.
fn disk_byte(unit: u64) -> u8 {
    if is_packed(unit) {
        !stored_byte(unit)
    } else {
        stored_byte(unit)
    }
}

fn disk_on(file: Arc<dyn BlockDevice>, memory_bytes: u64) -> DiskDevice {
    let info = DiskInfo {
        format: Format::Qcow2,
        size_bytes: UNITS * UNIT,
        unit_bytes: UNIT,
    };
    DiskDevice::new(Disk::new(file, Box::new(TestLayout), memory_bytes), info)
}

fn file_bytes() -> Vec<u8> {
    let units = (0..UNITS).flat_map(|unit| [stored_byte(unit); UNIT_LEN]);
    [0; SHIFT_LEN].into_iter().chain(units).collect()
}

/// Returns a disk in a file whose requests wait until the test performs them: all requests, or only those with
/// background priority.
fn lazy_disk(all_wait: bool, memory_bytes: u64) -> (Arc<LazyDevice>, DiskDevice) {
    let memory = Arc::new(MemoryDevice::new(file_bytes()));
    let mut file = LazyDevice::new(memory, NonZeroU64::new(1 << 20).unwrap());
    if all_wait {
        file = file.with_all_waiting();
    }
    let file = Arc::new(file);
    let disk = disk_on(Arc::clone(&file) as _, memory_bytes);
    (file, disk)
}

/// The result of a read, and the unit that was read.
type Answer = (u64, Result<()>);

/// Returns a function that creates reads of parts of units, and a receiver of their results. Each successful read is checked.
fn reads() -> (impl Fn(u64) -> Request, Receiver<Answer>) {
    let (sender, receiver) = channel();
    let read = move |unit: u64| {
        let done = sender.clone();
        Request::read(
            vec![0; 50],
            unit * UNIT + 100,
            move |bytes: Vec<u8>, result| {
                assert!(
                    result.is_err() || bytes == [disk_byte(unit); 50],
                    "unit {unit}"
                );
                // The test may have ended.
                let _ = done.send((unit, result));
            },
        )
    };
    (read, receiver)
}

/// Waits until `count` requests wait in `file`. No request may be complete before that.
#[track_caller]
fn await_waiting(file: &LazyDevice, count: usize, answers: &Receiver<Answer>) {
    while file.waiting() != count {
        assert_eq!(answers.try_recv().err(), Some(TryRecvError::Empty));
        std::thread::yield_now();
    }
}

/// Performs the requests that wait in `file` until there are `count` answers, and returns them.
fn answers(file: &LazyDevice, count: usize, answers: &Receiver<Answer>) -> Vec<Answer> {
    let mut received = Vec::new();
    while received.len() < count {
        file.perform_waiting();
        received.extend(answers.try_iter());
        std::thread::yield_now();
    }
    received
}

#[test]
fn submitted_requests_return_the_content_of_their_units() {
    let (file, disk) = lazy_disk(false, MEMORY_BYTES);
    let (read, results) = reads();
    disk.submit((0..UNITS).map(read).collect());
    let answers = answers(&file, usize::try_from(UNITS).unwrap(), &results);
    assert!(
        answers.iter().all(|(_, result)| result.is_ok()),
        "{answers:?}"
    );
}

#[test]
fn request_for_stored_bytes_is_passed_to_the_device_of_the_file() {
    let (file, disk) = lazy_disk(false, MEMORY_BYTES);
    let (read, results) = reads();
    let token = CancelToken::default();
    let cancelled = read(3)
        .with_priority(Priority::Background)
        .with_cancel(&token);
    disk.submit(vec![read(1).with_priority(Priority::Background), cancelled]);
    assert_eq!(file.waiting(), 2);
    let offset_bytes = |unit: u64| SHIFT + unit * UNIT + 100;
    assert_eq!(
        file.take_submitted(),
        [(offset_bytes(1), 50), (offset_bytes(3), 50)]
    );
    disk.expedite(UNIT, UNIT);
    assert!(matches!(results.try_recv(), Ok((1, Ok(())))));
    token.cancel();
    disk.expedite(3 * UNIT, UNIT);
    assert!(matches!(results.try_recv(), Ok((3, Err(Error::Cancelled)))));
}

#[test]
fn stored_bytes_and_units_are_read_at_the_same_time() {
    let (file, disk) = lazy_disk(true, MEMORY_BYTES);
    let (read, results) = reads();
    let requests = [1, 2, 4].map(read);
    std::thread::scope(|scope| {
        let performed = scope.spawn(|| disk.perform(requests.into(), Some(LONG)));
        await_waiting(&file, 3, &results);
        file.perform_waiting();
        performed.join().unwrap().unwrap();
    });
    assert!(results.try_iter().all(|(_, result)| result.is_ok()));
}

#[test]
fn read_of_a_unit_ends_at_the_deadline() {
    let (file, disk) = lazy_disk(true, MEMORY_BYTES);
    let (read, results) = reads();
    let performed = disk.perform(vec![read(0)], Some(SHORT));
    assert!(
        matches!(performed, Err(Error::Deadline(_))),
        "{performed:?}"
    );
    // It was in flight, or had not been started.
    let answer = answers(&file, 1, &results);
    assert!(
        matches!(answer[0], (0, Ok(()) | Err(Error::Cancelled))),
        "{answer:?}"
    );

    // The device of the file has a timeout of its own, which also ends the read of the thread.
    let limited = Arc::new(DeadlineDevice::new(Arc::clone(&file) as _, SHORT));
    let disk = disk_on(limited, MEMORY_BYTES);
    assert_eq!(disk.timeout(), Some(SHORT));
    for unit in [1, 2] {
        disk.submit(vec![read(unit)]);
        if unit == 1 {
            file.perform_waiting();
        }
        let (_, result) = results.recv().unwrap();
        assert_eq!(result.is_ok(), unit == 1, "{result:?}");
    }
}

#[test]
fn cancelled_reads_of_units_complete_whether_they_were_started_or_not() {
    let (file, disk) = lazy_disk(true, MEMORY_BYTES);
    let (read, results) = reads();
    let units: Vec<u64> = (0..UNITS).filter(|unit| is_packed(*unit)).collect();
    assert!(units.len() > THREADS);
    let token = CancelToken::default();
    let requests = units.iter().map(|&unit| read(unit).with_cancel(&token));
    disk.submit(requests.collect());
    await_waiting(&file, THREADS, &results);
    token.cancel();
    disk.cancel_in_flight();
    let mut cancelled = 0;
    while cancelled < units.len() {
        assert_eq!(
            file.waiting(),
            0,
            "a request was started after it was cancelled"
        );
        for (unit, result) in results.try_iter() {
            assert!(
                matches!(result, Err(Error::Cancelled)),
                "{unit}: {result:?}"
            );
            cancelled += 1;
        }
        std::thread::yield_now();
    }
    // The device can still be used.
    disk.submit(vec![read(0)]);
    assert!(matches!(answers(&file, 1, &results)[..], [(0, Ok(()))]));
}

#[test]
fn cancel_token_cancels_a_read_of_a_unit_that_waits_for_a_thread() {
    let (file, disk) = lazy_disk(true, MEMORY_BYTES);
    let (read, results) = reads();
    let in_flight = (0..THREADS as u64).map(|index| 2 * index);
    disk.submit(in_flight.map(&read).collect());
    await_waiting(&file, THREADS, &results);
    let token = CancelToken::default();
    let last = 2 * THREADS as u64;
    disk.submit(vec![read(last).with_cancel(&token)]);
    token.cancel();
    for (unit, result) in answers(&file, THREADS + 1, &results) {
        let is_cancelled = matches!(result, Err(Error::Cancelled));
        assert_eq!(is_cancelled, unit == last, "{unit}: {result:?}");
    }
}

#[test]
fn adjacent_units_are_announced_together() {
    let (file, disk) = lazy_disk(false, MEMORY_BYTES);
    // The last unit is compressed, so all of it is read.
    assert!(is_packed(10));
    disk.announce(UNIT + 10, 9 * UNIT, Priority::Background);
    let len_bytes = 11 * UNIT - (UNIT + 10);
    assert_eq!(file.take_announced(), [(SHIFT + UNIT + 10, len_bytes)]);
    disk.announce(2 * UNIT + 10, 10, Priority::Demand);
    assert_eq!(file.take_announced(), [(SHIFT + 2 * UNIT, UNIT)]);
    disk.announce(UNITS * UNIT, 1, Priority::Demand);
    assert!(file.take_announced().is_empty());
}

#[test]
fn memory_limits_the_units_that_are_read_at_the_same_time() {
    // One unit needs twice its size: it is stored, and decompressed.
    for (memory_bytes, most) in [(0, 1), (5 * UNIT, 2)] {
        let (file, disk) = lazy_disk(true, memory_bytes);
        let (read, results) = reads();
        disk.submit([0, 2, 4, 6].map(read).into());
        let budget = &disk.disk.budget;
        let mut received = 0;
        while received < 4 {
            let performed = most.min(4 - received);
            let waiting = || (file.waiting(), budget.waiting());
            while waiting() != (performed, (4 - received - performed) as u64) {
                assert!(file.waiting() <= most, "{} units", file.waiting());
                std::thread::yield_now();
            }
            assert_eq!(budget.used_bytes(), 2 * UNIT * performed as u64);
            file.perform_waiting();
            for _ in 0..performed {
                results.recv().unwrap().1.unwrap();
            }
            received += performed;
        }
    }
}

#[test]
fn panic_of_a_decoder_fails_only_its_request() {
    let mut bytes = file_bytes();
    bytes[SHIFT_LEN + 4 * UNIT_LEN] = PANIC;
    let disk = disk_on(Arc::new(MemoryDevice::new(bytes)), MEMORY_BYTES);
    let (read, results) = reads();
    for unit in [4, 2, 4] {
        disk.submit(vec![read(unit)]);
        let (_, result) = results.recv().unwrap();
        if unit != 4 {
            result.unwrap();
            continue;
        }
        match result {
            Err(Error::Io { source, .. }) => {
                assert_eq!(source.kind(), io::ErrorKind::InvalidData);
                assert!(source.to_string().contains("decoder"), "{source}");
            }
            other => panic!("{other:?}"),
        }
    }
}
