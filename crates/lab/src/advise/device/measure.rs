//! Measures a device with reads that bypass the page cache of the kernel. Nothing is written.

use super::figures::{DeviceFigures, VERSION};
use crate::run_report::{as_f64, ratio};
use crate::workload::chance::generator;
use rand::Rng;
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Size of a random read, and the alignment of all reads.
const BLOCK_BYTES: usize = 4096;
/// Size of a sequential read.
const CHUNK_BYTES: usize = 1 << 20;
/// Number of random reads that are in progress at the same time in the second measurement.
const DEPTH: usize = 32;
/// The smallest file that is measured: a smaller one would be read repeatedly.
const MIN_BYTES: u64 = 16 << 20;
/// Maximum duration of each measurement.
const SPAN: Duration = Duration::from_secs(2);
/// Maximum number of random reads of each reader.
const MAX_READS: usize = 20_000;
/// Number of flushes.
const FLUSHES: usize = 15;

/// A device cannot be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The file cannot be opened.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The file system of the file does not support direct reads.
    #[error(
        "{path} cannot be read directly (O_DIRECT), so its reads would measure the kernel's page cache"
    )]
    NotDirect {
        /// The path.
        path: String,
    },
    /// Neither a file nor a block device.
    #[error("{path} is neither a file nor a block device")]
    Kind {
        /// The path.
        path: String,
    },
    /// The file is too small or contains too little data.
    #[error(
        "{path} has {bytes} bytes of data (holes do not count, because they are not on the device); at least {MIN_BYTES} \
         are needed"
    )]
    Small {
        /// The path.
        path: String,
        /// The bytes of data.
        bytes: u64,
    },
    /// A read failed.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// The cause.
        source: io::Error,
    },
}

/// Measures the image or block device at `path`. Calls `step` after each of the four measurements. The offsets of
/// random reads depend on `seed`.
///
/// # Errors
/// Returns an error if the file cannot be read directly, or is too small.
pub fn measure(
    path: &Path,
    seed: u64,
    step: &mut dyn FnMut(),
) -> Result<DeviceFigures, MeasureError> {
    let shown = path.display().to_string();
    let target = Target::open(path)?;
    let failed = |source| MeasureError::Read {
        path: shown.clone(),
        source,
    };
    let mut times = target.random_reads(seed, 0).map_err(failed)?;
    times.sort_unstable();
    let sum: Duration = times.iter().sum();
    let mean_ns = ratio(sum.as_secs_f64() * 1e9, as_f64(times.len() as u64));
    let p99 = times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or_default();
    step();
    let random_reads_per_s = target.parallel_reads(seed).map_err(failed)?;
    step();
    let sequential_bytes_per_s = target.sequential_rate().map_err(failed)?;
    step();
    let flush_ns = target.flush_time().map(|time| time.as_secs_f64() * 1e9);
    step();
    Ok(DeviceFigures {
        version: VERSION,
        path: shown,
        size_bytes: target.size_bytes,
        random_read_ns: mean_ns,
        random_read_p99_ns: p99.as_secs_f64() * 1e9,
        random_reads_per_s,
        sequential_bytes_per_s,
        flush_ns,
    })
}

/// A file that is open for direct reads.
#[derive(Debug)]
struct Target {
    file: File,
    size_bytes: u64,
    data: Data,
}

/// The parts of a file that are on the device: whole blocks, without holes.
#[derive(Debug, Default, PartialEq)]
struct Data {
    /// The ranges in bytes, ascending, each with the number of blocks in it and in all ranges before.
    ranges: Vec<(Range<u64>, u64)>,
}

impl Data {
    fn whole(size_bytes: u64) -> Self {
        let mut data = Self::default();
        data.add(0..size_bytes);
        data
    }

    /// Adds the whole blocks in `range`, which must be after the last range.
    fn add(&mut self, range: Range<u64>) {
        let block = BLOCK_BYTES as u64;
        let range = range.start.next_multiple_of(block)..range.end / block * block;
        if !range.is_empty() {
            let blocks = self.blocks() + (range.end - range.start) / block;
            self.ranges.push((range, blocks));
        }
    }

