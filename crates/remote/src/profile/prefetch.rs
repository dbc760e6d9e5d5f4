//! Fetches the units of a profile, or takes them from a pack.
//!
//! All units are [claimed](crate::claims::Claims) before the device can be read. If a request or the pack fails, the
//! rest of the claims is dropped; the units are then fetched when they are read.

use super::error::{Error, Result};
use super::pack;
use super::plan::{REQUESTS, plan};
use super::source::Source;
use super::working_set::{Content, WorkingSet};
use crate::UNIT_BYTES;
use crate::claims::Claims;
use crate::units::Units;
use bytes::Bytes;
use larder_block::Priority;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::Semaphore;

/// Starts to fetch the units of `working_set` that are absent, but not more than memory or the disk cache can keep.
/// Must be called on a thread of the runtime.
pub(crate) fn start(units: &Arc<Units>, working_set: WorkingSet) {
    units.uses().follow(working_set.units());
    let numbers = wanted(units, working_set.units());
    match working_set.content {
        Content::Profile(_) => {
            let runs = plan(&numbers).into_iter();
            let runs = runs.map(|run| (run.clone(), claim(units, run)));
            tokio::spawn(fetch_all(Arc::clone(units), runs.collect()));
        }
        // An empty pack is not read further, so its request ends.
        Content::Pack(..) if numbers.is_empty() => {}
        Content::Pack(map, source) => {
            let claims = claim(units, numbers);
            tokio::spawn(unpack(Arc::clone(units), map, source, claims));
        }
    }
}

/// Returns those of `numbers` that are to be fetched, in the same order.
fn wanted(units: &Units, mut numbers: Vec<u64>) -> Vec<u64> {
    // The claims are dropped: the plan decides which units are claimed together.
    let absent: HashSet<u64> = units.claim(numbers.iter().copied()).numbers().collect();
    numbers.retain(|number| absent.contains(number));
    numbers.truncate(units.prefetch_room());
    numbers
}

fn claim(units: &Units, numbers: impl IntoIterator<Item = u64>) -> Claims {
    let claims = units.claim(numbers);
    units.uses().expect(claims.numbers());
    claims
}

/// Fetches runs of units, in order.
async fn fetch_all(units: Arc<Units>, runs: Vec<(Range<u64>, Claims)>) {
    let permits = Arc::new(Semaphore::new(REQUESTS));
    for (run, claims) in runs {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let units = Arc::clone(&units);
        tokio::spawn(async {
            fetch(units, run, claims).await;
            drop(permit);
        });
    }
}

/// Fetches a run of units with one request, and delivers those that are claimed.
async fn fetch(units: Arc<Units>, run: Range<u64>, mut claims: Claims) {
    let mut numbers = run.clone();
    let deliver = |unit: Bytes| {
        if let Some(number) = numbers.next() {
            arrived(&units, &mut claims, number, unit);
        }
    };
    let range_bytes = units.bytes_of(&run);
    let read = units
        .fetcher()
        .read(range_bytes, UNIT_BYTES, Priority::Background, deliver);
    // The fetcher has logged an error.
    drop(read.await);
    abandon(&units, claims);
}

/// Delivers the units in a pack.
async fn unpack(units: Arc<Units>, map: pack::Map, mut source: Source, mut claims: Claims) {
    let unpacked = deliver_pack(&units, &map, &mut source, &mut claims).await;
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
) -> Result<()> {
    for entry in map.entries() {
        if claims.is_empty() {
            break;
        }
        let unit = source.next(entry.len).await?;
        if !entry.matches(&unit) {
            return Err(Error::Damaged("the checksum of a unit is wrong"));
        }
        arrived(units, claims, entry.unit, unit);
    }
    Ok(())
}

fn arrived(units: &Units, claims: &mut Claims, number: u64, unit: Bytes) {
    let ahead = &units.fetcher().counters.ahead_bytes;
    ahead.fetch_add(unit.len() as u64, Relaxed);
    units.uses().arrived(number, unit.len());
    claims.deliver(number, unit);
}

/// Drops the claims of units that did not arrive. Readers that wait for them fetch them.
fn abandon(units: &Units, claims: Claims) {
    units.uses().abandon(claims.numbers());
    drop(claims);
}
