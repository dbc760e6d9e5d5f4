//! Examines what the gain under thrashing depends on: runs the same streams on machines that differ in one
//! parameter, and compares both policies at equal numbers of streams.
//!
//! Except for the grid, these results are not judged, since the document contains only the extremes of each course, on one
//! machine. The grid shows whether a verdict on thrashing depends on the size of the streams' reads.

use larder_instruments::simulated::ServiceModel;
use larder_readahead::PolicyName;

use super::machine::{SMALL_MEMORY_BYTES, Scheduler, Size, SmallMachine};
use super::results::{
    EqualStreams, GainAtEqualStreams, GridCell, ReadSizeGain, ThrashingCourse, ThrashingFigures,
    ThrashingGain, ThrashingVariant,
};
use super::thrashing;
use crate::published::Pair;
use crate::simulator::Error;

/// Number of streams above which the mean of a course is computed.
pub(super) const STREAMS_ABOVE: u32 = 100;

/// Number of seconds in a moving average, which is used because single seconds scatter.
pub(super) const SMOOTHED_S: usize = 5;

/// The published gain, and the limit from which a gain counts as threefold.
const THREEFOLD: f64 = 3.0;

/// The policies that the gain compares.
pub(super) const POLICIES: [PolicyName; 2] = [PolicyName::Legacy, PolicyName::OnDemand];

/// A change of one parameter of the machine.
pub(super) struct Variant {
    pub(super) name: &'static str,
    change: fn(&mut SmallMachine),
}

/// Name of the unchanged machine, beside the names of the [`VARIANTS`].
const AS_MODELLED: &str = "as modelled";

/// The other machines.
pub(super) const VARIANTS: [Variant; 4] = [
    Variant {
        name: "queue never congested",
        // More reads than 200 streams can have in flight.
        change: |machine| machine.device.queue.nr_requests.value = 1 << 20,
    },
    Variant {
        name: "16 cache segments in the drive, not 128",
        change: |machine| {
            if let ServiceModel::Disk(disk) = &mut machine.device.service {
                disk.read_cache_segments.value = 16;
            }
        },
    },
    Variant {
        name: "one command at a time (no NCQ), not 31",
        change: |machine| {
            if let Some(depth) = &mut machine.device.queue.device_depth {
                depth.value = 1;
            }
        },
    },
    Variant {
        name: "112 MiB for pages, as if processes took none",
        change: |machine| machine.memory_bytes = 112 << 20,
    },
];

/// The memory for pages in the grid, in MiB. The third size is the memory of the modelled machine, rounded.
pub(super) const GRID_MEMORY_MIB: [u64; 6] = [48, 64, 75, 88, 100, 112];

/// The sizes of the streams' reads in the grid, in KiB.
pub(super) const GRID_READ_KIB: [u64; 5] = [4, 8, 16, 32, 64];

/// Returns the memory for pages in MiB and the size of the streams' reads in KiB in each cell of the grid. With CFQ, only
/// the memory of the modelled machine is simulated.
pub(super) fn grid_cells(scheduler: Scheduler) -> impl Iterator<Item = (u64, u64)> {
    let is_simulated = move |memory_mib: &u64| {
        scheduler == Scheduler::Deadline || *memory_mib == SMALL_MEMORY_BYTES >> 20
    };
    GRID_MEMORY_MIB
        .into_iter()
        .filter(is_simulated)
        .flat_map(|memory_mib| GRID_READ_KIB.map(|read_kib| (memory_mib, read_kib)))
}

/// The figures of a cell of the grid with one seed.
#[derive(Clone, Copy)]
pub(super) struct CellFigures {
    /// The throughput of the best second, in MB/s.
    pub(super) throughput: Pair,
    /// The smallest mean size of a device read in a second, in KB.
    pub(super) min_mean_read: Pair,
}

