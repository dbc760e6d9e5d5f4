//! Converts the system calls of consecutive commands to operations.
//!
//! # Model
//! The input is the output of strace(1) with `-f -y`. As the kernel does, a [`Recorder`] tracks the
//! descriptors of each process, and the offset of each open file. A process inherits descriptors and can
//! duplicate them; execve(2) closes some of them. Calls on files outside the root, and calls that only query
//! settings, are omitted. The execution of a program below the root is recorded as a read of the whole file,
//! and mmap(2) as a read of the mapped part.

use super::{Done, Error, OpenMode, Operation};
use crate::trace::import::strace::{Call, Descriptor, Outcome, PathArgument, Start};
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// An open file description, shared by all descriptors that originate from one open(2).
#[derive(Debug)]
struct OpenFile {
    number: u32,
    path: String,
    offset: u64,
    appends: bool,
}

type Shared = Rc<RefCell<OpenFile>>;

/// A descriptor, and whether execve(2) closes it.
#[derive(Clone, Debug)]
struct Open {
    file: Shared,
    close_on_exec: bool,
}

/// The descriptors of a process; threads share them.
type Descriptors = Rc<RefCell<BTreeMap<i32, Open>>>;

/// Converts calls, and stores the operations.
#[derive(Debug)]
pub struct Recorder {
    /// The recorded directory, as strace prints it.
    root: String,
    /// The user's home in that directory.
    home: String,
    sizes: HashMap<String, u64>,
    processes: HashMap<u32, Descriptors>,
    /// The descriptors that the first process of a command inherits.
    inherited: BTreeMap<i32, Open>,
    opened: u32,
    done: Vec<Done>,
}

impl Recorder {
    /// Creates a recorder for the files below `root`. `home` is the user's own directory in it, and the
    /// working directory of commands. `files` lists the files that already exist, with their sizes.
    pub fn new(root: &str, home: &str, files: &[(String, u64)]) -> Self {
        Self {
            root: root.to_owned(),
            home: home.to_owned(),
            sizes: files.iter().cloned().collect(),
            processes: HashMap::new(),
            inherited: BTreeMap::new(),
            opened: 0,
            done: Vec::new(),
        }
    }

    /// Begins a command. Its standard input and output are these files of the home, if any.
    pub fn begin(&mut self, input: Option<&str>, output: Option<&str>) {
        let own = |path: &str| format!("home/{path}");
        let read = OpenMode {
            read: true,
            ..OpenMode::default()
        };
        let write = OpenMode {
            write: true,
            create: true,
            truncate: true,
            ..OpenMode::default()
        };
        for (number, path, mode) in [(0, input, read), (1, output, write)] {
            if let Some(path) = path {
                let open = Open {
                    file: self.open(own(path), mode, false),
                    close_on_exec: false,
                };
                self.inherited.insert(number, open);
            }
        }
    }

    /// Ends the command, after all of its processes have exited.
    pub fn end(&mut self) {
        let inherited = std::mem::take(&mut self.inherited);
        for (_, open) in inherited {
            self.close(open);
        }
        for (_, process) in std::mem::take(&mut self.processes) {
            self.close_all(&process);
        }
    }

    /// Returns the recorded operations.
    pub fn into_done(self) -> Vec<Done> {
        self.done
    }

    /// Returns the path of `absolute` relative to the home or the root; `None` if it is outside.
    fn inside(&self, absolute: &str) -> Option<String> {
        let rest = absolute.strip_prefix(&self.root)?;
        let rest = rest.strip_prefix('/').or(rest.is_empty().then_some(""))?;
        let (first, below) = rest.split_once('/').unwrap_or((rest, ""));
        if first != self.home {
            return Some(rest.to_owned());
        }
        Some(format!("home/{below}").trim_end_matches('/').to_owned())
    }

