//! The device models: one table of parameters, each with its source.

use std::time::Duration;

use thiserror::Error;

use super::mechanics::Mechanics;
use super::parameters::{
    CfqModel, DeadlineModel, DeviceModel, DiskModel, ElevatorModel, ParallelModel, QueueModel,
    ServiceModel, SourcedValue, StripedUnits,
};

/// All models.
pub const DEVICE_MODELS: &[DeviceModel] = &[
    SCSI_1998,
    SATA_2007,
    SATA_2007_CFQ,
    NVME,
    NETWORK_1MS,
    OBJECT_30MS,
    OBJECT_TAIL,
    INSTANT,
];

/// The error if no device model has the given name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown device model '{name}'; available: {known}")]
pub struct UnknownModel {
    name: String,
    known: String,
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

    /// Returns the offset of the first zone of a disk in which a sequential reader reaches at most this rate.
    /// (The outer zones have lower offsets and are faster.) Returns the offset of the last zone if all zones
    /// are faster, and 0 for a device that is not a disk.
    #[must_use]
    pub fn offset_with_rate(&self, bytes_per_second: u64) -> u64 {
        match &self.service {
            ServiceModel::Disk(disk) => {
                Mechanics::new(disk, self.size_bytes.value, 0).offset_with_rate(bytes_per_second)
            }
            ServiceModel::Parallel(_) => 0,
        }
    }
}

