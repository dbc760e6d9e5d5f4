//! The format VMDK: a disk in one sparse file (`monolithicSparse`, `streamOptimized`).
//!
//! # Source
//! The specification "Virtual Disk Format 5.0" of `VMware`. All numbers are little-endian, and offsets in the file are in sectors
//! of 512 bytes. The grain directory has the offsets of grain tables, each of which has the offsets of usually 512
//! grains. Offset 0 means that a table or a grain is not stored, and offset 1 that a grain is zero. In a compressed image,
//! a marker precedes each grain: its sector on the disk, and the length of its zlib stream. If the place of the grain
//! directory was not known when the header was written, the end of the file has a second header, the footer.
//!
//! A text in the file, the descriptor, lists the files of the disk.

use super::decompress;
use super::error::{DiskError, corrupt};
use super::layout::{Extent, Layout, PackedUnit, Place};
use super::limits::{MAX_DISK_BYTES, MAX_UNIT_BYTES, max_stored_bytes};
use super::tables::{Tables, read_first_level};
use larder_block::{BlockDevice, Result, check_range};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const SECTOR_BYTES: u64 = 512;
const MAGIC: [u8; 4] = *b"KDMV";
/// The start of a file that has only the descriptor.
const DESCRIPTOR: &[u8] = b"# Disk DescriptorFile";
/// The largest descriptor that is read, in bytes. Those of usual programs have at most 10 KiB.
const MAX_DESCRIPTOR_BYTES: u64 = 64 << 10;
const MAX_VERSION: u32 = 3;
/// The largest number of grains in a grain table. qemu has the same limit.
const MAX_GRAINS_OF_TABLE: u32 = 512;
/// The value of `directory_sector` in the header, if the footer has the offset of the grain directory.
const IN_FOOTER: u64 = u64::MAX;
/// The distance of the footer from the end of the file, in bytes.
const FOOTER_FROM_END: u64 = 1024;

/// Flags of the header.
const HAS_ZERO_GRAINS: u32 = 1 << 2;
const IS_COMPRESSED: u32 = 1 << 16;
const HAS_MARKERS: u32 = 1 << 17;
/// The only compression method.
const DEFLATE: u16 = 1;

/// The offset of a grain that is zero.
const ZERO_GRAIN: u32 = 1;
/// The value of `parentCID` in the descriptor of a disk without a parent.
const NO_PARENT: &str = "ffffffff";

#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 4],
    version: U32,
    flags: U32,
    sectors: U64,
    grain_sectors: U64,
    descriptor_sector: U64,
    descriptor_sectors: U64,
    grains_of_table: U32,
    redundant_directory_sector: U64,
    directory_sector: U64,
    overhead_sectors: U64,
    is_unclean: u8,
    newlines: [u8; 4],
    compression: U16,
}

/// What precedes a compressed grain.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Marker {
    sector: U64,
    len: U32,
}

/// The tables of a VMDK image.
#[derive(Debug)]
pub(crate) struct Vmdk {
    size_bytes: u64,
    file_bytes: u64,
    grain_bytes: u64,
    grains_of_table: u64,
    has_zero_grains: bool,
    is_compressed: bool,
    directory: Vec<U32>,
}

impl Vmdk {
    /// Reads the header, the descriptor and the grain directory of `file`.
    ///
    /// # Errors
    /// As [`open_disk`](super::open_disk).
    pub(crate) fn open(file: &dyn BlockDevice) -> Result<Self, DiskError> {
        let file_bytes = file.size_bytes();
        let Some(mut header) = header_at(file, 0)? else {
            return Err(described_elsewhere(file)?);
        };
        check_descriptor(file, &header)?;
        if header.directory_sector.get() == IN_FOOTER {
            let footer = file_bytes
                .checked_sub(FOOTER_FROM_END)
                .map(|at| header_at(file, at));
            header = footer
                .transpose()?
                .flatten()
                .ok_or(DiskError::Corrupt("its footer is missing"))?;
        }
        let image = Self::of_header(&header, file_bytes)?;
        let offset_bytes = header.directory_sector.get().saturating_mul(SECTOR_BYTES);
        let entries = image.size_bytes.div_ceil(image.bytes_of_table());
        let directory = read_first_level(file, offset_bytes, entries, "a grain directory")?;
        Ok(Self { directory, ..image })
    }

