//! Overlays: compared with a model, after power cuts, and with qemu.

use larder_block::{
    BlockDevice, CancelToken, DeadlineDevice, Error, FileDevice, FileRange, MemoryDevice,
    PartDevice, Priority, Request,
};
use larder_image::{CommitState, Overlay, OverlayError};
use larder_instruments::{
    ChangeRecord, FaultyDevice, LazyDevice, OverlayDevice, PowerCuts, RecordingDevice,
    ReorderingDevice,
};
use larder_testkit::tool::Tool;
use larder_testkit::{Random, Requirement, Seed, proptest_config, skip};
use proptest::prelude::*;
use std::fs;
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const KIB: usize = 1 << 10;
const QEMU: &[Requirement] = &[Requirement::Tool("qemu-img"), Requirement::Tool("qemu-io")];
/// The size of the disks. The last cluster, the last subcluster and the last sectors are not complete.
const DISK_LEN: usize = 700 * KIB + 3 * 512;
const SECTOR_LEN: usize = 512;
/// The time after which a test counts as hung.
const HANG: Duration = Duration::from_mins(1);

fn base_content(random: &mut Random) -> Vec<u8> {
    let mut content = vec![0; DISK_LEN];
    random.fill(&mut content);
    content
}

fn base(content: &[u8]) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(content.to_vec()))
}

/// Returns the file of an overlay on `base`, without changes.
fn created(base: &dyn BlockDevice) -> OverlayDevice {
    let file = OverlayDevice::zeros(Overlay::max_file_bytes(base.size_bytes()).unwrap());
    Overlay::create(&file, base, b"/base.img".to_vec(), "raw".to_owned()).unwrap();
    file
}

fn read_all(disk: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![1; DISK_LEN];
    disk.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Returns a range of the disk that is aligned to sectors, to blocks, to clusters or not at all.
fn any_range(random: &mut Random, most: usize) -> Range<usize> {
    let unit = *random.choose(&[1, SECTOR_LEN, 4 * KIB, 128 * KIB]).unwrap();
    let start = random.index(DISK_LEN) / unit * unit;
    let len = (1 + random.index(most / unit)) * unit;
    start..(start + len).min(DISK_LEN)
}

/// Writes `bytes` at `start`: in one of three ways.
fn write(
    disk: &dyn BlockDevice,
    random: &mut Random,
    bytes: &[u8],
    start: usize,
) -> larder_block::Result<()> {
    let start = start as u64;
    match random.below(3) {
        0 => disk.write_at(bytes, start),
        1 => {
            let (first, second) = bytes.split_at(random.index(bytes.len()));
            let bufs = [first, second].map(IoSlice::new);
            disk.write_vectored_at(&bufs, start)
        }
        _ => larder_block::write_all(disk, [(start, bytes.to_vec())]),
    }
}

#[test]
fn overlay_follows_the_model() {
    for seed in Seed::parts_from_environment(0x0E01).take(8) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let content = base_content(&mut random);
        let base = base(&content);
        let file: Arc<dyn BlockDevice> = Arc::new(created(&*base));
        let open = || Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
        let (mut disk, mut model) = (open(), content.clone());
        for _ in 0..150 {
            let range = any_range(&mut random, 200 * KIB);
            match random.below(10) {
                0..5 => {
                    let mut bytes = vec![0; range.len()];
                    random.fill(&mut bytes);
                    write(&disk, &mut random, &bytes, range.start).unwrap();
                    model[range].copy_from_slice(&bytes);
                }
                5..8 => {
                    let (sender, receiver) = mpsc::channel();
                    // A panic of `done` would be caught.
                    let done = move |bytes: Vec<u8>, result: larder_block::Result<()>| {
                        sender.send(result.map(|()| bytes)).unwrap();
                    };
                    let read = Request::read(vec![0; range.len()], range.start as u64, done);
                    disk.perform(vec![read], disk.timeout()).unwrap();
                    assert!(receiver.recv().unwrap().unwrap() == model[range]);
                }
                8 => disk.flush().unwrap(),
                _ => {
                    disk.flush().unwrap();
                    drop(disk);
                    disk = open();
                }
            }
            assert!(read_all(&disk) == model);
        }
        assert!(read_all(&*base) == content);
        // All that differs is among the changes.
        let mut with_changes = content;
        for range in disk.changes() {
            let range = [range.start, range.end].map(|at| usize::try_from(at).unwrap());
            let range = range[0]..range[1].min(DISK_LEN);
            with_changes[range.clone()].copy_from_slice(&model[range]);
        }
        assert!(with_changes == model);
    }
}

/// A write, or a flush without an error.
struct Done {
    /// The written range and its content, or `None` for a flush.
    written: Option<(usize, Vec<u8>)>,
    is_ok: bool,
    /// The times at which the operation began, and at which it had returned.
    times: Range<usize>,
    /// The numbers of changes of the file at these times.
    changes: Range<usize>,
}

/// The file of an overlay, with a record of its changes.
struct Recorded {
    recorder: Arc<RecordingDevice>,
    disk: Overlay,
    clock: AtomicUsize,
}

impl Recorded {
    /// Opens the overlay in `file`, whose calls fail as `faulty` says.
    fn open(
        file: &OverlayDevice,
        base: &Arc<dyn BlockDevice>,
        faulty: impl FnOnce(FaultyDevice) -> FaultyDevice,
    ) -> Self {
        let recorder = Arc::new(RecordingDevice::new(Arc::new(file.clone())));
        let file = faulty(FaultyDevice::new(Arc::clone(&recorder) as _));
        Self {
            disk: Overlay::open(Arc::new(file), Arc::clone(base)).unwrap(),
            recorder,
            clock: AtomicUsize::new(0),
        }
    }

    /// Returns the time, and the number of changes before it.
    fn now(&self) -> (usize, usize) {
        let changes = self.recorder.change_count();
        (self.clock.fetch_add(1, Ordering::SeqCst), changes)
    }

