//! The processor time of processes, from `/proc/PID/stat`, with the resolution of a clock tick (10 ms).

use std::fs;

use anyhow::{Context, Result};

use crate::measure::as_f64;

/// Returns the sum of two processor times in seconds: that of all descendants of this process that have
/// exited, and that of the running process `server`.
pub(crate) fn seconds(server: Option<u32>) -> Result<f64> {
    let mut ticks = times_of("self")?.of_children;
    if let Some(pid) = server {
        ticks += times_of(&pid.to_string())?.own;
    }
    Ok(as_f64(ticks) / as_f64(rustix::param::clock_ticks_per_second()))
}

/// Processor times in user mode and in the kernel together, in clock ticks.
#[derive(Debug, PartialEq, Eq)]
struct Times {
    /// The time of the process.
    own: u64,
    /// The time of its children that have exited, and of their children.
    of_children: u64,
}

fn times_of(pid: &str) -> Result<Times> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    parsed(&stat).with_context(|| format!("unexpected content of {path}: {stat}"))
}

fn parsed(stat: &str) -> Option<Times> {
    // The name of the process, in parentheses, may contain blanks. Between it and the times are the state
    // and ten more fields.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times = fields.split(' ').skip(11).take(4).map(str::parse);
    match times.collect::<Result<Vec<u64>, _>>().ok()?[..] {
        [user, system, user_of_children, system_of_children] => Some(Times {
            own: user + system,
            of_children: user_of_children + system_of_children,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_a_name_with_blanks_and_parentheses() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 200 0 0 5 6 70 80 20 0 9 0 12345 0 0\n";
        let expected = Times {
            own: 11,
            of_children: 150,
        };
        assert_eq!(parsed(stat), Some(expected));
        assert_eq!(parsed("7 (a) S 1 7"), None);
    }
}