    /// Resolves a path argument; `None` if it is outside the root.
    fn path(&self, call: &Call, argument: &PathArgument) -> Result<Option<String>, Error> {
        let not_text = || Error::NotText(call.line);
        let path = str::from_utf8(&argument.path).map_err(|_| not_text())?;
        let start = match &argument.at {
            Start::WorkingDirectory(start) => start.as_ref(),
            Start::Descriptor(Descriptor { path, .. }) => path.as_ref(),
        };
        let start = match start {
            Some(start) => str::from_utf8(start).map_err(|_| not_text())?.to_owned(),
            // strace prints the working directory only for AT_FDCWD. If it is not printed, it is the home.
            None => format!("{}/{}", self.root, self.home),
        };
        let absolute = match path.strip_prefix('/') {
            Some(_) => path.to_owned(),
            None => format!("{start}/{path}"),
        };
        Ok(self.inside(&normal(&absolute)))
    }

    fn descriptors(&mut self, call: &Call) -> Descriptors {
        if let Some(descriptors) = self.processes.get(&call.pid) {
            return Rc::clone(descriptors);
        }
        let parent = call
            .origin
            .and_then(|origin| Some((origin, self.processes.get(&origin.parent)?)));
        let descriptors = match parent {
            Some((origin, parent)) if origin.shares_files => Rc::clone(parent),
            Some((_, parent)) => Rc::new(RefCell::new(parent.borrow().clone())),
            None => Rc::new(RefCell::new(std::mem::take(&mut self.inherited))),
        };
        self.processes.insert(call.pid, Rc::clone(&descriptors));
        descriptors
    }

    /// Returns the open file of a call, if it is recorded.
    fn file(&mut self, call: &Call) -> Option<Shared> {
        let number = call.fd.as_ref()?.number;
        let descriptors = self.descriptors(call);
        let descriptors = descriptors.borrow();
        Some(Rc::clone(&descriptors.get(&number)?.file))
    }

    fn open(&mut self, path: String, mode: OpenMode, appends: bool) -> Shared {
        self.opened += 1;
        let number = self.opened;
        if mode.truncate || !self.sizes.contains_key(&path) {
            self.sizes.insert(path.clone(), 0);
        }
        let open = Operation::Open(path.clone(), number, mode);
        self.done.push(Done(open, 0));
        Rc::new(RefCell::new(OpenFile {
            number,
            path,
            offset: 0,
            appends,
        }))
    }

    fn close(&mut self, open: Open) {
        if let Some(file) = Rc::into_inner(open.file) {
            let number = file.into_inner().number;
            self.done.push(Done(Operation::Close(number), 0));
        }
    }

    fn close_number(&mut self, descriptors: &Descriptors, number: i32) {
        let open = descriptors.borrow_mut().remove(&number);
        if let Some(open) = open {
            self.close(open);
        }
    }

    fn close_all(&mut self, descriptors: &Descriptors) {
        if Rc::strong_count(descriptors) > 1 {
            return;
        }
        let all = std::mem::take(&mut *descriptors.borrow_mut());
        for (_, open) in all {
            self.close(open);
        }
    }

    /// Processes the next call.
    ///
    /// # Errors
    /// Returns [`Error::Call`] for a call that changes files in a way that no operation represents, and
    /// [`Error::NotText`] for a path that is not UTF-8.
    pub fn take(&mut self, call: &Call) -> Result<(), Error> {
        // Look up the descriptors at every call, even if it does not use them: a process inherits its
        // descriptors at its first call.
        let descriptors = self.descriptors(call);
        match &*call.name {
            "exit_group" | "exit" => {
                self.processes.remove(&call.pid);
                self.close_all(&descriptors);
            }
            "execve" => self.execute(call, &descriptors)?,
            "open" | "openat" | "creat" => self.take_open(call, &descriptors)?,
            "close" | "dup" | "dup2" | "dup3" | "fcntl" => self.take_descriptor(call, &descriptors),
            "read" | "pread64" | "readv" | "write" | "pwrite64" | "writev" | "lseek" | "mmap"
            | "ftruncate" => {
                if let Some(file) = self.file(call) {
                    self.take_content(call, &file);
                }
            }
            "copy_file_range" | "sendfile" | "fallocate" | "truncate" | "link" | "linkat"
            | "symlink" | "symlinkat" => {
                let is_recorded = self.file(call).is_some() || self.first_path(call)?.is_some();
                if is_recorded && call.returned().is_some() {
                    return Err(not_recorded(call));
                }
            }
            _ => self.take_name(call)?,
        }
        Ok(())
    }