    /// Returns the image with this `header`, without its grain directory.
    fn of_header(header: &Header, file_bytes: u64) -> Result<Self, DiskError> {
        let version = header.version.get();
        if version > MAX_VERSION {
            let what = format!("version {version} of VMDK");
            return Err(DiskError::Unsupported(what));
        }
        let flags = header.flags.get();
        let is_compressed = flags & IS_COMPRESSED != 0;
        if is_compressed && (header.compression.get() != DEFLATE || flags & HAS_MARKERS == 0) {
            let what = "its method of compression".to_owned();
            return Err(DiskError::Unsupported(what));
        }
        let in_bytes = |sectors: U64, max_bytes: u64| {
            let bytes = sectors.get().checked_mul(SECTOR_BYTES);
            bytes.filter(|&bytes| bytes <= max_bytes)
        };
        let size_bytes = in_bytes(header.sectors, MAX_DISK_BYTES)
            .ok_or(DiskError::Corrupt("the size of its disk is invalid"))?;
        let grain_bytes = in_bytes(header.grain_sectors, MAX_UNIT_BYTES)
            .filter(|&bytes| bytes > 0)
            .ok_or(DiskError::Corrupt("the size of its grains is invalid"))?;
        let grains_of_table = header.grains_of_table.get();
        if !(1..=MAX_GRAINS_OF_TABLE).contains(&grains_of_table) {
            return Err(DiskError::Corrupt(
                "the size of its grain tables is invalid",
            ));
        }
        Ok(Self {
            size_bytes,
            file_bytes,
            grain_bytes,
            grains_of_table: grains_of_table.into(),
            has_zero_grains: flags & HAS_ZERO_GRAINS != 0,
            is_compressed,
            directory: Vec::new(),
        })
    }

    /// Returns the length of a grain in memory.
    fn grain_len(&self) -> usize {
        usize::try_from(self.grain_bytes).unwrap_or(usize::MAX)
    }

    /// Returns the number of bytes of the disk that a grain table describes.
    fn bytes_of_table(&self) -> u64 {
        self.grain_bytes * self.grains_of_table
    }

    /// Returns where the byte at `offset_bytes` of the disk is. `grain` is the entry of the grain table for the grain
    /// that contains this byte.
    fn place(&self, grain: u32, offset_bytes: u64) -> Result<Place, &'static str> {
        let is_zero = grain == 0 || grain == ZERO_GRAIN && self.has_zero_grains;
        if is_zero {
            return Ok(Place::Zero);
        }
        let at_bytes = u64::from(grain) * SECTOR_BYTES;
        let in_grain = offset_bytes % self.grain_bytes;
        if !self.is_compressed {
            if at_bytes + in_grain >= self.file_bytes {
                return Err("a grain is not in the file");
            }
            return Ok(Place::Stored(at_bytes + in_grain));
        }
        let start_bytes = offset_bytes - in_grain;
        let len_bytes = self.grain_bytes.min(self.size_bytes - start_bytes);
        let end_bytes = at_bytes + size_of::<Marker>() as u64 + max_stored_bytes(self.grain_bytes);
        let end_bytes = end_bytes.min(self.file_bytes);
        if at_bytes >= end_bytes {
            return Err("a grain is not in the file");
        }
        Ok(Place::Packed(PackedUnit {
            start_bytes,
            len: usize::try_from(len_bytes).unwrap_or(usize::MAX),
            stored: at_bytes..end_bytes,
        }))
    }
}

impl Layout for Vmdk {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn unit_bytes(&self) -> u64 {
        self.grain_bytes
    }

    fn extent(
        &self,
        tables: &Tables<'_>,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<Option<Extent>> {
        let of_table = self.bytes_of_table();
        let index = offset_bytes / of_table;
        let end_bytes = (offset_bytes + len_bytes).min((index + 1) * of_table);
        let entry = usize::try_from(index)
            .ok()
            .and_then(|index| self.directory.get(index));
        let table_sector = entry.map_or(0, |entry| entry.get());
        if table_sector == 0 {
            return Ok(Some(Extent {
                len_bytes: end_bytes - offset_bytes,
                place: Place::Zero,
            }));
        }
        let table_len = usize::try_from(self.grains_of_table).unwrap_or(usize::MAX);
        let table_bytes = u64::from(table_sector) * SECTOR_BYTES;
        let Some(table) = tables.read(table_bytes, table_len * size_of::<U32>())? else {
            return Ok(None);
        };
        let place_at = |at_bytes: u64| {
            let number = usize::try_from((at_bytes % of_table) / self.grain_bytes).ok()?;
            let entry = table.get(number * size_of::<U32>()..)?;
            let (grain, _) = U32::read_from_prefix(entry).ok()?;
            let end_bytes = (at_bytes / self.grain_bytes + 1) * self.grain_bytes;
            let place = self.place(grain.get(), at_bytes);
            Some(place.map(|place| (place, end_bytes)))
        };
        Extent::joined(offset_bytes..end_bytes, place_at)
            .map_err(|what| corrupt(offset_bytes, len_bytes, what))
    }