    /// Performs `count` random operations. `range` returns a range to write.
    fn operate(
        &self,
        count: usize,
        mut random: Random,
        range: impl Fn(&mut Random) -> Range<usize>,
    ) -> Vec<Done> {
        let mut operations = Vec::new();
        for _ in 0..count {
            let written = (random.below(4) > 0).then(|| {
                let range = range(&mut random);
                let mut bytes = vec![0; range.len()];
                random.fill(&mut bytes);
                (range.start, bytes)
            });
            let begun = self.now();
            let result = match &written {
                Some((start, bytes)) => write(&self.disk, &mut random, bytes, *start),
                None => self.disk.flush(),
            };
            let returned = self.now();
            // A flush that fails makes nothing durable. A write that fails may have written a part.
            if result.is_ok() || written.is_some() {
                operations.push(Done {
                    written,
                    is_ok: result.is_ok(),
                    times: begun.0..returned.0,
                    changes: begun.1..returned.1,
                });
            }
        }
        operations
    }
}

/// What a disk may contain after a power cut: in each sector, the content of the last write that a flush made durable
/// before the cut, or of a later write that had begun.
struct Allowed {
    /// The content of the base, and the content after each write.
    states: Vec<Vec<u8>>,
    /// For each sector, the index of the first state that it may have.
    first: Vec<usize>,
}

impl Allowed {
    /// `position` is the number of changes of the file before the power cut. Each write to a sector began after the
    /// previous write to it in `operations` had returned.
    fn at(position: usize, content: &[u8], operations: &[Done]) -> Self {
        let flushes = || operations.iter().filter(|done| done.written.is_none());
        let is_durable = |done: &Done| {
            done.is_ok
                && flushes().any(|flush| {
                    done.times.end < flush.times.start && flush.changes.end <= position
                })
        };
        let mut first = vec![0; content.len().div_ceil(SECTOR_LEN)];
        let mut states = vec![content.to_vec()];
        for done in operations {
            let Some((start, bytes)) = &done.written else {
                continue;
            };
            if done.changes.start > position {
                continue;
            }
            let end = start + bytes.len();
            let mut state = states.last().unwrap().clone();
            state[*start..end].copy_from_slice(bytes);
            if is_durable(done) {
                first[start / SECTOR_LEN..end.div_ceil(SECTOR_LEN)].fill(states.len());
            }
            states.push(state);
        }
        Self { states, first }
    }

    fn check(&self, found: &[u8], name: &str) {
        for (number, sector) in found.chunks(SECTOR_LEN).enumerate() {
            let start = number * SECTOR_LEN;
            let allowed = &self.states[self.first[number]..];
            let is_allowed = |state: &Vec<u8>| &state[start..start + sector.len()] == sector;
            // Two writes of different parts of a sector are two states of it.
            assert!(
                allowed.iter().any(is_allowed) || is_mixed(sector, start, allowed),
                "{name}: sector {number}"
            );
        }
    }
}

/// Returns whether each byte of `sector` is in one of the states: a read-modify-write of a sector may lack an earlier write
/// that was lost.
fn is_mixed(sector: &[u8], start: usize, allowed: &[Vec<u8>]) -> bool {
    (sector.iter().enumerate())
        .all(|(at, byte)| allowed.iter().any(|state| state[start + at] == *byte))
}

/// Cuts the power after each change of `file`, and checks what is left. Returns the number of states that were checked.
fn check_power_cuts(
    file: &OverlayDevice,
    base: &Arc<dyn BlockDevice>,
    content: &[u8],
    operations: &[Done],
    changes: &[ChangeRecord],
    seed: Seed,
) -> usize {
    let mut states = 0;
    let mut cuts = PowerCuts::new(file, changes);
    for position in 0..=changes.len() {
        cuts.advance_to(position).unwrap();
        let allowed = Allowed::at(position, content, operations);
        for number in 0..4 {
            let state = match number {
                0 => cuts.all_written(),
                number => cuts
                    .reordered(seed.0 ^ (position as u64) << 8 ^ number)
                    .unwrap(),
            };
            let name = format!(
                "seed {seed}, cut {position} of {}, state {number}",
                changes.len()
            );
            let state: Arc<dyn BlockDevice> = Arc::new(state);
            for _ in 0..2 {
                // The second time, after lost clusters were freed.
                let disk = Overlay::open(Arc::clone(&state), Arc::clone(base));
                let disk = disk.unwrap_or_else(|error| panic!("{name}: {error}"));
                allowed.check(&read_all(&disk), &name);
                disk.flush().unwrap();
            }
            states += 1;
        }
    }
    states
}

#[test]
fn flushed_writes_survive_power_cuts() {
    let mut states = 0;
    for seed in Seed::parts_from_environment(0x0E02).take(6) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let content = base_content(&mut random);
        let base = base(&content);
        let file = created(&*base);
        let recorded = Recorded::open(&file, &base, |file| file);
        let operations = recorded.operate(40, random, |random| any_range(random, 20 * KIB));
        let changes = recorded.recorder.take_changes();
        states += check_power_cuts(&file, &base, &content, &operations, &changes, seed);
    }
    assert!(states > 500, "{states}");
}

#[test]
fn flushed_writes_of_threads_survive_power_cuts() {
    const THREADS: usize = 4;
    const STRIPE_LEN: usize = 4 * SECTOR_LEN;
    let mut states = 0;
    for seed in Seed::parts_from_environment(0x0E04).take(4) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let content = base_content(&mut random);
        let base = base(&content);
        let file = created(&*base);
        let recorded = Recorded::open(&file, &base, |file| file);
        // Each thread writes sectors of its own, in subclusters that it shares with other threads.
        let operations = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|owner| {
                    let (recorded, random) = (&recorded, Random::new(Seed(random.next_u64())));
                    scope.spawn(move || {
                        recorded.operate(15, random, |random| {
                            // In the first clusters, so that many writes are to the same subclusters.
                            let stripe = random.index(20) * THREADS + owner;
                            let skip = random.index(STRIPE_LEN);
                            let len = 1 + random.index(STRIPE_LEN - skip);
                            let start = stripe * STRIPE_LEN + skip;
                            start..start + len
                        })
                    })
                })
                .collect();
            let threads = threads.into_iter();
            let done: Vec<_> = threads.flat_map(|thread| thread.join().unwrap()).collect();
            done
        });
        let changes = recorded.recorder.take_changes();
        states += check_power_cuts(&file, &base, &content, &operations, &changes, seed);
    }
    assert!(states > 300, "{states}");
}

