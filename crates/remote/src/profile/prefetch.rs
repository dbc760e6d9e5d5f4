//! Fetches the units of a profile, or takes them from a pack.
//!
//! All units are [claimed](crate::claims::Claims) before the device can be read. If a request or the pack fails, the
//! rest of the claims is dropped; the units are then fetched when they are read.
//!
//! The units are stored in the disk cache, with one exception: if the cache has a record that a check of the content of
//! the image has begun, units of a pack are not stored, because the check does not apply to them.
//!
//! If memory cannot keep all units until they are read, they are fetched only as fast as the disk cache stores them. While
//! a pack waits for the disk cache or for its server, it is [paused](crate::profile::Uses::paused_after).

use super::error::{Error, Result};
use super::pack;
use super::plan::{REQUESTS, divided, plan};
use super::source::Source;
use super::working_set::{Content, WorkingSet};
use crate::UNIT_BYTES;
use crate::claims::Claims;
use crate::units::{PATIENCE, Units};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use larder_block::Priority;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Starts to fetch the units of `working_set` that are absent, but not more than memory or the disk cache can keep.
/// Must be called on a thread of the runtime.
pub(crate) fn start(units: &Arc<Units>, working_set: WorkingSet) {
    units.uses().follow(working_set.units());
    let is_stored = !(working_set.has_content() && units.is_checked());
    let numbers = wanted(units, working_set.units(), is_stored);
    let max_unstored = units.max_unstored(numbers.len());
    match working_set.content {
        Content::Profile(_) => {
            let mut runs = plan(&numbers);
            if let Some(max_unstored) = max_unstored {
                runs = divided(runs, max_unstored / REQUESTS);
            }
            let runs = runs.into_iter();
            let runs = runs.filter_map(|run| Some((run.clone(), claim(units, run)?)));
            tokio::spawn(fetch_all(Arc::clone(units), runs.collect(), max_unstored));
        }
        Content::Pack(map, source) => {
            // If no unit is absent, the source is dropped, which ends the request.
            if let Some(claims) = claim(units, numbers) {
                let claims = claims.of_pack();
                tokio::spawn(unpack(Arc::clone(units), map, source, claims, max_unstored));
            }
        }
    }
}

/// Returns those of `numbers` that are to be fetched, in the same order. `is_stored` is whether the disk cache stores
/// them, if there is one.
fn wanted(units: &Units, mut numbers: Vec<u64>, is_stored: bool) -> Vec<u64> {
    // These claims only show which units are absent. They are dropped, because the plan decides which units are claimed
    // together.
    let claims = units.claim(numbers.iter().copied(), Priority::Background);
    let absent: HashSet<u64> = claims.iter().flat_map(Claims::numbers).collect();
    numbers.retain(|number| absent.contains(number));
    numbers.truncate(units.prefetch_room(is_stored));
    numbers
}

fn claim(units: &Units, numbers: impl IntoIterator<Item = u64>) -> Option<Claims> {
    let claims = units.claim(numbers, Priority::Background)?;
    units.uses().expect(claims.numbers());
    Some(claims)
}

/// Fetches runs of units, in order, at most [`REQUESTS`] at once, and while at most `max_unstored` units wait to be
/// stored, if it is given. A run that a thread waits for is fetched without waiting for its turn.
async fn fetch_all(
    units: Arc<Units>,
    runs: Vec<(Range<u64>, Claims)>,
    max_unstored: Option<usize>,
) {
    let permits = Semaphore::new(REQUESTS);
    let fetches = stream::iter(runs).for_each_concurrent(None, async |(run, claims)| {
        let urgency = Arc::clone(claims.urgency());
        let _permit = urgency.permit_unless_raised(&permits).await;
        if let Some(max_unstored) = max_unstored {
            let stored = units.stored_except(max_unstored);
            urgency.unless_raised(stored).await;
        }
        // Each fetch is a task of its own, so that several threads copy the bytes.
        drop(tokio::spawn(fetch(Arc::clone(&units), run, claims)).await);
    });
    fetches.await;
}

/// Fetches a run of units with one request, and delivers those that are claimed.
async fn fetch(units: Arc<Units>, run: Range<u64>, mut claims: Claims) {
    let urgency = Arc::clone(claims.urgency());
    let mut numbers = run.clone();
    let deliver = |unit: Bytes| {
        if let Some(number) = numbers.next() {
            arrived(&units, &mut claims, number, unit);
        }
    };
    let range_bytes = units.bytes_of(&run);
    let read = units
        .fetcher()
        .read(range_bytes, UNIT_BYTES, &urgency, deliver);
    // The fetcher has logged an error.
    drop(read.await);
    abandon(&units, claims);
}

/// Delivers the units in a pack, while at most `max_unstored` units wait to be stored, if it is given.
async fn unpack(
    units: Arc<Units>,
    map: pack::Map,
    mut source: Source,
    mut claims: Claims,
    max_unstored: Option<usize>,
) {
    let unpacked = deliver_pack(&units, &map, &mut source, &mut claims, max_unstored).await;
    if let Err(error) = unpacked {
        tracing::warn!("cannot use the rest of the pack: {error}");
    }
    abandon(&units, claims);
}

async fn deliver_pack(
    units: &Units,
    map: &pack::Map,
    source: &mut Source,
    claims: &mut Claims,
    max_unstored: Option<usize>,
) -> Result<()> {
    for entry in map.entries() {
        if claims.is_empty() {
            break;
        }
        if let Some(max_unstored) = max_unstored {
            let stored = units.stored_except(max_unstored);
            units.uses().paused_after(Duration::ZERO, stored).await;
        }
        let next = source.next(entry.len);
        let unit = units.uses().paused_after(PATIENCE, next).await?;
        if !entry.matches(&unit) {
            return Err(Error::Damaged("the checksum of a unit is wrong"));
        }
        arrived(units, claims, entry.unit, unit);
    }
    Ok(())
}

fn arrived(units: &Units, claims: &mut Claims, number: u64, unit: Bytes) {
    units.uses().arrived(number, unit.len());
    claims.deliver(number, unit);
}

/// Drops the claims of units that did not arrive. Readers that wait for these units then fetch them.
fn abandon(units: &Units, claims: Claims) {
    units.uses().abandon(claims.numbers());
    drop(claims);
}

#[cfg(test)]
mod tests;
