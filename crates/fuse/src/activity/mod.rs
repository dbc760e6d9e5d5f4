//! Records the requests of the kernel, for the statistics of a mount.
//!
//! # Model
//! Each thread of a session records the requests that it has answered. The counts are exact. Of many requests, only a
//! [sample](larder::block::timing) is measured. The latencies are those of the sample. The busiest files and processes are
//! estimates: the sample is recorded in [sketches](sketch).
//!
//! Names are needed only for the answer to a query. The names of programs are the exception: they are read when a program
//! is first seen, because it may have ended before the query. The paths of files are
//! [resolved](larder::Volume::known_paths) from names that the volume has in memory.
//!
//! # Memory
//! At most about 2 KiB for each operation in use and each stripe, 128 KiB for the [directories](parents) of files,
//! and about 20 KiB for the sketches.
//!
//! # Locking
//! The sketches have a lock. A thread that finds it locked does not record its request there, so no request waits for it.

mod counters;
mod hot;
mod names;
mod parents;
mod sketch;

use crate::node::NodeId;
use crate::operations::Answer;
use crate::protocol::Header;
use crate::protocol::abi::opcode;
use counters::{Counters, Sum};
use hot::{Hot, with_present_name};
use larder::block::timing::{Measured, coarse_ns};
use larder::{HotFile, HotStats, KnownNames, RequestStats, Volume};
use names::is_housekeeping;
use parents::Parents;
use parking_lot::Mutex;
use sketch::Amount;
use std::cell::Cell;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;

/// The maximum number of stripes, which is also the maximum number of the queues' threads.
const MAX_STRIPES: usize = 16;

/// The number of threads that have recorded a request.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread, which determines its stripe.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The recorded requests of a mount.
#[derive(Debug)]
pub(crate) struct Activity {
    /// The start, as [`coarse_ns`].
    start_ns: u64,
    /// Counters for the threads. Threads share counters only if there are more threads than processors.
    stripes: Box<[Stripe]>,
    parents: Parents,
    hot: Mutex<Hot>,
    known_names: Mutex<KnownNames>,
}

/// Counters in cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Counters);

impl Default for Activity {
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        let stripes = processors.next_power_of_two().min(MAX_STRIPES);
        Self {
            start_ns: coarse_ns(),
            stripes: std::iter::repeat_with(Stripe::default)
                .take(stripes)
                .collect(),
            parents: Parents::default(),
            hot: Mutex::default(),
            known_names: Mutex::default(),
        }
    }
}

impl Activity {
    /// Records a request that arrived at `arrived_ns`, as [`coarse_ns`]. `target` is the file whose content it reads or
    /// changes, which for `COPY_FILE_RANGE` is not the node of the header. `measured` is the time from `arrived_ns`
    /// until immediately before the answer was sent, if it was measured. `answer` contains the body of the reply.
    pub(crate) fn record(
        &self,
        header: &Header,
        target: NodeId,
        arrived_ns: u64,
        measured: Option<Measured>,
        answer: Answer<&[u8]>,
    ) {
        let arrived_ns = arrived_ns.saturating_sub(self.start_ns);
        let (opcode, node) = (header.opcode, header.node);
        let content = answer.map(|body| content_bytes(opcode, body));
        let Stripe(counters) = &self.stripes[thread_number() & (self.stripes.len() - 1)];
        counters.record(opcode, arrived_ns, measured, content);
        if let Ok(body) = answer {
            self.parents.note(opcode, node, body);
        }
        if is_housekeeping(opcode) {
            return;
        }
        if let Some(Measured { weight, .. }) = measured
            && let Some(mut hot) = self.hot.try_lock()
        {
            let bytes = content.unwrap_or(0) * u64::from(weight);
            let is_read = opcode == opcode::READ;
            let amount = Amount {
                requests: weight,
                read_bytes: if is_read { bytes } else { 0 },
                written_bytes: if is_read { 0 } else { bytes },
            };
            hot.record(target.ino(), header.caller.thread, amount, arrived_ns);
        }
    }

    /// Returns the counts and latencies of the requests. `waiting` is [`RequestStats::waiting`].
    pub(crate) fn requests(&self, waiting: Option<u64>) -> RequestStats {
        let mut sum = Sum::default();
        for Stripe(counters) in &self.stripes {
            counters.add_to(&mut sum);
        }
        let uptime_ns = self.now_ns();
        let (operations, idle_ns) = sum.stats(uptime_ns);
        RequestStats {
            start_ns: self.start_ns,
            uptime_ns,
            idle_ns,
            requests: operations.iter().map(|one| one.requests).sum(),
            errors: operations.iter().map(|one| one.errors).sum(),
            waiting,
            operations,
        }
    }

    /// Returns the busiest files and processes. Does not wait for the device.
    pub(crate) fn hot(&self, volume: &Volume) -> HotStats {
        let now_ns = self.now_ns();
        let (files, mut processes, has_proc) = {
            let hot = self.hot.lock();
            (hot.files(now_ns), hot.processes(now_ns), hot.has_proc())
        };
        if has_proc {
            processes = processes.into_iter().map(with_present_name).collect();
        }
        let inos: Vec<_> = files.iter().map(|(ino, _)| *ino).collect();
        let parent = |ino| self.parents.get(ino);
        let paths = volume.known_paths(&inos, parent, &mut self.known_names.lock());
        let files = std::iter::zip(files, paths).map(|((ino, load), path)| HotFile {
            ino: ino.0,
            path: path
                .as_ref()
                .map(|path| String::from_utf8_lossy(path).into_owned()),
            path_hex: path
                .filter(|path| str::from_utf8(path).is_err())
                .map(|path| hex(&path)),
            load,
        });
        HotStats {
            files: files.collect(),
            processes,
        }
    }

    /// Returns the time since the start.
    fn now_ns(&self) -> u64 {
        coarse_ns().saturating_sub(self.start_ns)
    }
}

/// Returns the number of this thread.
fn thread_number() -> usize {
    THREAD.get().unwrap_or_else(|| {
        let number = THREADS.fetch_add(1, Relaxed);
        THREAD.set(Some(number));
        number
    })
}

/// Returns the content that a request has read or written, in bytes. `body` is the body of the reply.
fn content_bytes(opcode: u32, body: &[u8]) -> u64 {
    match opcode {
        opcode::READ => body.len() as u64,
        opcode::WRITE | opcode::COPY_FILE_RANGE => {
            let size = body
                .first_chunk()
                .map_or(0, |size| u32::from_ne_bytes(*size));
            u64::from(size)
        }
        _ => 0,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
