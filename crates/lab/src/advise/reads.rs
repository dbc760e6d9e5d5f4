//! Collects reads from parts of a trace, for the simulation of readahead.
//!
//! # Model
//! If the trace has reads of files, they are replayed with their threads and pauses ([`TraceReads`]).
//!
//! Otherwise, reads are reconstructed from lookups of pages, as reads of a single thread. Consecutive lookups of
//! consecutive pages of a file are regarded as one read of up to 128 KiB, which is the largest read of a FUSE mount
//! without options. The time between two reads is treated as the program's own computation. If the earlier
//! read missed, this time includes the wait for the device, so the time of a device read is subtracted.

use super::waiting::Waiting;
use crate::readahead_replay::{MAX_READS, TraceReads};
use crate::run_report::{as_f64, ratio};
use crate::simulator::PAGE_BYTES;
use larder_cache::tape::{CacheKind, Operation};
use larder_trace::{FilePath, FileRead, TraceEvent, TraceInfo};
use serde::Serialize;

/// Number of parts of the trace from which reads are collected.
pub(super) const PARTS: u64 = 16;

/// If the collected reads of a part reach this number of pages, the other reads of the part are only counted.
const MAX_PAGES: u64 = 1 << 16;

/// Maximum number of pages of a reconstructed read.
const READ_PAGES: u64 = 32;

/// Largest page index that is simulated. Larger indexes are those of sparse files, or damaged.
const MAX_INDEX: u64 = 1 << 26;

/// The origin of the simulated reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadOrigin {
    /// The trace has the reads.
    Recorded,
    /// The reads were reconstructed from lookups of pages.
    PageLookups,
}

/// The number of bytes of the reads in a part of the trace.
#[derive(Clone, Copy, Debug, Default)]
struct PartBytes {
    kept: u64,
    all: u64,
}

/// The reads of all parts.
#[derive(Clone, Debug)]
pub(super) struct ReadSample {
    info: TraceInfo,
    /// Time of a read from the device: the duration of a reconstructed read that missed.
    latency_ns: u64,
    /// Number of events of each part.
    part_events: u64,
    /// Number of events that are still to be counted in the current part.
    left: u64,
    origin: ReadOrigin,
    reads: TraceReads,
    /// The bytes of each part of `reads`. Only the last part can be empty.
    parts: Vec<PartBytes>,
    /// Number of pages in the current part.
    pages: u64,
    waiting: Waiting,
    /// The reconstructed read whose end is not known yet.
    unfinished: Option<FileRead>,
}

impl ReadSample {
    /// Returns an empty sample of a trace with `info` and the given number of events.
    pub(super) fn new(info: &TraceInfo, events: u64, latency_ns: u64) -> Self {
        Self {
            info: info.clone(),
            latency_ns,
            part_events: events.div_ceil(PARTS).max(1),
            left: 0,
            origin: ReadOrigin::PageLookups,
            reads: TraceReads::new(info, MAX_READS),
            parts: vec![PartBytes::default()],
            pages: 0,
            waiting: Waiting::default(),
            unfinished: None,
        }
    }

    /// Counts an event of the trace. If it is a lookup of a page, and there were no recorded reads, adds it to the
    /// reconstructed reads.
    #[inline]
    pub(super) fn add(&mut self, event: &TraceEvent) {
        if self.left == 0 {
            self.left = self.part_events;
            self.begin_part();
        }
        self.left -= 1;
        if self.origin == ReadOrigin::PageLookups
            && event.cache == CacheKind::Page
            && let Operation::Lookup { hit } = event.operation
            && event.index < MAX_INDEX
        {
            self.add_lookup(event, hit);
        }
    }

    /// Adds a recorded read. The first one replaces all reconstructed reads.
    pub(super) fn add_read(&mut self, read: &FileRead) {
        if self.origin == ReadOrigin::PageLookups {
            *self = Self {
                part_events: self.part_events,
                left: self.left,
                origin: ReadOrigin::Recorded,
                ..Self::new(&self.info, 0, self.latency_ns)
            };
        }
        self.push(read);
    }

    /// Adds the size of a file. The row with its path also contains its size.
    pub(super) fn add_path(&mut self, path: &FilePath) {
        self.reads.push_size(path);
    }

    /// Ends the sample.
    pub(super) fn finish(&mut self) {
        self.push_unfinished();
        self.waiting.end_part();
    }

    fn begin_part(&mut self) {
        self.push_unfinished();
        self.reads.begin_part();
        self.waiting.end_part();
        self.pages = 0;
        if self.parts.last().is_some_and(|part| part.kept > 0) {
            self.parts.push(PartBytes::default());
        }
    }

    fn add_lookup(&mut self, event: &TraceEvent, hit: bool) {
        let offset_bytes = event.index * PAGE_BYTES;
        let duration_ns = if hit { 0 } else { self.latency_ns };
        if let Some(read) = &mut self.unfinished
            && (read.device, read.inode) == (event.device, event.inode)
            && read.offset_bytes + u64::from(read.len_bytes) == offset_bytes
            && u64::from(read.len_bytes) < READ_PAGES * PAGE_BYTES
        {
            let start_ns = read.start_ns();
            read.len_bytes += PAGE_LEN;
            read.duration_ns = read.duration_ns.max(duration_ns);
            read.time_ns = start_ns.saturating_add(read.duration_ns);
            return;
        }
        self.push_unfinished();
        self.unfinished = Some(FileRead {
            time_ns: event.time_ns.saturating_add(duration_ns),
            device: event.device,
            inode: event.inode,
            offset_bytes,
            len_bytes: PAGE_LEN,
            file_bytes: 0,
            stream: 0,
            // All reads have the same thread.
            thread: 1,
            duration_ns,
            is_fault: false,
        });
    }

