//! A walk through a directory tree: determines the directories that a program will probably list next.
//!
//! # Model
//! On-demand readahead, with directories instead of pages. A program that walks a tree lists a directory, and
//! then its subdirectories in the order of the entries. After each subdirectory, the program lists all directories
//! below that subdirectory. The *place* of a directory is its path from the first directory of the walk, as
//! positions among subdirectories. For example, place `[2, 0]` is the first subdirectory of the third
//! subdirectory. The program lists the directories in the lexicographical order of their places.
//!
//! The *window* is the maximum number of directories after the last listed one that are read ahead. If a listed
//! directory was read ahead, the window becomes four times as large, up to [`MAX_WINDOW`]. Otherwise it is set to
//! [`FIRST_WINDOW`]. If a program lists a directory that is not part of a walk, a new walk begins. Its window is
//! 0, so that a program that lists a single directory causes no readahead of other directories. If a program
//! lists the same directory twice in succession, the second listing has no effect.
//!
//! A volume records the most recent [`MAX_WALKS`] walks.
//!
//! # Limits
//! A walk records at most [`MAX_KNOWN`] directories, at most [`MAX_DEPTH`] levels deep. If there would be more
//! directories, those before the last listed one are removed. In a damaged image, a directory can be its own
//! descendant, or have several parents. Such a directory has the place where it was first found.

use larder_ext4::Ino;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

/// The maximum number of walks.
const MAX_WALKS: usize = 8;
/// The window after the listing of a directory that was not read ahead.
const FIRST_WINDOW: usize = 16;
/// The maximum number of directories that were read ahead and not listed yet.
const MAX_WINDOW: usize = 1024;
/// The maximum number of directories that a walk records.
const MAX_KNOWN: usize = 1 << 16;
/// The maximum depth of a recorded directory below the first directory of the walk.
const MAX_DEPTH: usize = 64;

/// The place of a directory, as the [module](self) defines it. Empty for the first directory of the walk.
type Place = Vec<u32>;

/// The walks of a volume, the most recent one first.
#[derive(Debug, Default)]
pub(super) struct Walks(VecDeque<Walk>);

/// A walk. See the [module](self).
#[derive(Debug)]
pub(super) struct Walk {
    places: HashMap<Ino, Place>,
    /// The directories that were neither listed nor read ahead.
    pending: BTreeMap<Place, Ino>,
    /// The directories after `position` that were read ahead and not listed.
    ahead: BTreeMap<Place, Ino>,
    /// The place of the directory that was listed last.
    position: Place,
    window: usize,
}

impl Walks {
    /// Records that a program lists `dir`. Returns its walk, and whether `dir` was read ahead.
    pub fn listed(&mut self, dir: Ino) -> (&mut Walk, bool) {
        let known = self
            .0
            .iter()
            .position(|walk| walk.places.contains_key(&dir));
        let walk = known.and_then(|at| self.0.remove(at));
        self.0.push_front(walk.unwrap_or_else(|| Walk::new(dir)));
        self.0.truncate(MAX_WALKS);
        let walk = &mut self.0[0];
        let was_ahead = walk.listed(dir);
        (walk, was_ahead)
    }
}

impl Walk {
    fn new(dir: Ino) -> Self {
        Self {
            places: HashMap::from([(dir, Place::new())]),
            pending: BTreeMap::new(),
            ahead: BTreeMap::new(),
            position: Place::new(),
            window: 0,
        }
    }

    /// Records that a program lists `dir`, which must be in `places`. Returns whether `dir` was read ahead.
    fn listed(&mut self, dir: Ino) -> bool {
        match self.places.get(&dir) {
            Some(place) if *place == self.position => false,
            Some(place) if !place.is_empty() => {
                let was_ahead = self.ahead.remove(place).is_some();
                self.pending.remove(place);
                // A program that skips directories will not list them later.
                self.ahead = self.ahead.split_off(place);
                self.position.clone_from(place);
                self.window = if was_ahead {
                    (self.window * 4).clamp(FIRST_WINDOW, MAX_WINDOW)
                } else {
                    FIRST_WINDOW
                };
                was_ahead
            }
            _ => {
                *self = Self::new(dir);
                false
            }
        }
    }

