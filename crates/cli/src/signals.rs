//! The signals that `larder run` passes on to its command, except those that stop processes.

use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::flag;
use std::fs;
use std::io;
use std::sync::Arc;

/// Signals that end a process, unless it handles them.
pub(crate) const ENDING: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM];
/// Signals that have no effect on a running process, unless it handles them.
pub(crate) const OTHER: [i32; 2] = [SIGCONT, SIGWINCH];

/// Makes `signals` have no effect on this process.
///
/// They are not ignored, because the command would inherit that. Signals that are ignored already stay ignored, also by
/// the command, as under nohup(1).
pub(crate) fn suppress(signals: &[i32]) -> io::Result<()> {
    for signal in handled(signals)? {
        flag::register(signal, Arc::default())?;
    }
    Ok(())
}

/// Returns those of `signals` that this process does not ignore.
pub(crate) fn handled(signals: &[i32]) -> io::Result<Vec<i32>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let mut signals = signals.to_vec();
    signals.retain(|signal| !is_ignored(&status, *signal));
    Ok(signals)
}

/// Returns whether the process ignores `signal`. `status` is the content of `/proc/PID/status`.
fn is_ignored(status: &str, signal: i32) -> bool {
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| (set >> (signal - 1)) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_found_in_the_status() {
        // As under nohup(1) in a background job of a shell without job control.
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000007\nSigCgt:\tffffffff\n";
        assert!(
            [SIGHUP, SIGINT, SIGQUIT]
                .iter()
                .all(|signal| is_ignored(status, *signal))
        );
        assert!(
            [SIGTERM, SIGWINCH]
                .iter()
                .all(|signal| !is_ignored(status, *signal))
        );
        assert!(!is_ignored("", SIGHUP));
    }
}
