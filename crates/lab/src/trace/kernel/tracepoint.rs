//! The tracepoints that are recorded, and the fields of their events that are used.

use super::format::{Field, Format};

/// The meaning of the events of a tracepoint, with the fields that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tracepoint {
    /// A folio was added to the page cache: device, inode, index, order.
    AddFolio,
    /// A folio was removed, with the same fields.
    DeleteFolio,
    /// read(2) found the pages that it needs: device, inode, first, last.
    GetPages,
    /// A page fault also looked for surrounding pages to map: device, inode, first, last.
    MapPages,
    /// A page fault looks for its page: device, inode, index.
    Fault,
    /// read(2) found a page missing: device, inode, index.
    SyncReadahead,
    /// read(2) found a page that has the marker of readahead: device, inode, index.
    AsyncReadahead,
    /// A metadata block was found: device, block, bytes of a block.
    TouchBuffer,
    /// An inode was not found: device, inode.
    LoadInode,
    /// A new inode: device, inode.
    AllocateInode,
    /// An inode was evicted: device, inode.
    EvictInode,
    /// A request to a device: device, sectors, type of request.
    QueueBio,
}

/// Maximum number of fields that are read from an event.
pub(super) const FIELDS: usize = 4;

/// A tracepoint's name and fields, the device first.
type Description = (Tracepoint, &'static str, &'static [&'static str]);

const PAGE_FIELDS: &[&str] = &["s_dev", "i_ino", "index"];
const FOLIO_FIELDS: &[&str] = &["s_dev", "i_ino", "index", ORDER];
const RANGE_FIELDS: &[&str] = &["s_dev", "i_ino", "index", "last_index"];
const INODE_FIELDS: &[&str] = &["dev", "ino"];
/// The field with the order of a folio. Kernels without large folios lack this field; the order is then 0.
const ORDER: &str = "order";

const TRACEPOINTS: [Description; 12] = [
    (
        Tracepoint::AddFolio,
        "filemap/mm_filemap_add_to_page_cache",
        FOLIO_FIELDS,
    ),
    (
        Tracepoint::DeleteFolio,
        "filemap/mm_filemap_delete_from_page_cache",
        FOLIO_FIELDS,
    ),
    (
        Tracepoint::GetPages,
        "filemap/mm_filemap_get_pages",
        RANGE_FIELDS,
    ),
    (
        Tracepoint::MapPages,
        "filemap/mm_filemap_map_pages",
        RANGE_FIELDS,
    ),
    (Tracepoint::Fault, "filemap/mm_filemap_fault", PAGE_FIELDS),
    (
        Tracepoint::SyncReadahead,
        "readahead/page_cache_sync_ra",
        PAGE_FIELDS,
    ),
    (
        Tracepoint::AsyncReadahead,
        "readahead/page_cache_async_ra",
        PAGE_FIELDS,
    ),
    (
        Tracepoint::TouchBuffer,
        "block/block_touch_buffer",
        &["dev", "sector", "size"],
    ),
    (Tracepoint::LoadInode, "ext4/ext4_load_inode", INODE_FIELDS),
    (
        Tracepoint::AllocateInode,
        "ext4/ext4_allocate_inode",
        INODE_FIELDS,
    ),
    (
        Tracepoint::EvictInode,
        "ext4/ext4_evict_inode",
        INODE_FIELDS,
    ),
    (
        Tracepoint::QueueBio,
        "block/block_bio_queue",
        &["dev", "nr_sector", "rwbs"],
    ),
];

/// Tracepoints of the page cache in every kernel since 3.13. Recording requires them.
pub(super) const REQUIRED: [Tracepoint; 2] = [Tracepoint::AddFolio, Tracepoint::DeleteFolio];

/// A tracepoint of this kernel.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub tracepoint: Tracepoint,
    /// The directory of the tracepoint below `events`.
    pub name: &'static str,
    /// The number at the start of each of its events.
    pub id: u16,
    fields: [Option<Field>; FIELDS],
    /// The field with the thread that caused the event.
    thread: Option<Field>,
    /// The name of the field with the device.
    pub device_field: &'static str,
}

/// Returns the tracepoints that this kernel has, and the names of those that it lacks. `format` reads a file
/// below `events`, given its name.
pub(super) fn find(format: impl Fn(&str) -> Option<String>) -> (Vec<Known>, Vec<&'static str>) {
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for (tracepoint, name, field_names) in TRACEPOINTS {
        let text = format(&format!("{name}/format"));
        let parsed = text.and_then(|text| Format::parse(&text));
        match parsed.and_then(|format| describe(tracepoint, name, field_names, &format)) {
            Some(description) => known.push(description),
            None => missing.push(name),
        }
    }
    (known, missing)
}

fn describe(
    tracepoint: Tracepoint,
    name: &'static str,
    field_names: &'static [&'static str],
    format: &Format,
) -> Option<Known> {
    let mut fields = [None; FIELDS];
    for (field, name) in fields.iter_mut().zip(field_names) {
        *field = format.field(name);
        if field.is_none() && *name != ORDER {
            return None;
        }
    }
    Some(Known {
        tracepoint,
        name,
        id: format.id,
        fields,
        thread: format.field("common_pid"),
        device_field: field_names[0],
    })
}

impl Known {
    /// Returns the fields of `event`, with 0 for absent ones.
    pub(super) fn read(&self, event: &[u8]) -> Option<[u64; FIELDS]> {
        let mut values = [0; FIELDS];
        for (value, field) in values.iter_mut().zip(self.fields) {
            if let Some(field) = field {
                *value = field.read(event)?;
            }
        }
        Some(values)
    }

    /// Returns the thread that caused `event`, or 0 if it is unknown.
    pub(super) fn thread(&self, event: &[u8]) -> u32 {
        let thread = self.thread.and_then(|field| field.read(event));
        thread.map_or(0, |thread| u32::try_from(thread).unwrap_or(0))
    }

    /// Returns a filter in the kernel's syntax for events of `device`, which includes the blocks of the
    /// device. The kernel caches these blocks as pages of an inode in an internal file system. The number of
    /// that inode is the device number; the device number of that file system has the major number 0.
    pub(super) fn filter(&self, device: u32) -> String {
        let field = self.device_field;
        if field == "s_dev" {
            format!("s_dev=={device} || (s_dev<{} && i_ino=={device})", 1 << 20)
        } else {
            format!("{field}=={device}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(id: u16, fields: &[&str]) -> String {
        let fields = fields.iter().enumerate().map(|(at, name)| {
            format!(
                "\tfield:unsigned long {name};\toffset:{};\tsize:8;\tsigned:0;\n",
                at * 8
            )
        });
        format!("ID: {id}\nformat:\n{}", fields.collect::<String>())
    }

    #[test]
    fn tracepoint_of_an_older_kernel_has_no_order() {
        let of_kernel = |path: &str| match path {
            "filemap/mm_filemap_add_to_page_cache/format" => Some(format(7, PAGE_FIELDS)),
            "ext4/ext4_load_inode/format" => Some(format(8, &["dev"])),
            _ => None,
        };
        let (known, missing) = find(of_kernel);
        assert_eq!(known.len(), 1);
        assert_eq!(
            (known[0].tracepoint, known[0].id),
            (Tracepoint::AddFolio, 7)
        );
        let event: Vec<u8> = [1_u64, 2, 3]
            .iter()
            .flat_map(|field| field.to_le_bytes())
            .collect();
        assert_eq!(known[0].read(&event), Some([1, 2, 3, 0]));
        assert_eq!(known[0].read(&event[1..]), None);
        assert!(missing.contains(&"ext4/ext4_load_inode"));
    }
}
