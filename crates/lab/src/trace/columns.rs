//! The positions of a trace's columns in a file.

use super::Error;
use larder_trace::columns::COLUMNS;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};

/// The position of each column in a file. Other tools may have reordered the columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) time: usize,
    pub(super) cache: usize,
    pub(super) operation: usize,
    pub(super) device: usize,
    pub(super) inode: usize,
    pub(super) index: usize,
    pub(super) name_hash: usize,
    pub(super) hit: usize,
}

/// Finds the columns in a file's schema.
///
/// # Errors
/// Returns [`Error::Column`] for the first column that is missing or has another type.
pub(super) fn find(schema: &SchemaDescriptor) -> Result<Columns, Error> {
    let mut places = [0; COLUMNS.len()];
    for (place, (name, physical, ..)) in places.iter_mut().zip(COLUMNS) {
        let is_column = |column: &ColumnDescPtr| {
            column.path().string() == name
                && column.physical_type() == physical
                && column.max_rep_level() == 0
        };
        let found = schema.columns().iter().position(is_column);
        *place = found.ok_or(Error::Column { name, physical })?;
    }
    let [time, cache, operation, device, inode, index, name_hash, hit] = places;
    Ok(Columns {
        time,
        cache,
        operation,
        device,
        inode,
        index,
        name_hash,
        hit,
    })
}