/// Runs the course under each policy with `memory_mib` for pages, and with streams that read `read_kib` at a time.
pub(super) fn measure_cell(
    memory_mib: u64,
    read_kib: u64,
    size: Size,
) -> Result<CellFigures, Error> {
    let machine = SmallMachine {
        memory_bytes: memory_mib << 20,
        ..SmallMachine::as_modelled(size.scheduler)
    };
    let course = |policy| thrashing::measure_on(&machine, read_kib << 10, policy, size);
    let [legacy, ondemand] = POLICIES;
    let (legacy, ondemand) = (course(legacy)?, course(ondemand)?);
    let pair = |figure: fn(&ThrashingCourse) -> f64| Pair {
        legacy: figure(&legacy),
        ondemand: figure(&ondemand),
    };
    Ok(CellFigures {
        throughput: pair(ThrashingCourse::max_throughput_mb_s),
        min_mean_read: pair(ThrashingCourse::min_mean_read_kb),
    })
}

/// Combines the results of [`measure_cell`], which are ordered by seed, then as in [`grid_cells`].
pub(super) fn grid(figures: &[CellFigures], scheduler: Scheduler) -> Vec<GridCell> {
    let cells = grid_cells(scheduler).count();
    let grid = grid_cells(scheduler).enumerate();
    let grid = grid.filter_map(|(at, (memory_mib, read_kib))| {
        let seeds = || figures.iter().skip(at).step_by(cells);
        seeds().next()?;
        let of = |pair: fn(&CellFigures) -> Pair| -> Vec<Pair> { seeds().map(pair).collect() };
        Some(GridCell {
            memory_mib,
            read_kib,
            throughput: ThrashingGain::of(&of(|cell| cell.throughput)),
            min_mean_read: ReadSizeGain::of(&of(|cell| cell.min_mean_read)),
        })
    });
    grid.collect()
}

/// Runs the whole course on the machine of `variant`.
pub(super) fn measure(
    variant: &Variant,
    policy: PolicyName,
    size: Size,
) -> Result<ThrashingCourse, Error> {
    let mut machine = SmallMachine::as_modelled(size.scheduler);
    (variant.change)(&mut machine);
    thrashing::measure_on(&machine, thrashing::REQUEST_BYTES, policy, size)
}

/// Summarizes both courses on the unchanged machine, and on each of [`VARIANTS`] in order.
pub(super) fn variants(
    modelled: [&ThrashingCourse; 2],
    others: &[ThrashingCourse],
) -> Vec<ThrashingVariant> {
    let summed_up = |name, [legacy, ondemand]: [&ThrashingCourse; 2]| ThrashingVariant {
        name,
        legacy: figures(legacy),
        ondemand: figures(ondemand),
    };
    let others = VARIANTS.iter().zip(others.chunks_exact(POLICIES.len()));
    std::iter::once(summed_up(AS_MODELLED, modelled))
        .chain(others.map(|(variant, of)| summed_up(variant.name, [&of[0], &of[1]])))
        .collect()
}

fn figures(course: &ThrashingCourse) -> ThrashingFigures {
    ThrashingFigures {
        max_throughput_mb_s: course.max_throughput_mb_s(),
        mean_throughput_mb_s: course.means_above(STREAMS_ABOVE)[0],
        final_throughput_mb_s: course.final_mb_s(SMOOTHED_S),
        pages_ahead: course.pages_ahead,
        pages_wasted: course.pages_wasted,
    }
}

/// Compares the mean throughputs of the seconds with more than [`STREAMS_ABOVE`] streams, given the courses of both
/// policies for each seed. Returns `None` if there are no such seconds.
pub(super) fn above_streams(seeds: &[[&ThrashingCourse; 2]]) -> Option<ThrashingGain> {
    let means = seeds.iter().map(|courses| {
        let [legacy, ondemand] = courses.map(|course| course.means_above(STREAMS_ABOVE)[0]);
        (legacy.is_finite() && ondemand.is_finite()).then_some(Pair { legacy, ondemand })
    });
    let means: Vec<Pair> = means.collect::<Option<_>>()?;
    (!means.is_empty()).then(|| ThrashingGain::of(&means))
}

