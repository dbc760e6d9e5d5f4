//! Writes pages to the cache. A written page is dirty until it is written back.
//!
//! Model: `generic_file_buffered_write`. A page that is written completely is not read from the device. A
//! missing page that is written partially is read first, as a single page and without a call of the readahead
//! policy. The file has its full size and device location from the start: no blocks are allocated.

use larder_cache::page::Entry;

use super::cpu::Spent;
use super::ids::FileId;
use super::machine::{Machine, key};
use super::read::Step;

impl Machine {
    /// Writes a page, completely or partially.
    pub(super) fn write_page(
        &mut self,
        file: FileId,
        index: u64,
        is_whole: bool,
        spent: &mut Spent,
    ) -> Step {
        if self.write_back.is_over_limit() {
            return Step::Throttled;
        }
        spent.lookup();
        if self.change_page(file, index) {
            spent.copy();
            return Step::Got;
        }
        if let Some(id) = self.in_flight.find(file, index) {
            return Step::Wait(id);
        }
        if !is_whole {
            return self.await_page(file, index, spent);
        }
        if self.is_memory_full {
            return Step::NoMemory;
        }
        let Entry::New(page) = self.pages.get_or_insert(key(file, index)) else {
            self.is_memory_full = true;
            return Step::NoMemory;
        };
        self.pages.complete(page).set_dirty();
        self.write_back.set_dirty(file, index);
        spent.insert();
        spent.copy();
        Step::Got
    }

    /// Writes to a page if it is cached, and returns whether it is.
    pub(super) fn change_page(&mut self, file: FileId, index: u64) -> bool {
        let Some(page) = self.pages.get(key(file, index)) else {
            return false;
        };
        page.set_dirty();
        self.write_back.set_dirty(file, index);
        true
    }
}
