//! Parses files of procfs, and passwd(5). Lines that are not understood are skipped.

/// The first address that belongs to the kernel. `maps` also shows pages of the kernel that processes can execute.
/// These pages do not belong to an area of the process.
const KERNEL_START: u64 = 1 << 63;

/// Returns the real, effective, saved and file-system user ID in the text of `status`.
pub(super) fn users(status: &[u8]) -> Option<[u32; 4]> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let line = lines.find_map(|line| line.strip_prefix(b"Uid:"))?;
    let mut numbers = str::from_utf8(line).ok()?.split_ascii_whitespace();
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?, next()?, next()?])
}

/// Returns the user IDs in the text of a file in the form of passwd(5).
pub(super) fn accounts(passwd: &[u8]) -> impl Iterator<Item = u32> {
    let lines = passwd.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        let uid = line.split(|byte| *byte == b':').nth(2)?;
        str::from_utf8(uid).ok()?.parse().ok()
    })
}

/// Returns the first page and the number of pages of each area in the text of `maps`.
pub(super) fn areas(maps: &[u8], page_bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    maps.split(|byte| *byte == b'\n').filter_map(move |line| {
        let range = line.split(|byte| *byte == b' ').next()?;
        let (start, end) = str::from_utf8(range).ok()?.split_once('-')?;
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16));
        let (start, end) = (start.ok()?, end.ok()?);
        let pages = end.checked_sub(start)? / page_bytes;
        (pages > 0 && start < KERNEL_START).then_some((start / page_bytes, pages))
    })
}
