//! The command `larder lab record`: records the accesses to the kernel's caches, or the keys of another table,
//! in a trace.

mod keys;

use super::interrupt::interrupt;
use super::written::{Rows, TraceOutput, now_unix_s};
use crate::options::choice;
use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args};
use larder_console::{Failure, Result, count, print_note, print_warning, size, write_json};
use larder_lab::output::counted;
use larder_lab::trace::kernel::{Error, KernelConfig, KernelRecorder, KernelSummary, Processes};
use larder_lab::trace::procfs::KeyTable;
use larder_trace::TraceInfo;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, IsTerminal, PipeReader, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// Record the accesses to the kernel's caches, or the keys of another table
///
/// With --kernel, the command requires root. It uses the tracepoints of the page cache, readahead, block devices
/// and ext4 in a separate tracing instance, which does not affect other tracing and is removed at the end. The
/// accesses of larder lab record itself are not recorded.
///
/// With --keys, the command records which keys a table of the kernel contains. It scans /proc four times a second.
/// The trace contains only numbers: no names, paths or command lines.
///
/// If COMMAND is given, the recording ends when COMMAND exits. If --seconds is given, it ends after that time.
/// Ctrl-C always ends the recording. docs/traces.md describes the rows of a trace, and what is not recorded. To
/// record a mount of larder, use larder mount --record FILE.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true))]
#[command(after_help = "\
Tables of --keys:
  processes  the numbers of processes and threads
  users      the user IDs of processes, and those of the accounts in /etc/passwd
  areas      the memory areas of processes: the number of the process and the first page; requires root
             for the processes of other users

Examples:
  larder lab record --kernel --seconds 60
  larder lab record --kernel --mount /home --output home.parquet
  larder lab record --kernel -- make -j8
  larder lab record --kernel --pid 1234 --buffer 64M --json | jq .lost
  larder lab record --keys processes --output processes.parquet -- make -j8

JSON of --kernel: output (the new trace), events {page, buffer, dentry, inode} (rows of the trace),
kernel_events (received from the kernel), lost (events that the kernel discarded), device {reads,
read_bytes, writes, written_bytes}, windows {sync, async} (synchronous and asynchronous
readahead), missing_tracepoints [names of tracepoints that this kernel does not have]

JSON of --keys: output, events, scans, keys (number of different keys), peak (most keys in a scan),
unreadable (most processes in a scan whose files could not be read)")]
pub(crate) struct RecordArgs {
    /// Record the caches of the running kernel
    #[arg(long, group = "source")]
    pub kernel: bool,
    /// Record the keys of TABLE: see below
    #[arg(long, value_name = "TABLE", value_parser = choice(KeyTable::ALL, KeyTable::as_str))]
    #[arg(group = "source", conflicts_with_all = ["mount", "pid", "buffer"])]
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
    /// By default, without COMMAND, the recording continues until Ctrl-C.
    #[arg(long, value_name = "N", conflicts_with = "command")]
    #[arg(value_parser = count::within(1..=31_536_000_u64))]
    pub seconds: Option<u64>,
    /// Size of the kernel's trace buffer for each processor
    ///
    /// Increase SIZE if events are lost.
    #[arg(long, value_name = "SIZE", default_value = "8M", value_parser = parse_buffer)]
    pub buffer: u64,
    /// Write one JSON object instead of the summary
    #[arg(long)]
    pub json: bool,
    /// Command to run and record, with its child processes
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

/// The maximum time between the termination signal to the command and its exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between checks whether the command has exited.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize)]
struct Summary<'a> {
    output: String,
    events: Rows,
    kernel_events: u64,
    lost: u64,
    device: Device,
    windows: Windows,
    missing_tracepoints: &'a [&'static str],
}

