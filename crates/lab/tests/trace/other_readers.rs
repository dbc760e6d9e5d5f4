//! Reads traces with other programs: `pyarrow`, `DuckDB`, Polars.

use super::{events, write};
use larder_cache::tape::{CacheKind, Operation};
use larder_testkit::{Seed, report_skipped, tool};
use std::path::Path;
use std::process::Command;

/// Each script creates `rows` from its input file.
const PYARROW: &str = "
import sys, pyarrow.parquet as parquet
table = parquet.read_table(sys.argv[1])
rows = table.to_pylist()
assert parquet.read_metadata(sys.argv[1]).metadata[b'larder.trace.version'] == b'1'
";
const DUCKDB: &str = "
import sys, duckdb
found = duckdb.sql(f\"SELECT * FROM '{sys.argv[1]}'\")
rows = [dict(zip(found.columns, row)) for row in found.fetchall()]
";
const POLARS: &str = "
import sys, polars
rows = polars.read_parquet(sys.argv[1]).to_dicts()
";
/// Prints the number of rows, the hits of pages, and sums that depend on the order.
const SUMS: &str = "
hits = sum(row['hit'] for row in rows if row['cache'] == 0)
names = ['time', 'device', 'inode', 'index', 'name_hash', 'operation']
print(len(rows), hits, *(sum((i + 1) * row[name] for i, row in enumerate(rows)) for name in names))
";

fn read_by(python: &Path, script: &str, trace: &Path) -> Option<String> {
    let script = format!("{script}{SUMS}");
    let output = Command::new(python)
        .arg("-c")
        .arg(&script)
        .arg(trace)
        .output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ModuleNotFoundError") {
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn other_readers_read_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.parquet");
    let events = events(Seed::from_environment(6), 5000);
    write(&trace, &events, 2000);
    let is_hit = |operation| matches!(operation, Operation::Lookup { hit: true });
    let hits = events
        .iter()
        .filter(|event| event.cache == CacheKind::Page && is_hit(event.operation))
        .count();
    let sum = |column: fn(&larder_trace::TraceEvent) -> u64| {
        let weighed = (1..)
            .zip(&events)
            .map(|(weight, event)| weight * u128::from(column(event)));
        weighed.sum::<u128>().to_string()
    };
    let expected = [
        events.len().to_string(),
        hits.to_string(),
        sum(|event| event.time_ns),
        sum(|event| event.device.into()),
        sum(|event| event.inode),
        sum(|event| event.index),
        sum(|event| event.name_hash),
        sum(|event| match event.operation {
            Operation::Lookup { .. } => 0,
            Operation::Insert => 1,
            Operation::Remove => 2,
        }),
    ]
    .join(" ");
    let Some(python) = tool::python() else {
        return report_skipped("python3 is not installed");
    };
    for (name, script) in [("pyarrow", PYARROW), ("duckdb", DUCKDB), ("polars", POLARS)] {
        match read_by(&python, script, &trace) {
            Some(read) => assert_eq!(read, expected, "{name}"),
            None => report_skipped(format!("python3 has no {name}: make python-tools")),
        }
    }
}