    fn unpack_memory_bytes(&self, _: &PackedUnit) -> u64 {
        decompress::inflate_memory_bytes(self.grain_len())
    }

    /// Programs store the last grain as a whole, or only its part that is on the disk.
    fn unpack(&self, unit: &PackedUnit, stored: &[u8]) -> Result<Vec<u8>, &'static str> {
        let (marker, rest) = Marker::ref_from_prefix(stored).map_err(|_| "a grain is too short")?;
        if marker.sector.get() != unit.start_bytes / SECTOR_BYTES {
            return Err("the marker of a grain names another place");
        }
        let stream = rest.get(..marker.len.get() as usize);
        let mut content = decompress::zlib(stream.ok_or("a grain is too long")?, self.grain_len())?;
        if content.len() < unit.len {
            return Err("a grain has too little content");
        }
        content.truncate(unit.len);
        Ok(content)
    }
}

/// Returns the header at `offset_bytes` of `file`, or `None` if these bytes are not a header.
fn header_at(file: &dyn BlockDevice, offset_bytes: u64) -> Result<Option<Header>, DiskError> {
    let mut bytes = [0; size_of::<Header>()];
    if check_range(file.size_bytes(), offset_bytes, bytes.len() as u64).is_err() {
        return Ok(None);
    }
    file.read_at(&mut bytes, offset_bytes)?;
    let header = Header::read_from_bytes(&bytes).ok();
    Ok(header.filter(|header| header.magic == MAGIC))
}

/// Returns the error for `file`, which has no header.
fn described_elsewhere(file: &dyn BlockDevice) -> Result<DiskError, DiskError> {
    let len_bytes = file.size_bytes().min(MAX_DESCRIPTOR_BYTES);
    let text = read_text(file, 0, len_bytes)?;
    if !text.as_bytes().starts_with(DESCRIPTOR) {
        return Ok(DiskError::Corrupt("its header is missing"));
    }
    let files = Descriptor::parse(&text);
    Ok(files.other_file().unwrap_or(DiskError::OtherFile {
        role: EXTENT,
        name: Vec::new(),
    }))
}

/// Checks that the descriptor of the image with `header` names no other file.
fn check_descriptor(file: &dyn BlockDevice, header: &Header) -> Result<(), DiskError> {
    // The files of a disk that has several files have no descriptor, or an empty one.
    let undescribed = || {
        let what = "it has no descriptor, and may be only a part of a disk";
        DiskError::Unsupported(what.to_owned())
    };
    let sector = header.descriptor_sector.get();
    let len_bytes = header.descriptor_sectors.get().saturating_mul(SECTOR_BYTES);
    if sector == 0 {
        return Err(undescribed());
    }
    if len_bytes > MAX_DESCRIPTOR_BYTES {
        let what = format!("its descriptor has more than {MAX_DESCRIPTOR_BYTES} bytes");
        return Err(DiskError::Unsupported(what));
    }
    let text = read_text(file, sector.saturating_mul(SECTOR_BYTES), len_bytes)?;
    let descriptor = Descriptor::parse(&text);
    if descriptor.is_encrypted {
        return Err(DiskError::Encrypted("VMware"));
    }
    let is_complete = descriptor.parent.is_none()
        && matches!(descriptor.extents[..], [ref only] if only.kind == "SPARSE");
    if is_complete {
        return Ok(());
    }
    Err(descriptor.other_file().unwrap_or_else(undescribed))
}

/// Reads the text of `len_bytes` at `offset_bytes`. It ends at the first zero.
fn read_text(
    file: &dyn BlockDevice,
    offset_bytes: u64,
    len_bytes: u64,
) -> Result<String, DiskError> {
    check_range(file.size_bytes(), offset_bytes, len_bytes)?;
    let mut bytes = vec![0; usize::try_from(len_bytes).unwrap_or(usize::MAX)];
    file.read_at(&mut bytes, offset_bytes)?;
    let end = bytes.iter().position(|&byte| byte == 0);
    Ok(String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned())
}

/// The role of a file with a part of the disk.
const EXTENT: &str = "extent";

/// What a descriptor says about other files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Descriptor<'t> {
    /// The name of the parent, which may be empty. `None` if there is no parent.
    parent: Option<&'t str>,
    extents: Vec<ExtentLine<'t>>,
    is_encrypted: bool,
}

