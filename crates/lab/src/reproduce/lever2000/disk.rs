//! Compares the costs of three operations with a disk: a miss in the dentry cache, a miss in the buffer cache, and a
//! page fault.
//!
//! # Model
//! Section 6 leaves open "why shrinking the dentry cache more aggressively can help performance", and proposes to
//! compare these costs. A volume with empty caches looks up the names of files in random order. Then it looks up
//! absent names in the same directories, and then it reads the first page of each file, again in random order. The
//! reads of the device by each operation are logged. The reads of the lookups of files, without repetitions and in random
//! order, are the misses in the buffer cache. Most of these lookups read nothing, so that a dentry miss costs less than a
//! buffer miss almost by construction. A simulated device ([`larder_instruments::simulated`]) performs these reads in
//! virtual time, one after the other, as one process would wait for them. The figures are thus times of the device
//! alone; [`super::misses`] measures the time of the processor.
//!
//! The image has 64 block groups. On a disk, the groups are spread evenly, as on a file system that fills the disk, or
//! stored together at the disk's start. The seeks are the longest possible in the first case, and the shortest
//! in the second.
//!
//! The order of the operations and the angle of the platters depend on the seed.

use super::error::Error;
use super::image::{Image, options_of};
use super::kernels::Kernel;
use crate::operations::Name;
use crate::run_report::{as_f64, quotient, ratio};
use crate::statistics::Interval;
use crate::workload::chance::generator;
use larder::Volume;
use larder_instruments::simulated::{
    DeviceModel, Request, RequestKind, SimulatedDevice, VirtualTime,
};
use larder_instruments::{OverlayDevice, ReadRecord, RecordingDevice};
use rand::seq::SliceRandom as _;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Number of homes whose files are accessed.
const USERS: u32 = 64;

/// Memory of all caches, which is enough for all of these files.
const MEMORY_BYTES: u64 = 256 << 20;

/// Number of seeds.
const SEEDS: u64 = 10;

/// Size of a block group of the image.
const GROUP_BYTES: u64 = 8192 * 4096;

/// Number of block groups of the image.
const GROUPS: u64 = 64;

/// The devices: a disk of the document's time, a later one, and one of today.
const DEVICES: [(&str, Placement); 5] = [
    ("scsi-1998", Placement::Spread),
    ("scsi-1998", Placement::Together),
    ("sata-2007", Placement::Spread),
    ("sata-2007", Placement::Together),
    ("nvme", Placement::Together),
];

/// Where the block groups of the image are on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// At equal distances over the whole device.
    Spread,
    /// At the start of the device.
    Together,
}

/// The costs of misses with each device: medians over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskMisses {
    /// Number of seeds.
    pub seeds: u64,
    /// Number of files. The name of each file misses once, and its first page is read.
    pub files: u64,
    /// Reads of the device in a dentry miss, if no block was cached before the first lookup.
    pub reads_per_dentry_miss: Interval,
    /// The share of these dentry misses that read the device.
    pub dentry_misses_that_read: Interval,
    /// Reads of the device in a lookup of an absent name, whose directory is in the buffer cache.
    pub reads_per_cached_dentry_miss: Interval,
    /// Reads of the device in a page fault.
    pub reads_per_page_fault: Interval,
    pub devices: Vec<DiskCosts>,
}

/// The costs of misses with one device: medians over all seeds. Times are in milliseconds of the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskCosts {
    pub device: &'static str,
    pub placement: Placement,
    /// The three times of each seed, in the order of the following fields.
    pub per_seed_ms: Vec<[f64; 3]>,
    /// A dentry miss, if no block was cached before the first lookup.
    pub dentry_miss_ms: Interval,
    /// A read of one of the blocks that the dentry misses read: a miss in the buffer cache.
    pub buffer_miss_ms: Interval,
    /// A read of a page that is not in the page cache.
    pub page_fault_ms: Interval,
    /// The cost of a page fault divided by the cost of a dentry miss.
    pub faults_per_dentry_miss: Interval,
    /// The cost of a buffer miss divided by the cost of a dentry miss.
    pub buffer_misses_per_dentry_miss: Interval,
}

