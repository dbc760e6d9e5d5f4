//! The balance: what all files on one device and in one cache share under the policy `adaptive`. It estimates the
//! device, divides the memory between the streams, and limits waste.
//!
//! Model: the estimate of the device is that of a congestion control for networks (BBR): the delay is measured while
//! nothing else is in flight, and the rate is the largest rate at which pages were delivered. Their product is the
//! number of pages that must be in flight to keep the device busy.
//!
//! # The device
//! A caller calls [`Balance::submitted`] when it submits a request, and [`Balance::completed`] when it completes, both
//! with the time since a start that the caller chooses. There is no clock in this module.
//!
//! - *Access time*: the duration of a request, minus the time in which its pages are transferred at the rate described
//!   below. It is measured only if no other request was in flight when the request was submitted. The estimate rises
//!   quickly and falls slowly, because on a disk a sequential request says nothing about the next seek.
//! - *Rate*: the pages that were delivered while a request was in flight, divided by the time since the last delivery
//!   before its submission, as in BBR. Requests are delivered in any order. So the pages can include those of an
//!   earlier request that was mostly transferred before, for which this time is too short. Therefore the divisor is at
//!   least the longest duration of a request that was delivered in this time ([`Durations`]). The estimate is the
//!   largest of these rates, and decays slowly.
//!
//! # The memory
//! The number of pages that were read, [`Balance::inserted`], is the clock of the cache: a page is evicted when
//! about as many pages as fit into the cache were inserted after it. If a stream consumes `c` pages while the cache
//! inserts `d` pages, then its pages are used in time if it has at most `cache * c / d` pages ahead. This is the
//! rule of AMP, with `c / d` for its rate: fast streams get more memory, and the sum over all streams is the cache.
//! Only the part [`FILL`] of the cache is divided, and less if pages were nevertheless evicted before their use.
//!
//! # The waste
//! The *reach* limits how far ahead a stream is read, as a multiple of the pages that it has consumed. If more than
//! [`WASTE_LIMIT_PCT`] percent of the pages that were read ahead are evicted unused, the reach halves. At the least
//! reach, a stream that ends wastes a sixteenth of its length.
//!
//! Locking: all values are atomic. Concurrent updates may lose a sample, which does not matter.

use crate::sizes::MAX_PAGES_LIMIT;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const NANOS: u64 = 1_000_000_000;

/// The least window, in pages, that the estimate of the device permits: 1 MiB in pages of 4 KiB. A smaller estimate
/// is not reliable, and larger requests never harm.
const LEAST_USEFUL_PAGES: u64 = 256;

/// A window may have at most 1/`CACHE_DIVISOR` of the cache.
const CACHE_DIVISOR: u64 = 8;

/// The window of a stream, as a multiple of the pages that keep the device busy.
const DELAYS: u64 = 2;

/// The value 1 as a fixed-point number.
const ONE: u32 = 1024;

/// The part of the cache that is divided between streams.
const FILL: u32 = ONE * 13 / 16;

/// The least part of the cache that is divided, if pages are evicted before their use.
const LEAST_FILL: u32 = ONE / 2;

/// A device with at least this delay is slow, for example a disk or an object store.
const SLOW_ACCESS_NS: u64 = 4_000_000;

/// With at least this delay, it is worth reading pages ahead even if only about half of them are used. Flash drives
/// have a smaller delay: reading the unused half would cost more processor time than the used half would save.
const DELAY_NS: u64 = 500_000;

/// The part of the pages read ahead that may be wasted, in percent, before the reach is halved.
const WASTE_LIMIT_PCT: u64 = 5;

/// The largest number of entries in the tables of all files that share a balance, except for those that each file can
/// always have. An entry is a stream or a recent request.
pub(super) const MOST_ENTRIES: u32 = 8192;

/// The largest and the least reach, as binary logarithms, plus [`REACH_BIAS`].
const MOST_REACH: u32 = REACH_BIAS + 3;
const LEAST_REACH: u32 = REACH_BIAS - 4;
const REACH_BIAS: u32 = 8;

