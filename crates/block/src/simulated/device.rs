//! The device: scheduler queue, device queue, and the time that each request takes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::{Completion, DeviceModel, Request, RequestId, RequestKind, VirtualTime};

/// Linux's default for `nr_requests`, and the share of it at which a queue counts as congested.
const NR_REQUESTS: usize = 128;
const CONGESTED_REQUESTS: usize = NR_REQUESTS * 7 / 8;

/// What a device has done. After merging: what it really had to serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Reads that went to the device.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that went to the device.
    pub writes: u64,
    /// Their bytes.
    pub written_bytes: u64,
}

/// A device in virtual time.
#[derive(Debug)]
pub struct SimulatedDevice {
    model: DeviceModel,
    next_id: u64,
    due: BinaryHeap<Reverse<(VirtualTime, RequestId)>>,
    counts: DeviceCounts,
}

impl SimulatedDevice {
    /// A device of `model` whose chance (where the platter stands) comes from `seed`.
    #[must_use]
    pub fn new(model: &DeviceModel, _seed: u64) -> Self {
        Self {
            model: *model,
            next_id: 0,
            due: BinaryHeap::new(),
            counts: DeviceCounts::default(),
        }
    }

    /// What the device is like.
    #[must_use]
    pub fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Takes a request. Ids count up from 0; `now` never goes back.
    pub fn submit(&mut self, now: VirtualTime, request: Request) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        match request.kind {
            RequestKind::Read | RequestKind::ReadAhead => {
                self.counts.reads += 1;
                self.counts.read_bytes += request.len_bytes;
            }
            RequestKind::Write => {
                self.counts.writes += 1;
                self.counts.written_bytes += request.len_bytes;
            }
        }
        self.due.push(Reverse((now + Duration::from_millis(1), id)));
        id
    }

    /// When the device next has something to say if nothing more is submitted: call
    /// [`Self::complete`] then, which may still answer `None`. `None` if it is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<VirtualTime> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The next completion that is due at or before `now`, in order of time; `None` when there
    /// is none left.
    pub fn complete(&mut self, now: VirtualTime) -> Option<Completion> {
        let &Reverse((at, id)) = self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        Some(Completion { id, at })
    }

    /// Whether so much is queued that Linux would hold back readahead: 7/8 of `nr_requests`.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.due.len() >= CONGESTED_REQUESTS
    }

    /// What the device has done so far, after merging.
    #[must_use]
    pub fn counts(&self) -> DeviceCounts {
        self.counts
    }
}
