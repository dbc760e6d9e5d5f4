//! Tests properties that every simulated device must have for any requests, and checks that `docs/design/devices.md`
//! contains the current results of the disk.

#[path = "../examples/device_figures/measure.rs"]
mod measure;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use larder_instruments::simulated::{
    Completion, DEVICE_MODELS, DeviceModel, Request, RequestId, RequestKind, SimulatedDevice,
    VirtualTime,
};
use larder_testkit::proptest_config;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The seed of the properties, unless `LARDER_SEED` is set. Each property prints the seed that it used.
const SEED: u64 = 2007;

const KIB: u64 = 1024;

fn named(name: &str) -> &'static DeviceModel {
    DeviceModel::named(name).expect("the model is in the table")
}

fn sata_2007() -> &'static DeviceModel {
    named("sata-2007")
}

fn read_at(offset_bytes: u64, len_bytes: u64) -> Request {
    Request {
        kind: RequestKind::Read,
        process: 0,
        offset_bytes,
        len_bytes,
    }
}

fn write_at(offset_bytes: u64, len_bytes: u64) -> Request {
    Request {
        kind: RequestKind::Write,
        ..read_at(offset_bytes, len_bytes)
    }
}

/// A request, and the delay after the previous one.
#[derive(Clone, Copy, Debug)]
struct Step {
    after_us: u64,
    request: Request,
}

fn any_model() -> impl Strategy<Value = &'static DeviceModel> {
    select(DEVICE_MODELS.iter().collect::<Vec<_>>())
}

fn any_kind() -> impl Strategy<Value = RequestKind> {
    prop_oneof![
        3 => Just(RequestKind::Read),
        2 => Just(RequestKind::ReadAhead),
        1 => Just(RequestKind::Write),
    ]
}

/// Generates offsets near one of a few positions in the smallest disk, so that requests touch, overlap and
/// repeat.
fn any_offset() -> impl Strategy<Value = u64> {
    let place = select(vec![0_u64, 2_600_000_000, 2_601_000_000, 9_100_000_000]);
    (place, 0_u64..600).prop_map(|(place, page)| place + page * 4 * KIB)
}

fn any_length() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (1_u64..64).prop_map(|pages| pages * 4 * KIB),
        1 => (1_u64..3000).prop_map(|sectors| sectors * 512),
        1 => 1_u64..5000,
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let after_us = prop_oneof![3 => Just(0_u64), 2 => 0_u64..3_000, 1 => 0_u64..100_000];
    (after_us, any_kind(), 0_u32..4, any_offset(), any_length()).prop_map(
        |(after_us, kind, process, offset_bytes, len_bytes)| Step {
            after_us,
            request: Request {
                kind,
                process,
                offset_bytes,
                len_bytes,
            },
        },
    )
}

/// All completions of a run, and the device after the run.
struct Finished {
    submitted: BTreeMap<RequestId, VirtualTime>,
    completions: Vec<Completion>,
    device: SimulatedDevice,
}

/// Returns all completions that are due at or before `at`.
fn due(device: &mut SimulatedDevice, at: VirtualTime) -> Vec<Completion> {
    std::iter::from_fn(|| device.complete(at)).collect()
}

/// Runs until the device is idle.
fn finish(device: &mut SimulatedDevice) -> Vec<Completion> {
    let mut completions = Vec::new();
    while let Some(at) = device.next_event() {
        completions.extend(due(device, at));
    }
    completions
}

/// Submits the requests of all steps and runs until the device is idle. With `polls`, collects the
/// completions at each event of the device; otherwise collects all of them at the end.
fn run_steps(model: &DeviceModel, seed: u64, steps: &[Step], polls: bool) -> Finished {
    let mut device = SimulatedDevice::new(model, seed);
    let mut submitted = BTreeMap::new();
    let mut completions = Vec::new();
    let mut now = VirtualTime(0);
    for step in steps {
        let then = now + Duration::from_micros(step.after_us);
        while polls
            && let Some(at) = device.next_event()
            && at < then
        {
            completions.extend(due(&mut device, at));
        }
        now = then;
        submitted.insert(device.submit(now, step.request), now);
    }
    completions.extend(finish(&mut device));
    Finished {
        submitted,
        completions,
        device,
    }
}

