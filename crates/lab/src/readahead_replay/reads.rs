//! The reads of a trace, in the form that the simulator executes.
//!
//! Each thread of the recording becomes a reader. It starts at the recorded time of its first read, and pauses between
//! reads as long as it did in the recording ([`ThinkTimes`]), however long the simulated reads take. Files are
//! on the device one after the other, in the order of their first reads.
//!
//! The reads can be divided into parts, which are replayed one after the other with the same cache. At the start of a part,
//! all files are opened anew, and times count from its first read.
//!
//! # Cost
//! A read takes 40 bytes.

use crate::simulator::FileId;
use crate::trace::{Error, Reader, ThinkTimes, TraceReader};
use crate::workload::{Jobs, OpenFileId, Operation, ReaderJob};
use larder_trace::{Batch, FilePath, FileRead, TraceInfo};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A simulated file has at most this size after the last byte that is read, so that sparse files fit on the device.
/// It is larger than any readahead window.
const MARGIN_BYTES: u64 = 64 << 20;

/// The number of reads that [`TraceReads`] keeps by default.
pub const MAX_READS: u64 = 4 << 20;

/// The reads of a trace.
#[derive(Clone, Debug)]
pub struct TraceReads {
    /// Whether all reads of a file share one readahead state, as on a mount, if they have no number of an open file. If
    /// not, each thread is assumed to have opened the file itself.
    shares_states: bool,
    max_reads: u64,
    kept: u64,
    total: u64,
    files: Vec<File>,
    file_numbers: HashMap<(u32, u64), u32>,
    open_files: Vec<u32>,
    open_file_numbers: HashMap<OpenFile, u32>,
    readers: HashSet<Reader>,
    /// Only the last one can be empty.
    parts: Vec<Part>,
}

/// Consecutive reads.
#[derive(Clone, Debug, Default)]
struct Part {
    first_ns: u64,
    last_ns: u64,
    think_times: ThinkTimes,
    threads: Vec<Thread>,
    thread_numbers: HashMap<Reader, usize>,
}

/// The size of a file, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct File {
    recorded_bytes: u64,
    read_end_bytes: u64,
}

/// An open file: its number in [`TraceReads::files`], and what distinguishes it from other open files of this file.
type OpenFile = (u32, Opener);

/// What distinguishes the open files of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Opener {
    Stream(u64),
    Thread(Reader),
    All,
}

/// The reads of a thread.
#[derive(Clone, Debug)]
struct Thread {
    start_ns: u64,
    reads: Arc<Vec<Read>>,
}

/// A read of a thread.
#[derive(Clone, Copy, Debug)]
struct Read {
    think_ns: u64,
    offset_bytes: u64,
    open_file: u32,
    len_bytes: u32,
    is_fault: bool,
}

impl TraceReads {
    /// Creates an empty list for the reads of a trace with `info`, which keeps the first `max_reads`.
    #[must_use]
    pub fn new(info: &TraceInfo, max_reads: u64) -> Self {
        Self {
            shares_states: info.mount.is_some(),
            max_reads,
            kept: 0,
            total: 0,
            files: Vec::new(),
            file_numbers: HashMap::new(),
            open_files: Vec::new(),
            open_file_numbers: HashMap::new(),
            readers: HashSet::new(),
            parts: vec![Part::default()],
        }
    }

    /// Reads the first `max_reads` reads of a trace.
    ///
    /// # Errors
    /// Returns the errors of [`TraceReader::read`].
    pub fn of(reader: &mut TraceReader, max_reads: u64) -> Result<Self, Error> {
        let mut reads = Self::new(reader.info(), max_reads);
        let mut batch = Batch::default();
        while reader.read(&mut batch)? {
            reads.add(&batch);
        }
        Ok(reads)
    }

    /// Adds the reads of a batch.
    pub fn add(&mut self, batch: &Batch) {
        batch.reads().for_each(|read| self.push(&read));
        batch.paths().for_each(|path| self.push_size(&path));
    }

    /// Adds a read. The reads must be added in the order of the trace.
    pub fn push(&mut self, read: &FileRead) {
        self.total += 1;
        if self.kept == self.max_reads || read.len_bytes == 0 {
            return;
        }
        self.kept += 1;
        let file = self.file(read);
        let reader = Reader::of(read);
        let open_file = self.open_file(file, reader, read.stream);
        self.readers.insert(reader);
        if let Some(part) = self.parts.last_mut() {
            part.push(read, open_file);
        }
    }

    /// Begins the next part, if the current one has reads.
    pub fn begin_part(&mut self) {
        if self.parts.last().is_some_and(|part| !part.is_empty()) {
            self.parts.push(Part::default());
        }
    }

