//! A complete trace. Its checksums are corrected first, so that the data that they protect is
//! parsed.
#![no_main]

use larder_fuzz::trace_with_checksums;
use larder_lab::trace::{Tolerance, TraceReader};
use larder_trace::Batch;
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, Mutex};
use tempfile::NamedTempFile;

/// More rows than a small input can contain, unless all rows are equal.
const MAX_ROWS: usize = 1 << 20;

static FILE: LazyLock<Mutex<NamedTempFile>> =
    LazyLock::new(|| Mutex::new(NamedTempFile::new().expect("a file can be created")));

fuzz_target!(|data: &[u8]| {
    let mut file = FILE.lock().expect("the lock is not poisoned");
    for bytes in [data, &trace_with_checksums(data)] {
        file.as_file()
            .set_len(0)
            .expect("the file can be truncated");
        file.as_file()
            .write_all_at(bytes, 0)
            .expect("the file can be written");
        file.flush().expect("the file can be written");
        for tolerance in [Tolerance::Whole, Tolerance::UpToLastRowGroup] {
            let Ok(mut trace) = TraceReader::open(file.path(), tolerance) else {
                continue;
            };
            let (mut rows, mut batch) = (0, Batch::default());
            while rows < MAX_ROWS && trace.read(&mut batch).unwrap_or(false) {
                assert!(!batch.is_empty());
                rows += batch.len();
            }
        }
    }
});
