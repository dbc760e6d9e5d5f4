//! Traces with correct checksums and any other content.

/// The bytes between the checksum and the footer.
const FOOTER_MARK: &[u8] = b"lard";
/// The last bytes of a checkpoint.
const CHECKPOINT_MARK: &[u8] = b"larderRG";
/// Length of the fields between the footer and the checksum of a checkpoint, in bytes.
const CHECKPOINT_FIELDS: usize = 12;

/// Returns `bytes` with correct checksums of the footer at the end and of each checkpoint. The checksums
/// of row groups, which are in footers, are not changed.
#[must_use]
pub fn trace_with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    for mark in 0..copy.len() {
        if copy[mark..].starts_with(CHECKPOINT_MARK) {
            set_checkpoint_checksum(&mut copy, mark);
        }
    }
    set_footer_checksum(&mut copy);
    copy
}

/// Sets the checksum of the checkpoint whose mark is at `mark`, if there is space for it.
fn set_checkpoint_checksum(bytes: &mut [u8], mark: usize) -> Option<()> {
    let sum_at = mark.checked_sub(4)?;
    let length = u32::from_le_bytes(*bytes.get(sum_at.checked_sub(4)?..)?.first_chunk()?);
    let from = sum_at.checked_sub(CHECKPOINT_FIELDS + usize::try_from(length).ok()?)?;
    let sum = crc32c(&bytes[from..sum_at]);
    bytes[sum_at..mark].copy_from_slice(&sum);
    Some(())
}

/// Sets the checksum and the mark of the footer, if there is space for them.
fn set_footer_checksum(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(8)?;
    let length = u32::from_le_bytes(*bytes.get(end..)?.first_chunk()?);
    let from = end.checked_sub(usize::try_from(length).ok()?)?;
    let sum_at = from.checked_sub(4 + FOOTER_MARK.len())?;
    let sum = crc32c(&bytes[from..]);
    bytes[sum_at..sum_at + 4].copy_from_slice(&sum);
    bytes[sum_at + 4..from].copy_from_slice(FOOTER_MARK);
    Some(())
}

fn crc32c(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).to_le_bytes()
}
