//! What the kernel did because of one operation.

/// A window, as the kernel told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelWindow {
    /// First page.
    pub start: u64,
    /// Pages.
    pub size: u64,
    /// Pages of the asynchronous part; more than `size` where the end of the file cut the window.
    pub async_size: u64,
    /// The order of folios that it begins from, where it is read in large folios; the window is
    /// then not cut at the end of the file.
    pub order: Option<u8>,
}

/// Folios of one order, one behind the other, that the kernel brought into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolioRun {
    /// First page.
    pub start: u64,
    /// Each folio has 2 to the power of this pages.
    pub order: u8,
    /// How many folios.
    pub count: u64,
}

impl FolioRun {
    /// The page behind them; the last page there is, where a run would reach beyond.
    #[must_use]
    pub fn end(&self) -> u64 {
        let pages = self.count.saturating_mul(1 << self.order.min(63));
        self.start.saturating_add(pages)
    }
}

/// What one operation made the kernel do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The windows, in the order in which they were chosen.
    pub windows: Vec<KernelWindow>,
    /// The folios that came into the page cache, in this order.
    pub added: Vec<FolioRun>,
    /// How many pages left the page cache.
    pub dropped_pages: u64,
}

impl Outcome {
    /// Takes note of a folio that came in.
    pub fn add(&mut self, index: u64, order: u8) {
        self.add_run(FolioRun {
            start: index,
            order,
            count: 1,
        });
    }

    /// Takes note of pages that came in one by one.
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

    /// Pages that came in.
    #[must_use]
    pub fn added_pages(&self) -> u64 {
        self.added.iter().map(|run| run.end() - run.start).sum()
    }
}
