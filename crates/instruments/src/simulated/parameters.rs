//! The parameters of a device model. The values are in [`DEVICE_MODELS`].

use std::fmt::Debug;
use std::time::Duration;

use thiserror::Error;

use super::DEVICE_MODELS;
use super::mechanics::Mechanics;

/// A value and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    /// The value.
    pub value: T,
    /// The publication that states it, the derivation from one, or the note that it is our choice.
    pub source: &'static str,
}

/// The description of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// The name, as in `--device NAME`.
    pub name: &'static str,
    /// The device that it represents, in one line.
    pub about: &'static str,
    /// The size of the device.
    pub size_bytes: Figure<u64>,
    /// The offset at which a simulation should place its first file, to be comparable with published
    /// figures.
    pub file_start_bytes: Figure<u64>,
    /// The host's queue for the device.
    pub queue: QueueModel,
    /// The device itself.
    pub service: ServiceModel,
}

/// The host's queue for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueModel {
    /// `nr_requests`: the queue counts as congested from 7/8 of this number of reads.
    pub nr_requests: Figure<usize>,
    /// The number of commands that the device takes at a time; unlimited if not set.
    pub device_depth: Option<Figure<usize>>,
    /// `max_sectors_kb`: the limit up to which commands are merged. Larger requests are split.
    pub max_command_bytes: Option<Figure<u64>>,
    /// The elevator that sorts and merges. Without one, requests are served in order of arrival.
    pub elevator: Option<ElevatorModel>,
}

/// Defines a part of a model that consists of figures, and the function that lists them.
macro_rules! figures {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $value:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$about])* pub $field: Figure<$value>,)*
        }

        impl $name {
            fn list(&self, list: &mut List) {
                $(list.add(stringify!($field), &self.$field);)*
            }
        }
    };
}

figures! {
    /// An elevator with deadlines.
    ElevatorModel {
        /// The time after which a read is served next, wherever it is on the disk.
        read_expire: Duration,
        /// The same for a write.
        write_expire: Duration,
        /// Commands of one direction that are served in one sweep before the deadlines are checked.
        fifo_batch: u32,
        /// Batches of reads that may precede waiting writes before a batch of writes.
        writes_starved: u32,
    }
}

/// The part of the device that serves commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "each model has one, which is read only at the start"
)]
pub enum ServiceModel {
    /// One arm over rotating platters.
    Disk(DiskModel),
    /// Many units in parallel, and a link.
    Parallel(ParallelModel),
}

figures! {
    /// A disk drive: mechanics, cache and firmware.
    DiskModel {
        /// The time of one revolution of the platters.
        revolution: Duration,
        /// Surfaces, each with a head: the number of tracks of a cylinder.
        heads: u64,
        /// Zones of tracks of equal length.
        zones: u64,
        /// Bytes per second over many tracks of the outermost zone, including track switches.
        outer_bytes_per_second: u64,
        /// The same for the innermost zone.
        inner_bytes_per_second: u64,
        /// The time of a switch to the next track, of the same cylinder or the next. The skew between
        /// tracks is equal.
        track_switch: Duration,
        /// The settle time that every longer seek takes, whatever its distance.
        seek_settle: Duration,
        /// The time of a seek over all cylinders.
        seek_full_stroke: Duration,
        /// Up to this share of the cylinders, in thousandths, the seek time grows with the square root
        /// of the distance; from there it grows linearly, without a step or bend.
        seek_root_permille: u64,
        /// The additional time of a seek before a write.
        write_settle: Duration,
        /// The time from a read command to its first byte on a hit in the cache; also the time to accept
        /// a write.
        overhead_hit: Duration,
        /// The time from a command to the start of its seek on a miss in the cache.
        overhead_miss: Duration,
        /// Bytes per second between the drive's cache and the host.
        interface_bytes_per_second: u64,
        /// The size of the cache for reads.
        read_cache_bytes: u64,
        /// The maximum number of segments of the read cache.
        read_cache_segments: usize,
        /// The number of bytes that the idle drive reads on after a read.
        read_ahead_bytes: u64,
        /// The size of the cache for writes.
        write_cache_bytes: u64,
        /// The time that the drive is idle before it writes data for which its cache has room.
        write_delay: Duration,
        /// The age at which a command in the drive is served next.
        command_age_limit: Duration,
    }
}

