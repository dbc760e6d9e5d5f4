//! The device: scheduler queue, device queue, and the time that each request takes.

use super::DeviceModel;

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
}

impl SimulatedDevice {
    /// A device of `model` whose chance (where the platter stands) comes from `seed`.
    #[must_use]
    pub fn new(model: &DeviceModel, _seed: u64) -> Self {
        Self { model: *model }
    }

    /// What the device is like.
    #[must_use]
    pub fn model(&self) -> &DeviceModel {
        &self.model
    }
}
