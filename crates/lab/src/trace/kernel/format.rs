//! Parses the kernel's `format` files, which describe the fields of each kind of event.

/// The layout of one kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    /// The number at the start of each event of this kind.
    pub id: u16,
    fields: Vec<(String, Field)>,
}

/// The position of a field in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub offset: usize,
    pub size: usize,
}

impl Format {
    /// Parses a `format` file: `ID: 600`, and a line `field:unsigned long index; offset:24; size:8;
    /// signed:0;` for each field, with tabs in between.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?;
        Some(Self {
            id: id.trim().parse().ok()?,
            fields: text.lines().filter_map(field).collect(),
        })
    }

    /// Returns the field `name`.
    pub(super) fn field(&self, name: &str) -> Option<Field> {
        let mut fields = self.fields.iter();
        fields.find_map(|(field_name, field)| (field_name == name).then_some(*field))
    }
}

/// Parses the line of a field, in formats and in `header_page`.
pub(super) fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';');
    let declaration = parts.next()?;
    let mut number = |key: &str| parts.next()?.trim().strip_prefix(key)?.parse().ok();
    let field = Field {
        offset: number("offset:")?,
        size: number("size:")?,
    };
    // `char rwbs[10]`
    let name = declaration.split_whitespace().next_back()?;
    let name = name.split('[').next()?;
    Some((name.to_owned(), field))
}

impl Field {
    /// Returns the field's value in `event`: an unsigned number, or the first byte of an array.
    pub(super) fn read(self, event: &[u8]) -> Option<u64> {
        let size = if matches!(self.size, 1 | 2 | 4 | 8) {
            self.size
        } else {
            1
        };
        let end = self.offset.checked_add(size)?;
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(event.get(self.offset..end)?);
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name: some_event
ID: 600
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:dev_t s_dev;\toffset:4;\tsize:4;\tsigned:0;
\tfield:char rwbs[10];\toffset:8;\tsize:10;\tsigned:0;

print fmt: \"dev=%d\", REC->s_dev
";

    #[test]
    fn format_gives_number_and_fields() {
        let format = Format::parse(TEXT).unwrap();
        assert_eq!(format.id, 600);
        let device = format.field("s_dev").unwrap();
        let event = [88, 2, 0, 0, 1, 2, 0, 0, b'R', b'A'];
        assert_eq!(device.read(&event), Some(0x201));
        assert_eq!(device.read(&event[..7]), None);
        let flags = format.field("rwbs").unwrap();
        assert_eq!(flags.read(&event), Some(u64::from(b'R')));
        assert_eq!(format.field("missing"), None);
    }

    #[test]
    fn format_without_a_valid_id_is_rejected() {
        assert_eq!(Format::parse("name: x\nformat:\n"), None);
        assert_eq!(Format::parse("ID: 70000\n"), None);
    }
}
