//! Counts and latencies of the requests for each operation.

use super::names::{errno_name, is_housekeeping, operation_name};
use larder::OperationStats;
use larder::block::LatencyHistogram;
use larder::block::timing::Measured;
use rustix::io::Errno;
use std::array;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of operations that are counted separately. Operations with larger numbers are counted as number 0.
const OPERATIONS: usize = 64;
/// The number of errors that are counted separately: all errnos of Linux. Other errors are counted as number 0.
const ERRNOS: usize = 134;

/// Counters of all operations. Several threads can use the same counters.
#[derive(Debug)]
pub(super) struct Counters([OnceLock<Box<OperationCounters>>; OPERATIONS]);

/// Counters of one operation.
#[derive(Debug, Default)]
struct OperationCounters {
    requests: AtomicU64,
    latency: LatencyHistogram,
    bytes: AtomicU64,
    /// When the last request arrived, in nanoseconds since the start.
    last_ns: AtomicU64,
    errors: OnceLock<Box<[AtomicU64; ERRNOS]>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self(array::from_fn(|_| OnceLock::new()))
    }
}

impl Counters {
    /// Counts a request that arrived at `arrived_ns`. `measured` is its latency, if it was measured. `result` contains the
    /// number of bytes of content.
    pub(super) fn record(
        &self,
        opcode: u32,
        arrived_ns: u64,
        measured: Option<Measured>,
        result: Result<u64, Errno>,
    ) {
        let counters = self.0.get(opcode as usize).unwrap_or(&self.0[0]);
        let counters = counters.get_or_init(Box::default);
        counters.requests.fetch_add(1, Relaxed);
        if let Some(measured) = measured {
            counters.latency.record_measured(measured);
        }
        counters.last_ns.store(arrived_ns, Relaxed);
        match result {
            Ok(0) => {}
            Ok(bytes) => {
                counters.bytes.fetch_add(bytes, Relaxed);
            }
            Err(errno) => {
                let zero = || Box::new(array::from_fn(|_| AtomicU64::new(0)));
                let errors = counters.errors.get_or_init(zero);
                let number = usize::try_from(errno.raw_os_error()).unwrap_or(0);
                errors
                    .get(number)
                    .unwrap_or(&errors[0])
                    .fetch_add(1, Relaxed);
            }
        }
    }

    /// Adds the counts to `sum`, which has an element for each operation.
    pub(super) fn add_to(&self, sum: &mut Sum) {
        for (number, counters) in self.0.iter().enumerate() {
            let Some(counters) = counters.get() else {
                continue;
            };
            let operation = sum.0[number].get_or_insert_default();
            operation.stats.requests += counters.requests.load(Relaxed);
            operation.stats.latency.add(&counters.latency.stats());
            operation.stats.bytes += counters.bytes.load(Relaxed);
            operation.last_ns = operation.last_ns.max(counters.last_ns.load(Relaxed));
            for (errno, count) in counters
                .errors
                .get()
                .into_iter()
                .flat_map(|all| all.iter().enumerate())
            {
                let count = count.load(Relaxed);
                if count > 0 {
                    *operation.errnos.entry(errno).or_default() += count;
                }
            }
        }
    }
}

/// The sum of several [`Counters`].
#[derive(Debug)]
pub(super) struct Sum([Option<OperationSum>; OPERATIONS]);

#[derive(Debug, Default)]
struct OperationSum {
    stats: OperationStats,
    last_ns: u64,
    errnos: BTreeMap<usize, u64>,
}

impl Default for Sum {
    fn default() -> Self {
        Self(array::from_fn(|_| None))
    }
}

impl Sum {
    /// Returns the statistics of all operations at `now_ns`, in the order of their numbers. The operations without a name
    /// are counted together, under the name `other`. Also returns the time since the last request of a program.
    pub(super) fn stats(self, now_ns: u64) -> (Vec<OperationStats>, Option<u64>) {
        let is_counted =
            |number: usize| u32::try_from(number).is_ok_and(|number| !is_housekeeping(number));
        let counted = self
            .0
            .iter()
            .enumerate()
            .filter(|(number, _)| is_counted(*number));
        let last_ns = counted
            .filter_map(|(_, sum)| Some(sum.as_ref()?.last_ns))
            .max();
        let idle_ns = last_ns.map(|last_ns| now_ns.saturating_sub(last_ns));
        let mut named = Vec::new();
        let mut other: Option<OperationSum> = None;
        for (number, sum) in self.0.into_iter().enumerate() {
            let Some(mut sum) = sum else { continue };
            let name = u32::try_from(number).ok().and_then(operation_name);
            if let Some(name) = name {
                name.clone_into(&mut sum.stats.operation);
                named.push(sum.finished(now_ns));
            } else {
                let all = other.get_or_insert_default();
                all.stats.requests += sum.stats.requests;
                all.stats.latency.add(&sum.stats.latency);
                all.last_ns = all.last_ns.max(sum.last_ns);
                for (errno, count) in sum.errnos {
                    *all.errnos.entry(errno).or_default() += count;
                }
            }
        }
        if let Some(mut other) = other {
            "other".clone_into(&mut other.stats.operation);
            named.push(other.finished(now_ns));
        }
        (named, idle_ns)
    }
}

