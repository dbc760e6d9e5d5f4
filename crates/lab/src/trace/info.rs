//! Reads the metadata of a trace.

use super::Error;
use larder_trace::TraceInfo;
use larder_trace::info::{INFO_KEY, SUMS_KEY, VERSION, VERSION_KEY, VERSION_WITH_NUMBERS};
use parquet::file::metadata::KeyValue;

/// Decodes metadata, with the checksums of row groups that it contains.
pub(super) fn of_metadata(
    metadata: Option<&Vec<KeyValue>>,
) -> Result<(TraceInfo, Vec<u32>), Error> {
    let value = |key: &str| {
        let pairs = metadata.into_iter().flatten();
        let mut values = pairs.filter(|pair| pair.key == key);
        values.find_map(|pair| pair.value.as_deref())
    };
    match value(VERSION_KEY) {
        Some(VERSION | VERSION_WITH_NUMBERS) => {}
        Some(version) => return Err(Error::Version(version.to_owned())),
        None => return Err(Error::NoVersion),
    }
    let info = value(INFO_KEY).map_or(Ok(TraceInfo::default()), |info| {
        serde_json::from_str(info).map_err(|error| Error::damaged(format!("{INFO_KEY}: {error}")))
    })?;
    let sums = value(SUMS_KEY).map_or(Ok(Vec::new()), |sums| {
        serde_json::from_str(sums).map_err(|error| Error::damaged(format!("{SUMS_KEY}: {error}")))
    })?;
    Ok((info, sums))
}
