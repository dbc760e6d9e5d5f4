//! What a loss of power may leave on a device, by the log of what was done to it.
//!
//! Model: a disk with a volatile cache. What had returned when a flush began is on the medium once
//! the flush has returned. Of all later writes any sectors of 512 bytes may be there, whatever
//! the order in which they were written; the rest still holds what was there before. A sector
//! itself is never torn.

use crate::faulty::split_mix;
use crate::{ChangeRecord, OverlayDevice};
use larder_block::{BlockDevice, Result};
use std::ops::Range;

/// Bytes that reach the medium together or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What discarded bytes read as: anything is allowed, so something that nobody writes.
const DISCARDED: u8 = 0xdd;

/// The states that a loss of power may leave, at a position in a log that moves forward.
#[derive(Debug)]
pub struct PowerCuts<'a> {
    changes: &'a [ChangeRecord],
    /// Changes that had returned.
    position: usize,
    /// The changes that are durable: those before this one.
    durable_end: usize,
    durable: OverlayDevice,
    written: OverlayDevice,
    /// Bytes whose sectors reach the medium together.
    untorn: Range<u64>,
}

impl<'a> PowerCuts<'a> {
    /// Stands before the first of `changes`, which were made to `device`.
    #[must_use]
    pub fn new(device: &OverlayDevice, changes: &'a [ChangeRecord]) -> Self {
        Self {
            changes,
            position: 0,
            durable_end: 0,
            durable: device.clone(),
            written: device.clone(),
            untorn: 0..0,
        }
    }

    /// Never tears a write inside of these bytes: for structures that the format trusts to be
    /// written at once.
    #[must_use]
    pub fn without_tearing(mut self, bytes: Range<u64>) -> Self {
        self.untorn = bytes;
        self
    }

    /// Moves on to where `position` changes have returned; at most to the end, never back.
    ///
    /// # Errors
    /// If a change does not lie inside the device.
    pub fn advance_to(&mut self, position: usize) -> Result<()> {
        while self.position < position.min(self.changes.len()) {
            let change = &self.changes[self.position];
            if let ChangeRecord::Flush { covers } = *change {
                let covers = covers.min(self.position);
                while self.durable_end < covers {
                    apply(&self.durable, &self.changes[self.durable_end])?;
                    self.durable_end += 1;
                }
            }
            apply(&self.written, change)?;
            self.position += 1;
        }
        Ok(())
    }

    /// The device if every write that had returned is on the medium.
    #[must_use]
    pub fn all_written(&self) -> OverlayDevice {
        self.written.clone()
    }

    /// One of the other devices that are possible, chosen by `seed`. The write that had not
    /// returned yet, if the next change is one, may be there too.
    ///
    /// # Errors
    /// If a change does not lie inside the device.
    pub fn reordered(&self, seed: u64) -> Result<OverlayDevice> {
        let mut chance = Chance(seed);
        let device = self.durable.clone();
        let end = (self.position + 1).min(self.changes.len());
        let pending = self.durable_end..end;
        let survival = Survival::choose(&mut chance, &pending);
        for number in pending {
            if let ChangeRecord::Write {
                offset_bytes,
                bytes,
            } = &self.changes[number]
            {
                let part = Part {
                    offset_bytes: *offset_bytes,
                    bytes,
                    untorn: &self.untorn,
                };
                survival.write(&mut chance, number, &device, &part)?;
            } else if chance.one_in(2) {
                apply(&device, &self.changes[number])?;
            }
        }
        Ok(device)
    }
}

/// A write, and the bytes that are not torn.
struct Part<'a> {
    offset_bytes: u64,
    bytes: &'a [u8],
    untorn: &'a Range<u64>,
}

/// Which of the writes reach the medium.
enum Survival {
    /// Those before this one, and some sectors of it: a device that keeps the order.
    Until(usize),
    /// All but this one.
    AllBut(usize),
    /// This one alone.
    Only(usize),
    /// Each, or each of its sectors, with a probability of so many in eight.
    Eighths(u64),
}

impl Survival {
    fn choose(chance: &mut Chance, pending: &Range<usize>) -> Self {
        let one = pending.start + chance.below(pending.len());
        match chance.below(6) {
            0 => Self::Until(one),
            1 => Self::AllBut(one),
            2 => Self::Only(one),
            3 => Self::Eighths(1),
            4 => Self::Eighths(4),
            _ => Self::Eighths(7),
        }
    }

    fn write(
        &self,
        chance: &mut Chance,
        number: usize,
        device: &OverlayDevice,
        part: &Part<'_>,
    ) -> Result<()> {
        let Part {
            offset_bytes,
            bytes,
            untorn,
        } = *part;
        let (whole, torn) = match *self {
            Self::Until(last) => (number < last, number == last),
            Self::AllBut(lost) => (number != lost, number == lost && chance.one_in(2)),
            Self::Only(kept) => (number == kept, false),
            Self::Eighths(eighths) => {
                let torn = chance.one_in(4);
                (!torn && chance.eighths(eighths), torn)
            }
        };
        if whole {
            return device.write_at(bytes, offset_bytes);
        }
        if torn {
            let mut at_bytes = offset_bytes;
            let all_untorn = chance.one_in(2);
            for sector in sectors(offset_bytes, bytes) {
                let survives = if untorn.contains(&at_bytes) {
                    all_untorn
                } else {
                    chance.one_in(2)
                };
                if survives {
                    device.write_at(sector, at_bytes)?;
                }
                at_bytes += sector.len() as u64;
            }
        }
        Ok(())
    }
}

