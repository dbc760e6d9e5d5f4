//! Batches of events, which are stored by columns.

use crate::columns::{self, FILE, NAME, READ};
use crate::{FilePath, FileRead, Row, TraceEvent};

/// A batch of rows. Element *i* of each vector belongs to row *i*, except in `files`. [`columns`] describes the
/// values.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The times, in nanoseconds since the recording began.
    pub time: Vec<i64>,
    /// The caches, as indices of [`columns::CACHES`].
    pub cache: Vec<u8>,
    /// The operations, as indices of [`columns::OPERATIONS`].
    pub operation: Vec<u8>,
    /// The device numbers.
    pub device: Vec<i32>,
    /// The inode numbers.
    pub inode: Vec<i64>,
    /// The page indexes, block numbers, or inode numbers of directories.
    pub index: Vec<i64>,
    /// The hashes of names.
    pub name_hash: Vec<i64>,
    /// Whether a lookup found its entry.
    pub hit: Vec<bool>,
    /// The further columns of the rows that use them, in ascending order of the rows.
    pub files: Vec<FileRow>,
}

/// The columns that only reads of files and their paths use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRow {
    /// The row in the batch.
    pub row: usize,
    /// The first byte.
    pub offset_bytes: u64,
    /// The number of bytes.
    pub len_bytes: u32,
    /// The size of the file.
    pub file_bytes: u64,
    /// The number of the open file.
    pub stream: u64,
    /// The thread that reads.
    pub thread: u32,
    /// The time that the read took.
    pub duration_ns: u64,
    /// The path of the file.
    pub path: Box<str>,
}

/// The values of a row in the columns that every row uses.
#[derive(Default)]
struct Common {
    time_ns: u64,
    cache: u8,
    operation: u8,
    hit: bool,
    device: u32,
    inode: u64,
    index: u64,
    name_hash: u64,
}

