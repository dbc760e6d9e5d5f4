//! Limits of what is read from a disk image.

/// The largest size of a disk in bytes. Sums of two such sizes fit in 64 bits.
pub(crate) const MAX_DISK_BYTES: u64 = 1 << 62;

/// The largest table that is read when an image is opened, in bytes. qemu has the same limit for qcow2: with clusters of
/// 64 KiB, it suffices for disks of 2 PiB.
pub(crate) const MAX_TABLE_BYTES: u64 = 32 << 20;

/// The largest unit that is decompressed, in bytes.
pub(crate) const MAX_UNIT_BYTES: u64 = 16 << 20;

/// Returns the largest size, in bytes, of the compressed form of a unit of `len_bytes`. If content cannot be
/// compressed, all methods store it with a small overhead.
pub(crate) fn max_stored_bytes(len_bytes: u64) -> u64 {
    len_bytes + len_bytes / 64 + 1024
}