#[derive(Debug, Serialize)]
struct Device {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Windows {
    sync: u64,
    r#async: u64,
}

pub(super) fn run(args: &RecordArgs) -> Result<ExitCode> {
    match args.keys {
        Some(table) => keys::run(args, table),
        None => record_kernel(args),
    }
}

fn record_kernel(args: &RecordArgs) -> Result<ExitCode> {
    let processes = match (&*args.pid, &*args.command) {
        (_, [_, ..]) => Processes::Spawned,
        ([], _) => Processes::All,
        (pids, _) => Processes::Trees(pids.to_vec()),
    };
    let config = KernelConfig {
        mount: args.mount.clone(),
        processes,
        buffer_bytes: args.buffer,
    };
    let interrupt = interrupt()?;
    let recorder = KernelRecorder::start(&config).map_err(|error| failure(&error))?;
    let mut written = TraceOutput::create("--output", &args.output, &info(args))?;
    let mut stop = StopCondition::new(args, interrupt, || spawn(args, &recorder))?;
    print_interrupt_note(args);
    let outcome = recorder.run(&mut |wait| stop.is_reached(wait), &mut |event| {
        written.push(&event)
    });
    let status = stop.finish_child()?;
    let summary = outcome.map_err(|error| failure(&error))?;
    let rows = written
        .finish(summary.lost)
        .map_err(|error| failure(&Error::Trace(error)))?;
    print(args, rows, &summary)?;
    if summary.lost > 0 {
        print_warning(&format!(
            "{} lost because the kernel's buffers were full; increase --buffer",
            counted(summary.lost, "event was", "events were")
        ));
    }
    if rows.is_empty() {
        print_warning(&empty_trace_reasons(args, &summary));
    }
    Ok(status.map_or(ExitCode::SUCCESS, exit_code))
}

fn spawn(args: &RecordArgs, recorder: &KernelRecorder) -> Result<Option<Child>, Error> {
    let [program, arguments @ ..] = &*args.command else {
        return Ok(None);
    };
    let child = recorder.spawn(Command::new(program).args(arguments));
    child.map(Some)
}

/// Prints how to end the recording, if nothing else ends it.
fn print_interrupt_note(args: &RecordArgs) {
    if args.command.is_empty() && args.seconds.is_none() && io::stderr().is_terminal() {
        print_note("recording until Ctrl-C");
    }
}

fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

fn info(args: &RecordArgs) -> TraceInfo {
    let mut source = format!("kernel {}", kernel_release());
    if let Some(mount) = &args.mount {
        source = format!("{source}, mount {}", mount.display());
    }
    for pid in &args.pid {
        source = format!("{source}, process {pid}");
    }
    if let Some(command) = args.command.first() {
        source = format!("{source}, command {}", command.display());
    }
    TraceInfo {
        source,
        began_unix_s: now_unix_s(),
        records_changes: true,
        ..TraceInfo::default()
    }
}

/// The conditions that end a recording.
struct StopCondition {
    interrupt: PipeReader,
    deadline: Option<Instant>,
    child: Option<Child>,
    status: Option<ExitStatus>,
}

impl StopCondition {
    /// Creates the conditions of a recording, and starts the command with `spawn`, if there is one.
    fn new(
        args: &RecordArgs,
        interrupt: PipeReader,
        spawn: impl FnOnce() -> Result<Option<Child>, Error>,
    ) -> Result<Self> {
        let child = spawn().map_err(|error| {
            // Nothing was recorded.
            let _ = std::fs::remove_file(&args.output);
            failure(&error)
        })?;
        let after = |s| Instant::now() + Duration::from_secs(s);
        Ok(Self {
            interrupt,
            deadline: args.seconds.map(after),
            child,
            status: None,
        })
    }