/// Compares the courses of both policies second by second, for all seeds, with throughputs smoothed over [`SMOOTHED_S`]
/// seconds. Returns `None` if a course has fewer seconds.
pub(super) fn at_equal_streams(seeds: &[[&ThrashingCourse; 2]]) -> Option<GainAtEqualStreams> {
    let smoothed: Vec<[Vec<(u32, f64)>; 2]> = seeds
        .iter()
        .map(|courses| courses.map(|course| course.smoothed().collect()))
        .collect();
    let seconds = smoothed.iter().flatten().map(Vec::len).min()?;
    let points = (0..seconds).map(|at| {
        let pairs = smoothed.iter().map(|[legacy, ondemand]| Pair {
            legacy: legacy[at].1,
            ondemand: ondemand[at].1,
        });
        EqualStreams {
            streams: smoothed[0][0][at].0,
            throughput: ThrashingGain::of(&pairs.collect::<Vec<_>>()),
        }
    });
    let points: Vec<EqualStreams> = points.collect();
    let gain = |point: &EqualStreams| point.throughput.gain.value;
    let largest = points
        .iter()
        .max_by(|one, other| gain(one).total_cmp(&gain(other)))?;
    let threefold = points
        .chunk_by(|one, next| is_threefold(one) && is_threefold(next))
        .filter(|stretch| is_threefold(&stretch[0]))
        .max_by_key(|stretch| stretch.len());
    Some(GainAtEqualStreams {
        smoothed_s: SMOOTHED_S,
        largest: *largest,
        threefold: threefold.map(|stretch| [stretch[0], stretch[stretch.len() - 1]]),
    })
}

fn is_threefold(point: &EqualStreams) -> bool {
    point.throughput.gain.value >= THREEFOLD
}

