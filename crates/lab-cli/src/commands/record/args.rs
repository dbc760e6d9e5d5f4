//! The arguments of `larder lab record`.

use crate::options::choice;
use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args};
use larder_console::{Result, count, size};
use larder_lab::trace::procfs::KeyTable;
use std::ffi::OsString;
use std::path::PathBuf;

/// Record the kernel's cache accesses, or the existing processes, users or memory areas
///
/// With --kernel, the command requires root. It uses the tracepoints of the page cache, readahead, block devices
/// and ext4 in a separate tracing instance, which does not affect other tracing and is removed at the end. The
/// accesses of larder lab record itself are not recorded.
///
/// With --keys, the command records which process IDs, user IDs or memory areas exist (see Tables below). It scans
/// /proc (for users, also /etc/passwd) up to four times a second. The trace contains only numbers: no names, paths or
/// command lines.
///
/// If COMMAND is given, the recording ends when COMMAND exits. If --seconds is given, it ends after that time.
/// Ctrl-C always ends the recording. docs/traces.md describes the rows of a trace, and what is not recorded. To
/// record a mount of larder, use larder mount --record FILE.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Tables of --keys:
  processes  the IDs of processes and threads
  users      the user IDs of processes, and those of the accounts in /etc/passwd
  areas      the memory areas of processes, each with the process ID and the first page of the
             area; requires root for the processes of other users

Examples:
  larder lab record --kernel --seconds 60
  larder lab record --kernel --mount /home --output home.parquet
  larder lab record --kernel -- make -j8
  larder lab record --kernel --pid 1234 --buffer 64M --json | jq .lost
  larder lab record --keys processes --output processes.parquet -- make -j8

JSON of --kernel: output (the new trace), events {page, buffer, dentry, inode, read} (rows of the trace),
kernel_events (received from the kernel), lost (events that the kernel discarded), device {reads,
read_bytes, writes, written_bytes}, windows {sync, async} (synchronous and asynchronous
readahead), missing_tracepoints [names of tracepoints that this kernel does not have], with --paths:
paths {files, found}

JSON of --keys: output, events, scans, keys (number of different keys), peak (largest number of keys
in one scan), unreadable (largest number of unreadable processes in one scan)")]
pub(crate) struct RecordArgs {
    /// Record the caches of the running kernel
    #[arg(long, group = "source")]
    pub kernel: bool,
    /// Record the keys of TABLE: see below
    #[arg(long, value_name = "TABLE", value_parser = choice(KeyTable::ALL, KeyTable::as_str))]
    #[arg(group = "source", conflicts_with_all = ["mount", "pid", "buffer", "paths"])]
    pub keys: Option<KeyTable>,
    /// New trace to write
    ///
    /// The file must not exist yet.
    #[arg(long, value_name = "FILE", default_value = "kernel.parquet")]
    #[arg(default_value_if("keys", ArgPredicate::IsPresent, "keys.parquet"))]
    pub output: PathBuf,
    /// Record only the file system that contains PATH
    #[arg(long, value_name = "PATH")]
    pub mount: Option<PathBuf>,
    /// Record only these processes and their descendants
    ///
    /// Process IDs are separated by commas.
    #[arg(
        long,
        value_name = "PID,...",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    #[arg(value_parser = count::within(1..=u32::MAX))]
    pub pid: Vec<u32>,
    /// Stop after N seconds
    ///
    /// Without this option and without COMMAND, the recording continues until Ctrl-C.
    #[arg(long, value_name = "N", conflicts_with = "command")]
    #[arg(value_parser = count::within(1..=31_536_000_u64))]
    pub seconds: Option<u64>,
    /// Also record the paths of files
    ///
    /// The kernel reports only inode numbers. After the recording, the directories of the recorded file systems are
    /// searched for them. Without this option, the trace has no names.
    #[arg(long)]
    pub paths: bool,
    /// Size of the kernel's trace buffer for each processor
    ///
    /// Increase SIZE if events are lost.
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = parse_buffer)]
    pub buffer: u64,
    /// Write one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Command to run, and its arguments
    ///
    /// With --kernel, only this command and its descendants are recorded.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Parses the size of the buffer: at least one page, with an upper limit on memory.
fn parse_buffer(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ 0x1000..=0x4_0000_0000 => Ok(bytes),
        _ => Err(format!("`{text}` is outside the limits: use 4K to 16G")),
    }
}