#[test]
fn flushed_writes_survive_power_cuts_after_a_failed_flush() {
    let (mut states, mut failed) = (0, 0);
    for (number, seed) in (0..).zip(Seed::parts_from_environment(0x0E05).take(8)) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let content = base_content(&mut random);
        let base = base(&content);
        let file = created(&*base);
        let recorded = Recorded::open(&file, &base, |file| file.fail_flush(number));
        let operations = recorded.operate(40, random, |random| any_range(random, 20 * KIB));
        failed += operations.iter().filter(|done| !done.is_ok).count();
        let changes = recorded.recorder.take_changes();
        states += check_power_cuts(&file, &base, &content, &operations, &changes, seed);
    }
    // After a failed flush of the file, writes fail.
    assert!(states > 200 && failed > 20, "{states} {failed}");
}

#[test]
fn failed_write_leaves_the_disk_as_it_was_and_can_be_repeated() {
    let mut random = Random::new(Seed::announced(0x0E03));
    let content = base_content(&mut random);
    let base = base(&content);
    let file = created(&*base);
    let (mut failures, mut reopened) = (0, 0);
    for call in 0..40 {
        let faulty = Arc::new(FaultyDevice::new(Arc::new(file.clone())).fail_write(call));
        let mut disk = Overlay::open(Arc::clone(&faulty) as _, Arc::clone(&base)).unwrap();
        let mut model = content.clone();
        for step in 0..6 {
            let bytes = vec![step; 9000];
            let start = usize::from(step) * 90_000;
            let is_written = disk.write_at(&bytes, start as u64).is_ok();
            if !is_written {
                failures += 1;
                assert!(read_all(&disk) == model);
                disk.write_at(&bytes, start as u64).unwrap();
            }
            model[start..start + bytes.len()].copy_from_slice(&bytes);
            if disk.flush().is_err() {
                failures += 1;
                // If the failure preceded the flush of the file, the flush of the disk can be repeated.
                if disk.flush().is_ok() {
                    continue;
                }
                // Otherwise, the content of the file is unknown, so the overlay must be opened again.
                reopened += 1;
                assert!(disk.write_at(&[1], 0).is_err());
                assert!(larder_block::write_all(&disk, [(0, vec![1])]).is_err());
                drop(disk);
                disk = Overlay::open(Arc::clone(&faulty) as _, Arc::clone(&base)).unwrap();
                for earlier in 0..=step {
                    let start = usize::from(earlier) * 90_000;
                    disk.write_at(&[earlier; 9000], start as u64).unwrap();
                }
                assert!(read_all(&disk) == model);
            }
        }
        assert!(read_all(&disk) == model);
        disk.flush().unwrap();
        drop(disk);
        let disk = Overlay::open(Arc::clone(&faulty) as _, Arc::clone(&base)).unwrap();
        assert!(read_all(&disk) == model);
    }
    assert!(failures > reopened && reopened > 5, "{failures} {reopened}");
}

#[test]
fn threads_write_different_parts_of_one_subcluster() {
    const THREADS: usize = 8;
    let content = vec![1; DISK_LEN];
    let base = base(&content);
    let file = Arc::new(created(&*base));
    let disk = Overlay::open(file, base).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let disk = &disk;
            scope.spawn(move || {
                for round in 0..100 {
                    let at = round * 4 * KIB + thread * 512;
                    disk.write_at(&[7; 512], at as u64).unwrap();
                }
            });
        }
    });
    let mut expected = content;
    expected[..400 * KIB].fill(7);
    assert!(read_all(&disk) == expected);
}

/// A base that answers short reads only on request, like a server that is out of reach.
#[derive(Debug)]
struct SlowBase {
    content: Arc<dyn BlockDevice>,
    begun: mpsc::Sender<()>,
    answers: Mutex<mpsc::Receiver<()>>,
}

impl BlockDevice for SlowBase {
    fn size_bytes(&self) -> u64 {
        self.content.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        if buf.len() < 4 * KIB {
            self.begun.send(()).unwrap();
            self.answers.lock().unwrap().recv().unwrap();
        }
        self.content.read_at(buf, offset_bytes)
    }
}

#[test]
fn write_that_waits_for_the_base_blocks_neither_other_writes_nor_flushes() {
    let (begun, reads) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    let base = Arc::new(SlowBase {
        content: base(&vec![1; DISK_LEN]),
        begun,
        answers: Mutex::new(answers),
    });
    let disk = Overlay::open(Arc::new(created(&*base)), base).unwrap();
    thread::scope(|scope| {
        // The rest of the subcluster is read from the base.
        let waiting = scope.spawn(|| disk.write_at(&[7; 512], 0));
        reads.recv().unwrap();
        let (sender, receiver) = mpsc::channel();
        let disk = &disk;
        scope.spawn(move || {
            let written = disk.write_at(&[8; 4 * KIB], 8 << 10);
            sender.send(written.and_then(|()| disk.flush())).unwrap();
        });
        let others = receiver.recv_timeout(HANG);
        answer.send(()).unwrap();
        others.expect("the other write waits, too").unwrap();
        waiting.join().unwrap().unwrap();
    });
    let mut found = [0; 4 * KIB];
    disk.read_at(&mut found, 0).unwrap();
    assert!(found[..512] == [7; 512] && found[512..] == [1; 4 * KIB - 512]);
    disk.read_at(&mut found, 8 << 10).unwrap();
    assert!(found == [8; 4 * KIB]);
}

#[test]
fn requests_for_the_base_and_for_the_file_are_expedited_and_cancelled() {
    let base = base(&vec![1; DISK_LEN]);
    let file: Arc<dyn BlockDevice> = Arc::new(created(&*base));
    let disk = Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
    disk.write_at(&[2; 4 * KIB], 0).unwrap();
    disk.flush().unwrap();
    drop(disk);

    let local = |device| LazyDevice::new(device, NonZeroU64::MIN).without_pieces();
    let (base, file) = (Arc::new(local(base)), Arc::new(local(file)));
    let disk = Overlay::open(Arc::clone(&file) as _, Arc::clone(&base) as _).unwrap();
    let (sender, receiver) = mpsc::channel();
    let token = CancelToken::default();
    let read = |offset_bytes| {
        let done = sender.clone();
        let request = Request::read(vec![0; 100], offset_bytes, move |bytes, result| {
            done.send(result.map(|()| bytes[99])).unwrap();
        });
        let request = request.with_priority(Priority::Background);
        disk.submit(vec![request.with_cancel(&token)]);
    };
    for (earlier, (at, expected)) in [(0, 2), (8 << 10, 1)].into_iter().enumerate() {
        read(at);
        assert_eq!(base.waiting() + file.waiting(), earlier + 1);
        disk.expedite(at, 100);
        assert_eq!(receiver.try_recv().unwrap().unwrap(), expected);
        read(at);
    }
    assert_eq!((base.waiting(), file.waiting()), (1, 1));
    token.cancel();
    disk.cancel_in_flight();
    for result in receiver.try_iter().collect::<Vec<_>>() {
        assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    }
    assert_eq!((base.waiting(), file.waiting()), (0, 0));
}

