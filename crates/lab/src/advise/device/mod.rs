//! The device that stores the image: a model by name, or the measured figures of a device.

mod figures;
mod measure;

pub use figures::{DeviceFigures, FiguresError};
pub use measure::{MeasureError, measure};
