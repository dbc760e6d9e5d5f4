//! Devices for experiments and tests, which build on the interface of `larder-block`.
//!
//! | device | bytes from | for |
//! |---|---|---|
//! | [`SimulatedDevice`](simulated::SimulatedDevice) | nowhere: it only takes virtual time | the lab's simulator |
//! | [`OverlayDevice`] | shared memory, written pages copied | many states of one image |
//! | [`RecordingDevice`] | another device, all calls logged | tests of what is read, and of power cuts |
//! | [`FaultyDevice`] | another device, with planned or seeded faults | tests of failing devices |
//!
//! [`PowerCuts`] derives, from the log of a [`RecordingDevice`], the states that a loss of power may
//! leave. No product crate depends on this crate.

#![forbid(unsafe_code)]

mod faulty;
mod overlay;
mod power_cut;
mod recording;
pub mod simulated;

pub use faulty::FaultyDevice;
pub use overlay::{OVERLAY_PAGE_BYTES, OverlayDevice, OverlayPage};
pub use power_cut::{PowerCuts, SECTOR_BYTES};
pub use recording::{ChangeRecord, ReadRecord, RecordingDevice};
