//! Partition tables in the master boot record, for disks that `sfdisk` cannot describe, or where it is not installed.

/// Writes an entry of the table in the first sector of `disk`, and the signature of the sector. `index` is from 0 to 3.
/// `kind` is the type of the partition, which has `sectors` sectors from `first` on.
///
/// # Panics
/// If `disk` has less than 512 bytes.
pub fn put_entry(disk: &mut [u8], index: usize, kind: u8, first: u32, sectors: u32) {
    let entry = &mut disk[446 + 16 * index..][..16];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..].copy_from_slice(&sectors.to_le_bytes());
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
}
