//! The block of multiple-mount protection (feature `mmp`).
//!
//! ```text
//! magic (4), sequence (4), time (8), node name (64), device name (32),
//! check interval (2), reserved (906), checksum (4)
//! ```

use super::Damage;
use super::checksum::Crc32c;
use super::fields::until_nul;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The length in bytes of the structure, which is at the start of its block.
pub const MMP_BYTES: usize = 1024;

const MAGIC: u32 = 0x004D_4D50;

/// The state of use of a file system, stored as the sequence number. A host that has mounted the
/// file system changes the number regularly to show that it is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// The file system is not in use.
    Clean,
    /// e2fsck is using the file system.
    Checking,
    /// A host has mounted the file system; this is its current number.
    Mounted(u32),
}

impl Sequence {
    const CLEAN: u32 = 0xFF4D_4D50;
    const CHECKING: u32 = 0xE24D_4D50;
    /// The greatest number that a host may use while it has mounted the file system.
    pub const MAX: u32 = 0xE24D_4D4F;

    fn from_number(number: u32) -> Self {
        match number {
            Self::CLEAN => Self::Clean,
            Self::CHECKING => Self::Checking,
            number => Self::Mounted(number),
        }
    }

    fn number(self) -> u32 {
        match self {
            Self::Clean => Self::CLEAN,
            Self::Checking => Self::CHECKING,
            Self::Mounted(number) => number,
        }
    }
}

/// The contents of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmpBlock {
    /// The state of use.
    pub sequence: Sequence,
    /// The time of the last write of the block, in seconds since 1970.
    pub time_seconds: u64,
    /// The name of the machine that uses the file system, at most 64 bytes.
    pub node: Vec<u8>,
    /// The name of the device, at most 32 bytes.
    pub device: Vec<u8>,
    /// The check interval in seconds. It determines how long another host waits for a change of the
    /// sequence number.
    pub check_interval_seconds: u16,
}

#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawMmp {
    mmp_magic: U32,
    mmp_seq: U32,
    mmp_time: U64,
    mmp_nodename: [u8; 64],
    mmp_bdevname: [u8; 32],
    mmp_check_interval: U16,
    mmp_pad1: U16,
    mmp_pad2: [[u8; 4]; 226],
    mmp_checksum: U32,
}

const _: () = assert!(size_of::<RawMmp>() == MMP_BYTES);

/// Returns the checksum of the structure, which covers all bytes before the checksum field.
fn checksum(raw: &RawMmp, seed: Crc32c) -> u32 {
    seed.bytes(&raw.as_bytes()[..MMP_BYTES - 4]).0
}

impl MmpBlock {
    /// Parses the block. `seed` is the seed of the checksum, if the file system has checksums.
    pub fn parse(bytes: &[u8; MMP_BYTES], seed: Option<Crc32c>) -> Result<Self, Damage> {
        let raw: &RawMmp = zerocopy::transmute_ref!(bytes);
        if raw.mmp_magic.get() != MAGIC {
            return Err("block for multiple-mount protection (MMP) has no magic number");
        }
        if seed.is_some_and(|seed| checksum(raw, seed) != raw.mmp_checksum.get()) {
            return Err("checksum of the block for multiple-mount protection (MMP) is wrong");
        }
        Ok(Self {
            sequence: Sequence::from_number(raw.mmp_seq.get()),
            time_seconds: raw.mmp_time.get(),
            node: until_nul(&raw.mmp_nodename),
            device: until_nul(&raw.mmp_bdevname),
            check_interval_seconds: raw.mmp_check_interval.get(),
        })
    }

    /// Writes these values to `bytes`, which must be a block that was parsed.
    pub fn write(&self, bytes: &mut [u8; MMP_BYTES], seed: Option<Crc32c>) {
        let raw: &mut RawMmp = zerocopy::transmute_mut!(bytes);
        raw.mmp_seq.set(self.sequence.number());
        raw.mmp_time.set(self.time_seconds);
        fill(&mut raw.mmp_nodename, &self.node);
        fill(&mut raw.mmp_bdevname, &self.device);
        raw.mmp_check_interval.set(self.check_interval_seconds);
        if let Some(seed) = seed {
            let checksum = checksum(raw, seed);
            raw.mmp_checksum.set(checksum);
        }
    }
}

/// Fills the field `bytes` with `text`, truncated so that at least one NUL follows.
fn fill(bytes: &mut [u8], text: &[u8]) {
    bytes.fill(0);
    let len = text.len().min(bytes.len().saturating_sub(1));
    bytes[..len].copy_from_slice(&text[..len]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_block_parses_to_the_same_values() {
        let mut bytes = [0; MMP_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let block = MmpBlock {
            sequence: Sequence::Mounted(77),
            time_seconds: 5_000_000_000,
            node: b"node".to_vec(),
            device: vec![b'd'; 31],
            check_interval_seconds: 10,
        };
        let seed = Some(Crc32c(5));
        block.write(&mut bytes, seed);
        assert_eq!(MmpBlock::parse(&bytes, seed), Ok(block.clone()));
        bytes[9] ^= 1;
        assert!(MmpBlock::parse(&bytes, seed).is_err());
        assert!(MmpBlock::parse(&bytes, None).is_ok());
        bytes[0] = 0;
        assert!(MmpBlock::parse(&bytes, None).is_err());
    }

    #[test]
    fn sequences_have_their_numbers() {
        for (number, sequence) in [
            (0xFF4D_4D50, Sequence::Clean),
            (0xE24D_4D50, Sequence::Checking),
            (0xE24D_4D4F, Sequence::Mounted(Sequence::MAX)),
            (1, Sequence::Mounted(1)),
        ] {
            assert_eq!(Sequence::from_number(number), sequence);
            assert_eq!(sequence.number(), number);
        }
    }
}