/// `bytes`, which lie at `offset_bytes`, cut where sectors of the device begin.
fn sectors(offset_bytes: u64, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inside = usize::try_from(offset_bytes % SECTOR_BYTES as u64).unwrap_or(0);
    let (first, rest) = bytes.split_at((SECTOR_BYTES - inside).min(bytes.len()));
    std::iter::once(first).chain(rest.chunks(SECTOR_BYTES))
}

fn apply(device: &OverlayDevice, change: &ChangeRecord) -> Result<()> {
    match change {
        ChangeRecord::Write {
            offset_bytes,
            bytes,
        } => device.write_at(bytes, *offset_bytes),
        ChangeRecord::Flush { .. } => Ok(()),
        ChangeRecord::Discard {
            offset_bytes,
            len_bytes,
        } => {
            let end_bytes = offset_bytes + len_bytes;
            let mut at_bytes = *offset_bytes;
            while at_bytes < end_bytes {
                let len = usize::try_from(end_bytes - at_bytes)
                    .map_or(SECTOR_BYTES, |left| left.min(SECTOR_BYTES));
                device.write_at(&[DISCARDED; SECTOR_BYTES][..len], at_bytes)?;
                at_bytes += len as u64;
            }
            Ok(())
        }
    }
}

/// A sequence of choices that follows from its seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        split_mix(self.0)
    }

    /// A number below `end`; 0 if that is 0.
    fn below(&mut self, end: usize) -> usize {
        let end = end.max(1) as u64;
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    fn eighths(&mut self, eighths: u64) -> bool {
        self.next() % 8 < eighths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const OLD: u8 = 1;

    fn base() -> OverlayDevice {
        OverlayDevice::new(vec![OLD; 4 * SECTOR_BYTES].into())
    }

    fn write(sector: u64, count: usize, byte: u8) -> ChangeRecord {
        ChangeRecord::Write {
            offset_bytes: sector * SECTOR_BYTES as u64,
            bytes: vec![byte; count * SECTOR_BYTES].into(),
        }
    }

    /// The byte that fills each sector.
    fn state(device: &OverlayDevice) -> [u8; 4] {
        let mut bytes = vec![0; 4 * SECTOR_BYTES];
        device.read_at(&mut bytes, 0).unwrap();
        let mut sectors = bytes.chunks(SECTOR_BYTES);
        std::array::from_fn(|_| {
            let sector = sectors.next().unwrap();
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "a torn sector"
            );
            sector[0]
        })
    }

    fn states(changes: &[ChangeRecord], position: usize) -> HashSet<[u8; 4]> {
        let mut cuts = PowerCuts::new(&base(), changes);
        cuts.advance_to(position).unwrap();
        (0..2000)
            .map(|seed| state(&cuts.reordered(seed).unwrap()))
            .collect()
    }

    #[test]
    fn all_written_at_each_position_is_what_had_returned() {
        let changes = [
            write(0, 2, 2),
            ChangeRecord::Flush { covers: 1 },
            write(1, 1, 3),
        ];
        let mut cuts = PowerCuts::new(&base(), &changes);
        let mut seen = Vec::new();
        for position in 0..=3 {
            cuts.advance_to(position).unwrap();
            seen.push(state(&cuts.all_written()));
        }
        assert_eq!(
            seen,
            [[1, 1, 1, 1], [2, 2, 1, 1], [2, 2, 1, 1], [2, 3, 1, 1]]
        );
    }

    #[test]
    fn writes_not_flushed_survive_in_every_combination_of_sectors() {
        let changes = [write(0, 2, 2), write(1, 1, 3)];
        let possible: HashSet<_> = [OLD, 2]
            .into_iter()
            .flat_map(|first| [OLD, 2, 3].map(|second| [first, second, OLD, OLD]))
            .collect();
        assert_eq!(states(&changes, 2), possible);
    }

    #[test]
    fn write_flushed_survives_and_one_that_the_flush_missed_may_not() {
        // The flush began before the second write had returned.
        let changes = [
            write(0, 1, 2),
            write(1, 1, 3),
            ChangeRecord::Flush { covers: 1 },
        ];
        let possible: HashSet<_> = [[2, OLD, OLD, OLD], [2, 3, OLD, OLD]].into();
        assert_eq!(states(&changes, 3), possible);
    }

    #[test]
    fn write_that_had_not_returned_may_survive() {
        let changes = [write(3, 1, 2)];
        let possible: HashSet<_> = [[OLD; 4], [OLD, OLD, OLD, 2]].into();
        assert_eq!(states(&changes, 0), possible);
    }

    #[test]
    fn write_inside_what_is_not_torn_survives_wholly_or_not_at_all() {
        let changes = [write(0, 3, 2)];
        let mut cuts = PowerCuts::new(&base(), &changes).without_tearing(512..1536);
        cuts.advance_to(1).unwrap();
        let states: HashSet<_> = (0..500)
            .map(|seed| state(&cuts.reordered(seed).unwrap()))
            .collect();
        let possible: HashSet<_> = [OLD, 2]
            .into_iter()
            .flat_map(|first| [OLD, 2].map(|second| [first, second, second, OLD]))
            .collect();
        assert_eq!(states, possible);
    }

    #[test]
    fn seed_repeated_chooses_the_same_state() {
        let changes: Vec<_> = (0..40).map(|i| write(i % 4, 1, 2)).collect();
        let mut cuts = PowerCuts::new(&base(), &changes);
        cuts.advance_to(40).unwrap();
        for seed in 0..50 {
            let again = [0, 1].map(|_| state(&cuts.reordered(seed).unwrap()));
            assert_eq!(again[0], again[1]);
        }
    }
}
