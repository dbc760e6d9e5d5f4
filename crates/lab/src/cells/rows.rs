//! The rows and the columns of the table of cells.

/// A workload and the memory for pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The name in tables and plots.
    pub(super) name: &'static str,
    pub(super) workload: &'static str,
    pub(super) memory_bytes: u64,
    /// The largest window of the policies of Linux; `None` if the caller of [`cells`](super::cells) chooses it.
    pub(super) readahead_max_bytes: Option<u64>,
    /// Whether the workload is one of the 16 for which the targets were set.
    pub(super) is_required: bool,
}

const MIB: u64 = 1 << 20;

/// Creates a row of a required workload with 1 GiB of memory.
const fn row(name: &'static str, workload: &'static str) -> Row {
    Row {
        name,
        workload,
        memory_bytes: 1024 * MIB,
        readahead_max_bytes: None,
        is_required: true,
    }
}

/// Creates a row with 1 GiB of memory that was added after the targets were set.
const fn added(name: &'static str, workload: &'static str) -> Row {
    Row {
        is_required: false,
        ..row(name, workload)
    }
}

/// The devices.
pub(super) const DEVICES: [&str; 5] = [
    "sata-2007",
    "sata-2007-cfq",
    "nvme",
    "network-1ms",
    "object-30ms",
];

/// All kinds of workloads, with the default parameters of `larder lab readahead` unless the run would take too long.
/// They are followed by workloads for which adaptive readahead was designed.
pub(super) const ROWS: &[Row] = &[
    row("sequential", "sequential:file=512M"),
    row("reread", "reread:file=512M"),
    row("reverse", "reverse:file=256M"),
    row("stride", "stride:file=256M"),
    row("random", "random:requests=5000"),
    row("mixed", "mixed:requests=5000,threads=2"),
    row("seqwrite", "seqwrite:file=256M"),
    row("rndwrite", "rndwrite:requests=5000"),
    row("mmap", "mmap:faults=5000"),
    row("interleaved", "interleaved:file=512M"),
    row("shared", "shared:file=512M"),
    added("cursors", "cursors:file=512M"),
    Row {
        memory_bytes: 128 * MIB,
        readahead_max_bytes: Some(MIB),
        ..row("streams, 128 MiB", "streams")
    },
    row("fileio", "fileio:requests=5000"),
    row("oltp", "oltp:threads=64,transactions=2000"),
    row("ml-epoch", "ml-epoch"),
    row("tar", "tar"),
    added("ml-epoch, 512 MiB", "ml-epoch:file=512M"),
    added("mmap, in order", "mmap:random=0,faults=50000"),
    added("reverse, 16 KiB", "reverse:file=64M,request=16K"),
    added("stride, one pass", "stride:file=1G,passes=1"),
    added("stride, 16 KiB", "stride:file=256M,request=16K,passes=1"),
    Row {
        memory_bytes: 75 * MIB,
        readahead_max_bytes: Some(MIB),
        ..added("streams, 75 MiB", "streams")
    },
    Row {
        memory_bytes: 16 * MIB,
        ..added("interleaved, 16 MiB", "interleaved:file=256M")
    },
    Row {
        memory_bytes: 32 * MIB,
        ..added("oltp, 32 MiB", "oltp:threads=64,transactions=2000")
    },
];
