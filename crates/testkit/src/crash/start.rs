//! The initial state of a workload.

use super::{Layout, run};
use crate::Medium;
use crate::model::Model;
use crate::operation::Operation;
use larder_block::BlockDevice;
use larder_instruments::OverlayDevice;
use std::sync::Arc;

/// A file system.
#[derive(Clone, Debug)]
pub struct Start {
    /// The layout's name.
    pub name: &'static str,
    /// Its device.
    pub device: OverlayDevice,
    /// Its contents.
    pub model: Model,
    /// Where the image is stored during the workload and during each recovery.
    pub medium: Medium,
}

impl Start {
    /// Creates an empty file system.
    ///
    /// # Errors
    /// Fails if mke2fs fails.
    pub fn empty(layout: &Layout) -> Result<Self, String> {
        let base = layout.base().map_err(|error| error.to_string())?;
        Ok(Self {
            name: layout.name,
            device: OverlayDevice::new(base),
            model: Model::new(layout.rules),
            medium: Medium::Memory,
        })
    }

    /// Performs `operations` on an empty file system.
    ///
    /// # Errors
    /// Returns the difference between the volume and the model.
    pub fn after(layout: &Layout, operations: &[Operation]) -> Result<Self, String> {
        let empty = Self::empty(layout)?;
        let device = Arc::new(empty.device);
        let written: Arc<dyn BlockDevice> = Arc::clone(&device) as _;
        let mut done = run(empty.model, &written, operations, || 0, |_| false)?;
        Ok(Self {
            name: layout.name,
            device: OverlayDevice::clone(&device),
            model: done.states.pop().unwrap_or(Model::new(layout.rules)),
            medium: Medium::Memory,
        })
    }

    /// Sets where the image is stored.
    #[must_use]
    pub fn on(&self, medium: Medium) -> Self {
        Self {
            medium,
            ..self.clone()
        }
    }
}
