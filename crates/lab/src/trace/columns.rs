//! The positions of a trace's columns in a file.

use super::Error;
use larder_trace::columns::ColumnKind;
use parquet::basic::Type;
use parquet::schema::types::SchemaDescriptor;

/// The columns in a file. Other tools may have reordered them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The position of each column, by its position in [`ColumnKind::ALL`].
    places: [Option<usize>; ColumnKind::ALL.len()],
    /// Whether the columns `cache` and `operation` contain numbers, as in version 1.
    pub(super) has_numbers: bool,
}

impl Columns {
    /// Returns the position of `column`, or `None` if the file does not have it.
    pub(super) fn place(&self, column: ColumnKind) -> Option<usize> {
        let at = ColumnKind::ALL.iter().position(|one| *one == column)?;
        self.places[at]
    }

    /// Returns whether the file has the columns of reads and paths.
    pub(super) fn has_files(&self) -> bool {
        self.place(ColumnKind::Path).is_some()
    }
}

/// Finds the columns in a file's schema.
///
/// # Errors
/// Returns [`Error::Column`] for the first column that is missing or has another type. The columns of reads and paths may
/// be missing together.
pub(super) fn find(schema: &SchemaDescriptor) -> Result<Columns, Error> {
    let place_of = |column: ColumnKind, physical| {
        schema.columns().iter().position(|found| {
            found.path().string() == column.name()
                && found.physical_type() == physical
                && found.max_rep_level() == 0
        })
    };
    let has_numbers = place_of(ColumnKind::Cache, Type::INT32).is_some();
    let is_number =
        |column| has_numbers && matches!(column, ColumnKind::Cache | ColumnKind::Operation);
    let has_name = |column: &ColumnKind| {
        let mut columns = schema.columns().iter();
        column.is_for_files() && columns.any(|found| found.path().string() == column.name())
    };
    let has_files = ColumnKind::ALL.iter().any(has_name);
    let mut places = [None; ColumnKind::ALL.len()];
    for (place, column) in places.iter_mut().zip(ColumnKind::ALL) {
        let physical = if is_number(column) {
            Type::INT32
        } else {
            column.physical()
        };
        *place = place_of(column, physical);
        if place.is_none() && (has_files || !column.is_for_files()) {
            let name = column.name();
            return Err(Error::Column { name, physical });
        }
    }
    Ok(Columns {
        places,
        has_numbers,
    })
}
