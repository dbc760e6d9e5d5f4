//! Joins the lines of a trace into system calls.
//!
//! # Cost
//! The iterator needs memory for each live thread, and for the call that each thread has in progress.

use super::super::lines::{Line, Lines};
use super::super::skipped::{FOREIGN, Skipped};
use super::call::{Call, Origin};
use super::line::{self, What};
use super::timestamp::Clock;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead};

/// Maximum memory for the first parts of interrupted calls, in bytes.
const UNFINISHED_BYTES: usize = 64 << 20;

/// The calls of a trace, in the order of their ends.
#[derive(Debug)]
pub struct Calls<R> {
    lines: Lines<R>,
    clock: Clock,
    threads: Threads,
    pub(super) skipped: Skipped,
}

impl<R: BufRead> Calls<R> {
    /// Creates an iterator over the calls in `reader`.
    pub fn new(reader: R) -> Self {
        Self {
            lines: Lines::new(reader),
            clock: Clock::default(),
            threads: Threads::default(),
            skipped: Skipped::default(),
        }
    }
}

impl<R: BufRead> Iterator for Calls<R> {
    type Item = io::Result<Call>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = match self.lines.next() {
                Ok(line) => line?,
                Err(error) => return Some(Err(error)),
            };
            match self.threads.read(line, &mut self.clock) {
                Ok(Some(call)) => return Some(Ok(call)),
                Ok(None) => {}
                Err(reason) => self.skipped.line(reason, line),
            }
        }
    }
}

/// The live threads, and their calls in progress.
#[derive(Debug, Default)]
struct Threads {
    live: HashMap<u32, Thread>,
    /// The beginnings of calls, ordered by line number.
    unfinished: BTreeMap<u64, Unfinished>,
    unfinished_bytes: usize,
}

#[derive(Debug, Default)]
struct Thread {
    /// The origin, until it is reported with the thread's first call.
    origin: Option<Origin>,
    /// The line with the beginning of the call in progress.
    unfinished: Option<u64>,
}

#[derive(Debug)]
struct Unfinished {
    pid: u32,
    text: Vec<u8>,
}

impl Threads {
    /// Returns the system call that ends on `line`, or `None` if the call ends on a later line.
    ///
    /// # Errors
    /// Returns a description of what the line contains instead of a system call.
    fn read(&mut self, line: Line<'_>, clock: &mut Clock) -> Result<Option<Call>, &'static str> {
        if line.cut {
            return Err("a line of more than 1 MiB");
        }
        if line.text.starts_with(b"strace: ") {
            return Err("a message of strace");
        }
        let parts = line::parts(line.text).ok_or(FOREIGN)?;
        let time_ns = clock.at(parts.timestamp);
        let pid = parts.pid;
        let text = match parts.what {
            What::Exit => {
                self.remove(pid);
                return Err("the end of a thread");
            }
            What::Signal => return Err("a signal"),
            What::Unfinished(started) => {
                self.begin(pid, line.number, started)?;
                return Ok(None);
            }
            What::Resumed(rest) => {
                let begun = self.take_unfinished(pid);
                let mut text = begun.ok_or("the end of a call whose beginning is missing")?;
                text.extend_from_slice(rest);
                text
            }
            What::Call(text) => text.to_vec(),
        };
        let call = line::call(&text).ok_or(FOREIGN)?;
        let call = Call {
            line: line.number,
            time_ns,
            pid,
            origin: self.thread(pid).origin.take(),
            ..call
        };
        self.record_origin(&call);
        Ok(Some(call))
    }

    /// Returns the thread `pid`. If the thread occurs for the first time, its origin is the latest call in
    /// progress that creates a thread, if there is one.
    fn thread(&mut self, pid: u32) -> &mut Thread {
        let unfinished = &self.unfinished;
        self.live.entry(pid).or_insert_with(|| {
            let creators = unfinished
                .values()
                .rev()
                .filter_map(|call| origin(call.pid, &call.text));
            Thread {
                origin: creators.take(1).next(),
                unfinished: None,
            }
        })
    }

    /// If `call` created a thread, records the origin of the thread, whose number `call` returned. If a line of
    /// the thread preceded the end of `call`, the thread keeps the origin that [`Self::thread`] has found.
    fn record_origin(&mut self, call: &Call) {
        if let Some(child) = call.returned().and_then(|child| u32::try_from(child).ok())
            && child > 0
            && creates_thread(call.name.as_bytes())
        {
            self.live.entry(child).or_insert_with(|| Thread {
                origin: Some(origin_from_flags(call.pid, |flag| call.has_flag(flag))),
                unfinished: None,
            });
        }
    }

    fn begin(&mut self, pid: u32, number: u64, text: &[u8]) -> Result<(), &'static str> {
        self.take_unfinished(pid);
        if self.unfinished_bytes + text.len() > UNFINISHED_BYTES {
            return Err("too many unfinished calls");
        }
        self.thread(pid).unfinished = Some(number);
        self.unfinished_bytes += text.len();
        let text = text.to_vec();
        self.unfinished.insert(number, Unfinished { pid, text });
        Ok(())
    }

    fn take_unfinished(&mut self, pid: u32) -> Option<Vec<u8>> {
        let number = self.live.get_mut(&pid)?.unfinished.take()?;
        let text = self.unfinished.remove(&number)?.text;
        self.unfinished_bytes -= text.len();
        Some(text)
    }

    fn remove(&mut self, pid: u32) {
        self.take_unfinished(pid);
        self.live.remove(&pid);
    }
}

fn creates_thread(name: &[u8]) -> bool {
    matches!(name, b"clone" | b"clone3" | b"fork" | b"vfork")
}

/// Returns the origin of the thread that a call creates, from the beginning of the call.
fn origin(parent: u32, text: &[u8]) -> Option<Origin> {
    let name = text.split(|&byte| byte == b'(').next()?;
    creates_thread(name).then(|| {
        let text = String::from_utf8_lossy(text);
        origin_from_flags(parent, |flag| text.contains(flag))
    })
}

fn origin_from_flags(parent: u32, has: impl Fn(&str) -> bool) -> Origin {
    Origin {
        parent,
        shares_files: has("CLONE_FILES"),
        shares_directory: has("CLONE_FS"),
    }
}