    /// Adds the size of a file that is known from its path.
    pub fn push_size(&mut self, path: &FilePath) {
        if let Some(number) = self.file_numbers.get(&(path.device, path.inode)) {
            let file = &mut self.files[*number as usize];
            file.recorded_bytes = file.recorded_bytes.max(path.file_bytes);
        }
    }

    /// Returns the number of the file of `read`, and updates its size.
    fn file(&mut self, read: &FileRead) -> u32 {
        let files = &mut self.files;
        let number = *self
            .file_numbers
            .entry((read.device, read.inode))
            .or_insert_with(|| {
                files.push(File::default());
                number_of(files.len() - 1)
            });
        let file = &mut self.files[number as usize];
        let end_bytes = read.offset_bytes.saturating_add(read.len_bytes.into());
        file.read_end_bytes = file.read_end_bytes.max(end_bytes);
        file.recorded_bytes = file.recorded_bytes.max(read.file_bytes);
        number
    }

    fn open_file(&mut self, file: u32, reader: Reader, stream: u64) -> u32 {
        let opener = match stream {
            0 if self.shares_states => Opener::All,
            0 => Opener::Thread(reader),
            stream => Opener::Stream(stream),
        };
        let open_files = &mut self.open_files;
        *self
            .open_file_numbers
            .entry((file, opener))
            .or_insert_with(|| {
                open_files.push(file);
                number_of(open_files.len() - 1)
            })
    }

    /// Returns the number of reads that were added.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of reads that are replayed.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Returns the number of files that are read.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Returns the number of threads that read.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.readers.len()
    }

    /// Returns the number of parts that have reads.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts.iter().filter(|part| !part.is_empty()).count()
    }

    /// Returns the time from the start of the first read to the end of the last read of each part in the recording,
    /// for all parts together.
    #[must_use]
    pub fn recorded_time(&self) -> Duration {
        let parts = self.parts.iter();
        let spans = parts.map(|part| part.last_ns.saturating_sub(part.first_ns));
        Duration::from_nanos(spans.fold(0, u64::saturating_add))
    }

    /// Returns the sizes of all files. If a size was not recorded, the file ends with its last read.
    #[must_use]
    pub fn file_sizes(&self) -> Vec<u64> {
        let size = |file: &File| {
            let most = file.read_end_bytes.saturating_add(MARGIN_BYTES);
            file.recorded_bytes.clamp(file.read_end_bytes, most)
        };
        self.files.iter().map(size).collect()
    }

    /// Returns the operations of all readers in each part that has reads. `files` are the simulated files, in the order of
    /// [`Self::file_sizes`].
    pub(super) fn jobs<'a>(&'a self, files: &'a [FileId]) -> impl Iterator<Item = Jobs> + 'a {
        let parts = self.parts.iter().filter(|part| !part.is_empty());
        parts.map(|part| {
            let open_files = self.open_files.iter().map(|file| files[*file as usize]);
            Jobs::new(open_files.collect(), part.jobs())
        })
    }
}

impl Part {
    fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    fn push(&mut self, read: &FileRead, open_file: u32) {
        if self.is_empty() {
            self.first_ns = read.start_ns();
        }
        self.first_ns = self.first_ns.min(read.start_ns());
        self.last_ns = self.last_ns.max(read.time_ns);
        let think_time = self.think_times.of(read).unwrap_or_default();
        let threads = &mut self.threads;
        let number = *self
            .thread_numbers
            .entry(Reader::of(read))
            .or_insert_with(|| {
                threads.push(Thread {
                    start_ns: read.start_ns(),
                    reads: Arc::default(),
                });
                threads.len() - 1
            });
        // While reads are added, no simulation uses the list, so nothing is copied.
        Arc::make_mut(&mut self.threads[number].reads).push(Read {
            think_ns: u64::try_from(think_time.as_nanos()).unwrap_or(u64::MAX),
            offset_bytes: read.offset_bytes,
            open_file,
            len_bytes: read.len_bytes,
            is_fault: read.is_fault,
        });
    }

    fn jobs(&self) -> Vec<ReaderJob> {
        let jobs = self.threads.iter().map(|thread| ReaderJob {
            start: Duration::from_nanos(thread.start_ns.saturating_sub(self.first_ns)),
            interval: Duration::ZERO,
            operations: Box::new(Operations {
                reads: Arc::clone(&thread.reads),
                next: 0,
                has_thought: false,
            }),
        });
        jobs.collect()
    }
}