const fn sourced<T: Copy>(value: T, source: &'static str) -> SourcedValue<T> {
    SourcedValue { value, source }
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

const CFQ: &str = "Linux 2.6.20: defaults of CFQ in /sys/block/*/queue/iosched";
const DEADLINE: &str = "Linux, Documentation/block/deadline-iosched and its defaults";
const LINUX: &str = "Linux's default";
const ASSUMED: &str = "assumed: not published";
const DEFINITION: &str = "the model's definition";
const ANY_SIZE: &str = "assumed: large enough";
const ANYWHERE: &str = "assumed: all offsets are equivalent";

const DDRS: &str = "Ultrastar DDRS-39130 specification, section 3.4";
const LINUX_2_2: &str = "assumed: Linux 2.2 with a SCSI driver of that time";
const NO_OTHER_ELEVATOR: &str = "as sata-2007: the simulation has no elevator of that time";
const T7K250: &str = "Deskstar T7K250: Tech Report, \"Hitachi's Deskstar T7K250 hard drive\", 2005";
const WU2007: &str = "Wu 2007: \"160G/8M Hitachi SATA II 7200 RPM disk\"";
const D7K3000: &str = "Deskstar 7K3000 specification, table 5 (same maker; NCQ commands)";
const NVME_QUEUE: &str = "Linux: the NVMe driver requests 1024, of which it can use 1023";
const PM983: &str = "Samsung PM983 data sheet, rev. 1.0, 2018";
const S3_2025: &str = "4 KiB reads from S3 in the same region, December 2025 (cited in github.com/cdouglas/endive, \
                       analysis/dr_put_get.md)";
const S3: &str = "Amazon S3 user guide, performance design patterns: 85 to 90 MB/s per request";

const SCSI_1998: DeviceModel = DeviceModel {
    name: "scsi-1998",
    about: "a 9 GB SCSI disk of 1998, 7200 rpm",
    size_bytes: sourced(
        9_130_000_384,
        "the name DDRS-39130: 9.13 GB, in whole sectors",
    ),
    file_start_bytes: sourced(0, "assumed: the start of the disk"),
    queue: QueueModel {
        nr_requests: sourced(128, LINUX_2_2),
        device_depth: Some(sourced(8, LINUX_2_2)),
        max_command_bytes: Some(sourced(124 * KIB, LINUX_2_2)),
        elevator: Some(ElevatorModel::Deadline(DeadlineModel {
            read_expire: sourced(Duration::from_millis(500), NO_OTHER_ELEVATOR),
            write_expire: sourced(Duration::from_secs(5), NO_OTHER_ELEVATOR),
            fifo_batch: sourced(16, NO_OTHER_ELEVATOR),
            writes_starved: sourced(2, NO_OTHER_ELEVATOR),
        })),
    },
    service: ServiceModel::Disk(DiskModel {
        revolution: sourced(Duration::from_nanos(8_333_333), DDRS),
        heads: sourced(10, "assumed: five platters"),
        zones: sourced(8, DDRS),
        outer_bytes_per_second: sourced(
            13_550_000,
            "derived from section 3.4: 16 MiB in 1.300 s in zone 0, minus the margin of 5%",
        ),
        inner_bytes_per_second: sourced(
            8_440_000,
            "derived from section 3.4: 16 MiB in 2.086 s in zone 7, minus the margin of 5%",
        ),
        track_switch: sourced(Duration::from_micros(1_600), DDRS),
        seek_settle: sourced(Duration::from_millis(1), ASSUMED),
        seek_full_stroke: sourced(Duration::from_millis(15), DDRS),
        seek_root_permille: sourced(
            300,
            "derived from section 3.4: 4096 random reads in 52.2 s, so an average seek of 7.5 ms",
        ),
        write_settle: sourced(
            Duration::from_micros(800),
            "Ultrastar DDRS-39130 specification, figure 5: 15.0 ms to read, 15.8 ms to write",
        ),
        overhead_hit: sourced(Duration::from_micros(200), ASSUMED),
        overhead_miss: sourced(Duration::from_micros(400), ASSUMED),
        interface_bytes_per_second: sourced(40_000_000, "Ultra Wide SCSI"),
        read_cache_bytes: sourced(384 * KIB, ASSUMED),
        read_cache_segments: sourced(8, ASSUMED),
        read_ahead_bytes: sourced(48 * KIB, ASSUMED),
        write_cache_bytes: sourced(128 * KIB, ASSUMED),
        write_delay: sourced(Duration::from_millis(10), ASSUMED),
        command_age_limit: sourced(Duration::from_millis(300), ASSUMED),
    }),
};

const SATA_2007: DeviceModel = DeviceModel {
    name: "sata-2007",
    about: "a 160 GB SATA disk of 2007, 7200 rpm",
    size_bytes: sourced(
        164_696_555_520,
        "the capacity that 160 GB Deskstars report: 321,672,960 sectors",
    ),
    file_start_bytes: sourced(
        26_000_000_000,
        "fitted: gives the sequential rate of Wu 2007, 62,000 KB/s",
    ),
    queue: QueueModel {
        nr_requests: sourced(128, LINUX),
        device_depth: Some(sourced(
            31,
            "NCQ as in libata since Linux 2.6.18: 32 tags, one reserved",
        )),
        max_command_bytes: Some(sourced(512 * KIB, LINUX)),
        elevator: Some(ElevatorModel::Deadline(DeadlineModel {
            read_expire: sourced(Duration::from_millis(500), DEADLINE),
            write_expire: sourced(Duration::from_secs(5), DEADLINE),
            fifo_batch: sourced(16, DEADLINE),
            writes_starved: sourced(2, DEADLINE),
        })),
    },
    service: ServiceModel::Disk(DiskModel {
        revolution: sourced(Duration::from_nanos(8_333_333), WU2007),
        heads: sourced(
            3,
            "derived: platters of 125 GB on the Deskstar T7K250, so 62.5 GB per surface",
        ),
        zones: sourced(30, "Deskstar 7K500 specification, table 10: zones 0 to 29"),
        outer_bytes_per_second: sourced(67_800_000, T7K250),
        inner_bytes_per_second: sourced(32_900_000, T7K250),
        track_switch: sourced(
            Duration::from_micros(1_480),
            "Deskstar 7K500 specification, table 10: 76.3 MB/s on a track, 64.8 MB/s over tracks",
        ),
        seek_settle: sourced(
            Duration::from_micros(1_500),
            "derived: gives an average seek of 8.5 ms, as on the Deskstar T7K250",
        ),
        seek_full_stroke: sourced(
            Duration::from_micros(14_700),
            "Deskstar 75GXP specification, figure 6 (same maker and average seek)",
        ),
        seek_root_permille: sourced(
            800,
            "derived: a longer linear part would make the average seek too short",
        ),
        write_settle: sourced(
            Duration::from_millis(1),
            "Deskstar 7K1000.C specification, table 9: 8.5 ms to read, 9.5 ms to write",
        ),
        overhead_hit: sourced(Duration::from_micros(200), D7K3000),
        overhead_miss: sourced(Duration::from_micros(500), D7K3000),
        interface_bytes_per_second: sourced(300_000_000, T7K250),
        read_cache_bytes: sourced(
            6 * MIB,
            "Wu 2007: 8 MB in total; assumed: 6 of them for reads",
        ),
        read_cache_segments: sourced(
            128,
            "Hitachi states up to 128 (reported and doubted by X-bit labs for the Deskstar 7K400)",
        ),
        read_ahead_bytes: sourced(512 * KIB, ASSUMED),
        write_cache_bytes: sourced(
            2 * MIB,
            "Wu 2007: 8 MB in total; assumed: 2 of them for writes",
        ),
        write_delay: sourced(Duration::from_millis(10), ASSUMED),
        command_age_limit: sourced(Duration::from_millis(300), ASSUMED),
    }),
};

const SATA_2007_CFQ: DeviceModel = DeviceModel {
    name: "sata-2007-cfq",
    about: "sata-2007 with the default scheduler of Linux 2.6.20, CFQ",
    queue: QueueModel {
        elevator: Some(ElevatorModel::Cfq(CfqModel {
            quantum: sourced(4, CFQ),
            slice_sync: sourced(Duration::from_millis(100), CFQ),
            slice_async: sourced(Duration::from_millis(40), CFQ),
            slice_async_commands: sourced(
                16,
                "derived: slice_async_rq of 2, with the default priority of processes, 4",
            ),
            slice_idle: sourced(Duration::from_millis(8), CFQ),
            fifo_expire_sync: sourced(Duration::from_millis(125), CFQ),
            fifo_expire_async: sourced(Duration::from_millis(250), CFQ),
            back_seek_max_bytes: sourced(16 * MIB, CFQ),
            back_seek_penalty: sourced(2, CFQ),
        })),
        ..SATA_2007.queue
    },
    ..SATA_2007
};

const NVME: DeviceModel = DeviceModel {
    name: "nvme",
    about: "an NVMe drive for data centres",
    size_bytes: sourced(1_920_000_000_000, PM983),
    file_start_bytes: sourced(0, ANYWHERE),
    queue: QueueModel {
        nr_requests: sourced(1023, NVME_QUEUE),
        device_depth: Some(sourced(1023, NVME_QUEUE)),
        max_command_bytes: Some(sourced(1280 * KIB, LINUX)),
        elevator: None,
    },
    service: ServiceModel::Parallel(ParallelModel {
        read_latency: sourced(
            Duration::from_micros(25),
            "Samsung PM983 data sheet, rev. 1.0, 2018: 85 µs, minus the flash",
        ),
        read_latency_p99: None,
        write_latency: sourced(Duration::from_micros(50), PM983),
        units: Some(StripedUnits {
            count: sourced(
                32,
                "derived: 540,000 reads/s (Samsung PM983) times 60 µs for each",
            ),
            stripe_bytes: sourced(16 * KIB, ASSUMED),
            read_time: sourced(Duration::from_micros(60), ASSUMED),
        }),
        stream_bytes_per_second: None,
        link_bytes_per_second: Some(sourced(
            3_200_000_000,
            "Samsung PM983: sequential reads of up to 3,200 MB/s",
        )),
    }),
};

/// Returns a model of a device on a network: all offsets have the same access time, and the host neither
/// sorts nor merges requests.
const fn remote(
    name: &'static str,
    about: &'static str,
    (device_depth, max_command_bytes): (Option<SourcedValue<usize>>, Option<SourcedValue<u64>>),
    service: ParallelModel,
) -> DeviceModel {
    DeviceModel {
        name,
        about,
        size_bytes: sourced(1_000_000_000_000, ANY_SIZE),
        file_start_bytes: sourced(0, ANYWHERE),
        queue: QueueModel {
            nr_requests: sourced(128, LINUX),
            device_depth,
            max_command_bytes,
            elevator: None,
        },
        service: ServiceModel::Parallel(service),
    }
}

const NO_TIME: ParallelModel = ParallelModel {
    read_latency: sourced(Duration::ZERO, DEFINITION),
    read_latency_p99: None,
    write_latency: sourced(Duration::ZERO, DEFINITION),
    units: None,
    stream_bytes_per_second: None,
    link_bytes_per_second: None,
};

const NETWORK_1MS: DeviceModel = remote(
    "network-1ms",
    "network storage with a latency of 1 ms, over 10 Gbit/s",
    (
        Some(sourced(64, DEFINITION)),
        Some(sourced(1280 * KIB, LINUX)),
    ),
    ParallelModel {
        read_latency: sourced(Duration::from_millis(1), DEFINITION),
        write_latency: sourced(Duration::from_millis(1), DEFINITION),
        link_bytes_per_second: Some(sourced(1_250_000_000, DEFINITION)),
        ..NO_TIME
    },
);

const OBJECT_30MS: DeviceModel = remote(
    "object-30ms",
    "an object store: 30 ms to the first byte, many streams, 10 Gbit/s",
    (Some(sourced(64, DEFINITION)), None),
    ParallelModel {
        read_latency: sourced(
            Duration::from_millis(30),
            "the model's definition: a near and fast store (the S3 guide states 100 to 200 ms)",
        ),
        write_latency: sourced(Duration::from_millis(30), DEFINITION),
        stream_bytes_per_second: Some(sourced(90_000_000, S3)),
        link_bytes_per_second: Some(sourced(1_250_000_000, DEFINITION)),
        ..NO_TIME
    },
);

const OBJECT_TAIL: DeviceModel = remote(
    "object-tail",
    "an object store as object-30ms, with measured latencies, of which some are long",
    (Some(sourced(64, DEFINITION)), None),
    ParallelModel {
        read_latency: sourced(Duration::from_micros(26_790), S3_2025),
        read_latency_p99: Some(sourced(Duration::from_micros(113_350), S3_2025)),
        write_latency: sourced(
            Duration::from_micros(69_750),
            "500 KiB uploads to S3 in the same region, March 2025 (cited in the same document)",
        ),
        stream_bytes_per_second: Some(sourced(90_000_000, S3)),
        link_bytes_per_second: Some(sourced(1_250_000_000, DEFINITION)),
        ..NO_TIME
    },
);

const INSTANT: DeviceModel = remote(
    "instant",
    "completes at once, to measure the work of the processor alone",
    (None, None),
    NO_TIME,
);