#[test]
fn bytes_that_were_never_written_are_unchanged() {
    const START: u64 = 8 * 512;
    let content = vec![1; DISK_LEN];
    let base = base(&content);
    let disk: Arc<dyn BlockDevice> =
        Arc::new(Overlay::open(Arc::new(created(&*base)), base).unwrap());
    let size_bytes = disk.size_bytes();
    assert_eq!(disk.unchanged_bytes(0, size_bytes), size_bytes);
    // A write of the same content counts as a change.
    disk.write_at(&[1; 512], 10 * 4096).unwrap();
    let range = FileRange {
        offset_bytes: START,
        size_bytes: None,
    };
    let part = PartDevice::new(Arc::clone(&disk), range).unwrap();
    for (offset_bytes, unchanged_bytes) in [
        (0, 10 * 4096),
        (10 * 4096 - 1, 1),
        (10 * 4096, 0),
        (11 * 4096 - 1, 0),
        (11 * 4096, size_bytes - 11 * 4096),
    ] {
        let len_bytes = size_bytes - offset_bytes;
        let found = disk.unchanged_bytes(offset_bytes, len_bytes);
        assert_eq!(found, unchanged_bytes, "{offset_bytes}");
        if let Some(in_part) = offset_bytes.checked_sub(START) {
            assert_eq!(part.unchanged_bytes(in_part, len_bytes), found);
        }
    }
    assert_eq!(disk.unchanged_bytes(0, 100), 100);
    assert_eq!(disk.unchanged_bytes(0, size_bytes + 1), 0);
    assert_eq!(part.unchanged_bytes(0, size_bytes), 0);
}

#[test]
fn each_gib_of_a_large_disk_has_its_own_table() {
    const SIZE_BYTES: u64 = (3 << 30) + 512;
    let base: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::zeros(SIZE_BYTES));
    let file: Arc<dyn BlockDevice> = Arc::new(created(&*base));
    let open = || Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
    let disk = open();
    // At the start, across the ends of two tables, and at the end.
    let starts = [0, (1 << 30) - 2000, (2 << 30) - 100_000, SIZE_BYTES - 5000];
    for (number, start) in (1..).zip(starts) {
        disk.write_at(&[number; 5000], start).unwrap();
        if number % 2 == 0 {
            disk.flush().unwrap();
        }
    }
    let check = |disk: &Overlay| {
        for (number, start) in (1_u8..).zip(starts) {
            let mut bytes = [0; 5000];
            disk.read_at(&mut bytes, start).unwrap();
            assert_eq!(bytes, [number; 5000]);
        }
        let ranges = disk.changes();
        assert_eq!(ranges.len(), starts.len());
        for (range, start) in ranges.iter().zip(starts) {
            assert!(
                range.start <= start
                    && start + 5000 <= range.end
                    && range.end - range.start <= 12288
            );
        }
    };
    check(&disk);
    disk.flush().unwrap();
    drop(disk);
    check(&open());
}

#[test]
fn other_base_is_refused() {
    let content = vec![1; DISK_LEN];
    let file: Arc<dyn BlockDevice> = Arc::new(created(&*base(&content)));
    let mut other = content.clone();
    other[1500] = 2;
    let longer = vec![1; DISK_LEN + 512];
    for (other, is_same) in [(&content, true), (&other, false), (&longer, false)] {
        let opened = Overlay::open(Arc::clone(&file), base(other));
        match opened {
            Ok(_) => assert!(is_same),
            Err(error) => {
                assert!(
                    !is_same && matches!(error, OverlayError::OtherBase { .. }),
                    "{error}"
                );
            }
        }
    }
    let raw = base(&content);
    let refused = Overlay::open(Arc::clone(&raw), raw);
    assert!(matches!(refused, Err(OverlayError::NotOverlay)));
}

/// Returns a base, the file of an overlay on it with some changes, and the content of the disk with these changes.
fn changed(random: &mut Random) -> (OverlayDevice, OverlayDevice, Vec<u8>) {
    let mut model = base_content(random);
    let base = OverlayDevice::new(model.clone().into());
    let file = Arc::new(created(&base));
    let disk = Overlay::open(Arc::clone(&file) as _, Arc::new(base.clone())).unwrap();
    for _ in 0..4 {
        let range = any_range(random, 40 * KIB);
        let bytes = random.bytes(range.len());
        write(&disk, random, &bytes, range.start).unwrap();
        model[range].copy_from_slice(&bytes);
    }
    disk.flush().unwrap();
    drop(disk);
    (base, OverlayDevice::clone(&file), model)
}

