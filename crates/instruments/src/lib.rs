//! Devices and images for experiments and tests. All devices except the simulated one implement `BlockDevice`
//! of `larder-block`.
//!
//! | device | content | use |
//! |---|---|---|
//! | [`SimulatedDevice`](simulated::SimulatedDevice) | none: only the virtual time of requests is simulated | the lab's simulator |
//! | [`OverlayDevice`] | shared memory; written pages are copied | many states of one image |
//! | [`RecordingDevice`] | that of another device; all calls are logged | tests of which bytes are read, and of power cuts |
//! | [`ReorderingDevice`] | that of another device; requests complete out of order, or never | tests of requests in flight |
//! | [`LazyDevice`] | that of another device; requests in the background wait until a thread needs them | tests of devices that deliver in pieces |
//! | [`FaultyDevice`] | that of another device; some calls fail, as planned or at random | tests of failing devices |
//!
//! [`PowerCuts`] computes the contents that a device can have after a loss of power. The input is the log of a
//! [`RecordingDevice`]. [`mke2fs`] creates images. [`tool`] runs mke2fs and other programs.
//!
//! Only the lab and tests use this crate.

#![forbid(unsafe_code)]

mod faulty;
mod lazy;
pub mod mke2fs;
mod overlay;
mod power_cut;
mod recording;
mod reordering;
pub mod simulated;
pub mod tool;

pub use faulty::FaultyDevice;
pub use lazy::LazyDevice;
pub use overlay::{OVERLAY_PAGE_BYTES, OverlayDevice, OverlayPage};
pub use power_cut::{PowerCuts, SECTOR_BYTES};
pub use recording::{ChangeRecord, ReadRecord, RecordingDevice};
pub use reordering::ReorderingDevice;
