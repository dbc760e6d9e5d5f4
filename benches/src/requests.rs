//! The requests that the kernel sends to FUSE servers, counted by a tracepoint.

use std::fs;

use anyhow::{Result, ensure};
use larder_testkit::trace_instance::{self, TraceInstance};

/// The tracepoint of each request that has a reply.
const EVENT: &str = "fuse/fuse_request_send";

/// Returns the reason why requests cannot be counted here, if there is one.
#[must_use]
pub fn missing() -> Option<String> {
    trace_instance::missing(&[EVENT])
}

/// Returns the number of requests that `work` sends from this thread, to any server.
pub(crate) fn sent_by(work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let instance = TraceInstance::new()?;
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    instance.write("set_event_pid", &thread)?;
    let switch = format!("events/{EVENT}/enable");
    instance.write(&switch, "1")?;
    let done = work();
    instance.write(&switch, "0")?;
    done?;
    count(&fs::read_to_string(instance.folder().join("trace"))?)
}

/// Returns the number of events in `trace`. Fails if the buffer was too small for all of them.
fn count(trace: &str) -> Result<u64> {
    let events = trace.lines().filter(|line| !line.starts_with('#')).count();
    // For example `# entries-in-buffer/entries-written: 205/205   #P:2`
    let complete = format!("entries-in-buffer/entries-written: {events}/{events} ");
    ensure!(
        trace.contains(&complete),
        "the trace does not contain all requests"
    );
    Ok(events as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_unless_some_are_lost() {
        let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: ";
        let event = " stat-7 [001] ..... 4.2: fuse_request_send: connection 44 req 8 opcode 3\n";
        let trace = |counts: &str| format!("{head}{counts}   #P:2\n#\n{event}{event}");
        assert_eq!(count(&trace("2/2")).unwrap(), 2);
        assert!(count(&trace("2/3")).is_err());
        assert_eq!(count(&format!("{head}0/0   #P:2\n#\n")).unwrap(), 0);
    }
}