impl ThrashingCourse {
    /// For each second in the middle of [`SMOOTHED_S`] seconds, returns the number of streams, and the
    /// mean throughput of these seconds in MB/s.
    fn smoothed(&self) -> impl Iterator<Item = (u32, f64)> {
        self.seconds.windows(SMOOTHED_S).map(|seconds| {
            let around = seconds.iter().map(|second| second.throughput_mb_s);
            (seconds[SMOOTHED_S / 2].streams, thrashing::mean(around))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::ThrashingSecond;
    use super::*;
    use crate::statistics::Interval;

    fn course(throughputs_mb_s: &[f64]) -> ThrashingCourse {
        let seconds = (1..).zip(throughputs_mb_s);
        ThrashingCourse {
            policy: "legacy",
            seconds: seconds
                .map(|(at_s, &throughput_mb_s)| ThrashingSecond {
                    at_s,
                    streams: at_s,
                    throughput_mb_s,
                    mean_read_kb: None,
                })
                .collect(),
            pages_wasted: 0,
            pages_ahead: 0,
        }
    }

    #[test]
    fn gain_compares_seconds_with_equal_streams() {
        let legacy = course(&[1.0; 20]);
        let mut throughputs = [2.0; 20];
        // Smoothing reduces a single second to at most 2.8.
        throughputs[3] = 6.0;
        // Threefold around the seconds 13 to 16, with the maximum there.
        throughputs[12..16].fill(4.0);
        let gain = at_equal_streams(&[[&legacy, &course(&throughputs)]]).unwrap();
        assert_eq!(gain.largest.streams, 15, "the last of the largest");
        let largest = gain.largest.throughput;
        assert!((largest.gain.value - 3.6).abs() < 1e-9);
        assert_eq!(largest.gain.low, None, "one seed has no interval");
        let [first, last] = gain.threefold.unwrap();
        assert_eq!((first.streams, last.streams), (13, 16));
    }

    #[test]
    fn gain_has_an_interval_over_the_seeds() {
        let legacy = course(&[2.0; 120]);
        let courses = [4.0, 5.0, 6.0, 7.0, 8.0, 9.0].map(|mb_s| course(&[mb_s; 120]));
        let seeds: Vec<_> = courses.iter().map(|ondemand| [&legacy, ondemand]).collect();
        let expected = ThrashingGain {
            legacy_mb_s: 2.0,
            ondemand_mb_s: 6.5,
            gain: Interval::new(3.25, [2.0, 4.5]),
        };
        assert_eq!(above_streams(&seeds), Some(expected));
        let gain = at_equal_streams(&seeds).unwrap();
        assert!((gain.largest.throughput.gain.value - 3.25).abs() < 1e-9);
        assert!(gain.threefold.is_some());
        assert_eq!(above_streams(&[]), None);
        assert_eq!(above_streams(&[[&course(&[1.0; 9]), &legacy]]), None);
    }

    #[test]
    fn grid_has_the_median_of_each_cell_over_all_seeds() {
        let cells: Vec<(u64, u64)> = grid_cells(Scheduler::Deadline).collect();
        assert_eq!(cells.len(), GRID_MEMORY_MIB.len() * GRID_READ_KIB.len());
        assert!(grid_cells(Scheduler::Cfq).eq(GRID_READ_KIB.map(|read_kib| (75, read_kib))));
        let figures = (1..=9_u32).flat_map(|seed| {
            (1..).take(cells.len()).map(move |cell| CellFigures {
                throughput: Pair {
                    legacy: f64::from(cell),
                    ondemand: f64::from(cell * seed),
                },
                min_mean_read: Pair {
                    legacy: 16.0,
                    ondemand: f64::from(16 * cell * seed),
                },
            })
        });
        let grid = grid(&figures.collect::<Vec<_>>(), Scheduler::Deadline);
        for ((cell, (memory_mib, read_kib)), number) in grid.iter().zip(cells).zip(1..) {
            assert_eq!((cell.memory_mib, cell.read_kib), (memory_mib, read_kib));
            let of = cell.throughput;
            let medians = (of.legacy_mb_s, of.ondemand_mb_s);
            assert_eq!(medians, (f64::from(number), f64::from(5 * number)));
            assert_eq!((of.gain.low, of.gain.high), (Some(2.0), Some(8.0)));
            let [value, low, high] = [5, 2, 8].map(|seed| f64::from(seed * number));
            let gain = Interval::new(value, [low, high]);
            let reads = ReadSizeGain {
                legacy_kb: 16.0,
                ondemand_kb: gain.map(|gain| 16.0 * gain),
                gain,
            };
            assert_eq!(cell.min_mean_read, reads);
        }
        assert!(super::grid(&[], Scheduler::Deadline).is_empty());
    }

    #[test]
    fn gain_below_three_has_no_threefold_range() {
        let gain = at_equal_streams(&[[&course(&[1.0; 9]), &course(&[2.0; 9])]]).unwrap();
        assert_eq!(gain.threefold, None);
        let short = [[&course(&[1.0; 4]), &course(&[2.0; 4])]];
        assert_eq!(at_equal_streams(&short), None);
        assert_eq!(at_equal_streams(&[]), None);
    }

    #[test]
    fn variant_differs_in_device_or_memory() {
        let modelled = SmallMachine::as_modelled(Scheduler::Deadline);
        for variant in &VARIANTS {
            let mut machine = modelled.clone();
            (variant.change)(&mut machine);
            let same = machine.device == modelled.device;
            assert_eq!(
                same,
                machine.memory_bytes != modelled.memory_bytes,
                "{}",
                variant.name
            );
        }
        let ServiceModel::Disk(disk) = modelled.device.service else {
            panic!("the modelled device is a disk");
        };
        let queue = modelled.device.queue;
        let depth = queue.device_depth.map(|depth| depth.value);
        assert_eq!((disk.read_cache_segments.value, depth), (128, Some(31)));
        assert_eq!(modelled.memory_bytes >> 20, GRID_MEMORY_MIB[2]);
    }
}
