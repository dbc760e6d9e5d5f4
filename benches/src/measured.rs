//! A value of a measure, and the processor time that it took.

use std::path::Path;

use anyhow::Result;

use crate::measure::Measure;
use crate::peer::Mounted;
use crate::processor;

/// One value of a measure.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The measure.
    pub measure: Measure,
    /// The value, in the unit of the measure.
    pub value: f64,
    /// The processor time of the workload and of the server together, if it was measured.
    pub processor_seconds: Option<f64>,
}

impl Measured {
    /// Runs `work` on the root of a mount. The processor time includes that of the mount's server.
    pub fn on(
        mounted: &Mounted,
        measure: Measure,
        work: impl FnOnce(&Path) -> Result<f64>,
    ) -> Result<Self> {
        let root = mounted.root();
        Self::with_processor_time(measure, mounted.server_pid(), || work(root))
    }

    /// Runs `work`, which returns the value. The processor time is that of the processes that `work` runs,
    /// and of the process `server`.
    pub fn with_processor_time(
        measure: Measure,
        server: Option<u32>,
        work: impl FnOnce() -> Result<f64>,
    ) -> Result<Self> {
        let before = processor::seconds(server)?;
        let value = work()?;
        Ok(Self {
            measure,
            value,
            processor_seconds: Some(processor::seconds(server)? - before),
        })
    }
}

impl From<(Measure, f64)> for Measured {
    fn from((measure, value): (Measure, f64)) -> Self {
        Self {
            measure,
            value,
            processor_seconds: None,
        }
    }
}