#[test]
fn overlay_with_a_begun_commit_can_only_be_committed() {
    let mut random = Random::new(Seed::announced(0x0E06));
    let (base, file, model) = changed(&mut random);
    let file: Arc<dyn BlockDevice> = Arc::new(file);
    let base: Arc<dyn BlockDevice> = Arc::new(base);
    let open = || Overlay::open(Arc::clone(&file), Arc::clone(&base));
    let commit =
        |base: &Arc<dyn BlockDevice>, name: &[u8]| Overlay::commit(&file, base, name, |_, _| ());
    let faulty: Arc<dyn BlockDevice> = Arc::new(FaultyDevice::new(Arc::clone(&base)).fail_write(0));
    let interrupted = commit(&faulty, b"/base");
    assert!(matches!(interrupted, Err(OverlayError::Base(_))));
    assert!(matches!(open(), Err(OverlayError::Committing { .. })));
    assert!(matches!(
        Overlay::info(&*file).unwrap().commit,
        CommitState::Begun { .. }
    ));
    // Other bases: one has another size, and one has another content.
    for (other_len, name) in [(DISK_LEN + 512, "/base"), (DISK_LEN, "/other")] {
        let other: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::zeros(other_len as u64));
        let refused = commit(&other, name.as_bytes());
        match &refused {
            Err(
                OverlayError::Committing { recorded }
                | OverlayError::ChangedInCommit { recorded, .. },
            ) => assert_eq!(recorded, b"/base"),
            _ => panic!("{refused:?}"),
        }
        assert!(read_all(&*other).iter().all(|&byte| byte == 0));
    }
    // The base was renamed.
    let mut copied = Vec::new();
    let total = Overlay::commit(&file, &base, b"/renamed", |done, all| {
        copied.push((done, all));
    });
    let total = total.unwrap();
    assert_eq!(copied.last(), Some(&(total, total)));
    assert!(read_all(&*base) == model);
    assert!(matches!(open(), Err(OverlayError::Committed)));
    let again = commit(&base, b"/base");
    assert!(matches!(again, Err(OverlayError::Committed)));
}

/// Earlier versions recorded no checksums with which a base could be recognized.
#[test]
fn commit_without_checksums_needs_the_same_name() {
    let mut random = Random::new(Seed::announced(0x0E0A));
    let (base, file, model) = changed(&mut random);
    let file: Arc<dyn BlockDevice> = Arc::new(file);
    let base: Arc<dyn BlockDevice> = Arc::new(base);
    let commit =
        |base: &Arc<dyn BlockDevice>, name: &[u8]| Overlay::commit(&file, base, name, |_, _| ());
    let faulty: Arc<dyn BlockDevice> = Arc::new(FaultyDevice::new(Arc::clone(&base)).fail_write(0));
    assert!(commit(&faulty, b"/base").is_err());
    // The flags are the first 8 bytes of the extension of Larder. The last of them has the flag of the checksums.
    let mut head = [0; 512];
    file.read_at(&mut head, 0).unwrap();
    let extension = head.windows(4).position(|kind| kind == b"LARD").unwrap();
    let flags = extension + 8 + 7;
    file.write_at(&[head[flags] & !(1 << 3)], flags as u64)
        .unwrap();
    let other = commit(&base, b"/other");
    assert!(
        matches!(&other, Err(OverlayError::Committing { recorded }) if recorded == b"/base"),
        "{other:?}"
    );
    commit(&base, b"/base").unwrap();
    assert!(read_all(&*base) == model);
}

/// Returns the offset at which a commit was refused because the base was changed.
fn changed_at(result: &Result<u64, OverlayError>) -> Option<u64> {
    match result {
        Err(OverlayError::ChangedInCommit { offset_bytes, .. }) => Some(*offset_bytes),
        _ => None,
    }
}

#[test]
fn commit_is_continued_only_if_its_base_is_unchanged_since() {
    let mut random = Random::new(Seed::announced(0x0E07));
    for _ in 0..20 {
        let (base, file, model) = changed(&mut random);
        let content = read_all(&base);
        let file: Arc<dyn BlockDevice> = Arc::new(file);
        let base: Arc<dyn BlockDevice> = Arc::new(base);
        let commit =
            |base: &Arc<dyn BlockDevice>| Overlay::commit(&file, base, b"/base", |_, _| ());
        let disk = Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
        let changes = disk.changes();
        drop(disk);
        let call = random.below(changes.len() as u64);
        let failing = &changes[usize::try_from(call).unwrap()];
        // A failed write leaves half of its bytes, which must not divide a sector.
        if !((failing.end - failing.start) / 2).is_multiple_of(512) {
            continue;
        }
        let faulty: Arc<dyn BlockDevice> =
            Arc::new(FaultyDevice::new(Arc::clone(&base)).fail_write(call));
        assert!(commit(&faulty).is_err());
        // Changes one byte of a sector that the commit writes.
        let left = read_all(&*base);
        let range = random.choose(&changes).unwrap();
        let at = range.start + random.below(range.end - range.start);
        let index = usize::try_from(at).unwrap();
        let other = left[index] ^ 1;
        base.write_at(&[other], at).unwrap();
        let present = read_all(&*base);
        let refused = commit(&base);
        assert_eq!(changed_at(&refused), Some(at - at % 512), "{refused:?}");
        assert!(read_all(&*base) == present);
        // The base gets its original content, or the content that the interrupted commit has left.
        let restored = if random.below(2) == 0 {
            &content
        } else {
            &left
        };
        base.write_at(restored, 0).unwrap();
        commit(&base).unwrap();
        assert!(read_all(&*base) == model);
    }
}

#[test]
fn continued_commit_checks_every_sector_that_it_writes_and_keeps_the_others() {
    const MIB: u64 = 1 << 20;
    let base = OverlayDevice::zeros(40 * MIB);
    let file: Arc<dyn BlockDevice> = Arc::new(created(&base));
    let base: Arc<dyn BlockDevice> = Arc::new(base);
    let disk = Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
    // More than 8 MiB, then two blocks.
    let new = vec![7; 9 << 20];
    let blocks = [20 * MIB, 30 * MIB];
    disk.write_at(&new, MIB).unwrap();
    for at in blocks {
        disk.write_at(&new[..4 * KIB], at).unwrap();
    }
    disk.flush().unwrap();
    drop(disk);
    let faulty: Arc<dyn BlockDevice> = Arc::new(FaultyDevice::new(Arc::clone(&base)).fail_write(2));
    let interrupted = Overlay::commit(&file, &faulty, b"/base", |_, _| ());
    assert!(matches!(interrupted, Err(OverlayError::Base(_))));

    let recorder = Arc::new(RecordingDevice::new(Arc::clone(&base)));
    let target: Arc<dyn BlockDevice> = Arc::clone(&recorder) as _;
    let read = |at| {
        let mut byte = [0];
        base.read_at(&mut byte, at).unwrap();
        byte[0]
    };
    // These bytes are written, not written yet, past the first 8 MiB, in each block, and at the ends of changes.
    for at in [
        MIB + 5000,
        4 * MIB,
        9 * MIB + 12_345,
        10 * MIB - 1,
        blocks[0],
        blocks[1] + 2000,
        blocks[1] + 4095,
    ] {
        let left = read(at);
        base.write_at(&[99], at).unwrap();
        let refused = Overlay::commit(&file, &target, b"/base", |_, _| ());
        assert_eq!(changed_at(&refused), Some(at - at % 512), "{refused:?}");
        assert_eq!((recorder.change_count(), read(at)), (0, 99));
        base.write_at(&[left], at).unwrap();
    }
    // A byte of another file system on the same disk.
    base.write_at(&[99], 25 * MIB).unwrap();
    Overlay::commit(&file, &target, b"/base", |_, _| ()).unwrap();
    assert_eq!([read(25 * MIB), read(blocks[0] - 1)], [99, 0]);
    let mut written = vec![0; new.len()];
    base.read_at(&mut written, MIB).unwrap();
    assert!(written == new);
    for at in blocks {
        base.read_at(&mut written[..4 * KIB], at).unwrap();
        assert!(written[..4 * KIB] == new[..4 * KIB]);
        written[..4 * KIB].fill(0);
    }
}

