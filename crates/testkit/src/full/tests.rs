//! Checks that a session detects faults: each test uses a file system in memory with one fault.

use super::*;
use crate::seed::Seed;
use larder::Fallocate;
use rustix::io::{Errno, Result};
use std::cell::{Cell, RefCell};

const LIMITS: Limits = Limits {
    cluster_bytes: 4096,
    extents: true,
    moves: false,
    inline_data: false,
};
const CLUSTERS: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A write that is refused changes the file.
    RefusedWrite,
    /// A write changes more than its count says.
    ShortWrite,
    /// A range that cannot be zeroed completely is zeroed nevertheless.
    RefusedZero,
    /// Writes are refused while there is space.
    EarlyRefusal,
    /// Allocated space is given to other files.
    BrokenPromise,
    /// Removed files keep their space.
    Leak,
    /// The bytes of a short write or copy are missing after a remount.
    LostOnRemount,
    /// Holes cannot be punched while the image is full.
    RefusedPunch,
}

/// A file: its bytes, and the clusters that have space.
#[derive(Clone, Debug, Default)]
struct Memory {
    bytes: Vec<u8>,
    clusters: std::collections::BTreeSet<usize>,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    files: RefCell<[Memory; FILES.len()]>,
    leaked: usize,
    /// A byte that is wrong after the next remount.
    lost: Cell<Option<(usize, usize)>>,
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}

fn clusters(from: usize, to: usize) -> std::ops::Range<usize> {
    from / 4096..to.div_ceil(4096)
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            files: RefCell::default(),
            leaked: 0,
            lost: Cell::default(),
        }
    }

    fn free(&self) -> usize {
        let used: usize = self.files.borrow().iter().map(|f| f.clusters.len()).sum();
        CLUSTERS - used - self.leaked
    }

    /// Returns the number of bytes of the range that can have space.
    fn fitting(&self, file: FileNo, from: usize, to: usize) -> usize {
        let mut free = self.free();
        for cluster in clusters(from, to) {
            if self.files.borrow()[file.index()]
                .clusters
                .contains(&cluster)
            {
                continue;
            }
            if free == 0 {
                return (cluster * 4096).saturating_sub(from);
            }
            free -= 1;
        }
        to - from
    }
}

