//! The state of a listing, which filters entries and records damage.
//!
//! A listing skips entries that fast commits removed or replaced, and treats invalid names as
//! damage. It continues after damage, and returns the first error at the end.

use super::entry::{COOKIE_DAMAGE, COOKIE_OVERLAY, DirEntry, Target};
use crate::error::Place;
use crate::ondisk::dir::{Dirent, Dirents};
use crate::{Error, Filesystem, Ino};
use std::ops::ControlFlow;

/// A listing in progress, which filters entries and records damage.
pub(crate) struct Listing<'l> {
    fs: &'l Filesystem,
    dir: Ino,
    emit: &'l mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    damage: Option<Error>,
    had_damage: bool,
}

impl<'l> Listing<'l> {
    /// Starts a listing of the directory `dir`, which passes the entries to `emit`. `had_damage`
    /// must be true if an earlier call found damage.
    pub(super) fn new(
        fs: &'l Filesystem,
        dir: Ino,
        emit: &'l mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
        had_damage: bool,
    ) -> Self {
        Self {
            fs,
            dir,
            emit,
            damage: None,
            had_damage,
        }
    }

    /// Returns the first error of the listing.
    pub(super) fn into_damage(self) -> Option<Error> {
        self.damage
    }

    /// Records `error`, unless an earlier error was recorded.
    pub(crate) fn note_damage(&mut self, error: Error) {
        self.damage.get_or_insert(error);
        self.had_damage = true;
    }

    /// Emits an entry of the image, unless fast commits removed or replaced the entry. `next` is
    /// the position after the entry.
    pub(crate) fn offer(&mut self, name: &[u8], target: Target, next: u64) -> ControlFlow<()> {
        let overlay = self.fs.overlay();
        if overlay.is_some_and(|overlay| overlay.entry(self.dir, name).is_some()) {
            return ControlFlow::Continue(());
        }
        self.emit(name, target, next)
    }

    fn emit(&mut self, name: &[u8], target: Target, next: u64) -> ControlFlow<()> {
        let damage = if self.had_damage { COOKIE_DAMAGE } else { 0 };
        (self.emit)(DirEntry {
            name,
            ino: target.0,
            file_type: target.1,
            next_cookie: next | damage,
        })
    }

    /// Emits the entries in `bytes` that are at or after position `at`. `bytes` starts at position
    /// `start` of the directory and at `place` of the image.
    pub(crate) fn offer_part(
        &mut self,
        bytes: &[u8],
        start: u64,
        at: u64,
        place: Place,
    ) -> ControlFlow<()> {
        for dirent in Dirents::new(bytes) {
            let dirent = match dirent {
                Ok(dirent) => dirent,
                Err(what) => {
                    self.note_damage(place.corrupt(what));
                    break;
                }
            };
            if start + dirent.offset as u64 >= at {
                self.offer_dirent(&dirent, start + dirent.end as u64, place)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Emits `dirent`, which is at `place` of the image. `next` is the position after the entry.
    pub(crate) fn offer_dirent(
        &mut self,
        dirent: &Dirent<'_>,
        next: u64,
        place: Place,
    ) -> ControlFlow<()> {
        if !dirent.has_legal_name() {
            let what = "name contains a slash or a NUL byte";
            self.note_damage(place.corrupt(what));
            return ControlFlow::Continue(());
        }
        match self.fs.target(dirent, place) {
            Ok(target) => self.offer(dirent.name, target, next),
            Err(error) => {
                self.note_damage(error);
                ControlFlow::Continue(())
            }
        }
    }

    /// Emits the entries that fast commits added, starting with the entry number `first`.
    pub(super) fn offer_overlay(&mut self, first: u64) -> ControlFlow<()> {
        let (fs, dir) = (self.fs, self.dir);
        let entries = fs.overlay().into_iter().flat_map(|o| o.entries(dir));
        for (number, (name, entry)) in (0_u64..).zip(entries) {
            if number >= first {
                let target = (entry.ino, fs.file_type(entry.file_type));
                self.emit(name, target, COOKIE_OVERLAY | (number + 1))?;
            }
        }
        ControlFlow::Continue(())
    }
}