proptest! {
    #![proptest_config(proptest_config!(SEED))]

    #[test]
    fn request_of_any_kind_completes_once_in_order_and_not_before_submission(
        model in any_model(),
        steps in vec(any_step(), 1..200),
        seed in any::<u64>(),
    ) {
        let finished = run_steps(model, seed, &steps, true);
        let ids: Vec<u64> = finished.submitted.keys().map(|id| id.0).collect();
        prop_assert_eq!(ids, (0..steps.len() as u64).collect::<Vec<_>>());
        let mut completed: Vec<RequestId> = finished.completions.iter().map(|done| done.id).collect();
        completed.sort_unstable();
        prop_assert!(completed.iter().eq(finished.submitted.keys()));
        prop_assert!(finished.completions.is_sorted_by_key(|done| done.at));
        for done in &finished.completions {
            prop_assert!(done.at >= finished.submitted[&done.id]);
        }
    }

    #[test]
    fn counts_at_the_end_equal_the_submitted_bytes(
        model in any_model(),
        steps in vec(any_step(), 1..200),
    ) {
        let counts = run_steps(model, SEED, &steps, true).device.counts();
        let bytes = |writes: bool| -> u64 {
            steps
                .iter()
                .map(|step| step.request)
                .filter(|request| (request.kind == RequestKind::Write) == writes)
                .map(|request| request.len_bytes)
                .sum()
        };
        prop_assert_eq!(counts.read_bytes, bytes(false));
        prop_assert_eq!(counts.written_bytes, bytes(true));
        prop_assert_eq!(counts.reads > 0, counts.read_bytes > 0);
        prop_assert_eq!(counts.writes > 0, counts.written_bytes > 0);
    }

    #[test]
    fn completions_of_the_same_seed_repeat(
        model in any_model(),
        steps in vec(any_step(), 1..200),
        seed in any::<u64>(),
    ) {
        let (first, second) = (run_steps(model, seed, &steps, true), run_steps(model, seed, &steps, true));
        prop_assert_eq!(first.completions, second.completions);
    }

    #[test]
    fn completions_collected_late_equal_those_collected_at_once(
        model in any_model(),
        steps in vec(any_step(), 1..200),
        seed in any::<u64>(),
    ) {
        let (early, late) = (run_steps(model, seed, &steps, true), run_steps(model, seed, &steps, false));
        prop_assert_eq!(early.completions, late.completions);
    }

    #[test]
    fn device_before_its_next_event_completes_nothing(
        model in any_model(),
        steps in vec(any_step(), 1..50),
    ) {
        let mut device = SimulatedDevice::new(model, SEED);
        for step in &steps {
            device.submit(VirtualTime(0), step.request);
        }
        while let Some(at) = device.next_event() {
            if let Some(before) = at.0.checked_sub(1) {
                prop_assert_eq!(device.complete(VirtualTime(before)), None);
                prop_assert_eq!(device.next_event(), Some(at));
            }
            due(&mut device, at);
        }
    }

    #[test]
    fn throughput_of_first_reads_is_below_the_media_rate(
        order in Just((0..200).collect::<Vec<u64>>()).prop_shuffle(),
        len_bytes in (1_u64..256).prop_map(|pages| pages * 4 * KIB),
        seed in any::<u64>(),
    ) {
        let steps: Vec<Step> = order
            .iter()
            .map(|index| Step { after_us: 0, request: read_at(index * len_bytes, len_bytes) })
            .collect();
        let finished = run_steps(sata_2007(), seed, &steps, true);
        let took_ns = finished.completions.last().expect("there were requests").at.0;
        let read_bytes = finished.device.counts().read_bytes;
        // The 67.8 MB/s of the data sheet are an average over many tracks. A short read can exceed this rate,
        // because the last track needs no track switch.
        let sheet_ns = read_bytes * 10_000 / 678;
        prop_assert!(took_ns + 1_480_000 >= sheet_ns, "{took_ns} ns, {sheet_ns} ns");
    }

    #[test]
    fn throughput_over_a_link_is_below_its_rate(
        (name, link_bytes_per_us) in select(vec![
            ("nvme", 3_200_u64),
            ("network-1ms", 1_250),
            ("object-30ms", 1_250),
        ]),
        requests in vec(any_step().prop_map(|step| step.request), 1..200),
    ) {
        let steps: Vec<Step> =
            requests.iter().map(|&request| Step { after_us: 0, request }).collect();
        let finished = run_steps(named(name), SEED, &steps, true);
        let bytes: u64 = requests.iter().map(|request| request.len_bytes).sum();
        let took_ns = finished.completions.last().expect("there were requests").at.0;
        // The transfer time of each command is rounded down to a nanosecond.
        let rounded_ns = 2 * steps.len() as u64;
        prop_assert!(took_ns + rounded_ns >= bytes * 1000 / link_bytes_per_us);
    }
}

#[test]
fn disk_with_another_seed_starts_at_another_angle() {
    let steps = [Step {
        after_us: 0,
        request: read_at(50_000_000_000, 64 * KIB),
    }];
    let first = run_steps(sata_2007(), 1, &steps, true).completions;
    let second = run_steps(sata_2007(), 2, &steps, true).completions;
    assert_ne!(first, second);
}

