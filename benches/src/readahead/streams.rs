//! Larder's own readers: many concurrent streams, in a separate process.
//!
//! Each reader checks the pages that it reads. In a stream with a rate limit, each request has a time at
//! which it is due. A stream that is late sends its requests without pauses until it has caught up.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use crate::readahead::image::stream_file;
use crate::tree::{BIG_FILE_NUMBER, PAGE_BYTES, wrong_pages};
use crate::work::{ReadAt, Reading};

/// The stack size of a reader: small enough for hundreds of readers in a control group with little memory.
const STACK_BYTES: usize = 128 << 10;

/// Many streams, each on a file of its own.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Streams {
    /// Number of streams.
    pub streams: u32,
    /// Duration in milliseconds, from the start of the first stream.
    pub milliseconds: u64,
    /// Size of a request, in bytes.
    pub request_bytes: u64,
    /// Number of streams that start each second; 0 = all at once.
    pub starts_per_second: u32,
    /// Maximum rate of a stream; 0 = unlimited.
    pub bytes_per_second: u64,
}

/// Reads the first `bytes` of the big file in `readers` regions, each from start to end. Each region has a
/// reader: a thread with its own open file from `open`. With `one_descriptor`, there is a single reader with
/// one open file, which reads one request of each region in turn.
pub fn interleaved<F: ReadAt>(
    open: impl Fn() -> Result<F> + Sync,
    bytes: u64,
    readers: u32,
    request_bytes: u64,
    one_descriptor: bool,
) -> Result<Reading> {
    let region_bytes = bytes / u64::from(readers.max(1));
    let starts = (0..u64::from(readers)).map(|reader| reader * region_bytes);
    let started = Instant::now();
    let wrong_pages = if one_descriptor {
        let mut reader = Reader::new(open()?, BIG_FILE_NUMBER, request_bytes)?;
        let mut wrong = 0;
        for at in (0..region_bytes).step_by(reader.buf.len()) {
            for start in starts.clone() {
                wrong += reader.read(start + at)?;
            }
        }
        wrong
    } else {
        in_threads(starts, |start| {
            let mut reader = Reader::new(open()?, BIG_FILE_NUMBER, request_bytes)?;
            let mut wrong = 0;
            for at in (0..region_bytes).step_by(reader.buf.len()) {
                wrong += reader.read(start + at)?;
            }
            Ok(wrong)
        })?
    };
    Ok(Reading {
        seconds: started.elapsed().as_secs_f64(),
        bytes: region_bytes * u64::from(readers),
        wrong_pages,
        bytes_by_second: Vec::new(),
    })
}

impl Streams {
    /// Runs the streams on the files below `folder`. A stream that reaches the end of its file starts
    /// again.
    pub fn run(self, folder: &Path) -> Result<Reading> {
        let duration = Duration::from_millis(self.milliseconds);
        let seconds = usize::try_from(self.milliseconds.div_ceil(1000))?;
        let by_second: Vec<AtomicU64> = (0..seconds).map(|_| AtomicU64::new(0)).collect();
        let started = Instant::now();
        let wrong_pages = in_threads(0..self.streams, |number| {
            self.stream(folder, number, started, duration, &by_second)
        })?;
        let bytes_by_second: Vec<u64> = by_second.iter().map(|bytes| bytes.load(Relaxed)).collect();
        Ok(Reading {
            seconds: duration.as_secs_f64(),
            bytes: bytes_by_second.iter().sum(),
            wrong_pages,
            bytes_by_second,
        })
    }

    fn stream(
        self,
        folder: &Path,
        number: u32,
        started: Instant,
        duration: Duration,
        by_second: &[AtomicU64],
    ) -> Result<u64> {
        let path = folder.join(stream_file(number));
        let mut reader = Reader::new(open(&path)?, number, self.request_bytes)?;
        let requests = reader.file.metadata()?.len() / self.request_bytes;
        let own_start = match self.starts_per_second {
            0 => Duration::ZERO,
            starts => Duration::from_secs(u64::from(number)) / starts,
        };
        let mut wrong = 0;
        for request in 0.. {
            let pace = (request * self.request_bytes * 1_000_000)
                .checked_div(self.bytes_per_second)
                .unwrap_or(0);
            let due = own_start + Duration::from_micros(pace);
            if due >= duration {
                break;
            }
            thread::sleep(due.saturating_sub(started.elapsed()));
            wrong += reader.read(request % requests.max(1) * self.request_bytes)?;
            let second = usize::try_from(started.elapsed().as_secs())?;
            let Some(bytes) = by_second.get(second) else {
                break; // Requests that complete after the deadline do not count.
            };
            bytes.fetch_add(self.request_bytes, Relaxed);
        }
        Ok(wrong)
    }
}

/// Opens a file of the image for a reader.
pub fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

/// One reader of a file of the image.
struct Reader<F> {
    file: F,
    number: u32,
    buf: Vec<u8>,
}

impl<F: ReadAt> Reader<F> {
    fn new(file: F, number: u32, request_bytes: u64) -> Result<Self> {
        Ok(Self {
            file,
            number,
            buf: vec![0; usize::try_from(request_bytes.max(1))?],
        })
    }

    /// Reads one request, and returns the number of wrong pages.
    fn read(&mut self, offset_bytes: u64) -> Result<u64> {
        self.file.read_exact(&mut self.buf, offset_bytes)?;
        let page = offset_bytes / PAGE_BYTES as u64;
        Ok(wrong_pages(&self.buf, self.number, page))
    }
}

/// Runs `work` for each of `items` in a separate thread, and returns the sum of the results.
fn in_threads<T: Send>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> Result<u64> + Sync,
) -> Result<u64> {
    let work = &work;
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for item in items {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            threads.push(thread.spawn_scoped(scope, move || work(item))?);
        }
        let mut sum = 0;
        for thread in threads {
            sum += thread.join().map_err(|_| anyhow!("a reader panicked"))??;
        }
        Ok(sum)
    })
}
