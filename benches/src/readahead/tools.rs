//! The two external programs: fio and sysbench.
//!
//! fio runs without hints to the kernel (`fadvise_hint`) and without dropping cached pages
//! (`invalidate`), because iozone does neither.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::child;
use crate::fio;
use crate::readahead::case::Pattern;
use crate::readahead::plan::{REQUEST_BYTES, Sizes};
use crate::work::Reading;

/// The distance between the starts of the requests of [`Pattern::Stride`], in requests, as in iozone.
const STRIDE: u64 = 17;

impl Pattern {
    /// Returns the number of bytes that it reads.
    #[must_use]
    pub fn bytes(self, sizes: &Sizes) -> u64 {
        match self {
            Self::Read | Self::Pread => sizes.sequential_bytes,
            Self::Reverse => sizes.reverse_bytes,
            Self::Stride => sizes.sequential_bytes / REQUEST_BYTES / STRIDE * REQUEST_BYTES,
            Self::Random | Self::Mixed => sizes.random_bytes,
        }
    }

    fn fio_args(self) -> Vec<String> {
        // The number after the colon is the distance in bytes from the end of the previous request.
        let rw = match self {
            Self::Read | Self::Pread => "read".to_owned(),
            Self::Reverse => format!("read:-{}", 2 * REQUEST_BYTES),
            Self::Stride => format!("read:{}", (STRIDE - 1) * REQUEST_BYTES),
            Self::Random | Self::Mixed => "randread".to_owned(),
        };
        let engine = match self {
            Self::Pread => "psync",
            _ => "sync",
        };
        let mut args = vec![format!("--rw={rw}"), format!("--ioengine={engine}")];
        if self == Self::Mixed {
            args.push("--percentage_random=50".to_owned());
        }
        args
    }
}

/// Reads `file` in `pattern` with fio. `command` runs fio; this function adds its arguments.
pub fn fio(
    mut command: Command,
    pattern: Pattern,
    sizes: &Sizes,
    file: &Path,
    log: &Path,
) -> Result<Reading> {
    command
        .args(["--name=readahead", "--readonly", "--thread"])
        .args(["--fadvise_hint=0", "--invalidate=0", "--randseed=1"])
        .arg("--output-format=json")
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--bs={REQUEST_BYTES}"))
        .arg(format!("--size={}", sizes.sequential_bytes))
        .arg(format!("--io_size={}", pattern.bytes(sizes)))
        .args(pattern.fio_args());
    let (_, json) = child::output_of(child::DEADLINE, command, log)?;
    fio_result(&json)
}

fn fio_result(json: &[u8]) -> Result<Reading> {
    let read = fio::job(json)?.read;
    Ok(Reading {
        bytes: read.io_bytes,
        seconds: f64::from(read.runtime.max(1)) / 1e3,
        ..Reading::default()
    })
}

/// Reads `file` at random with `threads` threads of sysbench. `command` runs sysbench; this function adds
/// its arguments. The script is written to `folder`.
pub fn sysbench(
    mut command: Command,
    threads: u32,
    sizes: &Sizes,
    file: &Path,
    folder: &Path,
    log: &Path,
) -> Result<Reading> {
    let script = folder.join("random_reads.lua");
    std::fs::write(&script, include_str!("random_reads.lua"))?;
    command
        .arg(&script)
        .args(["--time=0", "--rand-seed=1"])
        .arg(format!("--threads={threads}"))
        .arg(format!("--events={}", sizes.sysbench_events))
        .arg(format!("--file={}", file.display()))
        .arg(format!("--read-bytes={}", sizes.sequential_bytes))
        .arg(format!("--block-bytes={REQUEST_BYTES}"))
        .arg("run");
    let (_, text) = child::output_of(child::DEADLINE, command, log)?;
    sysbench_result(&String::from_utf8_lossy(&text))
}

fn sysbench_result(text: &str) -> Result<Reading> {
    let (events, seconds) = events(text)?;
    Ok(Reading {
        bytes: events * REQUEST_BYTES,
        seconds,
        ..Reading::default()
    })
}

/// Returns the number of events in the output of sysbench, and their total time in seconds.
pub(super) fn events(text: &str) -> Result<(u64, f64)> {
    let value = |name: &str| {
        let found = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        found
            .map(|value| value.trim().trim_end_matches('s'))
            .with_context(|| format!("the output of sysbench has no {name}"))
    };
    Ok((
        value("total number of events")?.parse()?,
        value("total time")?.parse()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readahead::plan::Plan;

    #[test]
    fn output_of_fio_and_sysbench_is_parsed() {
        let json = br#"{"jobs": [{"error": 0, "read": {"io_bytes": 65536, "runtime": 258}}]}"#;
        let read = |bytes, seconds| Reading {
            seconds,
            bytes,
            ..Reading::default()
        };
        assert_eq!(fio_result(json).unwrap(), read(65536, 0.258));
        let failed = br#"{"jobs": [{"error": 5, "read": {"io_bytes": 0, "runtime": 0}}]}"#;
        assert!(fio_result(failed).is_err());

        let text = "    total time:          0.2035s\n    total number of events:    2000\n";
        assert_eq!(sysbench_result(text).unwrap(), read(2000 << 16, 0.2035));
        assert!(sysbench_result("FATAL: no file").is_err());
    }

    #[test]
    fn stride_pattern_reads_one_request_in_seventeen() {
        let sizes = Plan::standard().fast;
        assert_eq!(Pattern::Stride.bytes(&sizes), 963 << 16);
    }
}