/// The device estimate and the memory that all files of a device and a cache share.
#[derive(Debug)]
pub struct Balance {
    cache_pages: u64,
    /// Whether windows have at most `max_pages` pages, because the caller shares no balance.
    pub(super) keeps_max_pages: bool,
    inserted: AtomicU64,
    delivered: AtomicU64,
    /// The time of the last delivery, or the time at which the device last became busy.
    delivered_ns: AtomicU64,
    durations: Durations,
    in_flight: AtomicU64,
    /// The number of entries in the tables of all files, except for those that each file can always have.
    entries: AtomicU32,
    pages_per_second: AtomicU64,
    access_ns: AtomicU64,
    fill: AtomicU32,
    reach: AtomicU32,
    /// The counts of [`Balance::record_waste`] at the start of this period.
    ahead_before: AtomicU64,
    wasted_before: AtomicU64,
    /// For each kind of start: the part of the streams that were read on after their first window, and the part of
    /// these streams that were also read on after their second window.
    continued: [[AtomicU32; 2]; 2],
}

/// The entries of one file: its part of the [`MOST_ENTRIES`] entries of a balance. The part is returned on drop.
#[derive(Debug)]
pub(super) struct EntryShare {
    balance: Arc<Balance>,
    entries: u32,
}

impl EntryShare {
    pub(super) fn new(balance: Arc<Balance>) -> Self {
        Self {
            balance,
            entries: 0,
        }
    }

    /// Adds an entry to the share. Returns false if all files together have [`MOST_ENTRIES`].
    pub(super) fn grow(&mut self) -> bool {
        let grown = self
            .balance
            .entries
            .fetch_update(Relaxed, Relaxed, |entries| {
                (entries < MOST_ENTRIES).then_some(entries + 1)
            });
        self.entries += u32::from(grown.is_ok());
        grown.is_ok()
    }
}

/// A copy of the tables has the same number of entries, even if the limit is then exceeded: copies are rare and
/// short-lived.
impl Clone for EntryShare {
    fn clone(&self) -> Self {
        self.balance.entries.fetch_add(self.entries, Relaxed);
        Self {
            balance: Arc::clone(&self.balance),
            entries: self.entries,
        }
    }
}

impl Drop for EntryShare {
    fn drop(&mut self) {
        self.balance.entries.fetch_sub(self.entries, Relaxed);
    }
}

/// A request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Ticket {
    pages: u32,
    submitted_ns: u64,
    /// The pages that were delivered before this request was submitted, and the time of the last of them.
    delivered_before: u64,
    delivered_before_ns: u64,
    is_alone: bool,
}

/// For each value of the binary logarithm of a duration, the last delivered request with such a duration.
#[derive(Debug)]
struct Durations([LastOfDuration; u64::BITS as usize]);

#[derive(Debug, Default)]
struct LastOfDuration {
    duration_ns: AtomicU64,
    /// The number of pages that were delivered up to the end of the request.
    delivered: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self(std::array::from_fn(|_| LastOfDuration::default()))
    }
}

impl Durations {
    /// Records that a request was delivered. `delivered` is the number of pages delivered so far, including the pages
    /// of this request.
    fn record(&self, duration_ns: u64, delivered: u64) {
        let last = &self.0[duration_ns.max(1).ilog2() as usize];
        last.duration_ns.store(duration_ns, Relaxed);
        last.delivered.store(delivered, Relaxed);
    }

    /// Returns the longest duration of the requests that were delivered after the first `delivered_before` pages. Of
    /// several durations with the same binary logarithm, the last one is regarded as the longest.
    fn longest_ns(&self, delivered_before: u64) -> u64 {
        let is_later = |last: &&LastOfDuration| last.delivered.load(Relaxed) > delivered_before;
        let longest = self.0.iter().rev().find(is_later);
        longest.map_or(0, |last| last.duration_ns.load(Relaxed))
    }
}