    fn first_path(&self, call: &Call) -> Result<Option<String>, Error> {
        match call.paths.first() {
            Some(argument) => self.path(call, argument),
            None => Ok(None),
        }
    }

    fn execute(&mut self, call: &Call, descriptors: &Descriptors) -> Result<(), Error> {
        if call.returned().is_none() {
            return Ok(());
        }
        let closed: Vec<i32> = {
            let table = descriptors.borrow();
            let on_exec = table.iter().filter(|(_, open)| open.close_on_exec);
            on_exec.map(|(number, _)| *number).collect()
        };
        for number in closed {
            self.close_number(descriptors, number);
        }
        if let Some(path) = self.first_path(call)? {
            let size = self.sizes.get(&path).copied().unwrap_or(0);
            let mode = OpenMode {
                read: true,
                ..OpenMode::default()
            };
            let file = self.open(path, mode, false);
            self.read_all(&file, 0, size);
            self.close(Open {
                file,
                close_on_exec: true,
            });
        }
        Ok(())
    }

    fn take_open(&mut self, call: &Call, descriptors: &Descriptors) -> Result<(), Error> {
        let Some(path) = self.first_path(call)? else {
            return Ok(());
        };
        if call.has_flag("O_DIRECTORY") {
            self.push(call, Operation::List(path));
            return Ok(());
        }
        let mode = OpenMode {
            read: !call.has_flag("O_WRONLY"),
            write: call.has_flag("O_WRONLY") || call.has_flag("O_RDWR"),
            create: call.has_flag("O_CREAT") || &*call.name == "creat",
            exclusive: call.has_flag("O_EXCL"),
            truncate: call.has_flag("O_TRUNC") || &*call.name == "creat",
        };
        let Some(number) = call.returned() else {
            let number = self.opened + 1;
            self.push(call, Operation::Open(path, number, mode));
            return Ok(());
        };
        let open = Open {
            file: self.open(path, mode, call.has_flag("O_APPEND")),
            close_on_exec: call.has_flag("O_CLOEXEC"),
        };
        self.put(descriptors, number, open);
        Ok(())
    }

    fn put(&mut self, descriptors: &Descriptors, number: i64, open: Open) {
        let Ok(number) = i32::try_from(number) else {
            return;
        };
        let before = descriptors.borrow_mut().insert(number, open);
        if let Some(before) = before {
            self.close(before);
        }
    }

    /// Processes a call that duplicates or closes a descriptor.
    fn take_descriptor(&mut self, call: &Call, descriptors: &Descriptors) {
        let (Some(fd), Some(returned)) = (&call.fd, call.returned()) else {
            return;
        };
        let number = fd.number;
        if &*call.name == "close" {
            self.close_number(descriptors, number);
            return;
        }
        if &*call.name == "fcntl" && call.has_flag("F_SETFD") {
            if let Some(open) = descriptors.borrow_mut().get_mut(&number) {
                open.close_on_exec = call.has_flag("FD_CLOEXEC");
            }
            return;
        }
        if &*call.name == "fcntl" && !(call.has_flag("F_DUPFD") || call.has_flag("F_DUPFD_CLOEXEC"))
        {
            return;
        }
        let from = descriptors.borrow().get(&number).cloned();
        if let Some(mut open) = from {
            open.close_on_exec = call.has_flag("F_DUPFD_CLOEXEC") || call.has_flag("O_CLOEXEC");
            self.put(descriptors, returned, open);
        } else if let Ok(number) = i32::try_from(returned) {
            // The previous file is replaced by one that is not recorded.
            self.close_number(descriptors, number);
        }
    }

    fn read_all(&mut self, file: &Shared, offset: u64, bytes: u64) {
        let operation = Operation::Read(file.borrow().number, offset, bytes);
        let result = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.done.push(Done(operation, result));
    }

