//! `sysbench --test=fileio --file-test-mode=rndrw`, 1 to 256 threads.

use std::cell::RefCell;
use std::rc::Rc;

use larder_readahead::PolicyName;
use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::machine::{Size, machine};
use crate::simulator::Error;
use crate::workload::{Jobs, OpenFileId, Operation, ReaderJob};

pub(super) const SETUP: &str = "\
`sysbench --test=fileio --file-io-mode=async --file-test-mode=rndrw --file-total-size=4G \
--file-block-size=64K --max-requests=10000`: threads share 10,000 requests of 64 KiB at random \
places of 128 files (the default of sysbench) with 4 GB in total. There are three reads for every \
two writes. After every 100 requests, each file that was written is synced. Each run starts \
with an empty cache. The second run uses other random numbers than the first.";

const TOTAL_BYTES: u64 = 4 << 30;
const BLOCK_BYTES: u64 = 64 << 10;
const FILES: u32 = 128;
const REQUESTS: u64 = 10_000;
const FLUSH_EACH_REQUESTS: u64 = 100;

/// Returns the seconds until all requests are complete.
pub(super) fn measure(
    policy: PolicyName,
    size: Size,
    run: u32,
    threads: u32,
) -> Result<f64, Error> {
    let mut machine = machine(policy, size)?;
    let blocks = (size.of(TOTAL_BYTES) / BLOCK_BYTES / u64::from(FILES)).max(1);
    let sizes = vec![blocks * BLOCK_BYTES; FILES as usize];
    let open_files = machine.add_files(&sizes)?;
    let source = Rc::new(RefCell::new(Source {
        random: size.random(0x100 + u64::from(run)),
        blocks_per_file: blocks,
        left: size.of(REQUESTS),
        reads: 0,
        writes: 0,
        flush_next: None,
        written: [false; FILES as usize],
    }));
    let readers = (0..threads).map(|_| {
        let source = Rc::clone(&source);
        ReaderJob::new(std::iter::from_fn(move || source.borrow_mut().next()))
    });
    let report = machine.run(Jobs::new(open_files, readers.collect()));
    Ok(report.elapsed.as_secs_f64())
}

/// The source of the requests of all threads.
struct Source {
    random: Pcg64Mcg,
    blocks_per_file: u64,
    left: u64,
    reads: u64,
    writes: u64,
    /// The next file to flush, while all files are being flushed.
    flush_next: Option<u32>,
    /// Files that were written since their last flush. Other files need no flush.
    written: [bool; FILES as usize],
}

impl Source {
    fn next(&mut self) -> Option<Operation> {
        while let Some(file) = self.flush_next {
            self.flush_next = (file + 1 < FILES).then_some(file + 1);
            if std::mem::take(&mut self.written[file as usize]) {
                return Some(Operation::Flush {
                    file: OpenFileId(file),
                });
            }
        }
        self.left = self.left.checked_sub(1)?;
        let file = self.random.random_range(0..FILES);
        let offset_bytes = self.random.random_range(0..self.blocks_per_file) * BLOCK_BYTES;
        // Three reads for every two writes, evenly spread.
        let is_read = self.reads * 2 <= self.writes * 3;
        self.reads += u64::from(is_read);
        self.writes += u64::from(!is_read);
        if (self.reads + self.writes).is_multiple_of(FLUSH_EACH_REQUESTS) {
            self.flush_next = Some(0);
        }
        Some(if is_read {
            Operation::read(file, offset_bytes, BLOCK_BYTES)
        } else {
            self.written[file as usize] = true;
            Operation::write(file, offset_bytes, BLOCK_BYTES)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Scheduler;
    use super::*;

    #[test]
    fn three_reads_follow_two_writes_with_a_flush_every_hundred_requests() {
        let size = Size {
            divisor: 1,
            seed: 1,
            scheduler: Scheduler::Deadline,
        };
        let mut source = Source {
            random: size.random(1),
            blocks_per_file: 512,
            left: 1000,
            reads: 0,
            writes: 0,
            flush_next: None,
            written: [false; FILES as usize],
        };
        let operations: Vec<_> = std::iter::from_fn(|| source.next()).collect();
        let count = |of: fn(&Operation) -> bool| operations.iter().filter(|o| of(o)).count();
        assert_eq!(count(|o| matches!(o, Operation::Read { .. })), 600);
        assert_eq!(count(|o| matches!(o, Operation::Write { .. })), 400);
        // Forty writes concern at most forty files.
        let flushes = count(|o| matches!(o, Operation::Flush { .. }));
        assert!((200..=400).contains(&flushes), "{flushes}");
        assert!(matches!(operations.last(), Some(Operation::Flush { .. })));
    }
}
