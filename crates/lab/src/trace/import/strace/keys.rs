//! Derives lookups from system calls: of the names in paths, of inodes, and of pages of files.
//!
//! # Model
//! Each name in a path is a lookup in the dentry cache. When a name first occurs, its inode is looked up too;
//! later the dentry refers to the inode. Each page that is read, written or mapped is a lookup in the page
//! cache.
//!
//! Symbolic links are not resolved: a link counts as a directory of its own. A thread with an unknown working
//! directory starts in the root. Files of `/proc`, `/sys` and `/dev` have no pages.

use super::super::event::{EventSink, lookup};
use super::super::pages::of_span;
use super::super::skipped::Skipped;
use super::call::{Call, Descriptor, Outcome, Start};
use super::calls::Calls;
use super::files::{OpenFile, Threads};
use super::names::{Names, Step};
use crate::trace::Error;
use larder_cache::tape::CacheKind;
use larder_trace::TraceEvent;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::BufRead;
use std::rc::Rc;

/// The kernel's maximum length of a path.
const PATH_BYTES: usize = 4096;

/// Imports all calls of `reader`.
pub(in super::super) fn import(
    reader: impl BufRead,
    emit: &mut EventSink<'_>,
) -> Result<Skipped, Error> {
    let mut calls = Calls::new(reader);
    let mut state = State::new();
    while let Some(call) = calls.next() {
        let call = call?;
        let result = state.call(&call);
        if let Err(reason) = result {
            calls.skipped.add(reason, call.line, call.name.as_bytes());
        }
        for event in state.events.drain(..) {
            emit(event)?;
        }
        if let Ok(Some(pages)) = result {
            for page in pages.span {
                emit(lookup(call.time_ns, CacheKind::Page, pages.inode, page))?;
            }
        }
    }
    Ok(calls.skipped)
}

/// The pages that a call looks up.
#[derive(Debug)]
struct Pages {
    inode: u64,
    span: std::ops::Range<u64>,
}

struct State {
    names: Names,
    threads: Threads,
    /// For each inode, the largest size that is known so far. Appended data is assumed to be written at this
    /// offset.
    sizes: HashMap<u64, u64>,
    /// The lookups of names in the current call.
    events: Vec<TraceEvent>,
}

impl State {
    fn new() -> Self {
        Self {
            names: Names::new(),
            threads: Threads::default(),
            sizes: HashMap::new(),
            events: Vec::new(),
        }
    }

