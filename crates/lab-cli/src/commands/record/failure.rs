//! Failures of a recording.

use larder_console::Failure;
use larder_lab::trace::kernel::Error;

/// Converts an error of recording the kernel to a failure of the command.
pub(super) fn failure(error: &Error) -> Failure {
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
