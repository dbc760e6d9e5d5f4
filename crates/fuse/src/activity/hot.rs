//! The busiest files and processes.
//!
//! When a thread of a program is first seen, its process is looked up in /proc. The name of the program is read at the
//! same time, because the program may have ended when the statistics are queried. A shell opens files before it
//! executes the program, so the name is read again at the 2nd, 4th, 8th request and so on. There are at most
//! [`READS_PER_S`] reads per second: if more are necessary, as with many short programs, the other threads are recorded
//! with their own IDs and without names.

use super::sketch::{Amount, Recorded, Sketch};
use crate::procfs::{has_own_proc, process_of, program_of};
use larder::{BusyProcess, Ino, Load};
use std::collections::HashMap;

/// The number of files, and of processes, in the statistics.
const SHOWN: usize = 32;
/// The number of slots for threads whose process is known. The ID of a thread determines its slot.
const THREADS: usize = 256;
/// The maximum number of reads of /proc in a second, for threads or for names.
const READS_PER_S: u32 = 50;
const SECOND_NS: u64 = 1_000_000_000;

/// The sketches of files and processes.
#[derive(Debug)]
pub(super) struct Hot {
    files: Sketch,
    processes: Sketch,
    /// Threads, each with its process.
    threads: [(u32, u32); THREADS],
    /// The names of the programs of the processes in the sketch, and how often each process was recorded.
    programs: HashMap<u32, (Vec<u8>, u32)>,
    /// Whether /proc shows the processes of the requests.
    has_proc: bool,
    /// The second in which /proc was last read, and the number of reads in this second.
    reads: (u64, u32),
}

impl Default for Hot {
    fn default() -> Self {
        Self {
            files: Sketch::default(),
            processes: Sketch::default(),
            threads: [(0, 0); THREADS],
            programs: HashMap::new(),
            has_proc: has_own_proc(),
            reads: (0, 0),
        }
    }
}

impl Hot {
    /// Records requests for a file. `thread` is the ID of the thread that sent them, or 0 if the kernel sent them.
    pub(super) fn record(&mut self, file: Option<Ino>, thread: u32, amount: Amount, now_ns: u64) {
        if let Some(ino) = file {
            self.files.record(ino.0, amount, now_ns);
        }
        let process = self.process(thread, now_ns);
        if let Recorded::Replaced(removed) = self.processes.record(process, amount, now_ns) {
            self.programs.remove(&removed);
        }
        self.update_name(process, now_ns);
    }

    /// Counts a record of a process. Reads the name of its program again if the count is a power of two.
    fn update_name(&mut self, process: u32, now_ns: u64) {
        let Some((_, count)) = self.programs.get_mut(&process) else {
            return;
        };
        *count += 1;
        if *count > 1
            && count.is_power_of_two()
            && self.may_read(now_ns)
            && let Some(name) = program_of(process)
            && let Some((known, _)) = self.programs.get_mut(&process)
        {
            *known = name;
        }
    }

    /// Returns the process of a thread. If it is not known, returns the ID of the thread.
    fn process(&mut self, thread: u32, now_ns: u64) -> u32 {
        if thread == 0 {
            return 0;
        }
        let (known, process) = self.threads[thread as usize % THREADS];
        if known == thread {
            return process;
        }
        if !self.may_read(now_ns) {
            return thread;
        }
        let process = self.look_up(thread).unwrap_or(thread);
        self.threads[thread as usize % THREADS] = (thread, process);
        process
    }

    /// Returns the process of a thread, and notes the name of its program.
    fn look_up(&mut self, thread: u32) -> Option<u32> {
        let process = process_of(thread)?;
        if let Some(program) = program_of(process) {
            let count = self.programs.get(&process).map_or(0, |(_, count)| *count);
            self.programs.insert(process, (program, count));
        }
        Some(process)
    }

    /// Returns whether /proc may be read now, and counts the read. `now_ns` can be earlier than in the call before, because
    /// a request is recorded with the time of its arrival.
    fn may_read(&mut self, now_ns: u64) -> bool {
        let second = now_ns / SECOND_NS;
        if second > self.reads.0 {
            self.reads = (second, 0);
        }
        let may_read = self.has_proc && self.reads.1 < READS_PER_S;
        self.reads.1 += u32::from(may_read);
        may_read
    }

    /// Returns the busiest files, with their loads.
    pub(super) fn files(&self, now_ns: u64) -> Vec<(Ino, Load)> {
        let files = self.files.busiest(now_ns).into_iter().take(SHOWN);
        files.map(|(ino, load)| (Ino(ino), load)).collect()
    }

