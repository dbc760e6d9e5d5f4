//! Drives the simulated devices directly, without a cache or readahead, and prints the results as
//! Markdown tables. The test that compares the results with the document shares this module.

use std::fmt::Write;
use std::time::Duration;

use larder_instruments::simulated::{
    DEVICE_MODELS, DeviceModel, Request, RequestKind, SimulatedDevice, SourcedValue, VirtualTime,
};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

const KIB: u32 = 1024;
const MIB: u32 = 1024 * KIB;
const FILE_BYTES: u64 = 4 << 30;
const SEED: u64 = 2007;

/// Returns the parameters of every model as Markdown tables.
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

/// The result of a run of requests.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    requests: u32,
    len_bytes: u32,
    elapsed: Duration,
}

impl Run {
    fn requests_per_second(self) -> f64 {
        f64::from(self.requests) / self.elapsed.as_secs_f64()
    }

    fn bytes_per_second(self) -> f64 {
        self.requests_per_second() * f64::from(self.len_bytes)
    }

    /// Returns the throughput in KiB per second, computed as iozone does.
    pub fn kib_per_second(self) -> f64 {
        self.bytes_per_second() / 1024.0
    }

    pub fn ms_per_request(self) -> f64 {
        1000.0 / self.requests_per_second()
    }
}

/// Reads or writes `len_bytes` at each of `offsets` in the file, with up to `depth` requests in flight.
fn run(
    model: &DeviceModel,
    kind: RequestKind,
    depth: usize,
    len_bytes: u32,
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
                    kind,
                    process: 0,
                    offset_bytes: model.file_start_bytes.value + offset,
                    len_bytes: len_bytes.into(),
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
        len_bytes,
        elapsed: now.since(VirtualTime(0)),
    }
}

fn forwards(step_bytes: u32) -> impl Iterator<Item = u64> {
    let step_bytes = u64::from(step_bytes);
    (0..FILE_BYTES / step_bytes).map(move |index| index * step_bytes)
}

fn backwards(step_bytes: u32) -> impl Iterator<Item = u64> {
    let step_bytes = u64::from(step_bytes);
    (1..=FILE_BYTES / step_bytes).map(move |index| FILE_BYTES - index * step_bytes)
}

fn at_random(count: usize, len_bytes: u32) -> impl Iterator<Item = u64> {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let records = FILE_BYTES / u64::from(len_bytes);
    (0..count).map(move |_| random.random_range(0..records) * u64::from(len_bytes))
}

/// Returns the offsets of many sequential readers that take turns. Each reads its own part of the file.
fn in_turn(streams: u64, step_bytes: u32) -> impl Iterator<Item = u64> {
    let apart_bytes = FILE_BYTES / streams / 4096 * 4096;
    (0..100).flat_map(move |step| {
        (0..streams).map(move |stream| stream * apart_bytes + step * u64::from(step_bytes))
    })
}

/// Runs each workload on the disk. Returns its name, the number of requests in flight, and the result.
pub fn disk_runs() -> Vec<(String, usize, Run)> {
    let disk = DeviceModel::named("sata-2007").expect("the model is in the table");
    let mut runs = Vec::new();
    let mut add = |what: String, kind, depth, len_bytes, offsets: Box<dyn Iterator<Item = u64>>| {
        runs.push((what, depth, run(disk, kind, depth, len_bytes, offsets)));
    };
    let (read, write) = (RequestKind::Read, RequestKind::Write);
    for (len, depth) in [(128 * KIB, 1), (128 * KIB, 2), (MIB, 1), (MIB, 2)] {
        let what = format!("sequential read, {} KiB", len / KIB);
        add(what, read, depth, len, Box::new(forwards(len)));
    }
    let record = 64 * KIB;
    let offsets = Box::new(backwards(record));
    add("reverse read, 64 KiB".into(), read, 1, record, offsets);
    let offsets = Box::new(forwards(17 * record));
    add(
        "strided read, 64 of each 1088 KiB".into(),
        read,
        1,
        record,
        offsets,
    );
    for len in [16 * KIB, record, 128 * KIB] {
        let what = format!("random read, {} KiB", len / KIB);
        add(what, read, 1, len, Box::new(at_random(20_000, len)));
    }
    for depth in [2, 4, 8, 16, 32, 64, 128, 256] {
        let offsets = Box::new(at_random(20_000, record));
        add("random read, 64 KiB".into(), read, depth, record, offsets);
    }
    for len in [16 * KIB, 140 * KIB] {
        let what = format!("200 interleaved readers, {} KiB", len / KIB);
        add(what, read, 200, len, Box::new(in_turn(200, len)));
    }
    let len = 512 * KIB;
    add(
        "sequential write, 512 KiB".into(),
        write,
        2,
        len,
        Box::new(forwards(len)),
    );
    for depth in [1, 64] {
        let offsets = Box::new(at_random(20_000, record));
        add("random write, 64 KiB".into(), write, depth, record, offsets);
    }
    let mut alone = *disk;
    alone.queue.device_depth = Some(SourcedValue {
        value: 1,
        source: "assumed: to measure the effect of NCQ",
    });
    for depth in [16, 64, 256] {
        let offsets = at_random(20_000, record);
        let run = run(&alone, read, depth, record, offsets);
        runs.push(("random read, 64 KiB, without NCQ".into(), depth, run));
    }
    runs
}

/// Formats the results of the disk as a table.
pub fn disk_figures(runs: &[(String, usize, Run)]) -> String {
    let mut out =
        String::from("| requests | in flight | KiB/s | ms per request |\n|---|---|---|---|\n");
    for (what, depth, run) in runs {
        let _ = writeln!(
            out,
            "| {what} | {depth} | {:.0} | {:.2} |",
            run.kib_per_second(),
            run.ms_per_request()
        );
    }
    out
}

/// Returns a table of the results of the parallel devices, which have no arm.
pub fn parallel_figures() -> String {
    let mut out = String::from(
        "| device | size of random reads | in flight | MB/s | reads/s |\n|---|---|---|---|---|\n",
    );
    for name in ["nvme", "network-1ms", "object-30ms"] {
        let model = DeviceModel::named(name).expect("the model is in the table");
        for len_bytes in [4 * KIB, 128 * KIB, 8 * MIB] {
            for depth in [1, 64] {
                let offsets = at_random(4_000, len_bytes);
                let run = run(model, RequestKind::Read, depth, len_bytes, offsets);
                let _ = writeln!(
                    out,
                    "| `{name}` | {} KiB | {depth} | {:.1} | {:.0} |",
                    len_bytes / KIB,
                    run.bytes_per_second() / 1e6,
                    run.requests_per_second()
                );
            }
        }
    }
    out
}