    fn blocks(&self) -> u64 {
        self.ranges.last().map_or(0, |(_, blocks)| *blocks)
    }

    fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_BYTES as u64
    }

    /// Returns the offset of a block, given its number among the blocks with data.
    fn offset(&self, block: u64) -> u64 {
        let at = self.ranges.partition_point(|(_, blocks)| *blocks <= block);
        self.ranges.get(at).map_or(0, |(range, blocks)| {
            range.end - (blocks - block) * BLOCK_BYTES as u64
        })
    }
}

/// Returns the parts of a file that are not holes: the whole file if its file system does not report holes.
fn data_of(file: &File, size_bytes: u64) -> Result<Data, Errno> {
    let mut data = Data::default();
    let mut end = 0;
    while end < size_bytes {
        let start = match rustix::fs::seek(file, SeekFrom::Data(end)) {
            Ok(start) => start,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Data::whole(size_bytes)),
            Err(errno) => return Err(errno),
        };
        end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        if end <= start {
            // The file was truncated meanwhile.
            break;
        }
        data.add(start..end.min(size_bytes));
    }
    Ok(data)
}

impl Target {
    fn open(path: &Path) -> Result<Self, MeasureError> {
        let shown = path.display().to_string();
        let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(path);
        let file = opened.map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::INVAL) => MeasureError::NotDirect {
                path: shown.clone(),
            },
            _ => MeasureError::Open {
                path: shown.clone(),
                source,
            },
        })?;
        let failed = |source| MeasureError::Open {
            path: shown.clone(),
            source,
        };
        let metadata = file.metadata().map_err(failed)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(MeasureError::Kind { path: shown });
        }
        let size_bytes =
            rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|errno| failed(errno.into()))?;
        let data = if kind.is_file() {
            data_of(&file, size_bytes)
        } else {
            Ok(Data::whole(size_bytes))
        };
        let data = data.map_err(|errno| failed(errno.into()))?;
        if data.bytes() < MIN_BYTES {
            return Err(MeasureError::Small {
                path: shown,
                bytes: data.bytes(),
            });
        }
        Ok(Self {
            file,
            size_bytes,
            data,
        })
    }

    /// Reads random blocks one after the other, and returns the time of each read.
    fn random_reads(&self, seed: u64, stream: u64) -> io::Result<Vec<Duration>> {
        let mut random = generator(seed, stream);
        let blocks = self.data.blocks();
        let mut memory = Aligned::new(BLOCK_BYTES);
        let start = Instant::now();
        let mut times = Vec::new();
        while times.len() < MAX_READS && start.elapsed() < SPAN {
            let offset = self.data.offset(random.random_range(0..blocks));
            let before = Instant::now();
            self.file.read_exact_at(memory.bytes(), offset)?;
            times.push(before.elapsed());
        }
        Ok(times)
    }

    /// Returns the number of random reads per second of 32 threads.
    fn parallel_reads(&self, seed: u64) -> io::Result<f64> {
        let start = Instant::now();
        let reads: io::Result<Vec<usize>> = thread::scope(|scope| {
            let readers: Vec<_> = (1..=DEPTH as u64)
                .map(|stream| scope.spawn(move || self.random_reads(seed, stream)))
                .collect();
            let joined = readers.into_iter().map(|reader| {
                let times = reader.join();
                times.unwrap_or_else(|_| Err(io::Error::other("a reader failed")))
            });
            joined.map(|times| times.map(|times| times.len())).collect()
        });
        let reads: usize = reads?.into_iter().sum();
        Ok(ratio(as_f64(reads as u64), start.elapsed().as_secs_f64()))
    }

    /// Returns the bytes per second of sequential reads of the data, from the start of the file.
    fn sequential_rate(&self) -> io::Result<f64> {
        let mut memory = Aligned::new(CHUNK_BYTES);
        let mut bytes = 0;
        let start = Instant::now();
        let ranges = self.data.ranges.iter();
        let chunks = ranges.flat_map(|(range, _)| {
            let starts = range.clone().step_by(CHUNK_BYTES);
            starts.map(move |offset| (offset, range.end - offset))
        });
        for (offset, left) in chunks.take_while(|_| start.elapsed() < SPAN) {
            let len = usize::try_from(left).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            self.file
                .read_exact_at(&mut memory.bytes()[..len], offset)?;
            bytes += len as u64;
        }
        Ok(ratio(as_f64(bytes), start.elapsed().as_secs_f64()))
    }

    /// Returns the median time of a flush; `None` if the device cannot be flushed through this file.
    fn flush_time(&self) -> Option<Duration> {
        let mut times = Vec::new();
        for _ in 0..FLUSHES {
            let before = Instant::now();
            rustix::fs::fdatasync(&self.file).ok()?;
            times.push(before.elapsed());
        }
        times.sort_unstable();
        times.get(FLUSHES / 2).copied()
    }
}