    /// Returns the busiest processes. [`with_present_name`] completes them.
    pub(super) fn processes(&self, now_ns: u64) -> Vec<BusyProcess> {
        let processes = self.processes.busiest(now_ns).into_iter().take(SHOWN);
        let processes = processes.map(|(pid, load)| BusyProcess {
            pid,
            name: self.programs.get(&pid).map(|(name, _)| text(name)),
            is_running: pid == 0,
            load,
        });
        processes.collect()
    }

    /// Returns whether /proc shows the processes of the requests.
    pub(super) fn has_proc(&self) -> bool {
        self.has_proc
    }
}

/// Sets whether the process is running. If so, also sets the name of its program, which can change.
pub(super) fn with_present_name(mut process: BusyProcess) -> BusyProcess {
    if process.pid != 0
        && let Some(name) = program_of(process.pid)
    {
        process.is_running = true;
        process.name = Some(text(&name));
    }
    process
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::sketch::CAPACITY;
    use super::*;

    const ONE: Amount = Amount {
        requests: 1,
        read_bytes: 0,
        written_bytes: 0,
    };

    #[test]
    fn requests_of_a_thread_are_those_of_its_process() {
        let mut hot = Hot::default();
        let own = std::process::id();
        let id = || u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let thread = std::thread::spawn(move || {
            hot.record(Some(Ino(12)), id(), ONE, 1);
            hot
        });
        let mut hot = thread.join().unwrap();
        hot.record(Some(Ino(13)), own, ONE, 2);
        hot.record(Some(Ino(13)), 0, ONE, 3);
        let processes = hot.processes(SECOND_NS).into_iter().map(with_present_name);
        let processes: Vec<_> = processes.collect();
        let [program, kernel] = &processes[..] else {
            panic!("two processes");
        };
        assert_eq!((program.pid, program.load.requests), (own, 2));
        assert!(program.is_running && program.name.is_some());
        assert_eq!((kernel.pid, kernel.name.as_deref()), (0, None));
        assert!(kernel.is_running);
        let files = hot.files(SECOND_NS);
        let files = files.iter().map(|(ino, load)| (ino.0, load.requests));
        assert_eq!(files.collect::<Vec<_>>(), [(13, 2), (12, 1)]);
    }

    #[test]
    fn program_that_has_ended_keeps_its_name() {
        let mut hot = Hot::default();
        let mut program = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        // The name is that of this test until the program is executed.
        while program_of(program.id()).unwrap() != b"sleep" {
            std::thread::yield_now();
        }
        hot.record(None, program.id(), ONE, 0);
        program.kill().unwrap();
        program.wait().unwrap();
        let process = with_present_name(hot.processes(1).remove(0));
        assert_eq!(process.name.as_deref(), Some("sleep"));
        assert!(!process.is_running);
    }

    #[test]
    fn name_follows_an_execution() {
        let mut hot = Hot::default();
        let own = std::process::id();
        hot.record(None, own, ONE, 0);
        let name = hot.programs[&own].0.clone();
        // As if another program had been running at the first request.
        hot.programs.insert(own, (b"shell".to_vec(), 1));
        hot.record(None, own, ONE, 1);
        assert_eq!(hot.programs[&own], (name, 2));
    }

    #[test]
    fn memory_and_lookups_are_bounded() {
        let mut hot = Hot::default();
        let own = std::process::id();
        for thread in 0..100_000 {
            // Each request is from another thread, and none of these threads exists.
            hot.record(Some(Ino(thread)), 1 << 30 | thread, ONE, 5);
        }
        assert_eq!(hot.reads, (0, READS_PER_S));
        hot.record(None, own, ONE, 6);
        assert!(
            !hot.programs.contains_key(&own),
            "no more lookups in this second"
        );
        hot.record(None, own, ONE, SECOND_NS);
        assert!(hot.programs.contains_key(&own));
        assert_eq!(hot.reads, (1, 1));
        // This request arrived before the last one.
        hot.record(None, 1 << 31, ONE, 8);
        assert_eq!(hot.reads, (1, 2));
        for pid in 0..1000 {
            hot.programs.insert(pid, (Vec::new(), 0));
            hot.record(None, pid, ONE, 7);
        }
        assert!(hot.programs.len() <= CAPACITY);
        assert_eq!(hot.files(SECOND_NS).len(), SHOWN);
        assert_eq!(hot.processes(SECOND_NS).len(), SHOWN);
    }
}
