//! Times the five cases of processor time: the real page cache and policies in a plain loop,
//! without a simulator.
//!
//! These times depend on the machine and vary from run to run, unlike all other results of the reproduction.
//! Therefore they have a separate report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_cache::page::{Frames, FramesConfig, NewPage, PageCache, PageKey};
use larder_readahead::driver::{
    CachedFile, Claim, Driver, Found, Insert, Request, Run, start_pages,
};
use larder_readahead::{
    FileState, PageIndex, PolicyName, Read, Residency, Window, max_pages_from_bytes,
};

use super::cpu::{self, ReadCase};
use super::machine::{READAHEAD_MAX_BYTES, Size};
use super::results::Simulated;
use crate::output::{ReportFile, Table, change};
use crate::published;
use crate::reproduce::program::processor_or_architecture;
use crate::run_report::as_f64;
use crate::simulator::Error;

const PAGE_BYTES: usize = 4096;
/// Number of rounds, of which the median is used.
const ROUNDS: usize = 7;

const SETUP: &str = "\
The five CPU cases of Wu 2007, timed in one process: Larder's page cache and policies run in a \
plain loop, which copies each page out and fills a missing page with zeros, like that of a sparse \
file. Times are in nanoseconds per page: the median of seven rounds and, in parentheses, the \
excess of the slowest round over the fastest. The policies take turns, and each round has a new \
cache. The document timed whole system calls of the kernel, of which the same saving is a smaller \
part. Therefore only the signs of the changes can be compared. If a change is not larger than the \
excess next to it, its sign cannot be compared either.\n";

/// Times all cases under all policies, one after the other.
///
/// # Errors
/// Returns [`Error::Map`] if there is no address space for a cache.
pub fn timed_report(size: Size) -> Result<ReportFile, Error> {
    let mut table = Table::new(
        "case | legacy: | ondemand: | modern: | published speed-up: | measured speed-up:",
    );
    for (row, case) in published::cpu().into_iter().zip(cpu::cases(size)) {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..ROUNDS {
            for (policy, times) in Simulated::POLICIES.iter().zip(&mut times) {
                times.push(nanos_per_page(*policy, &case)?);
            }
        }
        let [legacy, ondemand, modern] = times.map(Spread::of);
        let speed_up_pct = (legacy.median / ondemand.median - 1.0) * 100.0;
        table.push([
            row.case,
            legacy.to_string(),
            ondemand.to_string(),
            modern.to_string(),
            change(Some(row.change_pct)),
            change(Some(speed_up_pct)),
        ]);
    }
    let content = format!(
        "# Wu 2007: CPU cost, timed\n\n{SETUP}\n\
         Measured by `larder lab reproduce wu2007 --timed` on {}.\n\n{}\n",
        processor_or_architecture(),
        table.to_markdown()
    );
    Ok(ReportFile::new("wu2007-timed.md", content))
}

/// The median of several times, and their spread.
struct Spread {
    median: f64,
    spread_pct: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        Self {
            median,
            spread_pct: (times[times.len() - 1] / times[0] - 1.0) * 100.0,
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ns (+{:.0}%)", self.median, self.spread_pct)
    }
}

fn nanos_per_page(policy: PolicyName, case: &ReadCase) -> Result<f64, Error> {
    let mut reader = Reader::new(policy, case.file_bytes.iter().sum())?;
    if case.is_hot {
        reader.read_all(case, 256 * PAGE_BYTES as u64);
    }
    let began = Instant::now();
    let pages = match &case.order {
        Some(order) => {
            let mut state = fresh();
            for page in order {
                reader.read(&mut state, 0, *page..*page + 1, case.file_bytes[0]);
            }
            order.len() as u64
        }
        None => reader.read_all(case, case.request_bytes),
    };
    Ok(nanos(began.elapsed()) / as_f64(pages))
}

