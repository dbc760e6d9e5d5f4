//! The parameters of a device model. The values are in [`DEVICE_MODELS`](super::DEVICE_MODELS).

use std::fmt::Debug;
use std::time::Duration;

/// The value of a parameter, and the source of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcedValue<T> {
    /// The value.
    pub value: T,
    /// The publication that states the value or from which it is derived, or a note that the value is
    /// assumed.
    pub source: &'static str,
}

/// The description of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// The name, as in `--device NAME`.
    pub name: &'static str,
    /// The device that the model represents, in one line.
    pub about: &'static str,
    /// The size of the device, in bytes.
    pub size_bytes: SourcedValue<u64>,
    /// The offset at which a simulation should place its first file, so that its results are comparable with
    /// published measurements.
    pub file_start_bytes: SourcedValue<u64>,
    /// The host's queue for the device.
    pub queue: QueueModel,
    /// The device's own queue and timing.
    pub service: ServiceModel,
}

/// The host's queue for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueModel {
    /// Linux's `nr_requests`. The queue is congested if it contains at least 7/8 of this number of reads.
    pub nr_requests: SourcedValue<usize>,
    /// The maximum number of commands in the device; `None` if it is unlimited.
    pub device_depth: Option<SourcedValue<usize>>,
    /// Linux's `max_sectors_kb`, in bytes: the maximum size of a command. Larger requests are split, and
    /// requests are merged only up to this size. `None` if it is unlimited.
    pub max_command_bytes: Option<SourcedValue<u64>>,
    /// The elevator that sorts and merges requests. If `None`, requests are served in order of arrival.
    pub elevator: Option<ElevatorModel>,
}

/// An elevator of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElevatorModel {
    /// Batches of one direction, with a deadline for each request.
    Deadline(DeadlineModel),
    /// Time slices for processes.
    Cfq(CfqModel),
}

/// Defines a struct whose fields are all [`SourcedValue`]s, with a function that lists them.
macro_rules! sourced_values {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $value:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$about])* pub $field: SourcedValue<$value>,)*
        }

        impl $name {
            fn list(&self, list: &mut List) {
                $(list.add(stringify!($field), &self.$field);)*
            }
        }
    };
}

sourced_values! {
    /// Linux's deadline elevator.
    DeadlineModel {
        /// The age at which a waiting read is the first command of the next batch of reads, wherever it is on
        /// the disk.
        read_expire: Duration,
        /// The age at which a waiting write is the first command of the next batch of writes, wherever it is
        /// on the disk.
        write_expire: Duration,
        /// The maximum number of commands in a batch: commands of one direction (reads or writes) that are served
        /// in order of offset before the deadlines are checked.
        fifo_batch: u32,
        /// The maximum number of batches of reads that are served while writes wait. After these, a batch of
        /// writes is served.
        writes_starved: u32,
    }
}

sourced_values! {
    /// Linux's CFQ elevator (completely fair queueing).
    CfqModel {
        /// The maximum number of commands that are chosen at once.
        quantum: u32,
        /// The time for which the reads of one process are served.
        slice_sync: Duration,
        /// The time for which writes are served.
        slice_async: Duration,
        /// The maximum number of writes that are served in one turn.
        slice_async_commands: u32,
        /// The maximum time for which the elevator waits for the next request of a process.
        slice_idle: Duration,
        /// The age at which a read is served first in the next slice of its process.
        fifo_expire_sync: Duration,
        /// The age at which a write is served first in the next slice of writes.
        fifo_expire_async: Duration,
        /// The maximum distance of a seek backwards. A command farther back is chosen only if there is no
        /// other.
        back_seek_max_bytes: u64,
        /// The factor by which a distance backwards is multiplied before it is compared with a distance
        /// forwards.
        back_seek_penalty: u64,
    }
}

/// The part of the device that serves commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "each model has one value, which is read only at the start"
)]
pub enum ServiceModel {
    /// A disk drive: one arm over rotating platters.
    Disk(DiskModel),
    /// A device that serves many commands in parallel and transfers their data over one link.
    Parallel(ParallelModel),
}