#[test]
fn instant_device_completes_at_once() {
    let mut device = SimulatedDevice::new(named("instant"), SEED);
    let now = VirtualTime(17);
    let id = device.submit(now, read_at(0, 1 << 30));
    assert_eq!(device.next_event(), Some(now));
    assert_eq!(device.complete(now), Some(Completion { id, at: now }));
    assert_eq!(device.next_event(), None);
}

#[test]
fn sequential_reads_of_odd_sizes_lose_no_revolution() {
    let len_bytes = 100_001;
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    let mut now = VirtualTime(0);
    for index in 0..200 {
        device.submit(now, read_at(index * len_bytes, len_bytes));
        now = finish(&mut device)[0].at;
    }
    // The expected time is 20 MB at 67.8 MB/s, plus the first seek. Losing one revolution per request would
    // add 1.7 s.
    assert!(now < VirtualTime(330_000_000), "{now:?}");
}

#[test]
fn adjacent_requests_of_the_same_time_become_one_command() {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    let part = 64 * KIB;
    for index in [3, 4, 2, 5, 1, 6, 0, 7] {
        device.submit(VirtualTime(0), read_at(index * part, part));
    }
    let completions = finish(&mut device);
    assert_eq!(device.counts().reads, 1);
    assert_eq!(completions.len(), 8);
    assert!(completions.iter().all(|done| done.at == completions[0].at));
}

#[test]
fn request_next_to_a_full_command_is_not_merged() {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    device.submit(VirtualTime(0), read_at(0, 512 * KIB));
    device.submit(VirtualTime(0), read_at(512 * KIB, 4 * KIB));
    finish(&mut device);
    assert_eq!(device.counts().reads, 2);
}

#[test]
fn adjacent_read_and_write_are_not_merged() {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    device.submit(VirtualTime(0), read_at(0, 4 * KIB));
    device.submit(VirtualTime(0), write_at(4 * KIB, 4 * KIB));
    finish(&mut device);
    assert_eq!((device.counts().reads, device.counts().writes), (1, 1));
}

#[test]
fn request_larger_than_a_command_is_split_and_completes_once() {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    device.submit(VirtualTime(0), read_at(0, 1024 * KIB + 1));
    assert_eq!(finish(&mut device).len(), 1);
    assert_eq!(device.counts().reads, 3);
}

#[test]
fn queue_with_seven_eighths_of_its_reads_is_congested() {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    for index in 0..200 {
        device.submit(VirtualTime(0), write_at(index * 1_000_000, 4 * KIB));
    }
    for index in 0..111 {
        device.submit(VirtualTime(0), read_at(index * 1_000_000, 4 * KIB));
        // This read is merged with the previous one, so it does not add a command.
        let next = read_at(index * 1_000_000 + 4 * KIB, 4 * KIB);
        device.submit(VirtualTime(0), next);
    }
    assert!(!device.is_congested());
    device.submit(VirtualTime(0), read_at(900_000_000, 4 * KIB));
    assert!(device.is_congested());
    finish(&mut device);
    assert!(!device.is_congested());
}

/// Keeps `depth` requests of `flood` in flight, submits `burst` after a second, and returns the time
/// until all of `burst` is done.
fn latency_in_flood(depth: usize, burst: &[Request], flood: impl Fn(u64) -> Request) -> Duration {
    let mut device = SimulatedDevice::new(sata_2007(), SEED);
    let mut now = VirtualTime(0);
    let (mut under_way, mut submitted) = (0, 0);
    let mut since = None;
    let mut left = BTreeSet::new();
    loop {
        while under_way < depth {
            device.submit(now, flood(submitted));
            under_way += 1;
            submitted += 1;
        }
        if since.is_none() && now > VirtualTime(1_000_000_000) {
            since = Some(now);
            left.extend(burst.iter().map(|&request| device.submit(now, request)));
        }
        now = now.max(device.next_event().expect("a request is in flight"));
        assert!(now < VirtualTime(20_000_000_000), "starved");
        while let Some(done) = device.complete(now) {
            if !left.remove(&done.id) {
                under_way -= 1;
            }
        }
        if let Some(since) = since
            && left.is_empty()
        {
            return now.since(since);
        }
    }
}

/// The maximum latency of a read: the deadline of reads, plus the drive's age limit, plus the longest service
/// times of a full queue.
const READ_BOUND: Duration = Duration::from_millis(500 + 300 + 31 * 25);

#[test]
fn read_far_away_in_a_flood_of_near_reads_is_not_starved() {
    let lone = read_at(150_000_000_000, 4 * KIB);
    for depth in [64, 256] {
        let took = latency_in_flood(depth, &[lone], |n| {
            read_at(n * 7919 % 1000 * 65_536, 4 * KIB)
        });
        assert!(took < READ_BOUND, "{took:?} at depth {depth}");
    }
}

