//! Processor times of child processes, and their end.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, test_kill_process_group,
    waitid,
};
use std::fs;
use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// The interval at which a child is checked while an interrupt can end it.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The time in which killed processes must end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Ticks per second in `/proc/PID/stat`: `USER_HZ`, which is 100 on all architectures that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The positions of fields in `/proc/PID/stat`, counted after the name of the program.
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const CHILDREN_USER_TIME: usize = 13;
const CHILDREN_SYSTEM_TIME: usize = 14;

/// A process that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The processor time of the process and of its children, in seconds, with a resolution of 10 ms.
    pub(super) processor_s: f64,
    /// The time at which the end was noticed.
    pub(super) at: Instant,
}

/// Waits until the child ends. If `is_interrupted` returns true before, returns `None`.
pub(super) fn wait(
    child: &mut Child,
    is_interrupted: &mut dyn FnMut() -> bool,
) -> io::Result<Option<Ended>> {
    wait_and_then(child, is_interrupted, |_| ())
}

/// Waits until the child ends, like [`wait`], and then kills the processes that are left in the group that it leads.
/// Otherwise they would continue to use the mount.
pub(super) fn wait_for_leader(
    child: &mut Child,
    is_interrupted: &mut dyn FnMut() -> bool,
) -> io::Result<Option<Ended>> {
    let group = pid_of(child);
    let ended = wait_and_then(child, is_interrupted, |group| {
        // The only error is that all processes have ended.
        let _ = kill_process_group(group, Signal::KILL);
    });
    if matches!(ended, Ok(Some(_))) {
        let deadline = Instant::now() + KILL_TIMEOUT;
        while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    ended
}

/// Waits like [`wait`]. At the end of the child, calls `at_end` with its process ID, which is not reused before `at_end`
/// returns.
fn wait_and_then(
    child: &mut Child,
    is_interrupted: &mut dyn FnMut() -> bool,
    at_end: fn(Pid),
) -> io::Result<Option<Ended>> {
    let pid = pid_of(child);
    loop {
        // The process stays a zombie, so that its times can still be read.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        if waitid(WaitId::Pid(pid), options)?.is_some() {
            let at = Instant::now();
            let processor_s = processor_s(child.id());
            at_end(pid);
            let status = child.wait()?;
            return Ok(Some(Ended {
                status,
                processor_s,
                at,
            }));
        }
        if is_interrupted() {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Waits for the child until `deadline`. Returns whether it has ended.
pub(super) fn wait_until(child: &mut Child, deadline: Instant) -> bool {
    wait(child, &mut || Instant::now() >= deadline).is_ok_and(|ended| ended.is_some())
}

/// Sends `signal` to the child, which may have ended already.
pub(super) fn signal(child: &Child, signal: Signal) {
    // The only error is that the process has ended.
    let _ = kill_process(pid_of(child), signal);
}

/// Ends the child and all processes in the group that it leads: sends SIGTERM, and SIGKILL after `timeout`, or as soon as
/// the child has ended.
pub(super) fn end_group(child: &mut Child, timeout: Duration) {
    let group = pid_of(child);
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + timeout;
    let ended = wait_for_leader(child, &mut || Instant::now() >= deadline);
    if !matches!(ended, Ok(Some(_))) {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = wait_for_leader(child, &mut || false);
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Returns the processor time of a process and of its children that have ended, in seconds. Returns 0 if it cannot be
/// read.
fn processor_s(pid: u32) -> f64 {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| parse(&stat))
        .unwrap_or(0.0)
}

/// Parses `/proc/PID/stat`. The name of the program is in parentheses, and can contain any character.
fn parse(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = [
        USER_TIME,
        SYSTEM_TIME,
        CHILDREN_USER_TIME,
        CHILDREN_SYSTEM_TIME,
    ]
    .map(|at| fields.get(at)?.parse::<u32>().ok());
    let ticks = ticks.into_iter().map(|ticks| ticks.map(f64::from));
    Some(ticks.sum::<Option<f64>>()? / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    #[test]
    fn times_of_a_process_follow_its_name() {
        let stat = "7 (a) b) c) Z 1 2 3 4 5 6 7 8 9 10 150 50 20 5 20 0 1 0";
        assert_eq!(parse(stat), Some(2.25));
        assert_eq!(parse("7 (a) Z 1"), None);
        assert_eq!(parse("x"), None);
    }

    /// Starts a shell that leads a process group with a second process, and returns it with the ID of the second process.
    fn group(script: &str) -> (Child, Pid) {
        let mut child = Command::new("sh")
            .args(["-c", &format!("sleep 1000 & echo $!; {script}")])
            .process_group(0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        (child, pid)
    }

    /// Returns whether the process has ended. A zombie has ended, even if no other process waits for it.
    fn has_ended(pid: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        !stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn processes_that_a_command_leaves_are_killed() {
        let (mut child, left) = group("exit 3");
        let ended = wait_for_leader(&mut child, &mut || false).unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert!(has_ended(left));
    }

    #[test]
    fn group_is_ended_even_if_its_leader_ignores_sigterm() {
        for script in ["wait", "trap '' TERM; while :; do wait; done"] {
            let (mut child, other) = group(script);
            end_group(&mut child, Duration::from_millis(100));
            assert!(has_ended(other), "{script}");
            assert!(child.try_wait().unwrap().is_some());
        }
    }

    #[test]
    fn end_has_the_status_and_an_interrupt_leaves_the_child() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let ended = wait(&mut child, &mut || false).unwrap().unwrap();
        assert_eq!(ended.status.code(), Some(7));
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(wait(&mut child, &mut || true).unwrap().is_none());
        signal(&child, Signal::KILL);
        let ended = wait(&mut child, &mut || false).unwrap();
        assert!(ended.is_some_and(|ended| !ended.status.success()));
    }
}