/// The reason why a stream was assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Its first request was at the start of the file.
    OfFile,
    /// Requests formed a pattern.
    OfPattern,
}

/// How likely a stream continues after its next window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    Low,
    Medium,
    High,
}

impl Balance {
    /// Creates the balance of a cache of `cache_pages` pages.
    #[must_use]
    pub fn new(cache_pages: u32) -> Self {
        Self {
            cache_pages: cache_pages.max(1).into(),
            keeps_max_pages: false,
            inserted: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            delivered_ns: AtomicU64::new(0),
            durations: Durations::default(),
            in_flight: AtomicU64::new(0),
            entries: AtomicU32::new(0),
            pages_per_second: AtomicU64::new(0),
            access_ns: AtomicU64::new(0),
            fill: AtomicU32::new(FILL),
            reach: AtomicU32::new(MOST_REACH),
            ahead_before: AtomicU64::new(0),
            wasted_before: AtomicU64::new(0),
            continued: [const { [const { AtomicU32::new(ONE * 7 / 8) }; 2] }; 2],
        }
    }

    /// Returns the number of entries in the tables of all files.
    #[cfg(test)]
    pub(super) fn entries(&self) -> u32 {
        self.entries.load(Relaxed)
    }

    /// Creates the balance of a file that shares none: an unlimited cache on an unknown device.
    pub(super) fn unshared() -> Self {
        Self {
            keeps_max_pages: true,
            ..Self::new(u32::MAX)
        }
    }

    /// Records that a read of `pages` pages is submitted to the device. `now` is the time since a fixed start.
    pub fn submitted(&self, pages: u32, now: Duration) -> Ticket {
        self.inserted.fetch_add(pages.into(), Relaxed);
        let submitted_ns = nanos(now);
        let is_alone = self.in_flight.fetch_add(1, Relaxed) == 0;
        if is_alone {
            self.delivered_ns.store(submitted_ns, Relaxed);
        }
        Ticket {
            pages,
            submitted_ns,
            delivered_before: self.delivered.load(Relaxed),
            delivered_before_ns: self.delivered_ns.load(Relaxed),
            is_alone,
        }
    }

    /// Records that a read is complete. `now` is the time since the same start.
    pub fn completed(&self, ticket: Ticket, now: Duration) {
        self.abandoned();
        let now_ns = nanos(now);
        let pages = u64::from(ticket.pages);
        let delivered = self.delivered.fetch_add(pages, Relaxed) + pages;
        let took_ns = now_ns.saturating_sub(ticket.submitted_ns).max(1);
        self.durations.record(took_ns, delivered);
        self.delivered_ns.store(now_ns, Relaxed);
        let since_ns = now_ns
            .saturating_sub(ticket.delivered_before_ns)
            .max(took_ns)
            .max(self.durations.longest_ns(ticket.delivered_before));
        let rate = scaled(delivered - ticket.delivered_before, NANOS, since_ns);
        let best = self.pages_per_second.load(Relaxed);
        let best = best - best / 256;
        self.pages_per_second.store(rate.max(best), Relaxed);
        if ticket.is_alone {
            // If the estimated rate is not larger than the rate of this request, it says nothing about the time of
            // the transfer.
            let transfer_ns = if rate < best {
                scaled(pages, NANOS, best)
            } else {
                0
            };
            let access = took_ns.saturating_sub(transfer_ns);
            let before = self.access_ns.load(Relaxed);
            let after = if access > before {
                before + (access - before).div_ceil(2)
            } else {
                before - (before - access) / 32
            };
            self.access_ns.store(after, Relaxed);
        }
    }

