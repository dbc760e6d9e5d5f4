//! Traces whose sums are right, whatever else is in them.

/// What stands in front of a summed footer, behind its sum.
const FOOTER_MARK: &[u8] = b"lard";
/// What a checkpoint ends with.
const CHECKPOINT_MARK: &[u8] = b"larderRG";
/// Bytes of a checkpoint's fields in front of its sum.
const CHECKPOINT_FIELDS: usize = 12;

/// `bytes` with the right sums of the footer at the end and of each checkpoint. Those of row groups are in
/// footers, and stay as they are.
#[must_use]
pub fn sealed_trace(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    for mark in 0..sealed.len() {
        if sealed[mark..].starts_with(CHECKPOINT_MARK) {
            seal_checkpoint(&mut sealed, mark);
        }
    }
    seal_footer(&mut sealed);
    sealed
}

/// Sets the sum of the checkpoint whose mark is at `mark`, if it has a place.
fn seal_checkpoint(bytes: &mut [u8], mark: usize) -> Option<()> {
    let sum_at = mark.checked_sub(4)?;
    let length = u32::from_le_bytes(*bytes.get(sum_at.checked_sub(4)?..)?.first_chunk()?);
    let from = sum_at.checked_sub(CHECKPOINT_FIELDS + usize::try_from(length).ok()?)?;
    let sum = crc32c(&bytes[from..sum_at]);
    bytes[sum_at..mark].copy_from_slice(&sum);
    Some(())
}

/// Sets the sum of the footer, and its mark, if they have a place.
fn seal_footer(bytes: &mut [u8]) -> Option<()> {
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
