//! Each side as a map from keys to values of four bytes.

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use foldhash::fast::FixedState;
use larder_cache::hash::HashKey;
use larder_cache::page::{PageKey, PageLayout};
use larder_cache::table::{Arena, Found, Growth, Hash64, Slot, Table};

/// The results of a batch of lookups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of keys that were found.
    pub hits: u64,
    /// The sum of their values.
    pub sum: u64,
}

impl Tally {
    /// Adds the result of a lookup.
    #[inline]
    pub fn add(&mut self, found: Option<u32>) {
        if let Some(value) = found {
            self.hits += 1;
            self.sum += u64::from(value);
        }
    }
}

/// A map as used by one thread.
pub trait Session {
    /// Returns the value of `key`.
    fn get(&mut self, key: HashKey) -> Option<u32>;

    /// Inserts `key`, which is not in the map.
    fn insert(&mut self, key: HashKey, value: u32);

    /// Removes `key`, if it is in the map.
    fn remove(&mut self, key: HashKey);

    /// Releases the guard of the previous batch, and acquires a new one. Does nothing in a map without
    /// guards.
    fn renew(&mut self) {}

    /// Looks up all of `keys`.
    #[inline]
    fn get_all(&mut self, keys: &[HashKey]) -> Tally {
        let mut tally = Tally::default();
        for key in keys {
            tally.add(self.get(*key));
        }
        tally
    }
}

/// Larder's table. The value of an entry is stored in the half word of its slot ([`Slot::aux`]).
pub type LarderTable = Table<PageLayout, Hash64, 2>;

/// Returns Larder's table with room for `objects` entries, and two to four buckets for each entry. It
/// takes no more memory than [`Hashbrown`], which has similar spare room.
///
/// # Errors
/// Fails if there is not enough address space.
pub fn larder_table(objects: u32) -> io::Result<LarderTable> {
    // Additional slots, because threads hold some slots between a removal and the following insertion.
    const SPARE: u32 = 1024;
    let arena = Arc::new(Arena::new(objects + SPARE, Growth::Prepaid)?);
    Table::new(arena, objects.next_power_of_two().ilog2() + 1, 0, Hash64)
}

#[inline]
fn frame(key: HashKey) -> PageKey {
    PageKey {
        ino: key.object,
        index: key.index,
    }
}

/// Larder's table: lookups that copy.
#[derive(Debug)]
pub struct Copying<'m>(pub &'m LarderTable);

impl Session for Copying<'_> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        self.0.copy(&frame(key), Slot::aux)
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        let vacant = self
            .0
            .allocate()
            .expect("the table has more slots than objects");
        self.0
            .get_or_insert(&frame(key), vacant, 0, |slot| slot.set_aux(value));
    }

    fn remove(&mut self, key: HashKey) {
        self.0.remove(&frame(key));
    }
}

/// Larder's table: lookups that pin.
#[derive(Debug)]
pub struct Pinning<'m>(pub &'m LarderTable);

impl Session for Pinning<'_> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        pinned(self.0.get(&frame(key)))
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        Copying(self.0).insert(key, value);
    }

    fn remove(&mut self, key: HashKey) {
        Copying(self.0).remove(key);
    }
}

/// Larder's table: lookups that copy, each prefetched in three steps.
#[derive(Debug)]
pub struct Prefetching<'m>(pub &'m LarderTable);

/// The number of lookups from one step to the next.
const STEP: usize = 12;

impl Session for Prefetching<'_> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        Copying(self.0).get(key)
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        Copying(self.0).insert(key, value);
    }

    fn remove(&mut self, key: HashKey) {
        Copying(self.0).remove(key);
    }

    #[inline]
    fn get_all(&mut self, keys: &[HashKey]) -> Tally {
        let mut tally = Tally::default();
        for (at, key) in keys.iter().enumerate() {
            let later = |steps: usize| keys.get(at + steps * STEP).map(|key| frame(*key));
            if let Some(key) = later(3) {
                self.0.prefetch_bucket(&key);
            }
            if let Some(key) = later(2) {
                self.0.prefetch_entry(&key);
            }
            if let Some(key) = later(1) {
                self.0.prefetch_next(&key);
            }
            tally.add(self.get(*key));
        }
        tally
    }
}

/// Larder's table: lookups that pin, without counters.
#[derive(Debug)]
pub struct Uncounted<'m>(pub &'m LarderTable);

impl Session for Uncounted<'_> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        pinned(self.0.get_again(&frame(key)))
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        Copying(self.0).insert(key, value);
    }

    fn remove(&mut self, key: HashKey) {
        Copying(self.0).remove(key);
    }
}

/// Returns the value of an entry that is pinned while it is read.
#[inline]
fn pinned(found: Option<Found<'_, 2>>) -> Option<u32> {
    match found? {
        Found::Pinned(pin, _) => Some(pin.slot().aux()),
        Found::Busy(..) | Found::Saturated => None,
    }
}

/// `dashmap`.
pub type Dashmap = dashmap::DashMap<HashKey, u32, FixedState>;

impl Session for &Dashmap {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        Dashmap::get(self, &key).map(|value| *value)
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        black_box(Dashmap::insert(self, key, value));
    }

    fn remove(&mut self, key: HashKey) {
        black_box(Dashmap::remove(self, &key));
    }
}

/// `papaya`.
pub type Papaya = papaya::HashMap<HashKey, u32, FixedState>;

impl<'m> Session for papaya::HashMapRef<'m, HashKey, u32, FixedState, papaya::LocalGuard<'m>> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        papaya::HashMapRef::get(self, &key).copied()
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        papaya::HashMapRef::insert(self, key, value);
    }

    fn remove(&mut self, key: HashKey) {
        papaya::HashMapRef::remove(self, &key);
    }

    fn renew(&mut self) {
        *self = self.map().pin();
    }
}

/// `scc::HashIndex`.
pub type SccIndex = scc::HashIndex<HashKey, u32, FixedState>;

/// `scc::HashIndex` with the guard of its readers.
#[derive(Debug)]
pub struct Guarded<'m>(pub &'m SccIndex, pub scc::Guard);

impl Session for Guarded<'_> {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        self.0.peek(&key, &self.1).copied()
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        // The key exists if another thread inserted it first.
        let _ = self.0.insert_sync(key, value);
    }

    fn remove(&mut self, key: HashKey) {
        self.0.remove_sync(&key);
    }

    fn renew(&mut self) {
        self.1 = scc::Guard::new();
    }
}

/// `scc::HashMap`.
pub type SccMap = scc::HashMap<HashKey, u32, FixedState>;

impl Session for &SccMap {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        self.read_sync(&key, |_, value| *value)
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        // The key exists if another thread inserted it first.
        let _ = self.insert_sync(key, value);
    }

    fn remove(&mut self, key: HashKey) {
        self.remove_sync(&key);
    }
}

/// `hashbrown`.
pub type Hashbrown = hashbrown::HashMap<HashKey, u32, FixedState>;

impl Session for &mut Hashbrown {
    #[inline]
    fn get(&mut self, key: HashKey) -> Option<u32> {
        Hashbrown::get(self, &key).copied()
    }

    fn insert(&mut self, key: HashKey, value: u32) {
        Hashbrown::insert(self, key, value);
    }

    fn remove(&mut self, key: HashKey) {
        Hashbrown::remove(self, &key);
    }
}