    /// Records that a request will not complete, or that its duration says nothing about the device.
    pub fn abandoned(&self) {
        // A ticket is returned once, so the count does not become negative.
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Updates the reach. `pages_ahead` is the number of pages that the cache has read ahead so far, and
    /// `pages_wasted` is the number of those that were evicted before their use.
    pub fn record_waste(&self, pages_ahead: u64, pages_wasted: u64) {
        let ahead = pages_ahead.saturating_sub(self.ahead_before.load(Relaxed));
        let period = (self.cache_pages / 8).clamp(64, 8192);
        if ahead < period {
            return;
        }
        let wasted = pages_wasted.saturating_sub(self.wasted_before.load(Relaxed));
        self.ahead_before.store(pages_ahead, Relaxed);
        self.wasted_before.store(pages_wasted, Relaxed);
        let reach = self.reach.load(Relaxed);
        let reach = if wasted * 100 > ahead * WASTE_LIMIT_PCT {
            reach - 1
        } else if wasted * 200 < ahead * WASTE_LIMIT_PCT {
            reach + 1
        } else {
            reach
        };
        self.reach
            .store(reach.clamp(LEAST_REACH, MOST_REACH), Relaxed);
        let fill = self.fill.load(Relaxed);
        self.fill.store(fill + (FILL - fill).div_ceil(16), Relaxed);
    }

    /// Records that pages of a stream were evicted before the stream used them.
    pub(super) fn evicted(&self) {
        let fill = self.fill.load(Relaxed);
        self.fill
            .store((fill - fill / 256).max(LEAST_FILL), Relaxed);
    }

    /// Returns the number of pages that were read so far.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted.load(Relaxed)
    }

    /// Returns the size of the window that keeps the device busy.
    pub(super) fn useful_pages(&self) -> u32 {
        let rate = self.pages_per_second.load(Relaxed);
        let busy = scaled(rate, self.access_ns.load(Relaxed), NANOS);
        let most = (self.cache_pages / CACHE_DIVISOR).max(1);
        let useful = (busy.saturating_mul(DELAYS))
            .max(LEAST_USEFUL_PAGES)
            .min(most);
        u32::try_from(useful).map_or(MAX_PAGES_LIMIT, |useful| useful.min(MAX_PAGES_LIMIT))
    }

    /// Returns the number of pages that a stream may have ahead, if it has consumed `consumed` pages while `inserted`
    /// pages were inserted into the cache.
    pub(super) fn share_pages(&self, consumed: u64, inserted: u64) -> u32 {
        let fill = u64::from(self.fill.load(Relaxed));
        let memory = self.cache_pages * fill / u64::from(ONE);
        if inserted <= consumed {
            return u32::try_from(memory).unwrap_or(u32::MAX);
        }
        let share = scaled(memory, consumed, inserted);
        u32::try_from(share).unwrap_or(u32::MAX)
    }

    /// Returns how many pages may be ahead of a stream that has consumed `consumed` pages.
    pub(super) fn reach_pages(&self, consumed: u64) -> u32 {
        let reach = self.reach.load(Relaxed);
        let pages = (u128::from(consumed) << reach) >> REACH_BIAS;
        u32::try_from(pages).unwrap_or(u32::MAX)
    }

    /// Returns the number of pages that are divided between the streams.
    pub(super) fn memory_pages(&self) -> u32 {
        self.share_pages(1, 1)
    }