/// Converts an index to the number of a file. The reads that are kept are fewer than 2^32.
fn number_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The operations of a thread: a pause, if there was one, and a read, in turn.
struct Operations {
    reads: Arc<Vec<Read>>,
    next: usize,
    has_thought: bool,
}

impl Iterator for Operations {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        let read = *self.reads.get(self.next)?;
        if read.think_ns > 0 && !self.has_thought {
            self.has_thought = true;
            return Some(Operation::Think(Duration::from_nanos(read.think_ns)));
        }
        self.has_thought = false;
        self.next += 1;
        let file = OpenFileId(read.open_file);
        let offset_bytes = read.offset_bytes;
        Some(if read.is_fault {
            Operation::Fault { file, offset_bytes }
        } else {
            Operation::Read {
                file,
                offset_bytes,
                len_bytes: read.len_bytes.into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(thread: u32, stream: u64, inode: u64, offset_bytes: u64, time_ns: u64) -> FileRead {
        FileRead {
            time_ns,
            device: 0,
            inode,
            offset_bytes,
            len_bytes: 4096,
            file_bytes: 0,
            stream,
            thread,
            duration_ns: 10,
            is_fault: false,
        }
    }

    fn of(reads: &[FileRead], is_mount: bool) -> TraceReads {
        let mount = is_mount.then(|| larder_trace::MountInfo {
            cache_bytes: 0,
            readahead: "modern".to_owned(),
            readahead_max_bytes: 0,
            options: Vec::new(),
        });
        let info = TraceInfo {
            mount,
            ..TraceInfo::default()
        };
        let mut list = TraceReads::new(&info, MAX_READS);
        for read in reads {
            list.push(read);
        }
        list
    }

    #[test]
    fn thread_reads_and_pauses_as_in_the_recording() {
        let reads = [read(1, 0, 7, 0, 110), read(1, 0, 7, 4096, 150)];
        let list = of(&reads, true);
        let operations = Operations {
            reads: Arc::clone(&list.parts[0].threads[0].reads),
            next: 0,
            has_thought: false,
        };
        let expected = [
            Operation::read(0, 0, 4096),
            Operation::Think(Duration::from_nanos(30)),
            Operation::read(0, 4096, 4096),
        ];
        assert!(operations.eq(expected));
        assert_eq!(list.recorded_time(), Duration::from_nanos(50));
    }

    #[test]
    fn part_starts_at_its_first_read_without_a_pause() {
        let mut list = of(&[read(1, 0, 7, 0, 110)], true);
        list.begin_part();
        list.begin_part();
        list.push(&read(1, 0, 7, 4096, 5010));
        list.push(&read(2, 0, 8, 0, 5030));
        list.begin_part();
        assert_eq!((list.parts(), list.readers(), list.files()), (2, 2, 2));
        let threads = &list.parts[1].threads;
        assert_eq!(threads[0].reads[0].think_ns, 0);
        let jobs = list.parts[1].jobs();
        let starts: Vec<Duration> = jobs.iter().map(|job| job.start).collect();
        assert_eq!(starts, [Duration::ZERO, Duration::from_nanos(20)]);
        assert_eq!(list.recorded_time(), Duration::from_nanos(10 + 30));
    }

    #[test]
    fn states_are_shared_on_a_mount_unless_files_are_open() {
        let by_inode = [read(1, 0, 7, 0, 10), read(2, 0, 7, 0, 20)];
        assert_eq!(of(&by_inode, true).open_files.len(), 1);
        assert_eq!(of(&by_inode, false).open_files.len(), 2);
        let opened = [read(1, 1, 7, 0, 10), read(1, 2, 7, 0, 20)];
        assert_eq!(of(&opened, true).open_files.len(), 2);
    }

    #[test]
    fn size_of_a_file_is_recorded_or_the_end_of_its_reads() {
        let mut list = of(&[read(1, 0, 7, 8192, 10), read(1, 0, 8, 0, 20)], false);
        assert_eq!(list.file_sizes(), [3 * 4096, 4096]);
        let path = |inode, file_bytes| FilePath {
            time_ns: 30,
            device: 0,
            inode,
            file_bytes,
            path: "/file".into(),
        };
        list.push_size(&path(8, 10_000));
        list.push_size(&path(7, u64::MAX));
        list.push_size(&path(9, 5));
        assert_eq!(list.file_sizes(), [3 * 4096 + MARGIN_BYTES, 10_000]);
    }

    #[test]
    fn reads_above_the_limit_are_counted_only() {
        let mut list = TraceReads::new(&TraceInfo::default(), 2);
        (0..5).for_each(|number| list.push(&read(1, 0, number, 0, number * 100)));
        assert_eq!((list.total(), list.kept(), list.files()), (5, 2, 2));
    }
}