fn nanos(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

/// A reader that reads through the cache, from a device without delay.
struct Reader {
    pages: PageCache,
    driver: Driver,
    buffer: Box<[u8]>,
}

impl Reader {
    fn new(policy: PolicyName, bytes: u64) -> Result<Self, Error> {
        let frames = u32::try_from(bytes / PAGE_BYTES as u64 * 2 + 4096).unwrap_or(u32::MAX);
        let pool = Frames::new(&FramesConfig::of_pages(PAGE_BYTES, frames, frames.ilog2()));
        let pool = pool.map_err(|source| Error::Map {
            memory_bytes: u64::from(frames) * PAGE_BYTES as u64,
            source,
        })?;
        Ok(Self {
            pages: PageCache::new(Arc::new(pool)),
            driver: Driver::new(policy.policy()),
            buffer: vec![0; PAGE_BYTES].into(),
        })
    }

    /// Reads every file in order, and returns the number of pages read.
    fn read_all(&mut self, case: &ReadCase, request_bytes: u64) -> u64 {
        let mut pages = 0;
        for (file, bytes) in (0..).zip(&case.file_bytes) {
            let mut state = fresh();
            for request in 0..bytes.div_ceil(request_bytes) {
                let start = request * request_bytes / PAGE_BYTES as u64;
                let end_bytes = ((request + 1) * request_bytes).min(*bytes);
                let end = end_bytes.div_ceil(PAGE_BYTES as u64);
                self.read(&mut state, file, start..end, *bytes);
                pages += end - start;
            }
        }
        pages
    }

    fn read(
        &mut self,
        state: &mut FileState,
        file: u64,
        request: std::ops::Range<u64>,
        bytes: u64,
    ) {
        let pages = request.clone();
        let request = Request {
            pages: request,
            ends_inside_page: false,
            by_fault: false,
            file_pages: bytes.div_ceil(PAGE_BYTES as u64),
        };
        let driver = self.driver;
        let mut file = SparseFile {
            resident: Resident {
                pages: &self.pages,
                ino: file + 1,
            },
            state,
            buffer: &mut self.buffer,
        };
        for index in pages {
            driver.page(&mut file, &request, PageIndex(index));
        }
        driver.end_read(&mut file, &request);
    }
}

/// A file whose pages are filled with zeros immediately.
struct SparseFile<'a> {
    resident: Resident<'a>,
    state: &'a mut FileState,
    buffer: &'a mut [u8],
}

impl CachedFile for SparseFile<'_> {
    type Page = ();
    type NewPage = NewPage;

    fn with_state<R>(&mut self, run: impl FnOnce(&mut FileState, &dyn Residency) -> R) -> R {
        run(self.state, &self.resident)
    }

    /// Copies the page out.
    fn get(&mut self, page: PageIndex) -> Option<Found<()>> {
        let page = self.resident.pages.get(self.resident.key(page))?;
        self.buffer.copy_from_slice(&page);
        std::hint::black_box(&self.buffer);
        Some(Found {
            page: (),
            is_marked: page.take_marker(),
        })
    }

    fn claim(&mut self, _: PageIndex) -> Claim<()> {
        Claim::Missing
    }

    fn fill_page(&mut self, page: PageIndex) -> bool {
        start_pages(self, page.0..page.0 + 1, None);
        false
    }

    fn wait(&mut self, page: PageIndex) -> Option<Found<()>> {
        self.get(page)
    }

    fn start(&mut self, _: &Read, window: Window) -> u32 {
        start_pages(self, window.start.0..window.end().0, window.marker())
    }

    fn insert(&mut self, page: PageIndex) -> Insert<NewPage> {
        let new = self.resident.pages.insert_absent(self.resident.key(page));
        new.map_or(Insert::Present, Insert::New)
    }

    fn submit(&mut self, mut run: Run<NewPage>) {
        if let Some(page) = run.marked() {
            page.set_marker();
        }
        for mut page in run.pages {
            page.fill(0);
            page.complete();
        }
    }
}

/// Returns the state of a newly opened file.
fn fresh() -> FileState {
    let page_bytes = u32::try_from(PAGE_BYTES).unwrap_or(u32::MAX);
    FileState::new(max_pages_from_bytes(READAHEAD_MAX_BYTES, page_bytes))
}

struct Resident<'a> {
    pages: &'a PageCache,
    ino: u64,
}

impl Resident<'_> {
    fn key(&self, page: PageIndex) -> PageKey {
        PageKey {
            ino: self.ino,
            index: page.0,
        }
    }
}

impl Residency for Resident<'_> {
    fn is_resident(&self, page: PageIndex) -> bool {
        self.pages.contains(self.key(page))
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::Scheduler;
    use super::*;

    #[test]
    fn timed_report_has_each_case() {
        let size = Size {
            divisor: 1024,
            seed: 1,
            scheduler: Scheduler::Deadline,
        };
        let report = timed_report(size).unwrap();
        for row in published::cpu() {
            assert!(report.content.contains(&row.case), "{}", row.case);
        }
    }

    #[test]
    fn spread_shows_the_median_and_the_percentage() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!(spread.to_string(), "2.0 ns (+200%)");
    }
}
