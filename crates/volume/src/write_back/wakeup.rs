//! The signal that wakes the flusher.

use parking_lot::{Condvar, Mutex};
use std::time::Instant;

/// The last request that the flusher has not taken yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FlusherSignal {
    #[default]
    None,
    /// Too many blocks are dirty.
    WriteBack,
    Stop,
}

/// Wakes the flusher.
#[derive(Debug, Default)]
pub(crate) struct FlusherWakeup {
    signal: Mutex<FlusherSignal>,
    condvar: Condvar,
}

impl FlusherWakeup {
    pub(crate) fn send(&self, signal: FlusherSignal) {
        let mut current = self.signal.lock();
        if *current != FlusherSignal::Stop {
            *current = signal;
            self.condvar.notify_one();
        }
    }

    /// Waits for a signal, at most until `deadline`, and returns it, or `None` after the deadline.
    /// Resets the signal, except for `Stop`.
    pub(crate) fn wait(&self, deadline: Instant) -> FlusherSignal {
        let mut current = self.signal.lock();
        while *current == FlusherSignal::None {
            if self.condvar.wait_until(&mut current, deadline).timed_out() {
                break;
            }
        }
        let signal = *current;
        if signal == FlusherSignal::WriteBack {
            *current = FlusherSignal::None;
        }
        signal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_is_not_replaced_by_a_later_signal() {
        let wakeup = FlusherWakeup::default();
        wakeup.send(FlusherSignal::WriteBack);
        assert_eq!(wakeup.wait(Instant::now()), FlusherSignal::WriteBack);
        assert_eq!(wakeup.wait(Instant::now()), FlusherSignal::None);
        wakeup.send(FlusherSignal::Stop);
        wakeup.send(FlusherSignal::WriteBack);
        assert_eq!(wakeup.wait(Instant::now()), FlusherSignal::Stop);
    }
}
