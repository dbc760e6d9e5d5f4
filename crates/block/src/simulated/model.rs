//! The device models, as one table of parameters, each with its source.

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Its name, as in `--device NAME`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub about: &'static str,
}

/// All models.
pub const DEVICE_MODELS: &[DeviceModel] = &[];