/// Memory at an address that direct reads accept.
#[derive(Debug)]
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn measured_file_is_unchanged_and_has_plausible_figures() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("disk.img");
        let content: Vec<u8> = (0..MIN_BYTES).map(|at| at.to_le_bytes()[1]).collect();
        fs::write(&path, &content).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let mut steps = 0;
        let figures = match measure(&path, 1, &mut || steps += 1) {
            Err(MeasureError::NotDirect { path }) => {
                eprintln!("skipped: no direct reads of {path}");
                return;
            }
            measured => measured.unwrap(),
        };
        assert_eq!((steps, figures.size_bytes), (4, MIN_BYTES));
        assert_eq!(
            DeviceFigures::parse(&serde_json::to_string(&figures).unwrap()).unwrap(),
            figures
        );
        assert!(figures.random_read_p99_ns > 0.0);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        assert!(fs::read(&path).unwrap() == content, "the content changed");
    }

    #[test]
    fn blocks_with_data_are_numbered_without_holes() {
        let block = BLOCK_BYTES as u64;
        let mut data = Data::default();
        // Only whole blocks are measured.
        data.add(block + 1..4 * block + 5);
        data.add(6 * block..6 * block + 1);
        data.add(9 * block..10 * block);
        assert_eq!((data.blocks(), data.bytes()), (3, 3 * block));
        let offsets = [0, 1, 2].map(|number| data.offset(number) / block);
        assert_eq!(offsets, [2, 3, 9]);
    }

    #[test]
    fn holes_of_a_sparse_file_are_not_data() {
        const MIB: u64 = 1 << 20;
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = File::create_new(dir.path().join("sparse.img")).unwrap();
        file.set_len(64 * MIB).unwrap();
        let content = vec![1; 1 << 20];
        for at in [0, 8] {
            file.write_all_at(&content, at * MIB).unwrap();
        }
        file.sync_all().unwrap();
        let data = data_of(&file, 64 * MIB).unwrap();
        let mut expected = Data::default();
        expected.add(0..MIB);
        expected.add(8 * MIB..9 * MIB);
        if data == Data::whole(64 * MIB) {
            eprintln!("skipped: the file system does not report holes");
            return;
        }
        assert_eq!(data, expected);
    }

    #[test]
    fn small_sparse_and_other_files_are_refused() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("sparse.img");
        File::create(&path).unwrap().set_len(1 << 30).unwrap();
        let refused = |path: &Path| measure(path, 1, &mut || {}).unwrap_err().to_string();
        let message = refused(&path);
        assert!(
            message.contains("of data") || message.contains("O_DIRECT"),
            "{message}"
        );
        let message = refused(&dir.path().join("none"));
        assert!(message.contains("cannot open"), "{message}");
        let message = refused(dir.path());
        assert!(
            message.contains("neither") || message.contains("cannot"),
            "{message}"
        );
    }
}
