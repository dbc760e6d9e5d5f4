//! Drives the simulated devices directly, with no cache and no readahead above, and prints what
//! they do as Markdown tables. Shared with the test that compares them with the document.

use std::fmt::Write;
use std::time::Duration;

use larder_block::simulated::{
    DEVICE_MODELS, DeviceModel, Request, RequestKind, SimulatedDevice, VirtualTime,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const FILE_BYTES: u64 = 4096 * MIB;
const SEED: u64 = 2007;

/// The parameters of every model.
pub fn parameters() -> String {
    let mut out = String::new();
    for model in DEVICE_MODELS {
        let _ = writeln!(out, "### `{}`: {}\n", model.name, model.about);
        out += "| parameter | value | source |\n|---|---|---|\n";
        for parameter in model.parameters() {
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                parameter.name, parameter.value, parameter.source
            );
        }
        out += "\n";
    }
    out
}

/// What a run of requests took.
struct Run {
    requests: u64,
    bytes: u64,
    elapsed: Duration,
}

impl Run {
    fn kib_per_second(&self) -> f64 {
        self.bytes as f64 / 1024.0 / self.elapsed.as_secs_f64()
    }

    fn ms_per_request(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1000.0 / self.requests as f64
    }
}

/// Reads `len_bytes` at each of `offsets`, with `depth` requests under way at any time.
fn read(
    model: &DeviceModel,
    depth: usize,
    len_bytes: u64,
    offsets: impl IntoIterator<Item = u64>,
) -> Run {
    let mut device = SimulatedDevice::new(model, SEED);
    let mut now = VirtualTime(0);
    let (mut requests, mut under_way) = (0, 0);
    let mut offsets = offsets.into_iter();
    loop {
        while under_way < depth
            && let Some(offset) = offsets.next()
        {
            device.submit(
                now,
                Request {
                    kind: RequestKind::Read,
                    offset_bytes: model.file_start_bytes.value + offset,
                    len_bytes,
                },
            );
            under_way += 1;
            requests += 1;
        }
        if under_way == 0 {
            break;
        }
        if let Some(next) = device.next_event() {
            now = now.max(next);
        }
        while device.complete(now).is_some() {
            under_way -= 1;
        }
    }
    Run {
        requests,
        bytes: requests * len_bytes,
        elapsed: now.since(VirtualTime(0)),
    }
}

fn forwards(total_bytes: u64, len_bytes: u64) -> impl Iterator<Item = u64> {
    (0..total_bytes / len_bytes).map(move |index| index * len_bytes)
}

fn backwards(total_bytes: u64, len_bytes: u64) -> impl Iterator<Item = u64> {
    (0..total_bytes / len_bytes).map(move |index| total_bytes - (index + 1) * len_bytes)
}

fn at_random(count: usize, len_bytes: u64) -> impl Iterator<Item = u64> {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    (0..count).map(move |_| random.random_range(0..FILE_BYTES / len_bytes) * len_bytes)
}

/// The disk, beside what Wu 2007 says of one.
pub fn disk_figures() -> String {
    let disk = DeviceModel::named("sata-2007").expect("the model is in the table");
    let mut out = String::from("| requests | at a time | KiB/s | ms each |\n|---|---|---|---|\n");
    let mut row = |what: &str, depth: usize, run: &Run| {
        let _ = writeln!(
            out,
            "| {what} | {depth} | {:.0} | {:.2} |",
            run.kib_per_second(),
            run.ms_per_request()
        );
    };
    for (len_bytes, depth) in [(128 * KIB, 1), (128 * KIB, 2), (MIB, 1), (MIB, 2)] {
        let run = read(disk, depth, len_bytes, forwards(FILE_BYTES, len_bytes));
        row(&format!("sequential, {} KiB", len_bytes / KIB), depth, &run);
    }
    let record = 64 * KIB;
    let run = read(disk, 1, record, backwards(FILE_BYTES, record));
    row("backwards, 64 KiB", 1, &run);
    let stride = 17 * record;
    let run = read(disk, 1, record, forwards(FILE_BYTES, stride));
    row("64 KiB of every 1088 KiB", 1, &run);
    for len_bytes in [16 * KIB, record, 128 * KIB] {
        let run = read(disk, 1, len_bytes, at_random(20_000, len_bytes));
        row(
            &format!("random over 4 GiB, {} KiB", len_bytes / KIB),
            1,
            &run,
        );
    }
    for depth in [2, 4, 8, 16, 32, 64, 128, 256] {
        let run = read(disk, depth, record, at_random(20_000, record));
        row("random over 4 GiB, 64 KiB", depth, &run);
    }
    out + "\n"
}

/// The devices with no arm.
pub fn parallel_figures() -> String {
    let mut out = String::from(
        "| device | requests | at a time | MB/s | requests/s |\n|---|---|---|---|---|\n",
    );
    for name in ["nvme", "network-1ms", "object-30ms"] {
        let model = DeviceModel::named(name).expect("the model is in the table");
        for (len_bytes, depth) in [
            (4 * KIB, 1),
            (4 * KIB, 64),
            (128 * KIB, 1),
            (128 * KIB, 64),
            (8 * MIB, 1),
            (8 * MIB, 64),
        ] {
            let run = read(model, depth, len_bytes, at_random(4_000, len_bytes));
            let seconds = run.elapsed.as_secs_f64();
            let _ = writeln!(
                out,
                "| {name} | random, {} KiB | {depth} | {:.1} | {:.0} |",
                len_bytes / KIB,
                run.bytes as f64 / 1e6 / seconds,
                run.requests as f64 / seconds
            );
        }
    }
    out
}
