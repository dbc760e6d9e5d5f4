//! The files that threads have open, and the directories that they work in.

use super::call::Birth;
use super::names::ROOT;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// An open file, which several descriptors may be of: of a process and its children.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub inode: u64,
    pub position: Cell<u64>,
    /// Whether what is written goes to its end.
    pub appends: bool,
}

/// What a descriptor is.
#[derive(Clone, Debug)]
struct Descriptor {
    file: Rc<OpenFile>,
    closes_on_exec: bool,
}

/// What a thread has. Threads of a process share it.
#[derive(Debug)]
struct Thread {
    descriptors: Rc<RefCell<HashMap<i32, Descriptor>>>,
    directory: Rc<Cell<u64>>,
}

/// All threads that were heard of.
#[derive(Debug, Default)]
pub(super) struct Threads(HashMap<u32, Thread>);

impl Threads {
    /// Takes note that `pid` comes from where `birth` says.
    pub(super) fn born(&mut self, pid: u32, birth: Birth) {
        let parent = self.thread(birth.parent);
        let descriptors = if birth.shares_files {
            Rc::clone(&parent.descriptors)
        } else {
            Rc::new(RefCell::clone(&parent.descriptors))
        };
        let directory = if birth.shares_directory {
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

    /// Forgets `pid`.
    pub(super) fn ended(&mut self, pid: u32) {
        self.0.remove(&pid);
    }

    /// What `fd` of `pid` is, if it is a file that was opened by name.
    pub(super) fn file(&mut self, pid: u32, fd: i32) -> Option<Rc<OpenFile>> {
        let descriptors = self.thread(pid).descriptors.borrow();
        descriptors
            .get(&fd)
            .map(|descriptor| Rc::clone(&descriptor.file))
    }

    /// Lets `fd` of `pid` be `file`.
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

    /// Another program has descriptors of its own, and not those that were to be closed.
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

    /// A thread of which nothing is known works in the root directory.
    fn thread(&mut self, pid: u32) -> &mut Thread {
        self.0.entry(pid).or_insert_with(|| Thread {
            descriptors: Rc::default(),
            directory: Rc::new(Cell::new(ROOT)),
        })
    }
}
