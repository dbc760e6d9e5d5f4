//! Commands: the reads and writes that the host sends to the device. A command consists of one request, of
//! several adjacent requests that were merged, or of a part of a request that is larger than the maximum size
//! of a command.

use super::RequestId;

/// A read or write of a contiguous range of bytes that has not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// The slot of [`CommandTable`] that lists the requests in this command.
    pub slot: usize,
    /// A sequence number in order of creation: the older of two commands has the smaller number.
    pub number: u64,
    pub is_write: bool,
    pub start_bytes: u64,
    pub end_bytes: u64,
}

impl Command {
    pub fn len_bytes(&self) -> u64 {
        self.end_bytes - self.start_bytes
    }
}

/// The requests that wait for each command. A slot and its list are reused when the command is done.
#[derive(Debug, Default)]
pub(super) struct CommandTable {
    slots: Vec<Slot>,
    free: Vec<usize>,
    made: u64,
}

#[derive(Debug, Default)]
struct Slot {
    is_write: bool,
    waiting: Vec<RequestId>,
}

impl CommandTable {
    /// Creates a command for the range `bytes` (start and end). `request` waits for this command.
    pub fn make(&mut self, is_write: bool, bytes: (u64, u64), request: RequestId) -> Command {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots[slot].is_write = is_write;
        self.slots[slot].waiting.push(request);
        self.made += 1;
        Command {
            slot,
            number: self.made,
            is_write,
            start_bytes: bytes.0,
            end_bytes: bytes.1,
        }
    }

    /// Adds `request` to the requests that wait for an existing command.
    pub fn join(&mut self, slot: usize, request: RequestId) {
        self.slots[slot].waiting.push(request);
    }

    /// Calls `done` for each request that waited for the command in `slot`, and frees the slot. Returns
    /// whether the command was a write.
    pub fn finish(&mut self, slot: usize, done: impl FnMut(RequestId)) -> bool {
        self.slots[slot].waiting.drain(..).for_each(done);
        self.free.push(slot);
        self.slots[slot].is_write
    }
}