/// A device of many equal units with a shared link: flash, or servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelModel {
    /// The time from a read to its first byte, in addition to the time of a unit.
    pub read_latency: Figure<Duration>,
    /// The time from a write to its first byte.
    pub write_latency: Figure<Duration>,
    /// The units that each serve one stripe at a time, if they are a limit.
    pub units: Option<UnitModel>,
    /// Bytes per second of one request, if that is a limit.
    pub stream_bytes_per_second: Option<Figure<u64>>,
    /// Bytes per second of all requests together, if that is a limit.
    pub link_bytes_per_second: Option<Figure<u64>>,
}

/// The units that a parallel device is striped over: flash dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitModel {
    /// The number of units.
    pub count: Figure<usize>,
    /// Contiguous bytes on one unit before the next unit follows.
    pub stripe_bytes: Figure<u64>,
    /// The time in which a unit reads a stripe or less.
    pub read_time: Figure<Duration>,
}

/// The error for a name that no device model has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown device model '{name}'; available: {known}")]
pub struct UnknownModel {
    name: String,
    known: String,
}

/// One parameter of a model, in readable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of its field.
    pub name: &'static str,
    /// Its value, with the unit unless the name includes it.
    pub value: String,
    /// The source of the value.
    pub source: &'static str,
}

impl DeviceModel {
    /// Returns the model with this name.
    ///
    /// # Errors
    /// Returns [`UnknownModel`], which lists the available names.
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

    /// Returns the first offset from which one sequential reader gets at most this rate: the outer zones
    /// of a disk are faster. Returns 0 if all offsets are equally fast, and the last zone if none is so
    /// slow.
    #[must_use]
    pub fn offset_with_rate(&self, bytes_per_second: u64) -> u64 {
        match &self.service {
            ServiceModel::Disk(disk) => {
                Mechanics::new(disk, self.size_bytes.value, 0).offset_with_rate(bytes_per_second)
            }
            ServiceModel::Parallel(_) => 0,
        }
    }

    /// Returns every parameter, in the order of the fields.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut list = List(Vec::new());
        list.add("size_bytes", &self.size_bytes);
        list.add("file_start_bytes", &self.file_start_bytes);
        self.queue.list(&mut list);
        match &self.service {
            ServiceModel::Disk(disk) => disk.list(&mut list),
            ServiceModel::Parallel(parallel) => parallel.list(&mut list),
        }
        list.0
    }
}

/// A list of parameters.
struct List(Vec<Parameter>);

impl List {
    fn add<T: Debug>(&mut self, name: &'static str, figure: &Figure<T>) {
        self.0.push(Parameter {
            name,
            value: format!("{:?}", figure.value),
            source: figure.source,
        });
    }
}

impl QueueModel {
    fn list(&self, list: &mut List) {
        list.add("nr_requests", &self.nr_requests);
        if let Some(depth) = &self.device_depth {
            list.add("device_depth", depth);
        }
        if let Some(bytes) = &self.max_command_bytes {
            list.add("max_command_bytes", bytes);
        }
        if let Some(elevator) = &self.elevator {
            elevator.list(list);
        }
    }
}

impl ParallelModel {
    fn list(&self, list: &mut List) {
        list.add("read_latency", &self.read_latency);
        list.add("write_latency", &self.write_latency);
        if let Some(units) = &self.units {
            list.add("units.count", &units.count);
            list.add("units.stripe_bytes", &units.stripe_bytes);
            list.add("units.read_time", &units.read_time);
        }
        if let Some(rate) = &self.stream_bytes_per_second {
            list.add("stream_bytes_per_second", rate);
        }
        if let Some(rate) = &self.link_bytes_per_second {
            list.add("link_bytes_per_second", rate);
        }
    }
}
