//! The command `larder lab device`: measures an image or a block device.

use super::progress::progress;
use super::results::write;
use crate::options::parse_seed;
use clap::{Args, ValueHint};
use larder_console::{Failure, Result, size};
use larder_lab::advise::device::{DeviceFigures, MeasureError, measure};
use larder_lab::output::json_text;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measure the device of an image, for larder lab advise
///
/// The command measures random reads of 4 KiB, one at a time and 32 at a time; sequential reads; and flushes. It
/// reads PATH directly, without the page cache of the kernel, for about six seconds. It never writes to PATH. A
/// flush makes the device store data that other programs have written to PATH.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder lab device disk.img
  larder lab device /dev/sdb --output sdb.json
  larder lab advise disk.trace --device sdb.json

If other programs use the device meanwhile, the figures are too low. On a virtual machine, the host may have
a cache of its own.

JSON (also the content of the file of --output): version, path, size_bytes, random_read_ns (mean time of a
random read), random_read_p99_ns, random_reads_per_s (32 at a time), sequential_bytes_per_s, flush_ns (median,
or null if PATH cannot be flushed)")]
pub(crate) struct DeviceArgs {
    /// Image or block device to measure
    #[arg(value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub path: PathBuf,
    /// Also write the figures to FILE, for advise --device
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Seed of the offsets of random reads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_seed)]
    #[arg(allow_hyphen_values = true)]
    pub seed: u64,
}

/// Number of measurements.
const STEPS: u64 = 4;

pub(super) fn run(args: &DeviceArgs) -> Result<ExitCode> {
    let bar = progress(STEPS);
    let figures = measure(&args.path, args.seed, &mut || bar.inc(1));
    bar.finish_and_clear();
    let figures = figures.map_err(|error| failure(&error))?;
    let json = json_text(&figures)?;
    if let Some(path) = &args.output {
        write("--output", path, &json)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        out.write_all(json.as_bytes())?;
    } else {
        print_text(&mut out, &figures)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn failure(error: &MeasureError) -> Failure {
    let message = error.to_string();
    let hint = match error {
        MeasureError::NotDirect { .. } => {
            "measure the block device, or copy the image to a file system with direct I/O, such as ext4 or XFS"
        }
        MeasureError::Small { .. } => "measure a larger file on the same device",
        MeasureError::Kind { .. } => "PATH must be an image or a block device",
        MeasureError::Open { .. } => "PATH must be readable; block devices usually need root",
        _ => return Failure::new(message),
    };
    Failure::with_hint(message, hint)
}

fn print_text(out: &mut dyn Write, figures: &DeviceFigures) -> io::Result<()> {
    let micros = |ns: f64| format!("{:.1} µs", ns / 1000.0);
    let mebibytes = figures.sequential_bytes_per_s / f64::from(1 << 20);
    writeln!(
        out,
        "{} ({})",
        figures.path,
        size::human(figures.size_bytes)
    )?;
    writeln!(
        out,
        "random reads of 4 KiB, one at a time:  {} each, 99% take at most {}",
        micros(figures.random_read_ns),
        micros(figures.random_read_p99_ns)
    )?;
    writeln!(
        out,
        "random reads of 4 KiB, 32 at a time:   {:.0} per second",
        figures.random_reads_per_s
    )?;
    writeln!(
        out,
        "sequential reads:                      {mebibytes:.0} MiB/s"
    )?;
    let flush = figures
        .flush_ns
        .map_or_else(|| "not supported".to_owned(), micros);
    writeln!(out, "flush:                                 {flush}")
}