#[test]
fn commit_that_cannot_record_checksums_changes_nothing() {
    let mut random = Random::new(Seed::announced(0x0E09));
    let (base, file, model) = changed(&mut random);
    let content = read_all(&base);
    let file: Arc<dyn BlockDevice> = Arc::new(file);
    let base: Arc<dyn BlockDevice> = Arc::new(base);
    let full = FaultyDevice::new(Arc::clone(&file)).fail_write(0);
    let full: Arc<dyn BlockDevice> = Arc::new(full);
    let failed = Overlay::commit(&full, &base, b"/base", |_, _| ());
    assert!(matches!(failed, Err(OverlayError::Device(_))), "{failed:?}");
    assert!(read_all(&*base) == content);
    // The overlay can still be used, and stores new clusters where the checksums were.
    let disk = Overlay::open(Arc::clone(&file), Arc::clone(&base)).unwrap();
    assert!(read_all(&disk) == model);
    let new = random.bytes(DISK_LEN);
    disk.write_at(&new, 0).unwrap();
    disk.flush().unwrap();
    drop(disk);
    Overlay::commit(&file, &base, b"/base", |_, _| ()).unwrap();
    assert!(read_all(&*base) == new);
}

/// A device that records its changes, and their order among the changes of another device.
#[derive(Debug)]
struct Ordered {
    recorder: RecordingDevice,
    number: usize,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Ordered {
    fn new(device: &OverlayDevice, number: usize, order: &Arc<Mutex<Vec<usize>>>) -> Arc<Self> {
        Arc::new(Self {
            recorder: RecordingDevice::new(Arc::new(device.clone())),
            number,
            order: Arc::clone(order),
        })
    }
}

impl BlockDevice for Ordered {
    fn size_bytes(&self) -> u64 {
        self.recorder.size_bytes()
    }

    fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.recorder.read_at(buf, offset_bytes)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn write_at(&self, buf: &[u8], offset_bytes: u64) -> larder_block::Result<()> {
        self.recorder.write_at(buf, offset_bytes)?;
        self.order.lock().unwrap().push(self.number);
        Ok(())
    }

    fn flush(&self) -> larder_block::Result<()> {
        self.recorder.flush()?;
        self.order.lock().unwrap().push(self.number);
        Ok(())
    }
}

/// Returns a content that `device` can have if power is lost after the first `done` of its `changes`. If `is_next`, the
/// following change had begun.
fn after_cut(
    device: &OverlayDevice,
    changes: &[ChangeRecord],
    done: usize,
    is_next: bool,
    seed: u64,
) -> OverlayDevice {
    let mut cuts = PowerCuts::new(device, &changes[..done + usize::from(is_next)]);
    cuts.advance_to(done).unwrap();
    if seed == 0 {
        cuts.all_written()
    } else {
        cuts.reordered(seed).unwrap()
    }
}

#[test]
fn commit_can_be_continued_after_power_cuts() {
    let (mut before, mut during, mut after) = (0, 0, 0);
    for seed in Seed::parts_from_environment(0x0E08).take(4) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let (base, file, model) = changed(&mut random);
        let content = read_all(&base);
        // The name is longer than a sector, and differs from the recorded one.
        let name = vec![b'n'; 1000];
        let commit = |file: &Arc<dyn BlockDevice>, base: &Arc<dyn BlockDevice>| {
            Overlay::commit(file, base, &name, |_, _| ())
        };
        let order = Arc::new(Mutex::new(Vec::new()));
        let devices = [&file, &base];
        let ordered = [0, 1].map(|number| Ordered::new(devices[number], number, &order));
        let [to_file, to_base] = ordered.each_ref().map(|device| {
            let device: Arc<dyn BlockDevice> = Arc::clone(device) as _;
            device
        });
        commit(&to_file, &to_base).unwrap();
        let order = std::mem::take(&mut *order.lock().unwrap());
        let changes = ordered.map(|device| device.recorder.take_changes());
        for position in 0..=order.len() {
            for number in 0..8 {
                let name = format!("seed {seed}, cut {position}, state {number}");
                let [file, base] = [0, 1].map(|device| {
                    let done = order[..position].iter().filter(|&&one| one == device);
                    let is_next = order.get(position) == Some(&device);
                    let choice = match number {
                        0 => 0,
                        number => seed.0 ^ (position as u64) << 8 ^ number << 1 ^ device as u64,
                    };
                    let (changes, count) = (&changes[device], done.count());
                    after_cut(devices[device], changes, count, is_next, choice)
                });
                let (file, base): (Arc<dyn BlockDevice>, Arc<dyn BlockDevice>) =
                    (Arc::new(file), Arc::new(base));
                match Overlay::open(Arc::clone(&file), Arc::clone(&base)) {
                    Ok(disk) => {
                        before += 1;
                        assert!(read_all(&*base) == content, "{name}");
                        assert!(read_all(&disk) == model, "{name}");
                    }
                    Err(OverlayError::Committing { .. }) => during += 1,
                    Err(OverlayError::Committed) => {
                        after += 1;
                        assert!(read_all(&*base) == model, "{name}");
                        continue;
                    }
                    Err(error) => panic!("{name}: {error}"),
                }
                commit(&file, &base).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(read_all(&*base) == model, "{name}");
            }
        }
    }
    let counts = format!("{before} {during} {after}");
    assert!(before > 50 && during > 50 && after > 20, "{counts}");
}