    fn push_unfinished(&mut self) {
        if let Some(read) = self.unfinished.take() {
            self.push(&read);
        }
    }

    fn push(&mut self, read: &FileRead) {
        let len_bytes = u64::from(read.len_bytes);
        if len_bytes == 0 || read.offset_bytes / PAGE_BYTES >= MAX_INDEX {
            return;
        }
        let Some(part) = self.parts.last_mut() else {
            return;
        };
        part.all += len_bytes;
        if self.pages < MAX_PAGES {
            part.kept += len_bytes;
            self.pages += len_bytes.div_ceil(PAGE_BYTES);
            self.waiting.add(read);
            self.reads.push(read);
        }
    }

    /// Returns the reads, divided into the parts of the trace that have reads.
    pub(super) fn reads(&self) -> &TraceReads {
        &self.reads
    }

    /// Returns the origin of the reads.
    pub(super) fn origin(&self) -> ReadOrigin {
        self.origin
    }

    /// Returns, for each part of the reads, the bytes of all reads divided by the bytes of the reads that were kept.
    pub(super) fn scales(&self) -> impl Iterator<Item = f64> + '_ {
        let parts = self.parts.iter().filter(|part| part.kept > 0);
        parts.map(|part| ratio(as_f64(part.all), as_f64(part.kept)))
    }

    /// Returns the time in which at least one thread read, as a share of the sum of the times of all reads.
    pub(super) fn waiting_share(&self) -> f64 {
        self.waiting.share()
    }
}

/// [`PAGE_BYTES`] as the length of a read.
const PAGE_LEN: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(number: u64, inode: u64, index: u64) -> TraceEvent {
        TraceEvent {
            time_ns: number * 10,
            cache: CacheKind::Page,
            operation: Operation::Lookup { hit: number != 3 },
            device: 1,
            inode,
            index,
            name_hash: 0,
        }
    }

    fn read(thread: u32, start_ns: u64, duration_ns: u64, len_bytes: u32) -> FileRead {
        FileRead {
            time_ns: start_ns + duration_ns,
            device: 1,
            inode: 12,
            offset_bytes: 0,
            len_bytes,
            file_bytes: 0,
            stream: 0,
            thread,
            duration_ns,
            is_fault: false,
        }
    }

    fn sample(events: u64) -> ReadSample {
        ReadSample::new(&TraceInfo::default(), events, 1000)
    }

    #[test]
    fn consecutive_lookups_of_consecutive_pages_are_one_read() {
        let mut sample = sample(PARTS * 8);
        let events = [
            (12, 5),
            (12, 6),
            (12, 7),
            (12, 8),
            (13, 9),
            (12, 9),
            (12, 11),
            (12, 10),
        ];
        let mut ends = Vec::new();
        for (number, (inode, index)) in (0..).zip(events) {
            sample.add(&lookup(number, inode, index));
            let read = sample.unfinished.unwrap();
            ends.push((read.time_ns, read.len_bytes / PAGE_LEN));
        }
        sample.finish();
        assert_eq!(
            ends,
            [
                (0, 1),
                (0, 2),
                (0, 3),
                (1000, 4),
                (40, 1),
                (50, 1),
                (60, 1),
                (70, 1)
            ],
            "the fourth lookup missed"
        );
        assert_eq!(sample.origin(), ReadOrigin::PageLookups);
        let reads = sample.reads();
        assert_eq!((reads.kept(), reads.parts(), reads.readers()), (5, 1, 1));
        assert_eq!(reads.file_sizes(), [12 * PAGE_BYTES, 10 * PAGE_BYTES]);
    }

    #[test]
    fn recorded_reads_replace_those_of_lookups() {
        let mut sample = sample(PARTS * 4);
        sample.add(&lookup(0, 13, 0));
        sample.add(&lookup(1, 13, 5));
        sample.add_read(&read(7, 0, 20, 100));
        sample.add(&lookup(2, 13, 9));
        sample.add_read(&read(8, 10, 20, 100));
        sample.finish();
        assert_eq!(sample.origin(), ReadOrigin::Recorded);
        let reads = sample.reads();
        assert_eq!((reads.kept(), reads.files(), reads.readers()), (2, 1, 2));
        // Reads are in progress from 0 to 30, and their durations add up to 2 times 20.
        assert!((sample.waiting_share() - 0.75).abs() < 1e-9);
    }

    #[test]
    fn every_part_of_the_trace_has_a_limited_number_of_reads() {
        let events = PARTS * 2 * MAX_PAGES;
        let mut limited = sample(events);
        for number in 0..events {
            limited.add(&lookup(number, number % 3, number));
        }
        limited.finish();
        assert_eq!(limited.reads().parts() as u64, PARTS);
        assert_eq!(limited.reads().kept(), PARTS * MAX_PAGES);
        let scales: Vec<f64> = limited.scales().collect();
        assert_eq!(scales.len() as u64, PARTS);
        assert!(
            scales.iter().all(|scale| (scale - 2.0).abs() < 1e-9),
            "{scales:?}"
        );
        let mut sparse = sample(1);
        sparse.add(&lookup(0, 1, u64::MAX));
        sparse.finish();
        assert_eq!(sparse.reads().kept(), 0, "an index that no file has");
        assert_eq!(sparse.scales().count(), 0);
    }
}
