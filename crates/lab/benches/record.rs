//! Measures the cost of a recording for readers of cached pages, and for callers of a tape.
//!
//! Run it with `cargo bench -p larder-lab --bench record`. Under the tests it runs with small sizes, to
//! verify that it works. Times are only meaningful in the bench profile. The volume with a tape and the
//! one without take turns, so that other load on the machine affects both.

use larder::{Ino, OpenOptions, Volume};
use larder_cache::hash::HashKey;
use larder_cache::tape::{CacheKind, Event, Operation, Tape};
use larder_testkit::e2fsprogs::make_image_of;
use larder_testkit::{Random, Requirement, Seed, skip};
use larder_trace::{Recording, TraceRecorder};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Number of pages of the file that is read.
const PAGES: u64 = 4096;
const PAGE_BYTES: u64 = 4096;
/// Number of events in one sequence: as many as fit until the writer runs.
const EVENTS: u64 = 30_000;
/// Time for the writer to make room for the next sequence.
const PAUSE: Duration = Duration::from_millis(20);

fn main() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, calls) = if is_bench { (41, 500_000) } else { (2, 1000) };
    let dir = tempfile::tempdir().expect("a directory can be created");
    let recorder =
        TraceRecorder::start(&dir.path().join("trace"), "a benchmark", Recording::lossy());
    let recorder = recorder.expect("a trace can be created");
    read_pages(dir.path(), &recorder, rounds, calls);
    for threads in [1, 2] {
        record_events(&recorder.tape(), threads, rounds);
    }
    let outcome = recorder.finish().expect("the trace is written");
    println!("{} events recorded, {} lost", outcome.events, outcome.lost);
}

/// Reads cached pages at random, with and without recording.
fn read_pages(dir: &Path, recorder: &TraceRecorder, rounds: usize, reads: u64) {
    let image = make_image(dir);
    let open = |tape| {
        let mut options = OpenOptions::default();
        options.cache_size_bytes = 8 * PAGES * PAGE_BYTES;
        options.readahead_max_bytes = 0;
        options.tape = tape;
        let volume = Volume::open(&image, &options).expect("the new image can be opened");
        let ino = volume.lookup(Ino(2), b"file").expect("the file exists");
        (volume, ino)
    };
    let volumes = [open(None), open(Some(recorder.tape()))];
    let mut times = [Vec::new(), Vec::new()];
    let mut page = [0; 4096];
    // The first round reads the pages into the cache.
    for round in 0..=rounds {
        for ((volume, ino), times) in volumes.iter().zip(&mut times) {
            let mut random = Random::new(Seed(round as u64));
            let began = processor_time();
            for _ in 0..reads.max(if round == 0 { PAGES } else { 0 }) {
                let offset = random.below(PAGES) * PAGE_BYTES;
                volume
                    .read_at(*ino, &mut page, offset)
                    .expect("the page can be read");
            }
            if round > 0 {
                times.push(processor_time().saturating_sub(began));
            }
        }
    }
    let [plain, taped] = times.map(|times| nanoseconds(times, reads));
    println!(
        "read of a cached page: {:.0} ns, with recording {:.0} ns, {:+.1}% (fastest {:.0} and {:.0} ns, {:+.1}%)",
        plain.median,
        taped.median,
        (taped.median / plain.median - 1.0) * 100.0,
        plain.fastest,
        taped.fastest,
        (taped.fastest / plain.fastest - 1.0) * 100.0,
    );
}

/// Reports lookups that hit, and insertions, to `tape`.
fn record_events(tape: &Arc<dyn Tape>, threads: u64, rounds: usize) {
    for operation in [Operation::Lookup { hit: true }, Operation::Insert] {
        let record = |object: u64| {
            let began = processor_time();
            for index in 0..EVENTS {
                tape.record(Event {
                    cache: CacheKind::Page,
                    operation,
                    key: HashKey { object, index },
                });
            }
            processor_time().saturating_sub(began)
        };
        let mut times = Vec::new();
        for _ in 0..rounds {
            thread::scope(|scope| {
                let record = &record;
                let handles: Vec<_> = (0..threads)
                    .map(|thread| scope.spawn(move || record(thread)))
                    .collect();
                times.extend(
                    handles
                        .into_iter()
                        .map(|one| one.join().expect("the thread does not panic")),
                );
            });
            thread::sleep(PAUSE);
        }
        let time = nanoseconds(times, EVENTS);
        println!(
            "{threads} threads record {operation:?}: {:.0} ns per event (fastest {:.0})",
            time.median, time.fastest
        );
    }
}

/// Creates an image with a file of [`PAGES`].
fn make_image(dir: &Path) -> std::path::PathBuf {
    let (tree, image) = (dir.join("tree"), dir.join("image"));
    std::fs::create_dir(&tree).expect("a directory can be created");
    let content = vec![1; usize::try_from(PAGES * PAGE_BYTES).expect("the size fits in usize")];
    std::fs::write(tree.join("file"), content).expect("the file can be written");
    make_image_of(&tree, &image, "-t ext4", "64M").expect("the image can be created");
    image
}

struct Nanoseconds {
    fastest: f64,
    median: f64,
}

#[expect(clippy::cast_precision_loss, reason = "displayed with few digits")]
fn nanoseconds(mut times: Vec<Duration>, each: u64) -> Nanoseconds {
    times.sort_unstable();
    let of = |time: Duration| time.as_secs_f64() * 1e9 / each as f64;
    Nanoseconds {
        fastest: of(times[0]),
        median: of(times[times.len() / 2]),
    }
}

/// Returns the processor time of this thread so far.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime)
        .try_into()
        .unwrap_or_default()
}