impl OperationSum {
    fn finished(self, now_ns: u64) -> OperationStats {
        let errnos = self.errnos.into_iter().map(|(number, count)| {
            let number_of_system = i32::try_from(number).ok().filter(|number| *number > 0);
            let errno = number_of_system.map(Errno::from_raw_os_error);
            let name = errno.and_then(errno_name);
            (
                name.map_or_else(|| format!("E{number}"), str::to_owned),
                count,
            )
        });
        let mut stats = self.stats;
        stats.errnos = errnos.collect();
        stats.errors = stats.errnos.values().sum();
        stats.idle_ns = now_ns.saturating_sub(self.last_ns);
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::abi::opcode;
    use std::time::Duration;

    const MICROSECOND: Option<Measured> = Some(Measured {
        duration: Duration::from_micros(1),
        weight: 1,
    });

    fn stats(counters: &[&Counters], now_ns: u64) -> Vec<OperationStats> {
        let mut sum = Sum::default();
        for counters in counters {
            counters.add_to(&mut sum);
        }
        sum.stats(now_ns).0
    }

    #[test]
    fn requests_are_counted_by_operation_and_error() {
        let (first, second) = (Counters::default(), Counters::default());
        first.record(opcode::READ, 10, MICROSECOND, Ok(4096));
        second.record(opcode::READ, 30, None, Ok(100));
        first.record(opcode::READ, 20, MICROSECOND, Err(Errno::IO));
        first.record(opcode::LOOKUP, 5, MICROSECOND, Err(Errno::NAMETOOLONG));
        second.record(opcode::LOOKUP, 6, MICROSECOND, Err(Errno::NAMETOOLONG));
        second.record(opcode::LOOKUP, 7, MICROSECOND, Err(Errno::IO));
        let stats = stats(&[&first, &second], 100);
        let [lookup, read] = &stats[..] else {
            panic!("two operations");
        };
        assert_eq!((&*lookup.operation, &*read.operation), ("lookup", "read"));
        assert_eq!((lookup.requests, lookup.errors, lookup.bytes), (3, 3, 0));
        let errnos: Vec<_> = lookup
            .errnos
            .iter()
            .map(|(name, count)| (&**name, *count))
            .collect();
        assert_eq!(errnos, [("EIO", 1), ("ENAMETOOLONG", 2)]);
        assert_eq!((read.requests, read.errors, read.bytes), (3, 1, 4196));
        assert_eq!((lookup.idle_ns, read.idle_ns), (93, 70));
        assert_eq!((read.latency.count, read.latency.max_ns), (2, Some(1000)));
    }

    #[test]
    fn unknown_operations_and_errors_are_counted_together() {
        let counters = Counters::default();
        let unknown = Errno::from_raw_os_error(4000);
        for opcode in [0, 7, 63, 64, 4096, u32::MAX] {
            counters.record(opcode, 1, MICROSECOND, Err(unknown));
        }
        counters.record(7, 2, MICROSECOND, Err(Errno::from_raw_os_error(133)));
        let stats = stats(&[&counters], 5);
        let [other] = &stats[..] else {
            panic!("one operation");
        };
        assert_eq!((&*other.operation, other.requests), ("other", 7));
        assert_eq!((other.errnos["E0"], other.errnos["E133"]), (6, 1));
        assert_eq!(other.idle_ns, 3);
    }

    #[test]
    fn idle_time_ignores_requests_that_free_memory() {
        let idle_ns = |requests: &[(u32, u64)]| {
            let (counters, mut sum) = (Counters::default(), Sum::default());
            for (opcode, arrived_ns) in requests {
                counters.record(*opcode, *arrived_ns, MICROSECOND, Ok(0));
            }
            counters.add_to(&mut sum);
            sum.stats(100).1
        };
        assert_eq!(idle_ns(&[]), None);
        assert_eq!(idle_ns(&[(opcode::FORGET, 10)]), None);
        let requests = [
            (opcode::GETATTR, 20),
            (opcode::LOOKUP, 30),
            (opcode::RELEASE, 90),
        ];
        assert_eq!(idle_ns(&requests), Some(70));
    }
}