/// A part of the disk.
#[derive(Debug, PartialEq, Eq)]
struct ExtentLine<'t> {
    /// For example `SPARSE` or `FLAT`.
    kind: &'t str,
    file: &'t str,
}

impl<'t> Descriptor<'t> {
    fn parse(text: &'t str) -> Self {
        let mut descriptor = Self::default();
        let (mut has_parent, mut parent) = (false, "");
        for line in text.lines().map(str::trim) {
            let first = line.split_whitespace().next().unwrap_or_default();
            if matches!(first, "RW" | "RDONLY" | "NOACCESS") {
                // RW 2048 SPARSE "disk.vmdk"
                descriptor.extents.push(ExtentLine {
                    kind: line.split_whitespace().nth(2).unwrap_or_default(),
                    file: line.split('"').nth(1).unwrap_or_default(),
                });
            } else if let Some((key, value)) = line.split_once('=') {
                let value = value.trim().trim_matches('"');
                match key.trim() {
                    "parentCID" => has_parent = !value.eq_ignore_ascii_case(NO_PARENT),
                    "parentFileNameHint" => parent = value,
                    key if key.starts_with("encryption.") => descriptor.is_encrypted = true,
                    _ => {}
                }
            }
        }
        descriptor.parent = (has_parent || !parent.is_empty()).then_some(parent);
        descriptor
    }

    /// Returns the error that names the parent, or an extent.
    fn other_file(&self) -> Option<DiskError> {
        let (role, name) = match (self.parent, self.extents.first()) {
            (Some(parent), _) => ("parent", parent),
            (None, Some(first)) => (EXTENT, first.file),
            (None, None) => return None,
        };
        Some(DiskError::OtherFile {
            role,
            name: name.as_bytes().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec_zlib;

    #[test]
    fn compressed_grain_must_have_its_place_and_length() {
        // The last grain is only partly on the disk.
        let image = Vmdk {
            size_bytes: 4096 + 512,
            file_bytes: 1 << 20,
            grain_bytes: 4096,
            grains_of_table: 512,
            has_zero_grains: false,
            is_compressed: true,
            directory: Vec::new(),
        };
        let unpack = |start_bytes: u64, sector: u64, content_len: usize| {
            let stream = compress_to_vec_zlib(&vec![7; content_len], 6);
            let mut stored = sector.to_le_bytes().to_vec();
            stored.extend(u32::try_from(stream.len()).unwrap().to_le_bytes());
            stored.extend(stream);
            let len_bytes = image.grain_bytes.min(image.size_bytes - start_bytes);
            let unit = PackedUnit {
                start_bytes,
                len: usize::try_from(len_bytes).unwrap(),
                stored: 0..stored.len() as u64,
            };
            let content = image.unpack(&unit, &stored)?;
            assert!(content == vec![7; unit.len]);
            Ok::<_, &str>(())
        };
        unpack(0, 0, 4096).unwrap();
        for content_len in [512, 1000, 4096] {
            unpack(4096, 8, content_len).unwrap();
        }
        for (start_bytes, content_len, what) in [
            (0, 4095, "too little"),
            (0, 4097, "too much"),
            (4096, 511, "too little"),
            (4096, 4097, "too much"),
        ] {
            let error = unpack(start_bytes, start_bytes / 512, content_len).unwrap_err();
            assert!(
                error.contains(what),
                "{start_bytes}, {content_len}: {error}"
            );
        }
        assert!(unpack(4096, 0, 4096).unwrap_err().contains("another place"));
    }

    #[test]
    fn descriptor_names_parent_and_extents() {
        let text = "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID = 12345678\n\
                    parentFileNameHint=\"base disk.vmdk\"\n\n# Extent description\n\
                    RW 4192256 SPARSE \"disk-s001.vmdk\"\r\nRDONLY 2 FLAT \"flat.vmdk\" 0\n";
        let descriptor = Descriptor::parse(text);
        assert_eq!(descriptor.parent, Some("base disk.vmdk"));
        let extents = descriptor.extents.iter().map(|one| (one.kind, one.file));
        assert_eq!(
            extents.collect::<Vec<_>>(),
            [("SPARSE", "disk-s001.vmdk"), ("FLAT", "flat.vmdk")]
        );
        assert!(!descriptor.is_encrypted);
        let complete = "parentCID=FFFFFFFF\nRW 63 SPARSE \"disk.vmdk\"\nencryption.keySafe = \"x\"";
        let descriptor = Descriptor::parse(complete);
        assert_eq!(descriptor.parent, None);
        assert!(descriptor.is_encrypted);
    }
}
