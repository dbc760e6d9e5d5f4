//! From the log of a device's changes, derives the contents that it can have after a power loss.
//!
//! Model: a disk with a volatile cache. When a flush returns, all changes that had returned before the flush
//! began are on the medium. Of all later writes, any subset of the 512-byte sectors can be on the medium,
//! whatever the order of the writes. A later discard takes effect as a whole or not at all, independently of the
//! writes. All other sectors keep their previous contents. A sector is never torn.

use crate::faulty::split_mix;
use crate::{ChangeRecord, OverlayDevice};
use larder_block::{BlockDevice, Result};
use std::ops::Range;

/// The size of a sector, the unit that reaches the medium as a whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// The byte that discarded ranges contain. Discarded sectors may read as anything; this byte is one that tests do
/// not write.
const DISCARDED: u8 = 0xdd;

/// The contents that a device can have if power is lost at a position in a log. The position only moves
/// forward.
#[derive(Debug)]
pub struct PowerCuts<'a> {
    changes: &'a [ChangeRecord],
    /// The number of changes that had returned when power was lost.
    position: usize,
    /// The number of changes, from the start of the log, that are durable.
    durable_end: usize,
    durable: OverlayDevice,
    written: OverlayDevice,
    /// A range of bytes that reaches the medium as a whole or not at all, although it is larger than a
    /// sector.
    untorn: Range<u64>,
}

impl<'a> PowerCuts<'a> {
    /// Creates an instance whose position is before the first of `changes`. `device` is the device with its
    /// content before these changes.
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

    /// Excludes torn writes within `bytes`, for a structure that the on-disk format assumes is written
    /// atomically.
    #[must_use]
    pub fn without_tearing(mut self, bytes: Range<u64>) -> Self {
        self.untorn = bytes;
        self
    }

    /// Advances to the point at which `position` changes had returned, or to the end of the log if the log is
    /// shorter. Does nothing if that point is before the current position.
    ///
    /// # Errors
    /// Returns an error if a change is not within the device.
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

    /// Returns the content of a device on which all changes that had returned are on the medium.
    #[must_use]
    pub fn all_written(&self) -> OverlayDevice {
        self.written.clone()
    }

    /// Returns another possible content, which `seed` selects. It may contain a part of the change after the
    /// position, which had not returned when power was lost.
    ///
    /// # Errors
    /// Returns an error if a change is not within the device.
    pub fn reordered(&self, seed: u64) -> Result<OverlayDevice> {
        let mut random = Random(seed);
        let device = self.durable.clone();
        let end = (self.position + 1).min(self.changes.len());
        let pending = self.durable_end..end;
        let survival = Survival::choose(&mut random, &pending);
        for number in pending {
            if let ChangeRecord::Write {
                offset_bytes,
                bytes,
            } = &self.changes[number]
            {
                let part = LoggedWrite {
                    offset_bytes: *offset_bytes,
                    bytes,
                    untorn: &self.untorn,
                };
                survival.write(&mut random, number, &device, &part)?;
            } else if random.one_in(2) {
                apply(&device, &self.changes[number])?;
            }
        }
        Ok(device)
    }
}

/// A logged write. The sectors that start in `untorn` must reach the medium together or not at all.
struct LoggedWrite<'a> {
    offset_bytes: u64,
    bytes: &'a [u8],
    untorn: &'a Range<u64>,
}

/// The rule for which of the writes since the last flush reach the medium. It does not apply to discards: each takes
/// effect with a probability of one half.
enum Survival {
    /// All writes before this one, and some sectors of this one: the device keeps the order of writes.
    Until(usize),
    /// All writes except this one, of which some sectors may be on the medium.
    AllBut(usize),
    /// Only this write.
    Only(usize),
    /// For each write: with a probability of a quarter, some of its sectors. In the other cases, the whole write, with
    /// this probability in eighths.
    Eighths(u64),
}

impl Survival {
    fn choose(random: &mut Random, pending: &Range<usize>) -> Self {
        let one = pending.start + random.below(pending.len());
        match random.below(6) {
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
        random: &mut Random,
        number: usize,
        device: &OverlayDevice,
        part: &LoggedWrite<'_>,
    ) -> Result<()> {
        let LoggedWrite {
            offset_bytes,
            bytes,
            untorn,
        } = *part;
        let (whole, torn) = match *self {
            Self::Until(last) => (number < last, number == last),
            Self::AllBut(lost) => (number != lost, number == lost && random.one_in(2)),
            Self::Only(kept) => (number == kept, false),
            Self::Eighths(eighths) => {
                let torn = random.one_in(4);
                (!torn && random.eighths(eighths), torn)
            }
        };
        if whole {
            return device.write_at(bytes, offset_bytes);
        }
        if torn {
            let mut at_bytes = offset_bytes;
            let all_untorn = random.one_in(2);
            for sector in sectors(offset_bytes, bytes) {
                let survives = if untorn.contains(&at_bytes) {
                    all_untorn
                } else {
                    random.one_in(2)
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

/// Splits `bytes`, which start at `offset_bytes`, at the sector boundaries of the device.
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

/// A sequence of choices that its seed determines.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        split_mix(self.0)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
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

    /// Returns the byte that fills each sector.
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
    fn all_written_state_has_the_writes_that_had_returned() {
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
    fn unflushed_writes_survive_in_every_combination_of_sectors() {
        let changes = [write(0, 2, 2), write(1, 1, 3)];
        let possible: HashSet<_> = [OLD, 2]
            .into_iter()
            .flat_map(|first| [OLD, 2, 3].map(|second| [first, second, OLD, OLD]))
            .collect();
        assert_eq!(states(&changes, 2), possible);
    }

    #[test]
    fn flushed_write_survives_and_one_outside_the_flush_may_not() {
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
    fn unfinished_write_may_survive() {
        let changes = [write(3, 1, 2)];
        let possible: HashSet<_> = [[OLD; 4], [OLD, OLD, OLD, 2]].into();
        assert_eq!(states(&changes, 0), possible);
    }

    #[test]
    fn untorn_write_survives_completely_or_not_at_all() {
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
    fn same_seed_chooses_the_same_state() {
        let changes: Vec<_> = (0..40).map(|i| write(i % 4, 1, 2)).collect();
        let mut cuts = PowerCuts::new(&base(), &changes);
        cuts.advance_to(40).unwrap();
        for seed in 0..50 {
            let again = [0, 1].map(|_| state(&cuts.reordered(seed).unwrap()));
            assert_eq!(again[0], again[1]);
        }
    }
}
