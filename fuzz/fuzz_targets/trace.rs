//! A complete trace. Its checksums are corrected first, so that the data that they protect is
//! parsed.
#![no_main]

use larder_fuzz::sealed_trace;
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
    LazyLock::new(|| Mutex::new(NamedTempFile::new().expect("a file")));

fuzz_target!(|data: &[u8]| {
    let mut file = FILE.lock().expect("one thread");
    for bytes in [data, &sealed_trace(data)] {
        file.as_file().set_len(0).expect("an empty file");
        file.as_file().write_all_at(bytes, 0).expect("bytes");
        file.flush().expect("bytes");
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
