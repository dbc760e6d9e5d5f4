//! The kernel's reaction to one operation.

/// A window, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelWindow {
    /// The first page.
    pub start: u64,
    /// The number of pages.
    pub size: u64,
    /// Pages of the asynchronous part. Larger than `size` if the window was cut at the end of the file.
    pub async_size: u64,
    /// The folio order with which the window begins, if it is read in large folios. Such a window is not cut
    /// at the end of the file.
    pub order: Option<u8>,
}

/// Consecutive folios of one order that the kernel inserted into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioRun {
    /// The first page.
    pub start: u64,
    /// Each folio has 2 to the power of `order` pages.
    pub order: u8,
    /// The number of folios.
    pub count: u64,
}

impl FolioRun {
    /// Returns the page after these folios, capped at the last possible page.
    #[must_use]
    pub fn end(&self) -> u64 {
        let pages = self.count.saturating_mul(1 << self.order.min(63));
        self.start.saturating_add(pages)
    }
}

/// The outcome of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The windows, in the order in which they were chosen.
    pub windows: Vec<KernelWindow>,
    /// The folios that were inserted into the page cache, in order.
    pub added: Vec<FolioRun>,
    /// The number of pages that were removed from the page cache.
    pub dropped_pages: u64,
}

impl Outcome {
    /// Records a folio that was inserted.
    pub fn add(&mut self, index: u64, order: u8) {
        self.add_run(FolioRun {
            start: index,
            order,
            count: 1,
        });
    }

    /// Records pages that were inserted one by one.
    pub fn add_pages(&mut self, start: u64, count: u64) {
        self.add_run(FolioRun {
            start,
            order: 0,
            count,
        });
    }

    fn add_run(&mut self, run: FolioRun) {
        match self.added.last_mut() {
            Some(last) if last.order == run.order && last.end() == run.start => {
                last.count += run.count;
            }
            _ => self.added.push(run),
        }
    }

    /// Returns the number of pages that were inserted.
    #[must_use]
    pub fn added_pages(&self) -> u64 {
        self.added.iter().map(|run| run.end() - run.start).sum()
    }
}