    /// Processes a call on the content of an open file.
    fn take_content(&mut self, call: &Call, file: &Shared) {
        let Some(returned) = call.returned() else {
            return;
        };
        let bytes = u64::try_from(returned).unwrap_or(0);
        let OpenFile {
            number,
            path,
            offset,
            appends,
        } = &mut *file.borrow_mut();
        let size = self.sizes.entry(path.clone()).or_default();
        let requested = call.length.unwrap_or(bytes);
        let operation = match &*call.name {
            "pread64" => Operation::Read(*number, call.offset.unwrap_or(0), requested),
            "read" | "readv" => {
                let operation = Operation::Read(*number, *offset, requested);
                *offset += bytes;
                operation
            }
            "pwrite64" => {
                let at = call.offset.unwrap_or(0);
                *size = (at + bytes).max(*size);
                Operation::Write(*number, at, bytes)
            }
            "write" | "writev" => {
                if *appends {
                    *offset = *size;
                }
                let operation = Operation::Write(*number, *offset, bytes);
                *offset += bytes;
                *size = (*size).max(*offset);
                operation
            }
            "lseek" => {
                *offset = bytes;
                if !call.has_flag("SEEK_END") || bytes != *size {
                    return;
                }
                Operation::Size(*number)
            }
            "mmap" => {
                let at = call.offset.unwrap_or(0);
                let mapped = size.saturating_sub(at).min(requested);
                let result = i64::try_from(mapped).unwrap_or(i64::MAX);
                let operation = Operation::Read(*number, at, mapped);
                return self.done.push(Done(operation, result));
            }
            _ => {
                *size = requested;
                Operation::Truncate(*number, requested)
            }
        };
        self.done.push(Done(operation, returned));
    }

    /// Processes a call on names.
    fn take_name(&mut self, call: &Call) -> Result<(), Error> {
        let Some(path) = self.first_path(call)? else {
            return Ok(());
        };
        let is_of_descriptor = call
            .paths
            .first()
            .is_some_and(|argument| argument.path.is_empty());
        let operation = match &*call.name {
            // The inode of an open file is in memory, so a query of its attributes causes no lookup.
            "newfstatat" | "statx" if is_of_descriptor => return Ok(()),
            "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2" => {
                Operation::Stat(path)
            }
            "readlink" | "readlinkat" => Operation::Readlink(path),
            "chmod" | "fchmodat" => Operation::Chmod(path),
            "mkdir" | "mkdirat" => Operation::MakeDir(path),
            "rmdir" => Operation::RemoveDir(path),
            "unlinkat" if call.has_flag("AT_REMOVEDIR") => Operation::RemoveDir(path),
            "unlink" | "unlinkat" => {
                if call.returned().is_some() {
                    self.sizes.remove(&path);
                }
                Operation::Unlink(path)
            }
            "rename" | "renameat" | "renameat2" => {
                let new = call.paths.get(1).map(|new| self.path(call, new));
                let Some(new) = new.transpose()?.flatten() else {
                    return Err(not_recorded(call));
                };
                if call.returned().is_some()
                    && let Some(size) = self.sizes.remove(&path)
                {
                    self.sizes.insert(new.clone(), size);
                }
                Operation::Rename(path, new)
            }
            _ => return Ok(()),
        };
        self.push(call, operation);
        Ok(())
    }

    /// Records an operation whose result is success or an errno, with the result of the call.
    fn push(&mut self, call: &Call, operation: Operation) {
        let result = match &call.result {
            Outcome::Returned(..) => 0,
            Outcome::Failed(name) => match errno(name) {
                Some(errno) => -i64::from(errno.raw_os_error()),
                // The error depends on settings of the kernel or the file system, not on which files
                // exist.
                None => return,
            },
            Outcome::Unknown => return,
        };
        self.done.push(Done(operation, result));
    }
}

fn not_recorded(call: &Call) -> Error {
    let (line, call) = (call.line, call.name.to_string());
    Error::Call { line, call }
}

/// Returns the error `name` if it depends only on which files exist, and `None` otherwise.
fn errno(name: &str) -> Option<Errno> {
    Some(match name {
        "ENOENT" => Errno::NOENT,
        "EEXIST" => Errno::EXIST,
        "ENOTDIR" => Errno::NOTDIR,
        "EISDIR" => Errno::ISDIR,
        "ENOTEMPTY" => Errno::NOTEMPTY,
        "EINVAL" => Errno::INVAL,
        _ => return None,
    })
}

/// Returns the path without `.` and `..`. The path must not contain symbolic links.
fn normal(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}
