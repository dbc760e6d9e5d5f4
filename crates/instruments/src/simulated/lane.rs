//! The waiting commands of one queue of a scheduler, sorted both by offset and by arrival.
//!
//! Invariants:
//! 1. `sorted` and `keys` contain the same commands: all that wait.
//! 2. `arrivals` contains each of these commands once, in order of deadline. It may also contain commands
//!    that were already sent to the device.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::arithmetic::nanos;
use super::command::Command;

/// The first byte and the number of a command. Commands of a batch are served in this order.
pub(super) type Key = (u64, u64);

/// Waiting commands.
#[derive(Debug)]
pub(super) struct Lane {
    expire_ns: u64,
    sorted: BTreeMap<Key, Command>,
    /// The key of the command in each slot.
    keys: Vec<Option<Key>>,
    arrivals: VecDeque<Arrival>,
    /// The end of the last command that was sent to the device.
    position_bytes: u64,
}

#[derive(Debug)]
struct Arrival {
    slot: usize,
    number: u64,
    deadline_ns: u64,
}

impl Lane {
    pub fn new(expire: Duration) -> Self {
        Self {
            expire_ns: nanos(expire),
            sorted: BTreeMap::new(),
            keys: Vec::new(),
            arrivals: VecDeque::new(),
            position_bytes: 0,
        }
    }

    pub fn add(&mut self, now_ns: u64, command: Command) {
        self.arrivals.push_back(Arrival {
            slot: command.slot,
            number: command.number,
            deadline_ns: now_ns.saturating_add(self.expire_ns),
        });
        self.insert(command);
    }

    /// Returns whether no command waits.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn insert(&mut self, command: Command) {
        if self.keys.len() <= command.slot {
            self.keys.resize(command.slot + 1, None);
        }
        let key = (command.start_bytes, command.number);
        self.keys[command.slot] = Some(key);
        self.sorted.insert(key, command);
    }

    /// Merges a range of bytes with a waiting command that ends at its start or starts at its end. Returns
    /// the slot of the command. Returns `None` if there is no such command, or if the extended command would
    /// be too large.
    pub fn merge(&mut self, (start_bytes, end_bytes): (u64, u64), max_bytes: u64) -> Option<usize> {
        let room_bytes = max_bytes.checked_sub(end_bytes - start_bytes)?;
        if let Some((_, before)) = self.sorted.range_mut(..(start_bytes, 0)).next_back()
            && before.end_bytes == start_bytes
            && before.len_bytes() <= room_bytes
        {
            before.end_bytes = end_bytes;
            return Some(before.slot);
        }
        let (&key, &following) = self.sorted.range((end_bytes, 0)..).next()?;
        if following.start_bytes != end_bytes || following.len_bytes() > room_bytes {
            return None;
        }
        self.sorted.remove(&key);
        self.insert(Command {
            start_bytes,
            ..following
        });
        Some(following.slot)
    }

    /// Removes and returns the first command of a batch: the oldest command if its deadline has expired, or
    /// the next command upwards, or the command with the lowest offset.
    pub fn begin_batch(&mut self, now_ns: u64) -> Option<Command> {
        if let Some(key) = self.expired(now_ns) {
            return self.take(key);
        }
        self.next_upwards().or_else(|| {
            let key = *self.sorted.first_key_value()?.0;
            self.take(key)
        })
    }

    /// Returns the key of the oldest waiting command if its deadline has expired.
    pub fn expired(&mut self, now_ns: u64) -> Option<Key> {
        while let Some(oldest) = self.arrivals.front() {
            match self.keys[oldest.slot] {
                Some(key) if key.1 == oldest.number => {
                    return (oldest.deadline_ns <= now_ns).then_some(key);
                }
                _ => self.arrivals.pop_front(),
            };
        }
        None
    }

    /// Removes and returns the first command at or after the end of the last command that was taken.
    pub fn next_upwards(&mut self) -> Option<Command> {
        let key = *self.sorted.range((self.position_bytes, 0)..).next()?.0;
        self.take(key)
    }

    /// Returns the key of the command that is nearest to `position_bytes`. A command before the position is
    /// considered only if its distance is at most `back_max_bytes`, and its distance is multiplied by
    /// `back_penalty`. If no command is considered, returns the key of the command with the lowest offset.
    pub fn nearest(
        &self,
        position_bytes: u64,
        back_max_bytes: u64,
        back_penalty: u64,
    ) -> Option<Key> {
        let forward = self.sorted.range((position_bytes, 0)..).next();
        let back = self.sorted.range(..(position_bytes, 0)).next_back();
        let back = back.map(|(key, _)| (position_bytes - key.0, *key));
        let back = back.filter(|(distance, _)| *distance <= back_max_bytes);
        match (forward.map(|(key, _)| (key.0 - position_bytes, *key)), back) {
            (Some((ahead, key)), Some((behind, _))) if ahead <= behind * back_penalty => Some(key),
            (_, Some((_, key))) | (Some((_, key)), None) => Some(key),
            (None, None) => self.sorted.first_key_value().map(|(key, _)| *key),
        }
    }

    pub fn take(&mut self, key: Key) -> Option<Command> {
        let command = self.sorted.remove(&key)?;
        self.keys[command.slot] = None;
        self.position_bytes = command.end_bytes;
        // Remove the entries of sent commands here too, since `expired` may not be called for a long time.
        while let Some(oldest) = self.arrivals.front()
            && self.keys[oldest.slot].is_none_or(|key| key.1 != oldest.number)
        {
            self.arrivals.pop_front();
        }
        Some(command)
    }
}
