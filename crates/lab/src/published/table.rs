//! Parsing of the built-in tables.

use serde::de::DeserializeOwned;

/// Parses the rows of a CSV file, which is part of the program.
pub(super) fn rows<T: DeserializeOwned>(text: &str) -> Vec<T> {
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .collect::<Result<_, _>>()
        .expect("the built-in tables are valid CSV")
}
