//! Think times: the pauses of a thread between two reads.

use larder_trace::FileRead;
use std::collections::HashMap;
use std::time::Duration;

/// The end of the last read of each thread. A trace does not store think times: they follow from the times and durations
/// of reads.
#[derive(Clone, Debug, Default)]
pub struct ThinkTimes(HashMap<Reader, u64>);

/// The reader whose pauses are computed. If the trace does not have the thread, it is the open file or, if that is
/// unknown too, the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// A thread.
    Thread(u32),
    /// An open file.
    Stream(u64),
    /// All readers of a file: a device, and an inode number.
    File(u32, u64),
}

impl Reader {
    /// Returns the reader of `read`.
    #[must_use]
    pub fn of(read: &FileRead) -> Self {
        match (read.thread, read.stream) {
            (0, 0) => Self::File(read.device, read.inode),
            (0, stream) => Self::Stream(stream),
            (thread, _) => Self::Thread(thread),
        }
    }
}

impl ThinkTimes {
    /// Returns the time from the end of the reader's previous read to the start of `read`. It is 0 if the reads overlap,
    /// and `None` for the first read of a reader. The reads must be passed in the order of the trace.
    pub fn of(&mut self, read: &FileRead) -> Option<Duration> {
        let previous = self.0.insert(Reader::of(read), read.time_ns);
        previous.map(|end| Duration::from_nanos(read.start_ns().saturating_sub(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(thread: u32, stream: u64, inode: u64, start_ns: u64, end_ns: u64) -> FileRead {
        FileRead {
            time_ns: end_ns,
            device: 0,
            inode,
            offset_bytes: 0,
            len_bytes: 1,
            file_bytes: 1,
            stream,
            thread,
            duration_ns: end_ns - start_ns,
            is_fault: false,
        }
    }

    #[test]
    fn think_time_is_from_the_end_of_the_readers_last_read_to_the_start() {
        let mut times = ThinkTimes::default();
        let mut of = |read| times.of(&read).map(|time| time.as_nanos());
        assert_eq!(of(read(1, 0, 7, 10, 20)), None);
        assert_eq!(of(read(2, 0, 7, 15, 25)), None);
        // Another file, but the same thread.
        assert_eq!(of(read(1, 0, 8, 50, 60)), Some(30));
        // Reads in the background overlap.
        assert_eq!(of(read(1, 0, 8, 55, 70)), Some(0));
        // Without threads, open files or files are readers.
        assert_eq!(of(read(0, 3, 8, 70, 80)), None);
        assert_eq!(of(read(0, 3, 8, 81, 90)), Some(1));
        assert_eq!(of(read(0, 0, 8, 91, 95)), None);
        assert_eq!(of(read(0, 0, 8, 96, 97)), Some(1));
    }
}
