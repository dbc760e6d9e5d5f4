//! One damaged image, as a list of changes that its seed determines.

use super::MetadataMap;
use crate::device::PatchedDevice;
use crate::seed::{Random, Seed};
use larder_block::{BlockDevice, Result};
use larder_instruments::FaultyDevice;
use std::sync::Arc;

/// Values that cause errors in arithmetic.
const EXTREMES: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    u64::MAX,
];

/// One change to an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Flips some bits of a byte.
    Flip {
        /// The offset.
        offset_bytes: u64,
        /// The bits.
        mask: u8,
    },
    /// Writes bytes: an extreme value in a field, or a run of random bytes.
    Write {
        /// The offset.
        offset_bytes: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Copies bytes to another location.
    Copy {
        /// The source offset.
        from_bytes: u64,
        /// The destination offset.
        to_bytes: u64,
        /// The length.
        len_bytes: usize,
    },
    /// Removes the end.
    Truncate {
        /// The remaining size.
        size_bytes: u64,
    },
}

/// All changes of one damaged image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed of the changes.
    pub seed: Seed,
    /// The changes, in order.
    pub damages: Vec<Damage>,
}

impl Plan {
    /// Returns the plan of `seed` for an image with this metadata.
    #[must_use]
    pub fn new(seed: Seed, map: &MetadataMap) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4);
        let damages = (0..count).map(|_| damage(&mut random, map)).collect();
        Self { seed, damages }
    }

    /// Returns `base` with the changes applied. After `read_limit` reads, every read fails.
    ///
    /// # Errors
    /// Fails if `base` cannot be read.
    pub fn apply(&self, base: &Arc<dyn BlockDevice>, read_limit: u64) -> Result<FaultyDevice> {
        let mut device = PatchedDevice::new(Arc::clone(base));
        let size_bytes = base.size_bytes();
        let mut end_bytes = size_bytes;
        for damage in &self.damages {
            match damage {
                Damage::Flip { offset_bytes, mask } => {
                    let mut byte = [0];
                    if *offset_bytes < size_bytes {
                        base.read_at(&mut byte, *offset_bytes)?;
                        device.patch(*offset_bytes, &[byte[0] ^ mask])?;
                    }
                }
                Damage::Write {
                    offset_bytes,
                    bytes,
                } => device.patch(*offset_bytes, bytes)?,
                Damage::Copy {
                    from_bytes,
                    to_bytes,
                    len_bytes,
                } => {
                    let mut bytes = vec![0; *len_bytes];
                    if from_bytes.saturating_add(*len_bytes as u64) <= size_bytes {
                        base.read_at(&mut bytes, *from_bytes)?;
                        device.patch(*to_bytes, &bytes)?;
                    }
                }
                Damage::Truncate { size_bytes } => end_bytes = end_bytes.min(*size_bytes),
            }
        }
        let device = FaultyDevice::new(Arc::new(device)).shorten_to(end_bytes);
        Ok(device.fail_calls(read_limit..u64::MAX))
    }
}

fn damage(random: &mut Random, map: &MetadataMap) -> Damage {
    match random.below(100) {
        0..30 => Damage::Flip {
            offset_bytes: map.place(random),
            mask: 1 << random.below(8),
        },
        30..65 => {
            // A field: 1, 2, 4 or 8 bytes, aligned to its size.
            let len = 1_u64 << random.below(4);
            let offset_bytes = map.place(random) / len * len;
            let value = *random.choose(&EXTREMES).unwrap_or(&0);
            let value = value.wrapping_add(random.below(3)).wrapping_sub(1);
            // Some fields are big-endian: the journal's.
            let mut bytes = value.to_le_bytes()[..usize::try_from(len).unwrap_or(8)].to_vec();
            if random.below(4) == 0 {
                bytes.reverse();
            }
            Damage::Write {
                offset_bytes,
                bytes,
            }
        }
        65..80 => {
            let len = 1 + random.below(64);
            let bytes = random.bytes(usize::try_from(len).unwrap_or(1));
            Damage::Write {
                offset_bytes: map.place(random),
                bytes,
            }
        }
        80..86 => {
            let len = usize::try_from(8 << random.below(8)).unwrap_or(8);
            let fill = if random.below(2) == 0 {
                0
            } else {
                random.byte()
            };
            Damage::Write {
                offset_bytes: map.place(random),
                bytes: vec![fill; len],
            }
        }
        86..97 => {
            let block_bytes = map.block_size_bytes();
            // A whole block, or the size of an inode.
            let unit = if random.below(3) == 0 {
                128
            } else {
                block_bytes
            };
            Damage::Copy {
                from_bytes: map.place(random) / unit * unit,
                to_bytes: map.place(random) / unit * unit,
                len_bytes: usize::try_from(unit).unwrap_or(0),
            }
        }
        _ => Damage::Truncate {
            size_bytes: random.below(map.size_bytes()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_block::MemoryDevice;

    fn map() -> MetadataMap {
        MetadataMap::new(1024, 65_536, &[(2048, 4096), (16_384, 1024)])
    }

    #[test]
    fn plans_of_the_same_seed_are_equal() {
        for number in 0..50 {
            let seed = Seed(number);
            assert_eq!(Plan::new(seed, &map()), Plan::new(seed, &map()));
        }
    }

    #[test]
    fn applied_plan_truncates_the_device_and_limits_its_reads() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(vec![5; 65_536]));
        let plan = Plan {
            seed: Seed(0),
            damages: vec![Damage::Truncate { size_bytes: 100 }],
        };
        let device = plan.apply(&base, 10).unwrap();
        device.read_at(&mut [0; 100], 0).unwrap();
        device.read_at(&mut [0; 100], 1).unwrap_err();
        let device = plan.apply(&base, 1).unwrap();
        device.read_at(&mut [0; 1], 0).unwrap();
        assert_eq!(device.failed_count(), 0);
        device.read_at(&mut [0; 1], 0).unwrap_err();
        assert_eq!(device.failed_count(), 1);
    }

    #[test]
    fn applied_plan_leaves_the_base_unchanged() {
        let base: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(vec![5; 65_536]));
        for number in 0..200 {
            Plan::new(Seed(number), &map()).apply(&base, 10).unwrap();
        }
        let mut bytes = vec![0; 65_536];
        base.read_at(&mut bytes, 0).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 5));
    }
}
