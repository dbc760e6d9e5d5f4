//! A walk through a directory tree, as far as it is known: which directories will probably be listed next.
//!
//! # Model
//! On-demand readahead, with directories instead of pages. A program that walks a tree lists a directory, and
//! then its subdirectories in the order of the entries, each with all directories below it. So the *place* of a
//! directory in the walk is the sequence of the positions of its ancestors and its own in their directories, and
//! places are ordered lexicographically.
//!
//! The directories after the last one that was listed are read ahead, as many as the *window* allows. If a listed
//! directory was read ahead, the window grows fourfold. If it was not, the window is [`FIRST_WINDOW`]. A
//! directory that is not part of the walk begins another walk, with no window: a program that lists one
//! directory causes no readahead.
//!
//! # Limits
//! A walk knows at most [`MAX_KNOWN`] directories, at most [`MAX_DEPTH`] levels deep. A damaged image can contain
//! a directory in itself or in several directories. A directory has the place where it was first found.

use larder_ext4::Ino;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};

/// The window after a directory that was not read ahead.
const FIRST_WINDOW: usize = 16;
/// The maximum number of directories that were read ahead and not listed yet.
const MAX_WINDOW: usize = 1024;
/// The maximum number of directories that a walk knows.
const MAX_KNOWN: usize = 1 << 16;
/// The maximum depth of a known directory below the first one.
const MAX_DEPTH: usize = 64;

/// The position of an entry in each directory on the way from the first directory of the walk.
type Place = Vec<u32>;

/// A walk. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Walk {
    places: HashMap<Ino, Place>,
    /// The directories that were not read ahead.
    pending: BTreeMap<Place, Ino>,
    /// The directories that were read ahead and not listed yet.
    ahead: HashSet<Ino>,
    /// The place of the directory that was listed last.
    position: Place,
    window: usize,
}

impl Walk {
    /// Records that a program lists `dir`. Returns whether `dir` was read ahead.
    pub fn listed(&mut self, dir: Ino) -> bool {
        let was_ahead = self.ahead.remove(&dir);
        match self.places.get(&dir) {
            Some(place) if !place.is_empty() => {
                self.position.clone_from(place);
                self.pending.remove(place);
                self.window = if was_ahead {
                    (self.window * 4).clamp(FIRST_WINDOW, MAX_WINDOW)
                } else {
                    FIRST_WINDOW
                };
            }
            _ => {
                *self = Self::default();
                self.places.insert(dir, Place::new());
            }
        }
        was_ahead
    }

    /// Records that `dir` contains the directories `subdirs`, in this order.
    pub fn found(&mut self, dir: Ino, subdirs: &[Ino]) {
        let Some(place) = self.places.get(&dir).cloned() else {
            return;
        };
        if place.len() >= MAX_DEPTH {
            return;
        }
        for (position, &subdir) in (0..).zip(subdirs) {
            if self.places.len() >= MAX_KNOWN {
                return;
            }
            if let Entry::Vacant(entry) = self.places.entry(subdir) {
                let mut own = place.clone();
                own.push(position);
                entry.insert(own.clone());
                self.pending.insert(own, subdir);
            }
        }
    }

    /// Returns the directories that must be read ahead now. They count as read ahead.
    pub fn next(&mut self) -> Vec<Ino> {
        // The next ones are read when half of the window was listed, so that several are read together.
        if self.ahead.len() * 2 > self.window {
            return Vec::new();
        }
        let after = (Excluded(self.position.clone()), Unbounded);
        let places: Vec<Place> = self
            .pending
            .range(after)
            .map(|(place, _)| place.clone())
            .take(self.window - self.ahead.len())
            .collect();
        let taken = places.iter().filter_map(|place| self.pending.remove(place));
        let taken: Vec<Ino> = taken.collect();
        self.ahead.extend(&taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inos(numbers: impl IntoIterator<Item = u32>) -> Vec<Ino> {
        numbers.into_iter().map(Ino).collect()
    }

    #[test]
    fn one_listing_reads_nothing_ahead() {
        let mut walk = Walk::default();
        for _ in 0..2 {
            assert!(!walk.listed(Ino(2)));
            walk.found(Ino(2), &inos(10..100));
            assert_eq!(walk.next(), []);
        }
    }

    #[test]
    fn window_grows_while_the_walk_continues() {
        let mut walk = Walk::default();
        walk.listed(Ino(2));
        walk.found(Ino(2), &inos(10..1000));
        walk.listed(Ino(10));
        assert_eq!(walk.next(), inos(11..27));
        assert_eq!(walk.next(), [], "half of the window must be listed first");
        assert!(walk.listed(Ino(11)));
        assert_eq!(walk.next(), inos(27..76));
        assert!(!walk.listed(Ino(900)), "it was not read ahead");
        assert_eq!(walk.next(), []);
    }

    #[test]
    fn directories_below_precede_later_siblings() {
        let mut walk = Walk::default();
        walk.listed(Ino(2));
        walk.found(Ino(2), &inos([10, 20, 30]));
        walk.listed(Ino(10));
        walk.found(Ino(10), &inos([11, 12]));
        assert_eq!(walk.next(), inos([11, 12, 20, 30]));
        walk.found(Ino(20), &inos([21]));
        walk.found(Ino(11), &inos([13]));
        assert_eq!(walk.next(), inos([13, 21]));
    }

    #[test]
    fn directory_outside_begins_another_walk() {
        let mut walk = Walk::default();
        walk.listed(Ino(2));
        walk.found(Ino(2), &inos([10, 20]));
        walk.listed(Ino(500));
        walk.found(Ino(500), &inos([501]));
        walk.listed(Ino(10));
        assert_eq!(walk.next(), [], "the first walk is forgotten");
    }

    #[test]
    fn cycles_end() {
        let mut walk = Walk::default();
        walk.listed(Ino(2));
        walk.found(Ino(2), &inos([10, 2, 10]));
        walk.listed(Ino(10));
        walk.found(Ino(10), &inos([2, 10]));
        assert_eq!(walk.next(), []);
    }

    #[test]
    fn known_directories_are_limited() {
        let mut walk = Walk::default();
        walk.listed(Ino(1));
        for parent in 1..200 {
            let others = parent * 10_000..parent * 10_000 + 2000;
            walk.found(Ino(parent), &inos([parent + 1].into_iter().chain(others)));
        }
        assert!(walk.places.len() <= MAX_KNOWN);
        assert!(walk.places.values().all(|place| place.len() <= MAX_DEPTH));
    }
}