#[test]
fn tables_that_refer_to_a_cluster_twice_or_outside_are_refused() {
    let content = vec![1; DISK_LEN];
    let base = base(&content);
    let file = Arc::new(created(&*base));
    let disk = Overlay::open(Arc::clone(&file) as _, Arc::clone(&base)).unwrap();
    disk.write_at(&[7; 4096], 0).unwrap();
    disk.write_at(&[7; 4096], 300_000).unwrap();
    disk.flush().unwrap();
    drop(disk);
    let word = |at: u64| {
        let mut bytes = [0; 8];
        file.read_at(&mut bytes, at).unwrap();
        u64::from_be_bytes(bytes)
    };
    // The L1 table is the third cluster.
    let (cluster, reference) = (128 << 10, 1 << 63);
    let table = word(2 * cluster) ^ reference;
    let data = word(table) ^ reference;
    for (at, value) in [
        (table + 32, data),
        (table + 32, table),
        (table + 32, 0),
        (table + 32, data + 512),
        (table + 32, 1 << 50),
        (2 * cluster, data),
        (2 * cluster, 1 << 50),
    ] {
        let damaged = OverlayDevice::clone(&file);
        let value: u64 = value;
        let value = if value == 0 { 0 } else { value | reference };
        damaged.write_at(&value.to_be_bytes(), at).unwrap();
        let opened = Overlay::open(Arc::new(damaged), Arc::clone(&base));
        let is_empty_entry_with_subclusters = value == 0;
        match opened {
            Err(OverlayError::Damaged(_) | OverlayError::Device(_)) => {}
            other => panic!("{at}, {value:#x}, {is_empty_entry_with_subclusters}: {other:?}"),
        }
    }
}

/// Opens the overlay at `path` on the raw image at `base`, and creates it if it does not exist.
fn open_files(path: &Path, base: &Path) -> Overlay {
    let base_device: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(base, FileRange::default()).unwrap());
    let is_new = !path.exists();
    if is_new {
        fs::write(path, []).unwrap();
    }
    let max_bytes = Overlay::max_file_bytes(base_device.size_bytes()).unwrap();
    let file = Arc::new(FileDevice::open_growing(path, max_bytes).unwrap());
    if is_new {
        let name = base.to_str().unwrap().as_bytes().to_vec();
        Overlay::create(&*file, &*base_device, name, "raw".to_owned()).unwrap();
    }
    Overlay::open(file, base_device).unwrap()
}

fn check(path: &Path) {
    Tool::new("qemu-img")
        .args(["check", "-q"])
        .arg(path)
        .run()
        .unwrap();
}

/// Returns the disk in the overlay at `path`, as qemu-io prints it.
fn read_by_qemu_io(path: &Path) -> Vec<u8> {
    let read = Tool::new("qemu-io").args(["-r", "-f", "qcow2", "-c"]);
    let read = read.arg(format!("read -v 0 {DISK_LEN}")).arg(path);
    let printed = read.run().unwrap();
    // For each 16 bytes, a line with their offset, their hexadecimal digits and their characters.
    let rows = printed.lines().filter_map(|line| line.split_once(":  "));
    let digits = rows.flat_map(|(_, row)| row.split(' ').take(16));
    digits
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn qemu_reads_the_overlay_and_finds_no_error() {
    if skip(QEMU) {
        return;
    }
    let mut random = Random::new(Seed::announced(0x0E04));
    let dir = tempfile::tempdir().unwrap();
    let paths = ["base.img", "changes.qcow2", "converted"].map(|name| dir.path().join(name));
    let [base, path, converted] = &paths;
    let mut model = base_content(&mut random);
    fs::write(base, &model).unwrap();
    for _ in 0..5 {
        let disk = open_files(path, base);
        for _ in 0..10 {
            let range = any_range(&mut random, 100 * KIB);
            let mut bytes = vec![0; range.len()];
            random.fill(&mut bytes);
            write(&disk, &mut random, &bytes, range.start).unwrap();
            model[range].copy_from_slice(&bytes);
        }
        disk.flush().unwrap();
        drop(disk);
        check(path);
        let convert = Tool::new("qemu-img").args(["convert", "-O", "raw"]);
        convert.arg(path).arg(converted).run().unwrap();
        assert!(fs::read(converted).unwrap() == model);
        assert!(read_by_qemu_io(path) == model);
    }
    // Once another program has written to it, Larder refuses it.
    let write = Tool::new("qemu-io").args(["-c", "write -P 7 0 64k"]);
    write.arg(path).run().unwrap();
    let file = Arc::new(FileDevice::open(path, FileRange::default()).unwrap());
    let base = Arc::new(FileDevice::open(base, FileRange::default()).unwrap());
    let refused = Overlay::open(file, base);
    assert!(matches!(refused, Err(OverlayError::Foreign)), "{refused:?}");
}

#[test]
fn overlay_caches_writes_if_its_file_does() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("disk.img");
    fs::write(&disk, vec![1; DISK_LEN]).unwrap();
    let base: Arc<dyn BlockDevice> =
        Arc::new(FileDevice::open(&disk, FileRange::default()).unwrap());
    assert!(base.caches_writes());
    let in_memory = Overlay::open(Arc::new(created(&*base)), base).unwrap();
    assert!(!in_memory.caches_writes());
    let in_file = open_files(&dir.path().join("changes.qcow2"), &disk);
    assert!(in_file.caches_writes());
}

#[test]
fn overlay_has_the_late_writes_of_its_file() {
    let base = base(&vec![1; DISK_LEN]);
    let silent = Arc::new(ReorderingDevice::new(Arc::new(created(&*base)), 1));
    let limited = DeadlineDevice::new(Arc::clone(&silent) as _, Duration::from_hours(1));
    let file: Arc<dyn BlockDevice> = Arc::new(limited);
    let overlay = Overlay::open(Arc::clone(&file), base).unwrap();
    assert!(!overlay.has_late_writes());
    silent.silence(0..u64::MAX);
    file.submit(vec![Request::write(vec![0; 1], 0, |_, _| ())]);
    assert!(overlay.has_late_writes());
}

