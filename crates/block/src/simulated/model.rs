//! The device models, as one table of parameters, each with its source.

use thiserror::Error;

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Its name, as in `--device NAME`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub about: &'static str,
    /// How many bytes it holds.
    pub size_bytes: u64,
    /// Where a simulation should put its first file, so that figures compare with published ones.
    pub file_start_bytes: u64,
}

/// All models.
pub const DEVICE_MODELS: &[DeviceModel] = &[
    DeviceModel {
        name: "sata-2007",
        about: "a 160 GB SATA disk of 7200 revolutions a minute, as of 2007",
        size_bytes: 164_696_555_520,
        file_start_bytes: 60_000_000_000,
    },
    DeviceModel {
        name: "nvme",
        about: "an NVMe drive",
        size_bytes: 1_000_000_000_000,
        file_start_bytes: 0,
    },
    DeviceModel {
        name: "network-1ms",
        about: "network storage, 1 ms away",
        size_bytes: 1_000_000_000_000,
        file_start_bytes: 0,
    },
    DeviceModel {
        name: "object-30ms",
        about: "an object store, 30 ms to the first byte, many streams",
        size_bytes: 1_000_000_000_000,
        file_start_bytes: 0,
    },
    DeviceModel {
        name: "instant",
        about: "takes no time: for counting what the processor does",
        size_bytes: 1_000_000_000_000,
        file_start_bytes: 0,
    },
];

/// No device model has this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no device model is named `{name}`; there are: {known}")]
pub struct UnknownModel {
    name: String,
    known: String,
}

impl DeviceModel {
    /// The model of this name.
    ///
    /// # Errors
    /// [`UnknownModel`], which lists the names that there are.
    pub fn named(name: &str) -> Result<&'static Self, UnknownModel> {
        DEVICE_MODELS
            .iter()
            .find(|model| model.name == name)
            .ok_or_else(|| UnknownModel {
                name: name.to_owned(),
                known: DEVICE_MODELS
                    .iter()
                    .map(|model| model.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}