    /// Records that `dir` contains the directories `subdirs`, in this order.
    pub fn found(&mut self, dir: Ino, subdirs: &[Ino]) {
        let Some(place) = self.places.get(&dir).cloned() else {
            return;
        };
        if place.len() >= MAX_DEPTH {
            return;
        }
        if self.places.len() + subdirs.len() > MAX_KNOWN {
            self.places.retain(|_, place| *place >= self.position);
            self.pending = self.pending.split_off(&self.position);
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

    /// Returns the directories that must be read ahead now. From now on, they count as read ahead.
    pub fn next(&mut self) -> Vec<Ino> {
        // Wait until half of the window was listed, so that several directories are read together.
        if self.ahead.len() * 2 > self.window {
            return Vec::new();
        }
        let after = (Excluded(self.position.clone()), Unbounded);
        let next: Vec<(Place, Ino)> = self
            .pending
            .range(after)
            .map(|(place, &dir)| (place.clone(), dir))
            .take(self.window - self.ahead.len())
            .collect();
        for (place, _) in &next {
            self.pending.remove(place);
        }
        let dirs = next.iter().map(|&(_, dir)| dir).collect();
        self.ahead.extend(next);
        dirs
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
        let mut walk = Walk::new(Ino(2));
        for _ in 0..2 {
            assert!(!walk.listed(Ino(2)));
            walk.found(Ino(2), &inos(10..100));
            assert_eq!(walk.next(), []);
        }
    }

    #[test]
    fn window_grows_while_the_walk_continues() {
        let mut walk = Walk::new(Ino(2));
        walk.found(Ino(2), &inos(10..1000));
        walk.listed(Ino(10));
        assert_eq!(walk.next(), inos(11..27));
        assert_eq!(walk.next(), [], "half of the window must be listed first");
        assert!(walk.listed(Ino(11)));
        assert!(!walk.listed(Ino(11)), "once more");
        assert_eq!(walk.next(), inos(27..76));
        assert!(walk.listed(Ino(12)));
        assert_eq!(walk.next(), inos(76..269));
    }

    #[test]
    fn skipped_directories_are_not_expected() {
        let mut walk = Walk::new(Ino(2));
        walk.found(Ino(2), &inos(10..1000));
        walk.listed(Ino(10));
        walk.next();
        assert!(!walk.listed(Ino(900)), "it was not read ahead");
        assert_eq!(walk.next(), inos(901..917));
        assert!(walk.listed(Ino(916)));
        assert_eq!(walk.next(), inos(917..981));
    }

    #[test]
    fn directories_below_precede_later_siblings() {
        let mut walk = Walk::new(Ino(2));
        walk.found(Ino(2), &inos([10, 20, 30]));
        walk.listed(Ino(10));
        walk.found(Ino(10), &inos([11, 12]));
        assert_eq!(walk.next(), inos([11, 12, 20, 30]));
        walk.found(Ino(20), &inos([21]));
        walk.found(Ino(11), &inos([13]));
        assert_eq!(walk.next(), inos([13, 21]));
    }

    #[test]
    fn several_walks_are_followed_at_once() {
        let mut walks = Walks::default();
        for root in 1..=2 {
            let (walk, _) = walks.listed(Ino(root));
            walk.found(Ino(root), &inos(root * 100..root * 100 + 50));
        }
        for _ in 0..2 {
            for root in 1..=2 {
                let (walk, was_ahead) = walks.listed(Ino(root * 100));
                assert!(!was_ahead);
                walk.next();
            }
        }
        assert!(walks.listed(Ino(101)).1);
        assert!(walks.listed(Ino(201)).1);
    }

    #[test]
    fn oldest_walk_is_dropped() {
        let mut walks = Walks::default();
        walks.listed(Ino(1)).0.found(Ino(1), &inos(100..150));
        for root in 2..20 {
            walks.listed(Ino(root));
        }
        let (walk, _) = walks.listed(Ino(100));
        assert_eq!(walk.next(), [], "it begins a walk of its own");
        assert_eq!(walks.0.len(), MAX_WALKS);
    }

    #[test]
    fn cycles_end() {
        let mut walk = Walk::new(Ino(2));
        walk.found(Ino(2), &inos([10, 2, 10]));
        walk.listed(Ino(10));
        walk.found(Ino(10), &inos([2, 10]));
        assert_eq!(walk.next(), []);
    }

    #[test]
    fn known_directories_are_limited() {
        let mut walk = Walk::new(Ino(1));
        for parent in 1..200 {
            let others = parent * 10_000..parent * 10_000 + 2000;
            walk.found(Ino(parent), &inos([parent + 1].into_iter().chain(others)));
        }
        assert!(walk.places.len() <= MAX_KNOWN);
        assert!(walk.places.values().all(|place| place.len() <= MAX_DEPTH));
    }

    #[test]
    fn long_walk_drops_directories_before_its_position() {
        let mut walk = Walk::new(Ino(1));
        walk.found(Ino(1), &inos(2..200));
        for parent in 2..200 {
            walk.listed(Ino(parent));
            walk.found(Ino(parent), &inos(parent * 10_000..parent * 10_000 + 2000));
            assert_eq!(walk.next().first(), Some(&Ino(parent * 10_000)));
        }
    }
}
