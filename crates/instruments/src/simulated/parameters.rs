//! What a device model is made of. The values are in [`DEVICE_MODELS`].

use std::fmt::Debug;
use std::time::Duration;

use thiserror::Error;

use super::DEVICE_MODELS;
use super::mechanics::Mechanics;

/// A value, and where it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure<T> {
    /// The value.
    pub value: T,
    /// The publication that says so, how it follows from one, or that it is our choice.
    pub source: &'static str,
}

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Its name, as in `--device NAME`.
    pub name: &'static str,
    /// What it stands for, in one line.
    pub about: &'static str,
    /// How many bytes it holds.
    pub size_bytes: Figure<u64>,
    /// Where a simulation should put its first file, so that figures compare with published ones.
    pub file_start_bytes: Figure<u64>,
    /// The queue of the host before the device.
    pub queue: QueueModel,
    /// The device itself.
    pub service: ServiceModel,
}

/// The queue of the host before a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueModel {
    /// `nr_requests`: of 7/8 of these reads on, the queue counts as congested.
    pub nr_requests: Figure<usize>,
    /// How many commands the device takes at a time; any number without.
    pub device_depth: Option<Figure<usize>>,
    /// `max_sectors_kb`: what merging makes no command larger than, and larger requests are
    /// split into.
    pub max_command_bytes: Option<Figure<u64>>,
    /// The elevator that sorts and merges; first come, first served without one.
    pub elevator: Option<ElevatorModel>,
}

/// Defines a part of a model that consists of figures, and how they are listed.
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
        /// After so long a read is served next, wherever it lies.
        read_expire: Duration,
        /// The same for a write.
        write_expire: Duration,
        /// Commands of one direction that are served in one sweep before the deadlines are looked at.
        fifo_batch: u32,
        /// Batches of reads that pass waiting writes before a batch of writes.
        writes_starved: u32,
    }
}

/// What serves the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one a model, and it is looked at once"
)]
pub enum ServiceModel {
    /// One arm over turning platters.
    Disk(DiskModel),
    /// Many things at once, and a link.
    Parallel(ParallelModel),
}

figures! {
    /// A disk drive: mechanics, cache and firmware.
    DiskModel {
        /// One revolution of the platters.
        revolution: Duration,
        /// Surfaces, each with a head: tracks of one cylinder.
        heads: u64,
        /// Zones of tracks of equal length.
        zones: u64,
        /// Bytes a second over many tracks of the outermost zone, track switches included.
        outer_bytes_per_second: u64,
        /// The same for the innermost zone.
        inner_bytes_per_second: u64,
        /// To the next track, of the same cylinder or the next; the skew between tracks is the same.
        track_switch: Duration,
        /// What every longer seek takes, however short.
        seek_settle: Duration,
        /// A seek over all cylinders.
        seek_full_stroke: Duration,
        /// Up to this share of the cylinders, in thousandths, a seek grows with the root of its
        /// distance; then linearly, with no step or bend.
        seek_root_permille: u64,
        /// What a seek before writing takes longer.
        write_settle: Duration,
        /// From a command to its first byte where the cache has it; the same to accept a write.
        overhead_hit: Duration,
        /// From a command to the start of its seek where the cache does not have it.
        overhead_miss: Duration,
        /// Bytes a second between the drive's cache and the host.
        interface_bytes_per_second: u64,
        /// Cache for what was read.
        read_cache_bytes: u64,
        /// Into at most so many segments.
        read_cache_segments: usize,
        /// How far the idle drive reads on behind a read.
        read_ahead_bytes: u64,
        /// Cache for what is to be written.
        write_cache_bytes: u64,
        /// How long the drive is idle before it writes what its cache has room for.
        write_delay: Duration,
        /// A command that has waited so long in the drive is served next.
        command_age_limit: Duration,
    }
}

/// A device of many equal parts behind one link: flash, or servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelModel {
    /// From a read to its first byte, besides the time of a unit.
    pub read_latency: Figure<Duration>,
    /// From a write to its first byte.
    pub write_latency: Figure<Duration>,
    /// What serves one stripe at a time, if that limits.
    pub units: Option<UnitModel>,
    /// Bytes a second of one request, if that limits.
    pub stream_bytes_per_second: Option<Figure<u64>>,
    /// Bytes a second of all together, if that limits.
    pub link_bytes_per_second: Option<Figure<u64>>,
}

/// The units that a parallel device is striped over: dies of flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitModel {
    /// How many.
    pub count: Figure<usize>,
    /// Bytes that one unit holds before the next one follows.
    pub stripe_bytes: Figure<u64>,
    /// How long a unit takes to read a stripe or less.
    pub read_time: Figure<Duration>,
}

/// No device model has this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no device model is named `{name}`; there are: {known}")]
pub struct UnknownModel {
    name: String,
    known: String,
}

/// One parameter of a model, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of its field.
    pub name: &'static str,
    /// Its value, with the unit where the name has none.
    pub value: String,
    /// Where the value is from.
    pub source: &'static str,
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

    /// The first byte from which on one sequential reader gets at most so much: the outer zones
    /// of a disk are faster. 0 where all places are alike, the last zone where none is so slow.
    #[must_use]
    pub fn offset_with_rate(&self, bytes_per_second: u64) -> u64 {
        match &self.service {
            ServiceModel::Disk(disk) => {
                Mechanics::new(disk, self.size_bytes.value, 0).offset_with_rate(bytes_per_second)
            }
            ServiceModel::Parallel(_) => 0,
        }
    }

    /// Every parameter, in the order of the fields.
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

/// Collects parameters.
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
