//! One system call.

/// A system call that has returned, or will not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The number of the line that tells of its end.
    pub line: u64,
    /// When that line was printed, in nanoseconds since the first.
    pub time_ns: u64,
    /// The thread; 0 where the trace is of one alone and does not say.
    pub pid: u32,
    /// Where the thread came from; of its first call only.
    pub birth: Option<Birth>,
    /// The call's name, such as `openat`.
    pub name: Box<str>,
    /// Its paths, in their order.
    pub paths: Vec<PathArgument>,
    /// The descriptor that it is about; of two, the one that is read from.
    pub fd: Option<Descriptor>,
    /// Where in the file, if it says so.
    pub offset: Option<u64>,
    /// How many bytes were asked for.
    pub length: Option<u64>,
    /// Names of its flags, such as `O_RDWR|O_CREAT`; what is not a flag, such as `SEEK_SET`, too.
    pub flags: Box<str>,
    /// What it returned.
    pub result: Outcome,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A number, and the path of the descriptor that it is, if `-y` prints it.
    Returned(i64, Option<Vec<u8>>),
    /// An error, by name, such as `ENOENT`.
    Failed(Box<str>),
    /// Not known: the thread ended, or was let go of.
    Unknown,
}

/// A path, and where it starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathArgument {
    /// Where a relative path starts from.
    pub at: Start,
    /// The path; empty where `at` itself is meant.
    pub path: Vec<u8>,
}

/// Where a relative path starts from.
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

/// Where a thread came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The thread that made it.
    pub parent: u32,
    /// Whether they share descriptors, as the threads of a process do.
    pub shares_files: bool,
    /// Whether they share their working directory.
    pub shares_directory: bool,
}

impl Call {
    /// What it returned, unless it failed.
    pub fn returned(&self) -> Option<i64> {
        match self.result {
            Outcome::Returned(number, _) => Some(number),
            Outcome::Failed(_) | Outcome::Unknown => None,
        }
    }

    /// Whether `flag` is among the flags.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .any(|name| name == flag)
    }
}
