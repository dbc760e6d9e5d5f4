//! The open files and working directories of threads.

use super::call::Origin;
use super::names::ROOT;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// An open file, to which several descriptors may refer, in a process and its children.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub inode: u64,
    pub position: Cell<u64>,
    /// Whether writes are appended at its end.
    pub appends: bool,
}

/// The state of a descriptor.
#[derive(Clone, Debug)]
struct Descriptor {
    file: Rc<OpenFile>,
    closes_on_exec: bool,
}

/// The state of a thread. Several threads can share each part: the threads of a process share both.
#[derive(Debug)]
struct Thread {
    descriptors: Rc<RefCell<HashMap<i32, Descriptor>>>,
    directory: Rc<Cell<u64>>,
}

/// All threads that occurred in the trace.
#[derive(Debug, Default)]
pub(super) struct Threads(HashMap<u32, Thread>);

impl Threads {
    /// Records the origin of `pid`.
    pub(super) fn add_thread(&mut self, pid: u32, origin: Origin) {
        let parent = self.thread(origin.parent);
        let descriptors = if origin.shares_files {
            Rc::clone(&parent.descriptors)
        } else {
            Rc::new(RefCell::clone(&parent.descriptors))
        };
        let directory = if origin.shares_directory {
            Rc::clone(&parent.directory)
        } else {
            Rc::new(Cell::clone(&parent.directory))
        };
        let child = Thread {
            descriptors,
            directory,
        };
        self.0.insert(pid, child);
    }

    /// Removes `pid`.
    pub(super) fn remove_thread(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// Returns the file of `fd` in `pid`, if it was opened by name.
    pub(super) fn file(&mut self, pid: u32, fd: i32) -> Option<Rc<OpenFile>> {
        let descriptors = self.thread(pid).descriptors.borrow();
        descriptors
            .get(&fd)
            .map(|descriptor| Rc::clone(&descriptor.file))
    }

    /// Makes `fd` of `pid` refer to `file`.
    pub(super) fn put(&mut self, pid: u32, fd: i32, file: Rc<OpenFile>, closes_on_exec: bool) {
        let descriptor = Descriptor {
            file,
            closes_on_exec,
        };
        self.thread(pid)
            .descriptors
            .borrow_mut()
            .insert(fd, descriptor);
    }

    pub(super) fn close(&mut self, pid: u32, from: i32, to: i32) {
        let mut descriptors = self.thread(pid).descriptors.borrow_mut();
        if from == to {
            descriptors.remove(&from);
        } else {
            descriptors.retain(|fd, _| *fd < from || *fd > to);
        }
    }

    pub(super) fn set_closes_on_exec(&mut self, pid: u32, fd: i32, closes: bool) {
        let mut descriptors = self.thread(pid).descriptors.borrow_mut();
        if let Some(descriptor) = descriptors.get_mut(&fd) {
            descriptor.closes_on_exec = closes;
        }
    }

    /// Handles execve(2): the program gets a separate descriptor table, without descriptors that
    /// are closed on exec.
    pub(super) fn exec(&mut self, pid: u32) {
        let thread = self.thread(pid);
        let mut descriptors = RefCell::clone(&thread.descriptors);
        descriptors
            .get_mut()
            .retain(|_, descriptor| !descriptor.closes_on_exec);
        thread.descriptors = Rc::new(descriptors);
    }

    pub(super) fn directory(&mut self, pid: u32) -> u64 {
        self.thread(pid).directory.get()
    }

    pub(super) fn change_directory(&mut self, pid: u32, inode: u64) {
        self.thread(pid).directory.set(inode);
    }

    /// Returns a thread. The working directory of an unknown thread is the root.
    fn thread(&mut self, pid: u32) -> &mut Thread {
        self.0.entry(pid).or_insert_with(|| Thread {
            descriptors: Rc::default(),
            directory: Rc::new(Cell::new(ROOT)),
        })
    }
}