    /// Returns the number of requests in flight.
    pub(super) fn requests_in_flight(&self) -> u32 {
        u32::try_from(self.in_flight.load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// Returns true if the device has so long a delay that the processor time of reading unused pages does not matter.
    pub(super) fn is_slow(&self) -> bool {
        self.access_ns.load(Relaxed) >= SLOW_ACCESS_NS
    }

    /// Returns true if the delay of the device is so long that it is worth reading pages ahead even if only about half
    /// of them are used.
    pub(super) fn has_delay(&self) -> bool {
        self.access_ns.load(Relaxed) >= DELAY_NS
    }

    /// Returns true if hardly any page is wasted.
    fn is_thrifty(&self) -> bool {
        self.reach.load(Relaxed) == MOST_REACH
    }

    /// Returns true if it is faster to read `pages` pages in addition to a request than to read them later, if they
    /// are needed in `needed` of `of` cases.
    pub(super) fn is_worth(&self, pages: u32, needed: u32, of: u32) -> bool {
        let rate = self.pages_per_second.load(Relaxed);
        let transfer_ns = scaled(pages.into(), NANOS, rate.max(1));
        let saved_ns = scaled(
            self.access_ns.load(Relaxed),
            needed.min(of).into(),
            of.max(1).into(),
        );
        rate > 0 && self.is_slow() && self.is_thrifty() && transfer_ns.saturating_mul(4) < saved_ns
    }

    /// Records that a stream was read on after `windows` windows. `windows` is 1, or 0 if the stream was just assumed.
    pub(super) fn started(&self, start: Start, windows: usize) {
        let part = &self.continued[start as usize][windows];
        let value = part.load(Relaxed);
        part.store(value - value / 16, Relaxed);
    }

    /// Records that a stream was read on after one more window. [`Balance::started`] was called for the stream before.
    pub(super) fn continued(&self, start: Start, windows: usize) {
        let part = &self.continued[start as usize][windows];
        part.store((part.load(Relaxed) + ONE / 16).min(ONE), Relaxed);
    }

    /// Returns how likely a stream that was read on after `windows` windows is read on after one more.
    pub(super) fn chance(&self, start: Start, windows: usize) -> Chance {
        match self.continued[start as usize][windows].load(Relaxed) {
            value if value < ONE / 4 => Chance::Low,
            value if value < ONE * 3 / 4 => Chance::Medium,
            _ => Chance::High,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns `value * factor / divisor`, at most `u64::MAX`.
fn scaled(value: u64, factor: u64, divisor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor) / u128::from(divisor.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn rate(balance: &Balance) -> u64 {
        balance.pages_per_second.load(Relaxed)
    }

    /// A read of 1 MiB from 0 to 10 ms: 25,600 pages per second. Short reads overlap its end.
    #[test]
    fn short_read_during_which_a_long_one_completes_does_not_raise_the_rate() {
        for is_first_short_read_before in [false, true] {
            let balance = Balance::new(1 << 18);
            let long = balance.submitted(256, micros(0));
            if is_first_short_read_before {
                let before = balance.submitted(1, micros(9700));
                balance.completed(before, micros(9800));
            }
            let short = balance.submitted(1, micros(9950));
            balance.completed(long, micros(10_000));
            balance.completed(short, micros(10_050));
            let rate = rate(&balance);
            assert!((25_000..27_000).contains(&rate), "{rate}");
        }
    }

    /// A device that transfers one read at a time, with several in its queue: a read completes every 10 ms.
    #[test]
    fn rate_of_a_queue_is_that_of_the_device_at_any_depth() {
        for depth in [1, 2, 3, 8, 32] {
            for overlap_us in [0, 10, 5000] {
                let balance = Balance::new(1 << 18);
                let mut queue = std::collections::VecDeque::new();
                for number in 0..100_u64 {
                    let end_us = 10_000 * number;
                    while queue.len() < depth {
                        queue.push_back(balance.submitted(256, micros(end_us)));
                    }
                    if overlap_us > 0 {
                        let next = balance.submitted(256, micros(end_us + 10_000 - overlap_us));
                        queue.push_back(next);
                    }
                    let first = queue.pop_front().unwrap();
                    balance.completed(first, micros(end_us + 10_000));
                }
                let rate = rate(&balance);
                let text = format!("depth {depth}, overlap {overlap_us} us: {rate}");
                assert!((25_000..30_000).contains(&rate), "{text}");
            }
        }
    }

    #[test]
    fn longest_duration_is_that_of_the_requests_delivered_since() {
        let durations = Durations::default();
        assert_eq!(durations.longest_ns(0), 0);
        for (duration_ns, delivered) in [(1000, 1), (70, 2), (300, 3), (80, 4)] {
            durations.record(duration_ns, delivered);
        }
        let longest = [0, 1, 2, 3, 4].map(|before| durations.longest_ns(before));
        assert_eq!(longest, [1000, 300, 300, 80, 0]);
    }
}