/// The reads of each operation.
type Reads = Vec<Vec<ReadRecord>>;

/// The accesses of one seed.
struct Accesses {
    seed: u64,
    /// Lookups of names, with empty caches.
    dentries: Reads,
    /// Lookups of absent names in cached directories.
    cached: Reads,
    /// A read of each block that the lookups of names read.
    buffers: Reads,
    /// Reads of the first page of each file.
    pages: Reads,
}

impl Placement {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Together => "together",
        }
    }
}

impl DiskMisses {
    pub(super) fn measure(image: &Image) -> Result<Self, Error> {
        let kernel = Kernel {
            name: "larder",
            tables: "larder",
            is_published: false,
        };
        let (device, names) = image.homes(&kernel, MEMORY_BYTES, USERS)?;
        let options = options_of(&kernel, MEMORY_BYTES);
        let accesses = (0..SEEDS).map(|seed| {
            let copy = Arc::new(OverlayDevice::clone(&device));
            let recording = Arc::new(RecordingDevice::new(copy));
            let volume = Volume::open_device(Arc::clone(&recording) as _, &options)?;
            Accesses::record(&volume, &recording, &names, image.seed ^ (seed << 32))
        });
        let accesses: Vec<Accesses> = accesses.collect::<Result<_, Error>>()?;
        let per = |of: fn(&Accesses) -> &Reads| {
            let per_access =
                |accesses: &Accesses| quotient(reads(of(accesses)), count(of(accesses)));
            Interval::of_median(&accesses.iter().map(per_access).collect::<Vec<_>>())
        };
        let that_read = accesses.iter().map(|accesses| {
            let reading = accesses.dentries.iter().filter(|reads| !reads.is_empty());
            quotient(reading.count() as u64, count(&accesses.dentries))
        });
        let devices = DEVICES.iter().map(|(name, placement)| {
            let model = DeviceModel::named(name).map_err(Error::Device)?;
            Ok(DiskCosts::simulated(model, *placement, &accesses))
        });
        Ok(Self {
            seeds: SEEDS,
            files: names.len() as u64,
            reads_per_dentry_miss: per(|accesses| &accesses.dentries),
            dentry_misses_that_read: Interval::of_median(&that_read.collect::<Vec<_>>()),
            reads_per_cached_dentry_miss: per(|accesses| &accesses.cached),
            reads_per_page_fault: per(|accesses| &accesses.pages),
            devices: devices.collect::<Result<_, Error>>()?,
        })
    }
}

fn count(operations: &Reads) -> u64 {
    operations.len() as u64
}

fn reads(operations: &Reads) -> u64 {
    operations.iter().map(|reads| reads.len() as u64).sum()
}

impl Accesses {
    fn record(
        volume: &Volume,
        device: &RecordingDevice,
        names: &[Name],
        seed: u64,
    ) -> Result<Self, Error> {
        let mut random = generator(seed, 1);
        let mut names = names.to_vec();
        names.shuffle(&mut random);
        // Discard the reads that opened the volume.
        let _ = device.take_log();
        let (mut files, mut dentries) = (Vec::new(), Reads::new());
        for (home, name) in &names {
            files.push(volume.lookup(*home, name)?);
            dentries.push(device.take_log());
        }
        let cached = names.iter().map(|(home, name)| {
            // No file has this name, so the lookup fails.
            let _ = volume.lookup(*home, &[name.as_slice(), b".absent"].concat());
            device.take_log()
        });
        let cached = cached.collect();
        files.shuffle(&mut random);
        let mut pages = Reads::new();
        for ino in files {
            let file = volume.open_file(ino)?;
            let _ = device.take_log();
            file.read_at(&mut [0; 4096], 0)?;
            pages.push(device.take_log());
        }
        let mut buffers: Vec<ReadRecord> = dentries.iter().flatten().copied().collect();
        buffers.sort_by_key(|read| (read.offset_bytes, read.len_bytes));
        buffers.dedup();
        buffers.shuffle(&mut random);
        Ok(Self {
            seed,
            dentries,
            cached,
            buffers: buffers.into_iter().map(|read| vec![read]).collect(),
            pages,
        })
    }
}

