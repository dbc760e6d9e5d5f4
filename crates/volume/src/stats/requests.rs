//! Statistics of the requests that the kernel sends to the server of a mount.

use larder_block::LatencyStats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The requests of the kernel since the volume was mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestStats {
    /// The time of the mount by the coarse monotonic clock, in nanoseconds. It distinguishes mounts of the same mount
    /// point: counts of different mounts cannot be compared. 0 if the server does not know it.
    #[serde(default)]
    pub start_ns: u64,
    /// The time since the volume was mounted, in nanoseconds.
    pub uptime_ns: u64,
    /// The time since the last request of a program arrived, in nanoseconds. `None` if no request has arrived yet.
    /// Requests with which the kernel only frees its memory (`forget`, `release`, `releasedir`) do not count.
    pub idle_ns: Option<u64>,
    /// The number of answered requests.
    pub requests: u64,
    /// The number of requests whose answer was an error.
    pub errors: u64,
    /// The number of requests that are not answered yet, including those that the kernel has not sent yet. `None` if
    /// the kernel does not show it.
    pub waiting: Option<u64>,
    /// The operations that the kernel has requested, in the order of their numbers in the protocol.
    pub operations: Vec<OperationStats>,
}

/// The requests for one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStats {
    /// The name of the operation in the protocol, in lower case, such as `getattr`. Operations that this version does
    /// not know have the name `other`.
    pub operation: String,
    /// The number of answered requests.
    pub requests: u64,
    /// The number of requests whose answer was an error.
    pub errors: u64,
    /// The number of errors of each errno, by the name of the errno, such as `ENOENT`.
    pub errnos: BTreeMap<String, u64>,
    /// The content that was read or written, in bytes. 0 for operations other than `read`, `write` and
    /// `copy_file_range`.
    pub bytes: u64,
    /// The time since the last request arrived, in nanoseconds.
    pub idle_ns: u64,
    /// The times from the arrival of each request in the server to its answer. They include the time in which a request
    /// waited for a worker.
    pub latency: LatencyStats,
}

/// The files and the processes with the most requests. Only the owner of the mount and root receive them.
///
/// The statistics are estimates with bounded memory: if there are many requests, only a random sample is recorded. The
/// rates are averages in which the weight of a request is halved every 5 s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotStats {
    /// The files with the most requests, the busiest first.
    pub files: Vec<HotFile>,
    /// The processes with the most requests, the busiest first.
    pub processes: Vec<BusyProcess>,
}

/// A file with many requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HotFile {
    /// The inode number.
    pub ino: u32,
    /// The last known path of the file in the image, such as `/etc/passwd`. U+FFFD replaces bytes that are not UTF-8.
    /// `None` if no path is known. The path can contain control characters.
    pub path: Option<String>,
    /// The bytes of the path in hexadecimal, if the path is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// The requests for the file, and the content that they read and write.
    pub load: Load,
}

/// A process with many requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BusyProcess {
    /// The process ID in the PID namespace of the server. 0 for requests that the kernel sends for itself, such as the
    /// write-back of pages.
    pub pid: u32,
    /// The name of the program (`/proc/PID/comm`). U+FFFD replaces bytes that are not UTF-8. `None` if it is not known.
    /// The name can contain control characters.
    pub name: Option<String>,
    /// Whether the process still exists.
    pub is_running: bool,
    /// The requests of the process, and the content that they read and write.
    pub load: Load,
}

/// The requests for a file, or of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The number of requests since the file or the process became one of the busiest.
    pub requests: u64,
    /// The requests per second.
    pub requests_per_s: f64,
    /// The content that is read, in bytes per second.
    pub read_bytes_per_s: f64,
    /// The content that is written, in bytes per second.
    pub written_bytes_per_s: f64,
}
