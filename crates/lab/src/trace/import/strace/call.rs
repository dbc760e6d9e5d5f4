//! One system call.

/// A system call that has returned, or that will not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number of the line that contains the end of the call.
    pub line: u64,
    /// Time of `line`, in nanoseconds since the first line.
    pub time_ns: u64,
    /// The thread; 0 if the trace does not contain thread IDs, which means that it has a single
    /// thread.
    pub pid: u32,
    /// The origin of the thread; only for its first call.
    pub origin: Option<Origin>,
    /// The call's name, such as `openat`.
    pub name: Box<str>,
    /// The paths in the arguments, in order.
    pub paths: Vec<PathArgument>,
    /// The file descriptor of the call; if it has two, the descriptor that is read.
    pub fd: Option<Descriptor>,
    /// The offset in the file, if the call has one.
    pub offset: Option<u64>,
    /// The number of bytes that the call requested.
    pub length: Option<u64>,
    /// The names of flags, such as `O_RDWR|O_CREAT`, and of similar constants, such as `SEEK_SET`.
    pub flags: Box<str>,
    /// The result of the call.
    pub result: Outcome,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The returned number. If it is a descriptor and strace ran with `-y`, also its path.
    Returned(i64, Option<Vec<u8>>),
    /// The name of an error, such as `ENOENT`.
    Failed(Box<str>),
    /// Unknown: the thread exited, or strace detached from it.
    Unknown,
}

/// A path, and its starting point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// The starting point of a relative path.
    pub at: Start,
    /// The path; empty if the call operates on `at` itself.
    pub path: Vec<u8>,
}

/// The starting point of a relative path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// The working directory, and its path, if `-y` prints it.
    WorkingDirectory(Option<Vec<u8>>),
    /// An open directory.
    Descriptor(Descriptor),
}

/// An open file, and its path, if `-y` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub number: i32,
    pub path: Option<Vec<u8>>,
}

/// The origin of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The thread that created it.
    pub parent: u32,
    /// Whether both threads share descriptors, as the threads of a process do.
    pub shares_files: bool,
    /// Whether both threads share their working directory.
    pub shares_directory: bool,
}

impl Call {
    /// Returns the returned number, unless the call failed.
    pub fn returned(&self) -> Option<i64> {
        match self.result {
            Outcome::Returned(number, _) => Some(number),
            Outcome::Failed(_) | Outcome::Unknown => None,
        }
    }

    /// Returns whether `flag` is among the flags.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .any(|name| name == flag)
    }
}
