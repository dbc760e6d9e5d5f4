//! The command line of `larder lab record`.

use clap::Args;
use larder_console::{count, size};
use std::ffi::OsString;
use std::path::PathBuf;

/// Record what the kernel's caches are asked, into a trace
///
/// Listens to the tracepoints of the page cache, readahead, block devices and ext4 through a private
/// instance of the kernel's tracing, which disturbs no other and is removed at the end; needs root. Lasts
/// until COMMAND ends, or the seconds are over, or Ctrl-C. This process itself is left out.
///
/// docs/traces.md says what each row means, and what the kernel does not tell. A mount of larder's
/// own records itself: larder mount --record FILE.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab record --kernel --seconds 60
  larder lab record --kernel --mount /home --output home.parquet
  larder lab record --kernel -- make -j8
  larder lab record --kernel --pid 1234 --buffer 64M --json | jq .lost

JSON: output, events {page, buffer, dentry, inode}, kernel_events, lost, device {reads, read_bytes,
writes, written_bytes}, windows {sync, async}, missing_tracepoints [names]")]
pub(crate) struct RecordArgs {
    /// Record the kernel that is running
    #[arg(long, required = true)]
    pub kernel: bool,
    /// The trace that is written; there must be no such file yet
    #[arg(long, value_name = "FILE", default_value = "kernel.parquet")]
    pub output: PathBuf,
    /// Only the file system that PATH lies on
    #[arg(long, value_name = "PATH")]
    pub mount: Option<PathBuf>,
    /// Only these processes, and those that they started or will start: numbers separated by commas
    #[arg(
        long,
        value_name = "PID,...",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    #[arg(value_parser = count::within(1..=u32::MAX))]
    pub pid: Vec<u32>,
    /// How long [default: until Ctrl-C]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    #[arg(value_parser = count::within(1..=31_536_000_u64))]
    pub seconds: Option<u64>,
    /// The kernel's buffer for each processor; raise it where events are lost
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = parse_buffer)]
    pub buffer: u64,
    /// Write JSON, one object, instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Run this, and record what it and the processes that it starts do
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Reads the size of the buffer: of a page at least, and no more than there can be memory for.
fn parse_buffer(text: &str) -> Result<u64, String> {
    match size::parse(text)? {
        bytes @ 0x1000..=0x4_0000_0000 => Ok(bytes),
        _ => Err(format!("`{text}` is no size of a buffer: give 4K to 16G")),
    }
}
