//! Sequences that keep an image nearly full.

use super::{FILES, FILLER, FileNo, Limits, Mix, Step};
use crate::seed::{Random, Seed};
use larder::Fallocate;

/// The number of rounds in a sequence. In most rounds, space runs out.
const ROUNDS: u64 = 10;
/// [`Generator::border`] chooses an offset below one of these limits, so that the files remain small. The filler
/// uses the remaining space.
const REGIONS_BYTES: [u64; 4] = [64 << 10, 512 << 10, 1 << 20, 3 << 20];
/// [`Generator::border`] returns a multiple of one of these units. Some lengths are a unit plus or minus one.
const UNITS_BYTES: [u64; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
const PAGE_BYTES: u64 = 4096;
/// [`Generator::offset`] chooses an offset that is at most one of these distances before the end of the last change,
/// and then rounds it down.
const NEAR_BYTES: [u64; 3] = [8 << 10, 128 << 10, 1 << 20];

struct Generator {
    random: Random,
    mix: Mix,
    limits: Limits,
    /// For each file, the end of its last write or allocation. Other changes, such as copies, are not recorded.
    ends_bytes: [u64; FILES.len()],
    steps: Vec<Step>,
}

/// Returns the sequence of `seed`.
#[must_use]
pub fn sequence(seed: Seed, mix: Mix, limits: Limits) -> Vec<Step> {
    let mut generator = Generator {
        random: Random::new(seed),
        mix,
        limits,
        ends_bytes: [0; FILES.len()],
        steps: Vec::new(),
    };
    for _ in 0..4 {
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

    /// Fills the image, frees a little space, and operates on that space.
    fn round(&mut self) {
        // First give a file content or space, so that a failing operation has something to destroy.
        let file = self.file();
        let len_bytes = (16 << 10) + self.random.below(400 << 10);
        let kind = self.random.below(6);
        if kind < 5 {
            self.steps.push(Step::Free(len_bytes));
        }
        match kind {
            0..3 => self.push_write(file, 0, len_bytes, false),
            3..5 => {
                let mode = Fallocate::Allocate { keep_size: true };
                let offset_bytes = self.offset(file);
                self.push_range(file, mode, offset_bytes, len_bytes);
            }
            _ => {}
        }
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
        for _ in 0..5 + self.random.below(10) {
            self.step();
        }
    }

    fn free(&mut self, most_clusters: u64) {
        let clusters = 1 + self.random.below(most_clusters);
        let len_bytes = clusters * self.limits.cluster_bytes;
        self.steps.push(Step::Free(len_bytes));
    }

    fn file(&mut self) -> FileNo {
        // Usually two files, so that operations overlap.
        let most = if self.one_in(3) { 4 } else { 2 };
        let index = self.random.below(most);
        FILES[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns a multiple of one of [`UNITS_BYTES`]. It is a block boundary, unless blocks are larger than the unit.
    fn border(&mut self) -> u64 {
        let region = self.pick(&REGIONS_BYTES, 1 << 20);
        let unit = self.pick(&UNITS_BYTES, PAGE_BYTES);
        self.random.below(region / unit) * unit
    }

    /// Returns an offset shortly before the end of the last change, so that steps overlap, or at or shortly after
    /// a [`border`](Self::border).
    fn offset(&mut self, file: FileNo) -> u64 {
        if self.one_in(2) {
            let end_bytes = self.ends_bytes[file.index()];
            let most = self.pick(&NEAR_BYTES, PAGE_BYTES).min(end_bytes);
            let back = self.random.below(most);
            let unit = self.pick(&[1, 1, 1 << 10, PAGE_BYTES], 1);
            return (end_bytes - back) / unit * unit;
        }
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
            // Usually long enough for a write that bypasses the page cache.
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
            37..45 => {
                let size_bytes = self.offset(file);
                self.steps.push(Step::Truncate { file, size_bytes });
            }
            45..54 => self.range(file, Fallocate::PunchHole),
            54..63 => self.range(file, Fallocate::ZeroRange { keep_size }),
            63..73 => self.range(file, Fallocate::Allocate { keep_size }),
            73..75 => self.move_range(file, Fallocate::Collapse),
            75..77 => self.move_range(file, Fallocate::Insert),
            77..88 => self.copy(file),
            88..90 => self.stripes(file),
            90..92 => self.steps.push(Step::Remove(file)),
            92..95 => self.steps.push(Step::Sync(file)),
            95..98 => self.steps.push(Step::Evict(file)),
            98 => self.steps.push(Step::SyncAll),
            _ => self.steps.push(Step::Remount),
        }
    }

    fn write(&mut self, file: FileNo) {
        let (offset_bytes, len) = (self.offset(file), self.len());
        self.push_write(file, offset_bytes, len, false);
    }

    fn write_direct(&mut self, file: FileNo) {
        let offset_bytes = self.offset(file) / PAGE_BYTES * PAGE_BYTES;
        let len = self.len().next_multiple_of(PAGE_BYTES);
        self.push_write(file, offset_bytes, len, self.mix.direct);
    }

    fn push_write(&mut self, file: FileNo, offset_bytes: u64, len: u64, direct: bool) {
        self.ends_bytes[file.index()] = offset_bytes + len;
        self.steps.push(Step::Write {
            file,
            offset_bytes,
            len_bytes: u32::try_from(len).unwrap_or(u32::MAX),
            direct,
        });
    }

    fn range(&mut self, file: FileNo, mode: Fallocate) {
        let offset_bytes = self.offset(file);
        // The range often extends from content into a part of the file without space.
        let extra_bytes = self.pick(&[0, 0, 64 << 10, 512 << 10], 0);
        let len_bytes = self.len() + extra_bytes;
        self.push_range(file, mode, offset_bytes, len_bytes);
    }

    /// Moves whole clusters: other ranges cannot be moved.
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
            if let Fallocate::Allocate { .. } = mode {
                self.ends_bytes[file.index()] = offset_bytes + len_bytes;
            }
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
        let (from_bytes, to_bytes) = (self.offset(from), self.offset(to));
        let len_bytes = self.len();
        self.steps.push(Step::Copy {
            from,
            from_bytes,
            to,
            to_bytes,
            len_bytes,
        });
    }

    /// Creates many short extents, so that the mapping takes space too.
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
    fn sequence_repeats_and_follows_its_mix() {
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