    /// Records the changes of `call`, and returns the pages that it looked up.
    fn call(&mut self, call: &Call) -> Result<Option<Pages>, &'static str> {
        if let Some(origin) = call.origin {
            self.threads.add_thread(call.pid, origin);
        }
        if call.paths.iter().any(|path| path.path.len() > PATH_BYTES) {
            return Err("a path of more than 4096 bytes");
        }
        match &*call.name {
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => self.two_names(call)?,
            "exit" | "exit_group" => self.threads.remove_thread(call.pid),
            _ if !call.paths.is_empty() => self.one_name(call)?,
            "read" | "readv" | "pread64" | "preadv" | "preadv2" | "write" | "writev"
            | "pwrite64" | "pwritev" | "pwritev2" | "sendfile" | "copy_file_range" | "mmap" => {
                return self.pages(call);
            }
            _ => self.descriptors(call)?,
        }
        Ok(None)
    }

    /// Walks the path with index `number` of the call. Returns its parent directory, its last name and its
    /// target.
    fn walk<'c>(
        &mut self,
        call: &'c Call,
        number: usize,
        exists: bool,
    ) -> Result<(u64, &'c [u8], Option<u64>), &'static str> {
        let path = call.paths.get(number).ok_or("a malformed call")?;
        let start = match &path.at {
            Start::WorkingDirectory(None) => self.threads.directory(call.pid),
            Start::WorkingDirectory(Some(known)) => self.place(known),
            Start::Descriptor(descriptor) => self.inode_of(call.pid, descriptor)?,
        };
        let (time_ns, events) = (call.time_ns, &mut self.events);
        let mut step = |step| {
            events.push(match step {
                Step::Dentry { parent, name_hash } => {
                    lookup(time_ns, CacheKind::Dentry, parent, name_hash)
                }
                Step::Inode(inode) => lookup(time_ns, CacheKind::Inode, 0, inode),
            });
        };
        let place = self.names.walk(start, &path.path, exists, &mut step);
        Ok((place.parent, place.name, place.inode))
    }

    /// Returns the target of `path` without recording lookups.
    fn place(&mut self, path: &[u8]) -> u64 {
        let place = self.names.walk(super::names::ROOT, path, true, &mut |_| {});
        place.inode.unwrap_or(place.parent)
    }

    fn inode_of(&mut self, pid: u32, descriptor: &Descriptor) -> Result<u64, &'static str> {
        match (self.threads.file(pid, descriptor.number), &descriptor.path) {
            (Some(file), _) => Ok(file.inode),
            (None, Some(path)) => Ok(self.place(path)),
            (None, None) => Err("a descriptor whose opening is not in the trace"),
        }
    }

    fn one_name(&mut self, call: &Call) -> Result<(), &'static str> {
        let is_missing = |error: &str| matches!(error, "ENOENT" | "ENOTDIR" | "ENAMETOOLONG");
        let exists = match &call.result {
            Outcome::Returned(..) => true,
            Outcome::Failed(error) => !is_missing(error),
            Outcome::Unknown => return Err("a call with an unknown result"),
        };
        let (parent, name, inode) = self.walk(call, 0, exists)?;
        let (Some(result), Some(inode)) = (call.returned(), inode) else {
            return Ok(());
        };
        match &*call.name {
            "open" | "openat" | "openat2" | "creat" => {
                let fd = i32::try_from(result).map_err(|_| "a malformed call")?;
                let file = OpenFile {
                    inode,
                    position: Cell::new(0),
                    appends: call.has_flag("O_APPEND"),
                };
                if call.has_flag("O_TRUNC") || &*call.name == "creat" {
                    self.sizes.remove(&inode);
                }
                let closes = call.has_flag("O_CLOEXEC");
                self.threads.put(call.pid, fd, Rc::new(file), closes);
            }
            "unlink" | "unlinkat" | "rmdir" => self.names.remove(parent, name),
            "chdir" => self.threads.change_directory(call.pid, inode),
            "execve" | "execveat" => self.threads.exec(call.pid),
            _ => {}
        }
        Ok(())
    }

    fn two_names(&mut self, call: &Call) -> Result<(), &'static str> {
        let succeeded = call.returned().is_some();
        let (from, old, inode) = self.walk(call, 0, succeeded)?;
        let (to, new, replaced) = self.walk(call, 1, call.has_flag("RENAME_EXCHANGE"))?;
        let (true, Some(inode)) = (succeeded, inode) else {
            return Ok(());
        };
        self.names.set(to, new, inode);
        if call.name.starts_with("rename") {
            self.names.remove(from, old);
            if let Some(replaced) = replaced {
                self.names.set(from, old, replaced);
            }
        }
        Ok(())
    }

    fn pages(&mut self, call: &Call) -> Result<Option<Pages>, &'static str> {
        let Some(returned) = call.returned() else {
            return Err("a call that failed");
        };
        let Some(descriptor) = &call.fd else {
            return Err("anonymous memory");
        };
        let file = self.threads.file(call.pid, descriptor.number);
        let inode = self.inode_of(call.pid, descriptor)?;
        if !self.names.has_pages(inode) {
            return Err("a file without pages");
        }
        let is_mapping = &*call.name == "mmap";
        let length = if is_mapping {
            call.length
        } else {
            u64::try_from(returned).ok()
        };
        let length = length.ok_or("a malformed call")?;
        let size = self.sizes.entry(inode).or_default();
        let offset = match (call.offset, &file) {
            (Some(offset), _) => offset,
            (None, None) => return Err("a file whose opening is not in the trace"),
            (None, Some(file)) if file.appends && call.name.starts_with("write") => *size,
            (None, Some(file)) => file.position.get(),
        };
        let end = offset.saturating_add(length);
        if !is_mapping {
            *size = end.max(*size);
        }
        if let (None, Some(file)) = (call.offset, &file) {
            file.position.set(end);
        }
        let span = of_span(offset, length)?;
        Ok(Some(Pages { inode, span }))
    }

    /// Processes calls with descriptors only.
    fn descriptors(&mut self, call: &Call) -> Result<(), &'static str> {
        const NOTHING: &str = "a call without a lookup";
        let (pid, Some(result), Some(descriptor)) = (call.pid, call.returned(), &call.fd) else {
            return Err(NOTHING);
        };
        let fd = descriptor.number;
        match &*call.name {
            "close" => self.threads.close(pid, fd, fd),
            "close_range" => {
                let last = i32::try_from(call.length.unwrap_or(0)).unwrap_or(i32::MAX);
                self.threads.close(pid, fd, last);
            }
            "lseek" => {
                if let (Some(file), Ok(position)) =
                    (self.threads.file(pid, fd), u64::try_from(result))
                {
                    file.position.set(position);
                }
            }
            "fchdir" => {
                let inode = self.inode_of(pid, descriptor)?;
                self.threads.change_directory(pid, inode);
            }
            "fcntl" if call.has_flag("F_SETFD") => {
                let closes = call.has_flag("FD_CLOEXEC");
                self.threads.set_closes_on_exec(pid, fd, closes);
            }
            "dup" | "dup2" | "dup3" => self.duplicate(call, fd, result),
            "fcntl" if call.has_flag("F_DUPFD") || call.has_flag("F_DUPFD_CLOEXEC") => {
                self.duplicate(call, fd, result);
            }
            _ => return Err(NOTHING),
        }
        Ok(())
    }

    fn duplicate(&mut self, call: &Call, fd: i32, result: i64) {
        let closes = call.has_flag("O_CLOEXEC") || call.has_flag("F_DUPFD_CLOEXEC");
        let Ok(copy) = i32::try_from(result) else {
            return;
        };
        match self.threads.file(call.pid, fd) {
            Some(file) => self.threads.put(call.pid, copy, file, closes),
            None => self.threads.close(call.pid, copy, copy),
        }
    }
}
