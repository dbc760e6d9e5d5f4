//! Simulates a device that serves many commands in parallel: a flash drive, or servers on a network.
//!
//! ```text
//!   command ──> latency ──> unit of each stripe ──┐
//!                           unit of each stripe ──┴──> the link, shared ──> done
//! ```
//!
//! Model: a read command first waits for a latency. Then each unit reads the stripes of the command that are
//! stored on it, one stripe at a time. When all stripes have been read, the bytes of the command are
//! transferred over a link that all commands share, in the order in which commands become ready. The transfer
//! is also no faster than the limit of one stream. A write command waits for its latency, and is then
//! transferred; it does not use the units. Units, stream limit and link are optional. The latency of reads can have a
//! tail ([`ReadLatency`]). All other times are constant: there is no garbage collection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::arithmetic::{earliest, nanos, transfer_ns};
use super::command::Command;
use super::latency::ReadLatency;
use super::parameters::ParallelModel;

/// The state of a parallel device.
#[derive(Debug)]
pub(super) struct Parallel {
    read_latency: ReadLatency,
    write_latency_ns: u64,
    /// The time at which each unit is free. Empty if there are no units.
    unit_free_at_ns: Vec<u64>,
    stripe_bytes: u64,
    unit_read_ns: u64,
    stream_bytes_per_second: Option<u64>,
    link_bytes_per_second: Option<u64>,
    link_free_at_ns: u64,
    /// Commands before their transfer: the time at which each becomes ready, its number, slot and length.
    ready: BinaryHeap<Reverse<(u64, u64, usize, u64)>>,
    /// Commands whose transfer is scheduled: the time of its end, the number of the command and its slot.
    done: BinaryHeap<Reverse<(u64, u64, usize)>>,
}

impl Parallel {
    pub fn new(model: &ParallelModel, seed: u64) -> Self {
        let units = model.units;
        Self {
            read_latency: ReadLatency::new(model, seed),
            write_latency_ns: nanos(model.write_latency.value),
            unit_free_at_ns: vec![0; units.map_or(0, |units| units.count.value)],
            stripe_bytes: units.map_or(u64::MAX, |units| units.stripe_bytes.value.max(1)),
            unit_read_ns: units.map_or(0, |units| nanos(units.read_time.value)),
            stream_bytes_per_second: model.stream_bytes_per_second.map(|rate| rate.value),
            link_bytes_per_second: model.link_bytes_per_second.map(|rate| rate.value),
            link_free_at_ns: 0,
            ready: BinaryHeap::new(),
            done: BinaryHeap::new(),
        }
    }

    pub fn accept(&mut self, now_ns: u64, command: Command) {
        let first_at_ns = if command.is_write {
            now_ns + self.write_latency_ns
        } else {
            let latency_ns = self.read_latency.next_ns();
            self.schedule_units(now_ns + latency_ns, command)
        };
        self.ready.push(Reverse((
            first_at_ns,
            command.number,
            command.slot,
            command.len_bytes(),
        )));
    }

    /// Assigns the stripes of the command to their units, and returns the time at which all have been read.
    fn schedule_units(&mut self, start_at_ns: u64, command: Command) -> u64 {
        let count = self.unit_free_at_ns.len() as u64;
        if count == 0 {
            return start_at_ns;
        }
        let first = command.start_bytes / self.stripe_bytes;
        let last = (command.end_bytes - 1) / self.stripe_bytes;
        let mut end_at_ns = start_at_ns;
        for stripe in first..=last {
            // The value is less than the length of `unit_free_at_ns`, so it fits.
            let unit = usize::try_from(stripe % count).unwrap_or(0);
            let free_at_ns = &mut self.unit_free_at_ns[unit];
            *free_at_ns = start_at_ns.max(*free_at_ns) + self.unit_read_ns;
            end_at_ns = end_at_ns.max(*free_at_ns);
        }
        end_at_ns
    }

    /// Returns the time at which `step` should be called next, or `None` if the device is idle.
    pub fn next_event_ns(&self) -> Option<u64> {
        let ready = self.ready.peek().map(|&Reverse((at_ns, ..))| at_ns);
        let done = self.done.peek().map(|&Reverse((at_ns, ..))| at_ns);
        earliest([ready, done])
    }

    /// Handles one event that is due at `now_ns`, the time that `next_event_ns` returned. Returns the slot of
    /// the command that is done, if the event completes a command.
    pub fn step(&mut self, now_ns: u64) -> Option<usize> {
        if let Some(&Reverse((at_ns, number, slot, len_bytes))) = self.ready.peek()
            && at_ns <= now_ns
        {
            self.ready.pop();
            let end_at_ns = self.schedule_transfer(at_ns, len_bytes);
            self.done.push(Reverse((end_at_ns, number, slot)));
            return None;
        }
        let &Reverse((at_ns, _, slot)) = self.done.peek()?;
        (at_ns <= now_ns).then(|| {
            self.done.pop();
            slot
        })
    }

    /// Schedules the transfer of `len_bytes` that are ready at `ready_at_ns`. Returns the time at which the
    /// transfer ends, given the rates of the link and of one stream.
    fn schedule_transfer(&mut self, ready_at_ns: u64, len_bytes: u64) -> u64 {
        let stream_ns = transfer_ns(len_bytes, self.stream_bytes_per_second);
        let link_ns = transfer_ns(len_bytes, self.link_bytes_per_second);
        if self.link_bytes_per_second.is_some() {
            self.link_free_at_ns = self.link_free_at_ns.max(ready_at_ns) + link_ns;
        }
        self.link_free_at_ns.max(ready_at_ns + stream_ns)
    }
}