sourced_values! {
    /// A disk drive: mechanics, cache and firmware.
    DiskModel {
        /// The time of one revolution of the platters.
        revolution: Duration,
        /// The number of surfaces with a head: the number of tracks of a cylinder.
        heads: u64,
        /// The number of zones. All tracks of a zone have the same length.
        zones: u64,
        /// The number of bytes per second over many tracks of the outermost zone, including track switches.
        outer_bytes_per_second: u64,
        /// The number of bytes per second over many tracks of the innermost zone, including track switches.
        inner_bytes_per_second: u64,
        /// The time of a switch to the next track, in the same cylinder or the next one. The start of each
        /// track is offset by this time from the start of the previous track (skew).
        track_switch: Duration,
        /// The constant part of the time of a seek of more than one cylinder.
        seek_settle: Duration,
        /// The time of a seek over all cylinders.
        seek_full_stroke: Duration,
        /// The distance at which the curve of the seek time changes from a square root to a line, in
        /// thousandths of all cylinders. The curve and its slope are continuous there.
        seek_root_permille: u64,
        /// The additional time of a seek before a write.
        write_settle: Duration,
        /// The time from a read command to its first byte if the cache contains the bytes, and the time to
        /// accept a write.
        overhead_hit: Duration,
        /// The time from a read command to the start of its seek if the cache does not contain the bytes.
        overhead_miss: Duration,
        /// The number of bytes per second between the drive's cache and the host.
        interface_bytes_per_second: u64,
        /// The size of the read cache, in bytes.
        read_cache_bytes: u64,
        /// The maximum number of segments of the read cache.
        read_cache_segments: usize,
        /// The maximum number of bytes that the idle drive reads after the end of a read command.
        read_ahead_bytes: u64,
        /// The size of the write cache, in bytes.
        write_cache_bytes: u64,
        /// The time that the drive is idle before it writes the data in its write cache, unless the cache is
        /// full.
        write_delay: Duration,
        /// The age from which a command in the drive is served before all younger commands.
        command_age_limit: Duration,
    }
}

/// A device that serves many commands in parallel over a shared link: a flash drive, or servers on a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelModel {
    /// The time from a read command to its first byte, without the time that the units take. If
    /// [`read_latency_p99`](Self::read_latency_p99) is given, this is the median.
    pub read_latency: SourcedValue<Duration>,
    /// The latency that 99% of the reads do not exceed. The latency is then log-normal; `None` if it is constant.
    pub read_latency_p99: Option<SourcedValue<Duration>>,
    /// The time from a write command to its first byte.
    pub write_latency: SourcedValue<Duration>,
    /// The units that read the data; `None` if they do not limit the device.
    pub units: Option<StripedUnits>,
    /// The number of bytes per second of one command; `None` if this is unlimited.
    pub stream_bytes_per_second: Option<SourcedValue<u64>>,
    /// The number of bytes per second of all commands together; `None` if this is unlimited.
    pub link_bytes_per_second: Option<SourcedValue<u64>>,
}

/// The units (flash dies) over which the bytes of a parallel device are striped. Each unit reads one stripe
/// at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripedUnits {
    /// The number of units.
    pub count: SourcedValue<usize>,
    /// The size of a stripe: the number of contiguous bytes on one unit.
    pub stripe_bytes: SourcedValue<u64>,
    /// The time that a unit takes to read a stripe or a part of one.
    pub read_time: SourcedValue<Duration>,
}

/// One parameter of a model, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name of the field in the model.
    pub name: &'static str,
    /// The value as text, with its unit unless the name includes the unit.
    pub value: String,
    /// The source of the value.
    pub source: &'static str,
}

impl DeviceModel {
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
    fn add<T: Debug>(&mut self, name: &'static str, sourced: &SourcedValue<T>) {
        self.0.push(Parameter {
            name,
            value: format!("{:?}", sourced.value),
            source: sourced.source,
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
            match elevator {
                ElevatorModel::Deadline(deadline) => deadline.list(list),
                ElevatorModel::Cfq(cfq) => cfq.list(list),
            }
        }
    }
}

impl ParallelModel {
    fn list(&self, list: &mut List) {
        list.add("read_latency", &self.read_latency);
        if let Some(latency) = &self.read_latency_p99 {
            list.add("read_latency_p99", latency);
        }
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