#[test]
fn read_far_away_in_a_flood_of_sequential_reads_is_not_starved() {
    let lone = read_at(150_000_000_000, 4 * KIB);
    for depth in [2, 64, 256] {
        let took = latency_in_flood(depth, &[lone], |n| read_at(n * 131_072, 128 * KIB));
        assert!(took < READ_BOUND, "{took:?} at depth {depth}");
    }
}

#[test]
fn read_in_a_flood_of_writes_is_not_starved() {
    let lone = read_at(150_000_000_000, 4 * KIB);
    for depth in [16, 256] {
        let flood = |n| write_at(n * 7919 % 100_000 * 65_536, 64 * KIB);
        let took = latency_in_flood(depth, &[lone], flood);
        assert!(took < READ_BOUND, "{took:?} at depth {depth}");
    }
}

#[test]
fn write_in_a_flood_of_reads_is_not_starved() {
    let lone = write_at(150_000_000_000, 4 * KIB);
    for depth in [16, 256] {
        let flood = |n| read_at(n * 7919 % 100_000 * 65_536, 64 * KIB);
        let took = latency_in_flood(depth, &[lone], flood);
        assert!(took < Duration::from_secs(6), "{took:?} at depth {depth}");
    }
}

#[test]
fn writes_beyond_the_cache_in_a_flood_of_sequential_reads_are_not_starved() {
    let burst: Vec<Request> = (0..16)
        .map(|n| write_at(150_000_000_000 + n * 1_000_000, 512 * KIB))
        .collect();
    for depth in [2, 8] {
        let took = latency_in_flood(depth, &burst, |n| read_at(n * 131_072, 128 * KIB));
        assert!(took < Duration::from_secs(10), "{took:?} at depth {depth}");
    }
}

#[test]
#[should_panic(expected = "extends past the end of `sata-2007`")]
fn request_past_the_end_is_refused() {
    let model = sata_2007();
    let mut device = SimulatedDevice::new(model, SEED);
    device.submit(VirtualTime(0), read_at(model.size_bytes.value - 511, 512));
}

/// The specification of the disk states 52.2 s for 4096 reads of one sector. This includes a margin of 5%.
#[test]
fn random_reads_of_the_disk_of_1998_take_as_long_as_specified() {
    let model = named("scsi-1998");
    let mut device = SimulatedDevice::new(model, SEED);
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut now = VirtualTime(0);
    for _ in 0..4096 {
        let sector = random.random_range(0..model.size_bytes.value / 512);
        device.submit(now, read_at(sector * 512, 512));
        now = loop {
            let at = device.next_event().expect("the read is not done");
            if device.complete(at).is_some() {
                break at;
            }
        };
    }
    let seconds = now.since(VirtualTime(0)).as_secs_f64();
    let specified = 52.2 / 1.05;
    assert!((seconds / specified - 1.0).abs() < 0.02, "{seconds} s");
}

#[test]
fn unknown_model_lists_alternatives() {
    let message = DeviceModel::named("floppy")
        .expect_err("the model does not exist")
        .to_string();
    for model in DEVICE_MODELS {
        assert!(message.contains(model.name), "{message}");
        assert_eq!(DeviceModel::named(model.name), Ok(model));
    }
}

#[test]
fn lower_rates_have_higher_offsets() {
    let model = sata_2007();
    let offsets = [70_000_000, 60_000_000, 45_000_000, 33_000_000, 1]
        .map(|rate| model.offset_with_rate(rate));
    assert_eq!(offsets[0], 0);
    assert!(offsets.is_sorted() && offsets[1] < offsets[2]);
    assert!(offsets[4] < model.size_bytes.value);
}

/// Tests that the tables of the document match the output of the program, and that the results are close to
/// the measurements of Wu 2007.
#[test]
fn figures_of_the_document_equal_the_output_of_the_program() {
    let document = include_str!("../../../docs/design/devices.md");
    let runs = measure::disk_runs();
    for table in [
        measure::parameters(),
        measure::disk_figures(&runs),
        measure::parallel_figures(),
    ] {
        assert!(
            document.contains(table.trim()),
            "the document lacks:\n{table}"
        );
    }
    let run = |what: &str, depth: usize| {
        runs.iter()
            .find(|run| run.0 == what && run.1 == depth)
            .expect("the workload was run")
            .2
    };
    let rate = run("sequential read, 128 KiB", 1).kib_per_second();
    assert!((61_500.0..63_000.0).contains(&rate), "{rate}");
    let reverse_ms = run("reverse read, 64 KiB", 1).ms_per_request();
    assert!((1.3..2.3).contains(&reverse_ms), "{reverse_ms}");
    let random_ms = run("random read, 64 KiB", 1).ms_per_request();
    assert!((8.0..9.0).contains(&random_ms), "{random_ms}");
    let deep_ms = run("random read, 64 KiB", 64).ms_per_request();
    assert!(random_ms / deep_ms > 1.8, "{random_ms} {deep_ms}");
}
