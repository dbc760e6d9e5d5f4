//! The tables of Wu 2007.

use super::table::rows;
use serde::{Deserialize, Serialize};

/// One figure under both policies, in the unit of its table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// With 2.6.20's readahead.
    #[serde(alias = "legacy_kb_s", alias = "legacy_s", alias = "legacy_tps")]
    pub legacy: f64,
    /// With on-demand readahead.
    #[serde(alias = "ondemand_kb_s", alias = "ondemand_s", alias = "ondemand_tps")]
    pub ondemand: f64,
}

impl Pair {
    /// Returns the change from `legacy` to `ondemand`, in percent of `legacy`.
    pub fn change_pct(self) -> f64 {
        (self.ondemand / self.legacy - 1.0) * 100.0
    }
}

/// A test of iozone.
#[derive(Clone, Debug, Deserialize)]
pub struct IozoneRow {
    /// Number of the run, 1 or 2.
    pub run: u32,
    /// Iozone's name of the test.
    pub test: String,
    /// In KB/s.
    #[serde(flatten)]
    pub figures: Pair,
    /// The change as the document prints it, in percent.
    #[cfg(test)]
    gain_pct: f64,
}

/// A pattern of aio-stress.
#[derive(Clone, Debug, Deserialize)]
pub struct AioStressRow {
    /// `sequential` or `random`.
    pub pattern: String,
    /// In seconds.
    #[serde(flatten)]
    pub figures: Pair,
}

/// A run of sysbench fileio.
#[derive(Clone, Debug, Deserialize)]
pub struct FileIoRow {
    /// Number of the run, 1 or 2.
    pub run: u32,
    pub threads: u32,
    /// In seconds.
    #[serde(flatten)]
    pub figures: Pair,
}

/// A run of sysbench OLTP.
#[derive(Clone, Debug, Deserialize)]
pub struct OltpRow {
    /// Transactions in the run.
    pub transactions: u32,
    pub threads: u32,
    /// In transactions per second.
    #[serde(flatten)]
    pub figures: Pair,
}

/// Results of a policy with 200 streams in too little memory.
#[derive(Clone, Debug, Deserialize)]
pub struct ThrashingRow {
    /// `legacy` or `ondemand`.
    #[cfg(test)]
    kernel: String,
    /// Highest throughput at any time, in MB/s.
    pub max_throughput_mb_s: f64,
    /// Smallest average size of a device read at any time, in KB.
    pub min_avg_io_kb: f64,
}

/// The change in processor time for one way of reading.
#[derive(Clone, Debug, Deserialize)]
pub struct CpuRow {
    /// The case, in the document's words.
    pub case: String,
    /// The speed-up with on-demand readahead, in percent; negative is slower.
    pub change_pct: f64,
}

/// Returns the results of `iozone -c -t1 -s 4096m -r 64k`: both runs, in the order of the tests.
pub fn iozone() -> Vec<IozoneRow> {
    rows(include_str!("wu2007-iozone.csv"))
}

/// Returns the results of `aio-stress -l -s4096 -r128 -t1`, with `-o1` and with `-o3`.
pub fn aio_stress() -> Vec<AioStressRow> {
    rows(include_str!("wu2007-aio-stress.csv"))
}

/// Returns the results of `sysbench --test=fileio --file-test-mode=rndrw`: both runs.
pub fn fileio() -> Vec<FileIoRow> {
    rows(include_str!("wu2007-sysbench-fileio.csv"))
}

/// Returns the results of `sysbench --test=oltp --oltp-read-only`: runs of three lengths.
pub fn oltp() -> Vec<OltpRow> {
    rows(include_str!("wu2007-sysbench-oltp.csv"))
}

/// Returns the results with streams of 100 KB/s in 128 MB, where each second adds one stream, up to
/// 200.
pub fn thrashing() -> Vec<ThrashingRow> {
    rows(include_str!("wu2007-thrashing.csv"))
}

/// Returns the processor time that on-demand readahead saves or costs.
pub fn cpu() -> Vec<CpuRow> {
    rows(include_str!("wu2007-cpu-overhead.csv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds to one decimal, as the document prints percentages.
    fn one_decimal(value: f64) -> f64 {
        (value * 10.0).round() / 10.0
    }

    fn assert_close(ours: f64, printed: f64, tolerance: f64, what: &str) {
        assert!(
            (ours - printed).abs() <= tolerance,
            "{what}: {ours} from the table, {printed} printed"
        );
    }

    #[test]
    fn gains_of_iozone_match_those_of_the_document() {
        let rows = iozone();
        assert_eq!(rows.len(), 22);
        for row in rows {
            // The document truncates some of them instead of rounding.
            assert_close(row.figures.change_pct(), row.gain_pct, 0.1, &row.test);
        }
    }

    #[test]
    fn averages_of_iozone_match_those_of_the_document() {
        for (test, legacy, ondemand) in [
            ("Read", 62085.61, 62196.38),
            ("Re-read", 62253.49, 62224.99),
            ("Reverse Read", 50001.21, 50277.75),
            ("Stride read", 8656.21, 8645.63),
            ("Random read", 13907.86, 13924.07),
            ("Mixed workload", 19055.29, 19062.68),
            ("Pread", 62217.53, 62265.27),
        ] {
            let rows: Vec<_> = iozone().into_iter().filter(|r| r.test == test).collect();
            assert_eq!(rows.len(), 2, "{test}");
            let average = |of: fn(&IozoneRow) -> f64| rows.iter().map(of).sum::<f64>() / 2.0;
            assert_close(average(|r| r.figures.legacy), legacy, 0.01, test);
            assert_close(average(|r| r.figures.ondemand), ondemand, 0.01, test);
        }
    }

    #[test]
    fn sums_of_fileio_match_those_of_the_document() {
        let rows = fileio();
        assert_eq!(rows.len(), 13);
        let sum = |of: fn(&FileIoRow) -> f64| rows.iter().map(of).sum::<f64>();
        assert_close(sum(|r| r.figures.legacy), 495.046, 0.001, "2.6.20");
        assert_close(sum(|r| r.figures.ondemand), 491.514, 0.001, "on-demand");
    }

    #[test]
    fn largest_gain_of_oltp_matches_the_document() {
        let rows = oltp();
        assert_eq!(rows.len(), 17);
        let most = rows
            .iter()
            .map(|r| r.figures.change_pct())
            .fold(f64::MIN, f64::max);
        assert!((one_decimal(most) - 8.7).abs() < 1e-9, "{most}");
    }

    #[test]
    fn small_tables_have_their_rows() {
        assert_eq!(aio_stress().len(), 2);
        let thrashing = thrashing();
        assert_eq!(thrashing.len(), 2);
        assert_eq!(thrashing[0].kernel, "legacy");
        assert_eq!(cpu().len(), 5);
        assert!(cpu().iter().all(|row| !row.case.is_empty()));
    }
}
