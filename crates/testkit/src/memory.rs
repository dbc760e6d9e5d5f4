//! The memory of this process, as the kernel reports it.

/// Returns the peak of resident memory in bytes, or 0 if unknown.
#[must_use]
pub fn peak_resident_bytes() -> u64 {
    status_bytes("VmHWM:")
}

/// Returns the resident memory in bytes, or 0 if unknown.
#[must_use]
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:")
}

fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok())
        .map_or(0, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_is_at_least_resident() {
        let resident = resident_bytes();
        assert!(resident > 0);
        assert!(peak_resident_bytes() >= resident);
    }
}