    /// Waits for at most `wait`, and returns whether the recording must end.
    fn is_reached(&mut self, wait: Duration) -> bool {
        let left = self
            .deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = left.map_or(wait, |left| left.min(wait));
        let mut interrupt = [PollFd::new(&self.interrupt, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: wait.as_secs().cast_signed(),
            tv_nsec: wait.subsec_nanos().into(),
        };
        // If the signal interrupts the poll, the pipe is readable in the next one.
        let is_interrupted = matches!(poll(&mut interrupt, Some(&timeout)), Ok(1..));
        if is_interrupted {
            // Each byte in the pipe represents a signal. Consume the byte, so that the next poll detects
            // the next signal.
            let _ = self.interrupt.read(&mut [0]);
        }
        if let Some(child) = &mut self.child {
            self.status = child.try_wait().ok().flatten();
        }
        is_interrupted || left.is_some_and(|left| left.is_zero()) || self.status.is_some()
    }

    /// Terminates the command if it is still running when the recording ends. Kills the command if it does
    /// not exit in time, or at the next signal.
    fn finish_child(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none()
            && let Some(child) = &self.child
            && let Some(pid) = Pid::from_raw(child.id().cast_signed())
        {
            // The command may have exited already.
            let _ = kill_process(pid, Signal::TERM);
            self.deadline = Some(Instant::now() + EXIT_TIMEOUT);
            while !self.is_reached(POLL_INTERVAL) {}
        }
        let Some(child) = &mut self.child else {
            return Ok(None);
        };
        if self.status.is_none() {
            child.kill()?;
        }
        child.wait().map(Some)
    }
}

/// Returns the command's exit code in the convention of shells.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Returns possible reasons for an empty trace.
fn empty_trace_reasons(args: &RecordArgs, summary: &KernelSummary) -> String {
    let mut reasons = vec!["nothing was read or written"];
    if args.mount.is_some() {
        reasons.push("the accesses were on file systems other than that of --mount");
    }
    if !args.pid.is_empty() {
        reasons.push("the accesses were by processes other than those of --pid");
    }
    reasons.push("the kernel does not report the accesses (names, mapped pages)");
    if !summary.missing.is_empty() {
        reasons.push("this kernel lacks tracepoints");
    }
    format!(
        "no events were recorded: {}; see docs/traces.md, \"Recording the kernel\"",
        reasons.join(", or ")
    )
}

fn print(args: &RecordArgs, rows: Rows, summary: &KernelSummary) -> Result<()> {
    let counts = summary.counts;
    if args.json {
        return write_json(&Summary {
            output: args.output.display().to_string(),
            events: rows,
            kernel_events: summary.events,
            lost: summary.lost,
            device: Device {
                reads: counts.reads,
                read_bytes: counts.read_bytes,
                writes: counts.writes,
                written_bytes: counts.written_bytes,
            },
            windows: Windows {
                sync: counts.sync_windows,
                r#async: counts.async_windows,
            },
            missing_tracepoints: &summary.missing,
        });
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{}: events: {}", args.output.display(), rows.to_text())?;
    writeln!(
        out,
        "kernel events: {}, lost: {}",
        summary.events, summary.lost
    )?;
    writeln!(
        out,
        "device reads: {} ({}), device writes: {} ({}), readahead windows: {} ({} at markers)",
        counts.reads,
        size::human(counts.read_bytes),
        counts.writes,
        size::human(counts.written_bytes),
        counts.sync_windows + counts.async_windows,
        counts.async_windows
    )?;
    for name in &summary.missing {
        writeln!(out, "this kernel has no tracepoint {name}")?;
    }
    Ok(out.flush()?)
}

/// Converts an error of recording the kernel to a failure of the command.
fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    let hint = match error {
        Error::NotRoot => {
            "run the command as root; without root, record a mount with larder mount --record FILE, \
             or a program with strace and larder lab import strace"
        }
        Error::NoTracefs(_) | Error::NoTracepoint(_) => {
            "the kernel must be built with CONFIG_FTRACE and CONFIG_EVENT_TRACING; alternatives are \
             blktrace and strace: see larder lab import --help"
        }
        Error::Mount { .. } => "--mount must name a path on the file system to record",
        Error::NoProcess(_) => "--pid must name running processes",
        Error::Command { .. } => "COMMAND must be an executable program",
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}