impl DiskCosts {
    fn simulated(model: &'static DeviceModel, placement: Placement, accesses: &[Accesses]) -> Self {
        let per_seed_ms = accesses.iter().map(|accesses| {
            let mut disk = Disk::new(model, placement, accesses.seed);
            [&accesses.dentries, &accesses.buffers, &accesses.pages].map(|operations| {
                let total_ms = disk.perform(operations).as_secs_f64() * 1e3;
                ratio(total_ms, as_f64(count(operations)))
            })
        });
        Self::of(model.name, placement, per_seed_ms.collect())
    }

    /// Computes the medians of the times of all seeds.
    pub(super) fn of(
        device: &'static str,
        placement: Placement,
        per_seed_ms: Vec<[f64; 3]>,
    ) -> Self {
        let median = |of: fn(&[f64; 3]) -> f64| {
            Interval::of_median(&per_seed_ms.iter().map(of).collect::<Vec<_>>())
        };
        Self {
            device,
            placement,
            dentry_miss_ms: median(|&[dentry, ..]| dentry),
            buffer_miss_ms: median(|&[_, buffer, _]| buffer),
            page_fault_ms: median(|&[.., page]| page),
            faults_per_dentry_miss: median(|&[dentry, _, page]| ratio(page, dentry)),
            buffer_misses_per_dentry_miss: median(|&[dentry, buffer, _]| ratio(buffer, dentry)),
            per_seed_ms,
        }
    }
}

/// A simulated device with the image.
struct Disk {
    device: SimulatedDevice,
    /// The distance between the starts of two block groups.
    group_stride_bytes: u64,
    now: VirtualTime,
}

impl Disk {
    fn new(model: &DeviceModel, placement: Placement, seed: u64) -> Self {
        let group_stride_bytes = match placement {
            Placement::Together => GROUP_BYTES,
            // Whole blocks.
            Placement::Spread => model.size_bytes.value / GROUPS / 4096 * 4096,
        };
        Self {
            device: SimulatedDevice::new(model, seed),
            group_stride_bytes,
            now: VirtualTime(0),
        }
    }

    /// Performs the reads of `operations`, one after the other, and returns their time.
    fn perform(&mut self, operations: &Reads) -> Duration {
        let began = self.now;
        for read in operations.iter().flatten() {
            let (group, within) = (
                read.offset_bytes / GROUP_BYTES,
                read.offset_bytes % GROUP_BYTES,
            );
            let request = Request {
                kind: RequestKind::Read,
                process: 0,
                offset_bytes: group * self.group_stride_bytes + within,
                len_bytes: read.len_bytes,
            };
            self.device.submit(self.now, request);
            while let Some(at) = self.device.next_event() {
                self.now = at;
                if self.device.complete(at).is_some() {
                    break;
                }
            }
        }
        self.now.since(began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset_bytes: u64) -> Vec<ReadRecord> {
        vec![ReadRecord {
            offset_bytes,
            len_bytes: 4096,
            buffers: 1,
        }]
    }

    #[test]
    fn seeks_between_spread_groups_take_longer() {
        let model = DeviceModel::named("scsi-1998").unwrap();
        let operations: Reads = (0..200)
            .map(|number| read(number * 29 % GROUPS * GROUP_BYTES))
            .collect();
        let time = |placement| Disk::new(model, placement, 1).perform(&operations);
        let (spread, together) = (time(Placement::Spread), time(Placement::Together));
        assert!(
            spread > together + 200 * Duration::from_millis(1),
            "{spread:?} {together:?}"
        );
        assert_eq!(time(Placement::Spread), spread);
    }

    #[test]
    fn operation_without_reads_takes_no_time() {
        let model = DeviceModel::named("nvme").unwrap();
        let mut disk = Disk::new(model, Placement::Together, 1);
        assert_eq!(disk.perform(&vec![Vec::new(); 9]), Duration::ZERO);
        assert!(disk.perform(&vec![read(0)]) >= Duration::from_micros(85));
    }
}