#[test]
fn clusters_lost_at_a_power_cut_are_freed() {
    if skip(QEMU) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [base, path] = ["base.img", "changes.qcow2"].map(|name| dir.path().join(name));
    fs::write(&base, vec![1; DISK_LEN]).unwrap();
    let disk = open_files(&path, &base);
    disk.write_at(&[7; 4096], 0).unwrap();
    disk.flush().unwrap();
    drop(disk);
    // Sets the reference count of the tenth cluster, to which no table refers. The sixth and later clusters are not
    // fixed.
    let mut bytes = fs::read(&path).unwrap();
    let counts = 3 * 128 * KIB;
    bytes[counts + 2 * 9 + 1] = 1;
    bytes.resize(10 * 128 * KIB, 0);
    fs::write(&path, &bytes).unwrap();
    let leaky = Tool::new("qemu-img").args(["check", "-q"]).arg(&path).run();
    assert!(leaky.is_err());
    open_files(&path, &base).flush().unwrap();
    check(&path);
}

/// The file of an overlay with some changes. Its base is zero.
static CHANGED: LazyLock<OverlayDevice> = LazyLock::new(|| {
    let base = base(&vec![0; DISK_LEN]);
    let file = Arc::new(created(&*base));
    let disk = Overlay::open(Arc::clone(&file) as _, base).unwrap();
    for start in [0, 5000, 200 * KIB, 400 * KIB] {
        disk.write_at(&[7; 9000], start as u64).unwrap();
    }
    disk.flush().unwrap();
    OverlayDevice::clone(&file)
});

/// Returns a copy of [`CHANGED`], the offset of its first content, and the end of its last subcluster.
fn changed_file() -> (Arc<dyn BlockDevice>, u64, u64) {
    let file = CHANGED.clone();
    let mut bytes = vec![0; usize::try_from(file.size_bytes()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    let content = |byte: &u8| *byte == 7;
    // The header can have such a byte, too, but the reference counts and the L2 table after the L1 table have none.
    let tables = 3 * 128 * KIB;
    let first = tables + bytes[tables..].iter().position(content).unwrap();
    let last = bytes.iter().rposition(content).unwrap();
    let end = (last + 1).next_multiple_of(4 * KIB);
    (Arc::new(file), first as u64, end as u64)
}

#[test]
fn truncated_overlay_is_refused_when_it_is_opened() {
    let (file, first, end) = changed_file();
    let open = |len_bytes| {
        let file = FaultyDevice::new(Arc::clone(&file)).shorten_to(len_bytes);
        Overlay::open(Arc::new(file), base(&vec![0; DISK_LEN]))
    };
    open(end).unwrap();
    // Without the last byte, without any content, and without a table.
    for len_bytes in [end - 1, first, 2 * 128 * KIB as u64] {
        let refused = open(len_bytes);
        assert!(
            matches!(refused, Err(OverlayError::Truncated)),
            "{len_bytes}: {refused:?}"
        );
    }
    assert!(matches!(open(100), Err(OverlayError::NotOverlay)));
    // A growing file, as it is opened for writing.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("changes.qcow2");
    let mut bytes = vec![0; usize::try_from(end - 1).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    fs::write(&path, bytes).unwrap();
    let growing = FileDevice::open_growing(&path, file.size_bytes()).unwrap();
    let refused = Overlay::open(Arc::new(growing), base(&vec![0; DISK_LEN]));
    assert!(
        matches!(refused, Err(OverlayError::Truncated)),
        "{refused:?}"
    );
}

#[test]
fn errors_of_the_file_and_of_the_base_differ() {
    let (file, first, _) = changed_file();
    let zeros = || base(&vec![0; DISK_LEN]);
    let faulty = |bytes| Arc::new(FaultyDevice::new(Arc::clone(&file)).fail_range(bytes));
    // The L1 table.
    let table = 2 * 128 * KIB as u64;
    let refused = Overlay::open(faulty(table..table + 1), zeros());
    assert!(
        matches!(refused, Err(OverlayError::Device(_))),
        "{refused:?}"
    );
    let faulty_base = |call| Arc::new(FaultyDevice::new(zeros()).fail_read(call));
    let refused = Overlay::open(Arc::clone(&file), faulty_base(0));
    assert!(matches!(refused, Err(OverlayError::Base(_))), "{refused:?}");

    let read = |disk: &Overlay, offset_bytes| {
        let direct = disk.read_at(&mut [0; 100], offset_bytes).unwrap_err();
        let (sender, receiver) = mpsc::channel();
        let done = move |_: Vec<u8>, result| sender.send(result).unwrap();
        let request = Request::read(vec![0; 100], offset_bytes, done);
        disk.perform(vec![request], disk.timeout()).unwrap();
        let requested = receiver.recv().unwrap().unwrap_err();
        assert_eq!(direct.to_string(), requested.to_string());
        direct.to_string()
    };
    let disk = Overlay::open(faulty(first..first + 1), zeros()).unwrap();
    let error = read(&disk, 0);
    assert!(
        error.contains("in the overlay: Input/output error"),
        "{error}"
    );
    // The first read of the base is for its version.
    let bad: Arc<dyn BlockDevice> = Arc::new(FaultyDevice::new(zeros()).fail_read(1).fail_read(2));
    let disk = Overlay::open(Arc::clone(&file), bad).unwrap();
    let error = read(&disk, 600 * KIB as u64);
    assert!(
        error.contains("Input/output error") && !error.contains("overlay"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(proptest_config!(0x0E05, cases: 500))]

    #[test]
    fn damaged_overlay_works_or_fails(
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let file = CHANGED.clone();
        let mut bytes = vec![0; usize::try_from(file.size_bytes()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        // Tables are sparse: most bytes that matter are not zero, and content does not matter.
        let used: Vec<usize> = (0..bytes.len()).filter(|&at| ![0, 7].contains(&bytes[at])).collect();
        for (at, value) in patches {
            file.write_at(&[value], used[at.index(used.len())] as u64).unwrap();
        }
        let base = base(&vec![0; DISK_LEN]);
        if let Ok(disk) = Overlay::open(Arc::new(file), base) {
            let mut read = vec![0; DISK_LEN];
            let _ = disk.read_at(&mut read, 0);
            let _ = disk.write_at(&read[..300 * KIB], 100);
            let _ = disk.flush();
            let _ = disk.changes();
        }
    }
}