impl Batch {
    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Returns true if there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Returns the events of the caches in the order of the trace, without reads of files and paths.
    pub fn events(&self) -> impl Iterator<Item = TraceEvent> + '_ {
        let rows = self.len();
        // Slices of equal length, so that bounds are checked once.
        let (time, cache, operation) = (
            &self.time[..rows],
            &self.cache[..rows],
            &self.operation[..rows],
        );
        let (device, inode) = (&self.device[..rows], &self.inode[..rows]);
        let (index, name_hash) = (&self.index[..rows], &self.name_hash[..rows]);
        let hit = &self.hit[..rows];
        (0..rows).filter_map(move |row| {
            Some(TraceEvent {
                time_ns: time[row].cast_unsigned(),
                cache: columns::cache_of_code(cache[row])?,
                operation: columns::operation_of_code(operation[row], hit[row])?,
                device: device[row].cast_unsigned(),
                inode: inode[row].cast_unsigned(),
                index: index[row].cast_unsigned(),
                name_hash: name_hash[row].cast_unsigned(),
            })
        })
    }

    /// Returns the reads of files in the order of the trace.
    pub fn reads(&self) -> impl Iterator<Item = FileRead> + '_ {
        self.files.iter().filter_map(|file| self.read(file))
    }

    /// Returns the paths of files in the order of the trace.
    pub fn paths(&self) -> impl Iterator<Item = FilePath> + '_ {
        self.files.iter().filter_map(|file| self.path(file))
    }

    /// Returns all rows in the order of the trace.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let mut files = self.files.iter().peekable();
        let mut events = self.events();
        (0..self.len()).filter_map(move |row| match files.next_if(|file| file.row == row) {
            Some(file) => {
                let read = self.read(file).map(Row::Read);
                read.or_else(|| self.path(file).map(Row::Path))
            }
            None => events.next().map(Row::Cache),
        })
    }

    fn read(&self, file: &FileRow) -> Option<FileRead> {
        let operation = *self.operation.get(file.row)?;
        (operation == READ || operation == columns::FAULT).then_some(FileRead {
            time_ns: self.time.get(file.row)?.cast_unsigned(),
            device: self.device.get(file.row)?.cast_unsigned(),
            inode: self.inode.get(file.row)?.cast_unsigned(),
            offset_bytes: file.offset_bytes,
            len_bytes: file.len_bytes,
            file_bytes: file.file_bytes,
            stream: file.stream,
            thread: file.thread,
            duration_ns: file.duration_ns,
            is_fault: operation == columns::FAULT,
        })
    }

    fn path(&self, file: &FileRow) -> Option<FilePath> {
        let operation = *self.operation.get(file.row)?;
        (operation == NAME).then_some(FilePath {
            time_ns: self.time.get(file.row)?.cast_unsigned(),
            device: self.device.get(file.row)?.cast_unsigned(),
            inode: self.inode.get(file.row)?.cast_unsigned(),
            file_bytes: file.file_bytes,
            path: file.path.clone(),
        })
    }

    /// Appends `event`.
    #[inline]
    pub(crate) fn push(&mut self, event: &TraceEvent) {
        let (operation, hit) = columns::code_of_operation(event.operation);
        self.push_common(&Common {
            time_ns: event.time_ns,
            cache: columns::code_of_cache(event.cache),
            operation,
            hit,
            device: event.device,
            inode: event.inode,
            index: event.index,
            name_hash: event.name_hash,
        });
    }

    /// Appends a read of a file.
    pub(crate) fn push_read(&mut self, read: &FileRead) {
        self.files.push(FileRow {
            row: self.len(),
            offset_bytes: read.offset_bytes,
            len_bytes: read.len_bytes,
            file_bytes: read.file_bytes,
            stream: read.stream,
            thread: read.thread,
            duration_ns: read.duration_ns,
            path: Box::default(),
        });
        self.push_common(&Common {
            time_ns: read.time_ns,
            cache: FILE,
            operation: if read.is_fault { columns::FAULT } else { READ },
            device: read.device,
            inode: read.inode,
            ..Common::default()
        });
    }

    /// Appends the path of a file.
    pub(crate) fn push_path(&mut self, path: &FilePath) {
        self.files.push(FileRow {
            row: self.len(),
            file_bytes: path.file_bytes,
            path: path.path.clone(),
            ..FileRow::default()
        });
        self.push_common(&Common {
            time_ns: path.time_ns,
            cache: FILE,
            operation: NAME,
            device: path.device,
            inode: path.inode,
            ..Common::default()
        });
    }

    #[inline]
    fn push_common(&mut self, row: &Common) {
        self.time.push(row.time_ns.cast_signed());
        self.cache.push(row.cache);
        self.operation.push(row.operation);
        self.hit.push(row.hit);
        self.device.push(row.device.cast_signed());
        self.inode.push(row.inode.cast_signed());
        self.index.push(row.index.cast_signed());
        self.name_hash.push(row.name_hash.cast_signed());
    }

    /// Removes all rows, but keeps the memory for further rows.
    pub fn clear(&mut self) {
        self.time.clear();
        self.cache.clear();
        self.operation.clear();
        self.device.clear();
        self.inode.clear();
        self.index.clear();
        self.name_hash.clear();
        self.hit.clear();
        self.files.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_cache::tape::{CacheKind, Operation};

    #[test]
    fn rows_have_the_order_in_which_they_were_added() {
        let event = TraceEvent {
            time_ns: 1,
            cache: CacheKind::Dentry,
            operation: Operation::Lookup { hit: true },
            device: 2,
            inode: 0,
            index: 3,
            name_hash: 4,
        };
        let read = FileRead {
            time_ns: 5,
            device: 6,
            inode: 7,
            offset_bytes: 8,
            len_bytes: 9,
            file_bytes: 10,
            stream: 11,
            thread: 12,
            duration_ns: 3,
            is_fault: false,
        };
        let fault = FileRead {
            is_fault: true,
            ..read
        };
        let path = FilePath {
            time_ns: 14,
            device: 6,
            inode: 7,
            file_bytes: 10,
            path: "/a".into(),
        };
        let mut batch = Batch::default();
        batch.push_read(&read);
        batch.push(&event);
        batch.push_path(&path);
        batch.push_read(&fault);
        batch.push(&event);
        let expected = [
            Row::Read(read),
            Row::Cache(event),
            Row::Path(path.clone()),
            Row::Read(fault),
            Row::Cache(event),
        ];
        assert!(batch.rows().eq(expected));
        assert!(batch.events().eq([event, event]));
        assert!(batch.reads().eq([read, fault]));
        assert!(batch.paths().eq([path]));
        assert_eq!((batch.len(), read.start_ns()), (5, 2));
    }
}
