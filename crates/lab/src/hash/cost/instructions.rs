//! Sizes of functions in bytes of instructions, from the unwind information of the running program, which strip(1)
//! keeps.

use gimli::{BaseAddresses, CieOrFde, EhFrame, NativeEndian, UnwindSection};
use object::{Object, ObjectSection, ObjectSegment, ReadCache};
use std::collections::HashMap;
use std::fs::{self, File};
use std::ops::Range;

/// The executable file of the running program.
const PROGRAM: &str = "/proc/self/exe";

/// The memory mappings of the process.
const MAPPINGS: &str = "/proc/self/maps";

/// The sizes of this program's functions; empty if the executable file has no unwind information.
#[derive(Debug, Default)]
pub(super) struct Instructions {
    /// Sizes of functions, in bytes, by their offsets in the executable file.
    sizes: HashMap<u64, u64>,
    /// Mapped ranges of addresses, each with the offset in the mapped file.
    mappings: Vec<(Range<u64>, u64)>,
}

impl Instructions {
    pub(super) fn of_this_program() -> Self {
        Self {
            sizes: sizes().unwrap_or_default(),
            mappings: fs::read_to_string(MAPPINGS)
                .unwrap_or_default()
                .lines()
                .filter_map(mapping)
                .collect(),
        }
    }

    /// Returns the size of the function at `address`, in bytes, or `None` if it is unknown.
    pub(super) fn size_of(&self, address: usize) -> Option<u64> {
        let address = address as u64;
        let mut mappings = self.mappings.iter();
        let (memory, place) = mappings.find(|(memory, _)| memory.contains(&address))?;
        let size = self.sizes.get(&(address - memory.start + place));
        size.copied()
    }
}

/// Returns the sizes of functions by their offsets in the program's file.
fn sizes() -> Option<HashMap<u64, u64>> {
    let data = ReadCache::new(File::open(PROGRAM).ok()?);
    let file = object::File::parse(&data).ok()?;
    let segments = file.segments().map(|segment| {
        let end = segment.address().saturating_add(segment.size());
        (segment.address()..end, segment.file_range().0)
    });
    let segments: Vec<(Range<u64>, u64)> = segments.collect();
    let section = file.section_by_name(".eh_frame")?;
    let frames = EhFrame::new(section.data().ok()?, NativeEndian);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    let mut sizes = HashMap::new();
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let function = partial.parse(EhFrame::cie_from_offset).ok()?;
        let address = function.initial_address();
        let mut segments = segments.iter();
        if let Some((segment, place)) = segments.find(|(segment, _)| segment.contains(&address)) {
            sizes.insert(address - segment.start + place, function.len());
        }
    }
    Some(sizes)
}

/// Parses a line of [`MAPPINGS`]: `start-end permissions offset ...`, with hexadecimal numbers. Returns the
/// range of addresses and the offset.
fn mapping(line: &str) -> Option<(Range<u64>, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((number(start)?..number(end)?, number(fields.nth(1)?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_mappings_is_parsed_with_its_file_offset() {
        let line = "55d0c0a01000-55d0c0a2f000 r-xp 00001000 08:01 1048 /usr/bin/larder";
        let range = 0x55d0_c0a0_1000..0x55d0_c0a2_f000;
        assert_eq!(mapping(line), Some((range, 0x1000)));
        assert_eq!(mapping("not a line of mappings"), None);
    }

    #[test]
    fn address_outside_the_program_has_no_size() {
        let local = 0_u8;
        let address = std::ptr::from_ref(&local).addr();
        assert_eq!(Instructions::of_this_program().size_of(address), None);
    }
}
