//! Packs that are paused. All waits are for events, without limits.

use super::*;
use crate::ImageUrl;
use crate::meter::Meter;
use crate::profile::Location;
use crate::store::StoreOptions;
use crate::units::tests::{Fixture, UNITS};
use larder_testkit::http::{Fault, HttpServer, Link, Object};
use std::fs::{self, File};
use std::future::pending;
use std::io::Cursor;
use tokio::task::JoinHandle;

/// Returns a pack of all units of `fixture`, in ascending order.
fn pack_of(fixture: &Fixture) -> Vec<u8> {
    let units: Vec<u64> = (0..UNITS).collect();
    let version = fixture.units.fetcher().version();
    let mut out = Cursor::new(Vec::new());
    let read = |number| Ok(fixture.unit(number).to_vec());
    pack::write(&mut out, version, &units, read).unwrap();
    out.into_inner()
}

/// Reads the head of the pack at `location`, and claims the units of `fixture` for it.
fn open(fixture: &Fixture, location: &Location) -> (pack::Map, Source, Claims) {
    let options = StoreOptions {
        endpoint: None,
        anonymous: false,
        creates: false,
    };
    let deadline = Duration::from_mins(1);
    let load = WorkingSet::load(location, &options, Meter::default(), deadline);
    let working_set = fixture.runtime.block_on(load).unwrap();
    let Content::Pack(map, source) = working_set.content else {
        panic!("not a pack");
    };
    let claims = claim(&fixture.units, 0..UNITS).unwrap();
    (map, source, claims.of_pack())
}

/// Starts to deliver the units of a pack.
fn start_unpacking(
    fixture: &Fixture,
    (map, source, claims): (pack::Map, Source, Claims),
    max_unstored: Option<usize>,
) -> JoinHandle<()> {
    let units = Arc::clone(&fixture.units);
    let unpacked = unpack(units, map, source, claims, max_unstored);
    fixture.runtime.spawn(unpacked)
}

fn await_pause(fixture: &Fixture) {
    let paused = fixture.units.uses().unless_paused(pending::<()>());
    assert!(fixture.runtime.block_on(paused).is_none());
}

/// Checks that the last unit is read from the image, although the pack does not deliver it.
#[track_caller]
fn assert_last_is_requested(fixture: &Fixture) {
    let requests = fixture.requests();
    assert!(fixture.read(UNITS - 1..UNITS) == fixture.unit(UNITS - 1));
    assert_eq!(fixture.requests(), requests + 1);
}

#[test]
fn pack_is_paused_while_the_disk_cache_is_locked() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache");
    let fixture = Fixture::cached_in(&cache);
    let path = folder.path().join("pack");
    fs::write(&path, pack_of(&fixture)).unwrap();
    let pack = open(&fixture, &Location::File(path));
    let lock = File::open(cache.join("lock")).unwrap();
    lock.lock().unwrap();
    let unpacked = start_unpacking(&fixture, pack, Some(0));
    await_pause(&fixture);
    assert_last_is_requested(&fixture);
    assert!(!fixture.units.is_on_disk(1));
    drop(lock);
    fixture.runtime.block_on(unpacked).unwrap();
    fixture.runtime.block_on(fixture.units.stored_except(0));
    assert!((0..UNITS).all(|number| fixture.units.is_on_disk(number)));
}

#[test]
fn pack_is_paused_while_its_server_stalls() {
    let fixture = Fixture::new();
    let object = Object::new(pack_of(&fixture), "pack");
    let server = HttpServer::of_object(object, Link::default());
    // Half of the pack arrives.
    server.inject([Fault::Stall]);
    let url = ImageUrl::parse(&server.url("start.pack")).unwrap();
    let pack = open(&fixture, &Location::Url(url));
    start_unpacking(&fixture, pack, None);
    await_pause(&fixture);
    assert_last_is_requested(&fixture);
}