impl Target for Faulty {
    fn create(&mut self, _: FileNo) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self, file: FileNo) -> Result<()> {
        let removed = std::mem::take(&mut self.files.get_mut()[file.index()]);
        if self.fault == Fault::Leak {
            self.leaked += removed.clusters.len().min(1);
        }
        Ok(())
    }

    fn write(&self, file: FileNo, buf: &[u8], offset_bytes: u64, _: bool) -> Result<usize> {
        let from = index(offset_bytes);
        let count = self.fitting(file, from, from + buf.len());
        let early = self.fault == Fault::EarlyRefusal && self.free() < 100;
        let refused = count == 0 || early && count < buf.len();
        let to = from + count;
        let memory = &mut self.files.borrow_mut()[file.index()];
        if refused {
            if self.fault == Fault::RefusedWrite && from < memory.bytes.len() {
                memory.bytes[from] ^= 1;
            }
            return Err(Errno::NOSPC);
        }
        let size = memory.bytes.len().max(to);
        memory.bytes.resize(size, 0);
        memory.bytes[from..to].copy_from_slice(&buf[..count]);
        memory.clusters.extend(clusters(from, to));
        if count < buf.len() {
            if self.fault == Fault::ShortWrite {
                memory.bytes.push(buf[count]);
            }
            self.lost.set(Some((file.index(), to - 1)));
        }
        Ok(count)
    }

    fn truncate(&self, file: FileNo, size_bytes: u64) -> Result<()> {
        let memory = &mut self.files.borrow_mut()[file.index()];
        let size = index(size_bytes);
        if size < memory.bytes.len() {
            memory.clusters.retain(|c| *c < size.div_ceil(4096));
        }
        memory.bytes.resize(size, 0);
        Ok(())
    }

    fn range(&self, file: FileNo, mode: Fallocate, offset: u64, len: u64) -> Result<()> {
        let (from, to) = (index(offset), index(offset + len));
        let fits = self.fitting(file, from, to) == to - from;
        let full = self.free() == 0;
        let memory = &mut self.files.borrow_mut()[file.index()];
        let size = memory.bytes.len();
        let inside = from.min(size)..to.min(size);
        match mode {
            Fallocate::PunchHole => {
                if full && self.fault == Fault::RefusedPunch {
                    return Err(Errno::NOSPC);
                }
                memory.bytes[inside].fill(0);
                let whole = from.div_ceil(4096)..to / 4096;
                memory.clusters.retain(|c| !whole.contains(c));
            }
            Fallocate::ZeroRange { keep_size } | Fallocate::Allocate { keep_size } => {
                let zeroes = matches!(mode, Fallocate::ZeroRange { .. });
                if zeroes && (fits || self.fault == Fault::RefusedZero) {
                    memory.bytes[inside].fill(0);
                }
                if !fits {
                    return Err(Errno::NOSPC);
                }
                if self.fault != Fault::BrokenPromise {
                    memory.clusters.extend(clusters(from, to));
                }
                if !keep_size {
                    memory.bytes.resize(size.max(to), 0);
                }
            }
            Fallocate::Collapse | Fallocate::Insert => return Err(Errno::OPNOTSUPP),
        }
        Ok(())
    }

    fn copy(&self, from: (FileNo, u64), to: (FileNo, u64), len_bytes: u64) -> Result<u64> {
        let source = self.content(from.0)?;
        let start = index(from.1).min(source.len());
        let end = (start + index(len_bytes)).min(source.len());
        if start == end {
            return Ok(0);
        }
        let copied = self.write(to.0, &source[start..end], to.1, false)?;
        Ok(copied as u64)
    }

    fn sync(&self, _: FileNo) -> Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn content(&self, file: FileNo) -> Result<Vec<u8>> {
        Ok(self.files.borrow()[file.index()].bytes.clone())
    }

    fn available_bytes(&self) -> Result<u64> {
        Ok(self.free() as u64 * 4096)
    }

    fn evict(&self, _: FileNo) -> Result<()> {
        Ok(())
    }

    fn remount(&mut self) -> std::result::Result<(), String> {
        if let Some((file, at)) = self.lost.take()
            && self.fault == Fault::LostOnRemount
            && let Some(byte) = self.files.get_mut()[file].bytes.get_mut(at)
        {
            *byte ^= 1;
        }
        Ok(())
    }
}

/// Returns how many of eight sequences fail, and the first reason.
fn failures(fault: Fault) -> (usize, String) {
    let attempt = |seed| {
        let mut session = Session::new(Faulty::new(fault), LIMITS)?;
        session.run(&sequence(Seed(seed), Mix::ALL, LIMITS))?;
        session.empty()
    };
    let failed: Vec<String> = (0..8).filter_map(|seed| attempt(seed).err()).collect();
    (failed.len(), failed.first().cloned().unwrap_or_default())
}

#[test]
fn session_accepts_a_file_system_without_a_fault() {
    assert_eq!(failures(Fault::None), (0, String::new()));
}

#[test]
fn session_detects_each_fault() {
    let faults = [
        (Fault::RefusedWrite, "bytes differ"),
        (Fault::ShortWrite, "must"),
        (Fault::RefusedZero, "bytes differ"),
        (Fault::EarlyRefusal, "are enough"),
        (Fault::BrokenPromise, "needs no more space"),
        (Fault::Leak, "after removing everything"),
        (Fault::LostOnRemount, "bytes differ"),
        (Fault::RefusedPunch, "needs no more space"),
    ];
    // Not every sequence triggers the fault, but a good part of them does.
    let missed: Vec<_> = faults
        .into_iter()
        .map(|(fault, reason)| (fault, reason, failures(fault)))
        .filter(|(_, reason, (count, first))| *count < 3 || !first.contains(reason))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}
