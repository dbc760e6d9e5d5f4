//! Sequences that stay at the border of a full image.

use super::{FILES, FILLER, FileNo, Limits, Step};
use crate::seed::{Random, Seed};
use larder::Fallocate;

/// What sequences are made of.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Direct writes.
    pub direct: bool,
    /// Allocating, zeroing and moving ranges, beside punching.
    pub ranges: bool,
}

impl Mix {
    /// Everything.
    pub const ALL: Self = Self {
        direct: true,
        ranges: true,
    };
    /// What the kernel's ext4 does without a fault: writes, cuts, holes and copies.
    pub const PLAIN: Self = Self {
        direct: false,
        ranges: false,
    };
}

/// Times that space runs out in a sequence.
const ROUNDS: u64 = 10;
/// Files end about here; the filler has the rest.
const REGIONS_BYTES: [u64; 3] = [64 << 10, 1 << 20, 3 << 20];
/// Multiples of these are the borders at which ranges start and end.
const UNITS_BYTES: [u64; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
const PAGE_BYTES: u64 = 4096;

struct Generator {
    random: Random,
    mix: Mix,
    limits: Limits,
    steps: Vec<Step>,
}

/// The sequence that `seed` stands for.
#[must_use]
pub fn sequence(seed: Seed, mix: Mix, limits: Limits) -> Vec<Step> {
    let mut generator = Generator {
        random: Random::new(seed),
        mix,
        limits,
        steps: Vec::new(),
    };
    for _ in 0..8 {
        generator.step();
    }
    for _ in 0..ROUNDS {
        generator.round();
    }
    generator.steps
}

impl Generator {
    fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, items: &[T], default: T) -> T {
        self.random.choose(items).copied().unwrap_or(default)
    }

    /// Fills the image, frees a little, and works on what is free.
    fn round(&mut self) {
        if !self.one_in(4) {
            self.steps.push(Step::Fill);
        }
        if self.one_in(3) {
            self.steps.push(Step::SyncAll);
        }
        let cluster_bytes = self.limits.cluster_bytes;
        match self.random.below(6) {
            0 => {}
            1 => {
                let clusters = 1 + self.random.below(40);
                let (offset_bytes, len_bytes) = (self.border(), clusters * cluster_bytes);
                self.steps.push(Step::Range {
                    file: FILLER,
                    mode: Fallocate::PunchHole,
                    offset_bytes,
                    len_bytes,
                });
            }
            2 => self.free(400),
            _ => self.free(8),
        }
        for _ in 0..3 + self.random.below(8) {
            self.step();
        }
    }

    fn free(&mut self, most_clusters: u64) {
        let clusters = 1 + self.random.below(most_clusters);
        let len_bytes = clusters * self.limits.cluster_bytes;
        self.steps.push(Step::Free { len_bytes });
    }

    fn file(&mut self) -> FileNo {
        // Mostly two of them, so that operations meet.
        let most = if self.one_in(3) { 4 } else { 2 };
        let index = self.random.below(most);
        FILES[usize::try_from(index).unwrap_or(0)]
    }

    /// An offset on a border of blocks.
    fn border(&mut self) -> u64 {
        let region = self.pick(&REGIONS_BYTES, 1 << 20);
        let unit = self.pick(&UNITS_BYTES, PAGE_BYTES);
        self.random.below(region / unit) * unit
    }

    /// An offset on or beside a border, or anywhere.
    fn offset(&mut self) -> u64 {
        let border = self.border();
        match self.random.below(6) {
            0 => border + 1,
            1 => border + PAGE_BYTES - 1,
            2 => border + self.random.below(PAGE_BYTES),
            3 => 0,
            _ => border,
        }
    }

    fn len(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 1 + self.random.below(200),
            1 => self.pick(&UNITS_BYTES, PAGE_BYTES) - 1,
            2 => self.pick(&UNITS_BYTES, PAGE_BYTES) + 1,
            3 => (1 + self.random.below(64)) * PAGE_BYTES,
            4 => 1 + self.random.below(64 << 10),
            // Past the page cache.
            5 => (256 << 10) + self.random.below(800 << 10),
            6 => (64 + self.random.below(256)) * PAGE_BYTES,
            _ => (1 + self.random.below(16)) << 10,
        }
    }

    fn step(&mut self) {
        let file = self.file();
        let keep_size = self.one_in(2);
        match self.random.below(100) {
            0..27 => self.write(file),
            27..37 => self.write_direct(file),
            37..49 => {
                let size_bytes = self.offset();
                self.steps.push(Step::Truncate { file, size_bytes });
            }
            49..59 => self.range(file, Fallocate::PunchHole),
            59..66 => self.range(file, Fallocate::ZeroRange { keep_size }),
            66..73 => self.range(file, Fallocate::Allocate { keep_size }),
            73..75 => self.move_range(file, Fallocate::Collapse),
            75..77 => self.move_range(file, Fallocate::Insert),
            77..88 => self.copy(file),
            88..90 => self.stripes(file),
            90..92 => self.steps.push(Step::Remove { file }),
            92..95 => self.steps.push(Step::Sync { file }),
            95..98 => self.steps.push(Step::Evict { file }),
            98 => self.steps.push(Step::SyncAll),
            _ => self.steps.push(Step::Remount),
        }
    }

    fn write(&mut self, file: FileNo) {
        let (offset_bytes, len) = (self.offset(), self.len());
        self.push_write(file, offset_bytes, len, false);
    }

    fn write_direct(&mut self, file: FileNo) {
        let offset_bytes = self.border() / PAGE_BYTES * PAGE_BYTES;
        let len = self.len().next_multiple_of(PAGE_BYTES);
        self.push_write(file, offset_bytes, len, self.mix.direct);
    }

    fn push_write(&mut self, file: FileNo, offset_bytes: u64, len: u64, direct: bool) {
        self.steps.push(Step::Write {
            file,
            offset_bytes,
            len_bytes: u32::try_from(len).unwrap_or(u32::MAX),
            direct,
        });
    }

    fn range(&mut self, file: FileNo, mode: Fallocate) {
        let (offset_bytes, len_bytes) = (self.offset(), self.len());
        self.push_range(file, mode, offset_bytes, len_bytes);
    }

    /// Moves whole clusters, which is all that can be moved.
    fn move_range(&mut self, file: FileNo, mode: Fallocate) {
        let unit = self.limits.cluster_bytes;
        let offset_bytes = self.border() / unit * unit;
        let len_bytes = self.len().next_multiple_of(unit);
        if self.limits.moves {
            self.push_range(file, mode, offset_bytes, len_bytes);
        }
    }

    fn push_range(&mut self, file: FileNo, mode: Fallocate, offset_bytes: u64, len_bytes: u64) {
        if self.mix.ranges || mode == Fallocate::PunchHole {
            self.steps.push(Step::Range {
                file,
                mode,
                offset_bytes,
                len_bytes,
            });
        }
    }

    fn copy(&mut self, to: FileNo) {
        let from = self.file();
        let (from_bytes, to_bytes) = (self.offset(), self.offset());
        let len_bytes = self.len();
        self.steps.push(Step::Copy {
            from,
            from_bytes,
            to,
            to_bytes,
            len_bytes,
        });
    }

    /// Many short extents, so that the mapping takes space too.
    fn stripes(&mut self, file: FileNo) {
        let start = self.border();
        let len = self.limits.cluster_bytes;
        let punches = self.one_in(2);
        for stripe in 0..20 + self.random.below(100) {
            let offset_bytes = start + stripe * 2 * len;
            if punches {
                self.push_range(file, Fallocate::PunchHole, offset_bytes, len);
            } else {
                self.push_write(file, offset_bytes, len, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        cluster_bytes: 4096,
        extents: true,
        moves: true,
        inline_data: false,
    };

    #[test]
    fn sequence_repeats_and_keeps_to_its_mix() {
        let steps = sequence(Seed(5), Mix::ALL, LIMITS);
        assert_eq!(steps, sequence(Seed(5), Mix::ALL, LIMITS));
        assert_ne!(steps, sequence(Seed(6), Mix::ALL, LIMITS));
        for seed in 0..20 {
            let plain = sequence(Seed(seed), Mix::PLAIN, LIMITS);
            let is_plain = |step: &Step| match step {
                Step::Write { direct, .. } => !direct,
                Step::Range { mode, .. } => *mode == Fallocate::PunchHole,
                _ => true,
            };
            assert!(plain.iter().all(is_plain));
            assert!(plain.contains(&Step::Fill));
        }
    }
}
