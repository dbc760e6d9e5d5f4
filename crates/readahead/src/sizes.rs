//! Window sizes. All generations of Linux readahead use the same sequence of growing sizes, here called the
//! ramp.

/// The upper limit of the configured window size: 256 MiB in pages of 4 KiB.
pub const MAX_PAGES_LIMIT: u32 = 1 << 16;

/// Returns the size of the first window of a stream, for a request of `request_pages` pages.
///
/// The request is first rounded up to a power of two:
///
/// | the rounded request is | size of the window |
/// |---|---|
/// | at most 1/32 of `max_pages` | 4 times the rounded request |
/// | at most 1/4 of `max_pages` | twice the rounded request |
/// | larger | `max_pages` |
pub(crate) fn initial(request_pages: u32, max_pages: u32) -> u32 {
    match request_pages.checked_next_power_of_two() {
        Some(rounded) if rounded <= max_pages / 32 => rounded * 4,
        Some(rounded) if rounded <= max_pages / 4 => rounded * 2,
        _ => max_pages,
    }
}

/// Returns the size of the window that follows a window of `size` pages: four times `size` if that is less
/// than 1/16 of `max_pages`, otherwise twice `size`, at most `max_pages`.
pub(crate) fn next(size: u32, max_pages: u32) -> u32 {
    let factor = if size < max_pages / 16 { 4 } else { 2 };
    size.saturating_mul(factor).min(max_pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_size_for_each_request_follows_the_published_ramp() {
        // (request, max, size)
        let table = [
            (1, 32, 4),
            (2, 32, 4),
            (3, 32, 8),
            (4, 32, 8),
            (5, 32, 16),
            (8, 32, 16),
            (9, 32, 32),
            (32, 32, 32),
            (33, 32, 32),
            (u32::MAX, 32, 32),
            (1, 256, 4),
            (8, 256, 32),
            (9, 256, 32),
            (64, 256, 128),
            (65, 256, 256),
            (1, 1, 1),
            (1, 3, 3),
            (1, 4, 2),
            (0, 32, 4),
            (7, 0, 0),
        ];
        for (request, max, want) in table {
            assert_eq!(initial(request, max), want, "initial({request}, {max})");
        }
    }

    #[test]
    fn next_size_quadruples_then_doubles_then_stays_at_the_limit() {
        let ramp = |first: u32, max: u32| {
            let mut sizes = vec![first];
            while sizes.last() != Some(&max) {
                sizes.push(next(sizes[sizes.len() - 1], max));
            }
            sizes
        };
        assert_eq!(ramp(4, 32), [4, 8, 16, 32]);
        assert_eq!(ramp(1, 32), [1, 4, 8, 16, 32]);
        assert_eq!(ramp(4, 256), [4, 16, 32, 64, 128, 256]);
        assert_eq!(ramp(5, 24), [5, 10, 20, 24]);
        assert_eq!(next(u32::MAX, u32::MAX), u32::MAX);
    }
}
