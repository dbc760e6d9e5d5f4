//! Examines the states that power cuts can leave: Larder recovers each state that a [`Plan`] selects, and the
//! result is compared with the [`History`] of the workload. e2fsck checks some of the results.
//!
//! In this module, a *state* is a content of the device after a power cut. The states of a [`History`] are
//! something else: each is the tree after a number of operations.

use super::{History, ImageFile, Start, open, run};
use crate::Medium;
use crate::operation::{Listing, Operation, kind_of_failure, shrink};
use crate::seed::{Seed, mix};
use larder_block::{BlockDevice, CountingDevice};
use larder_ext4::ondisk::superblock::Superblock;
use larder_instruments::{
    ChangeRecord, OVERLAY_PAGE_BYTES, OverlayDevice, PowerCuts, RecordingDevice,
};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The positions at which the power is cut.
#[derive(Clone, Copy, Debug)]
pub enum Cuts {
    /// Before the first change of the device, and after each multiple of this number of changes.
    Every(usize),
    /// This many times, evenly spaced: the last cut is after the last change.
    Spread(usize),
}

impl Cuts {
    /// Returns the positions of the cuts, for a workload that makes `changes` changes. A position is the
    /// number of changes before the cut.
    fn positions(self, changes: usize) -> Vec<usize> {
        match self {
            Self::Every(step) => (0..=changes).step_by(step).collect(),
            Self::Spread(count) => (1..=count).map(|number| changes * number / count).collect(),
        }
    }
}

/// The states that are examined, and how.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The positions at which the power is cut.
    pub cuts: Cuts,
    /// For each cut, the number of states in which changes that no flush made durable may be missing
    /// ([`PowerCuts::reordered`]). The state with all changes before the cut is examined too.
    pub reorderings: u64,
    /// For one state in this many, e2fsck checks the result of Larder's recovery; 0 means never.
    pub check_every: u64,
    /// For one state in this many, e2fsck also replays the journal, on a copy that Larder did not recover; 0
    /// means never.
    pub replay_every: u64,
    /// For one state in this many, the power is cut again during Larder's recovery, or during the close that
    /// follows; 0 means never.
    pub again_every: u64,
}

/// Counts of what was examined.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Changes of the device during the workload.
    pub changes: usize,
    /// States that Larder recovered, and that were compared.
    pub states: usize,
    /// States that e2fsck checked after Larder's recovery, without those in `again`.
    pub checks: usize,
    /// States whose journal e2fsck replayed.
    pub replays: usize,
    /// States whose recovery was interrupted by a second power cut, and repeated.
    pub again: usize,
    /// Requests to the device during the workload.
    pub requests: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.states += other.states;
        self.checks += other.checks;
        self.replays += other.replays;
        self.again += other.again;
        self.requests += other.requests;
    }
}

/// Returns the range of `store` with the superblock of `disk`, in bytes, if torn writes of the superblock must be excluded,
/// and otherwise an empty range. The fields that change and the checksum are in different sectors. If only one of these is
/// written, the checksum is wrong, and recovery needs a backup of the superblock. A file system with a single group has no
/// backup.
fn untorn(disk: &OverlayDevice, store: &OverlayDevice) -> Range<u64> {
    let is_alone =
        Superblock::read(disk).is_ok_and(|sb| sb.has_metadata_checksums() && sb.groups_count == 1);
    let page_at = |device: &OverlayDevice, at_bytes: u64| {
        let mut page = [0; OVERLAY_PAGE_BYTES];
        device.read_at(&mut page, at_bytes).is_ok().then_some(page)
    };
    let first = page_at(disk, 0);
    let mut pages = (0..store.size_bytes()).step_by(OVERLAY_PAGE_BYTES);
    match pages.find(|&at_bytes| is_alone && page_at(store, at_bytes) == first) {
        Some(at_bytes) => at_bytes + 1024..at_bytes + 2048,
        None => 0..0,
    }
}

/// A state that failed the examination.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The number of changes of the device that had returned when the power was cut.
    pub position: usize,
    /// The seed with which [`PowerCuts::reordered`] selected the changes that survived. Changes that a flush
    /// made durable always survive. Of the later changes, up to and including the first that had not
    /// returned, any can survive, in whole or in part. `None` if exactly the changes that had returned
    /// survived.
    pub reordering: Option<u64>,
    /// The difference from the allowed states of the [`History`], an error, or the message of a panic.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            1 => write!(f, "power cut after 1 change")?,
            changes => write!(f, "power cut after {changes} changes")?,
        }
        match self.reordering {
            None => write!(f, ", all written")?,
            Some(seed) => write!(f, ", reordered by {seed:#x}")?,
        }
        write!(f, ": {}", self.what)
    }
}

/// A workload on a recorded device.
#[derive(Debug)]
pub struct Recording {
    /// The run, prepared for comparisons.
    pub history: History,
    /// The changes of the store, in the order in which they returned.
    pub changes: Vec<ChangeRecord>,
    /// The disk before the workload.
    pub disk: OverlayDevice,
    /// The store of the disk before the workload.
    pub store: OverlayDevice,
    /// The bytes of the store that are written as a whole.
    untorn: Range<u64>,
    /// Where the image was stored.
    pub medium: Medium,
    /// The number of requests to the device.
    pub requests: u64,
}

/// Performs `operations` on the contents of `start`, and records the changes of the device.
///
/// # Errors
/// Returns the difference between the volume and the model, the message of a panic, or an error of the
/// medium.
pub fn record(start: &Start, operations: &[Operation]) -> Result<Recording, String> {
    let disk = start.device.clone();
    let store = (start.medium.store_of(&disk)).map_err(|error| error.to_string())?;
    let restored = start.medium.restore(&disk, &store, RecordingDevice::new);
    let (stored, recorder) = restored.map_err(|error| error.to_string())?;
    let device = stored.device();
    let performed = caught(|| {
        let full = |errno| errno == rustix::io::Errno::NOSPC;
        run(
            start.model.clone(),
            &device,
            operations,
            || recorder.change_count(),
            full,
        )
    })?;
    Ok(Recording {
        history: History::new(performed),
        changes: recorder.take_changes(),
        untorn: untorn(&disk, &store),
        disk,
        store,
        medium: start.medium,
        requests: stored.request_count(),
    })
}

/// Calls `work`, and turns a panic into an error.
///
/// # Errors
/// Returns the message of the panic, or the error of `work`.
pub fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("no message")))
    })
}

/// Examines the states of `recording` that `plan` selects, with one thread for each processor. `seed`
/// determines the reorderings.
///
/// # Errors
/// Returns a state that failed. If several threads find one at the same time, returns the one with the
/// earliest power cut.
///
/// # Panics
/// Panics if a thread panicked outside of the code under test.
pub fn survey(recording: &Recording, plan: &Plan, seed: Seed) -> Result<Tally, Failure> {
    let positions = plan.cuts.positions(recording.changes.len());
    let next = AtomicUsize::new(0);
    let found: Mutex<(Tally, Vec<Failure>)> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (tally, failure) = Surveyor::survey(recording, plan, seed, &positions, &next);
                let mut found = found
                    .lock()
                    .expect("no thread panics while it holds the lock");
                found.0.add(&tally);
                found.1.extend(failure);
            });
        }
    });
    let (mut tally, failures) = found
        .into_inner()
        .expect("no thread panics while it holds the lock");
    tally.changes = recording.changes.len();
    tally.requests = recording.requests;
    match failures.into_iter().min_by_key(|failure| failure.position) {
        Some(failure) => Err(failure),
        None => Ok(tally),
    }
}

/// The part of a survey that one thread performs.
struct Surveyor<'a> {
    recording: &'a Recording,
    plan: &'a Plan,
    image: ImageFile,
    tally: Tally,
}

impl Surveyor<'_> {
    /// Examines the states at positions that no other thread has taken, one position after the other, until a
    /// state fails. `next` is the index of the next position in `positions`.
    fn survey(
        recording: &Recording,
        plan: &Plan,
        seed: Seed,
        positions: &[usize],
        next: &AtomicUsize,
    ) -> (Tally, Option<Failure>) {
        let failed = |position, reordering, what| Failure {
            position,
            reordering,
            what,
        };
        let image = match ImageFile::new(&recording.disk) {
            Ok(image) => image,
            Err(error) => return (Tally::default(), Some(failed(0, None, error.to_string()))),
        };
        let mut surveyor = Surveyor {
            recording,
            plan,
            image,
            tally: Tally::default(),
        };
        let mut cuts = PowerCuts::new(&recording.store, &recording.changes)
            .without_tearing(recording.untorn.clone());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&position) = positions.get(at) else {
                break;
            };
            let seeds = (0..plan.reorderings).map(|number| {
                let number = seed.0 ^ mix((position as u64) << 16 | number);
                Some(number)
            });
            // State numbers do not depend on the thread, so that a repeated run checks the same states.
            let numbers = (at as u64 * (plan.reorderings + 1) + 1)..;
            for (number, reordering) in numbers.zip(std::iter::once(None).chain(seeds)) {
                let state = cuts
                    .advance_to(position)
                    .and_then(|()| match reordering {
                        None => Ok(cuts.all_written()),
                        Some(seed) => cuts.reordered(seed),
                    })
                    .map_err(|error| error.to_string());
                let checked =
                    state.and_then(|state| caught(|| surveyor.state(&state, position, number)));
                if let Err(what) = checked {
                    // Stop the other threads.
                    next.store(positions.len(), Ordering::Relaxed);
                    let failure = failed(position, reordering, what);
                    return (surveyor.tally, Some(failure));
                }
            }
        }
        (surveyor.tally, None)
    }

    /// Examines `state`, the content of the store after a power cut at `position`. `number` is the number of
    /// the state in the survey, from 1 on. It determines which checks of the plan are due.
    fn state(&mut self, state: &OverlayDevice, position: usize, number: u64) -> Result<(), String> {
        let is_due = |every: u64| every != 0 && number.is_multiple_of(every);
        self.tally.states += 1;
        let Recording {
            history,
            medium,
            disk,
            ..
        } = self.recording;
        let restored = medium.restore(disk, state, RecordingDevice::new);
        let (stored, recorder) = restored.map_err(|error| error.to_string())?;
        let volume =
            open(stored.device()).map_err(|error| format!("cannot open the volume: {error}"))?;
        let found = history.check(&volume, position)?;
        let closed = volume.close();
        closed.map_err(|error| format!("cannot close the volume: {error}"))?;
        drop(volume);
        if is_due(self.plan.check_every) {
            self.tally.checks += 1;
            let recovered = stored.content().map_err(|error| error.to_string())?;
            let shown = self.image.show(&recovered);
            let checked = shown.and_then(|()| self.image.check());
            checked.map_err(|error| format!("state {found}, after Larder's recovery: {error}"))?;
        }
        if is_due(self.plan.again_every) {
            self.cut_again(state, &recorder.take_changes(), position, number)?;
        }
        // If the superblock is torn, e2fsck repairs it, too. `ImageFile::replay` would return this repair as
        // an error.
        if is_due(self.plan.replay_every) {
            let content = medium.content(disk, state);
            let content = content.map_err(|error| error.to_string())?;
            if Superblock::read(&content).is_ok() {
                self.replay(&content, position)?;
            }
        }
        Ok(())
    }

    /// Cuts the power a second time, during the first recovery of `state` or the close that followed, which
    /// made `changes`. Then recovers the result, compares it, and checks it with e2fsck. `number` determines
    /// the position of the cut, and the changes that survive.
    fn cut_again(
        &mut self,
        state: &OverlayDevice,
        changes: &[ChangeRecord],
        position: usize,
        number: u64,
    ) -> Result<(), String> {
        self.tally.again += 1;
        let chosen = mix(number);
        let count = changes.len() as u64 + 1;
        let Recording {
            history,
            medium,
            disk,
            untorn,
            ..
        } = self.recording;
        let mut cuts = PowerCuts::new(state, changes).without_tearing(untorn.clone());
        let again = cuts
            .advance_to(usize::try_from(chosen % count).unwrap_or(0))
            .and_then(|()| cuts.reordered(chosen))
            .map_err(|error| error.to_string())?;
        let failed = |what: String| format!("after a second recovery: {what}");
        let on_memory = match medium {
            Medium::Overlay => Medium::Overlay,
            _ => Medium::Memory,
        };
        let restored = on_memory.restore(disk, &again, CountingDevice::new);
        let (stored, _) = restored.map_err(|error| failed(error.to_string()))?;
        let volume = open(stored.device()).map_err(|error| failed(error.to_string()))?;
        history.check(&volume, position).map_err(failed)?;
        volume.close().map_err(|error| failed(error.to_string()))?;
        drop(volume);
        let recovered = stored.content().map_err(|error| error.to_string())?;
        let shown = self.image.show(&recovered);
        let checked = shown.and_then(|()| self.image.check());
        checked.map_err(|error| failed(error.to_string()))
    }

    /// Replays the journal of `state` with e2fsck, and compares the result.
    fn replay(&mut self, state: &OverlayDevice, position: usize) -> Result<(), String> {
        self.tally.replays += 1;
        let failed = |what: String| format!("after a replay by e2fsck: {what}");
        let shown = self.image.show(state);
        let replayed = shown.and_then(|()| self.image.replay());
        replayed.map_err(|error| failed(error.to_string()))?;
        let mut options = larder::OpenOptions::default();
        options.cache_size_bytes = 2 << 20;
        options.readahead_max_bytes = 0;
        let volume = larder::Volume::open(self.image.path(), &options)
            .map_err(|error| failed(error.to_string()))?;
        self.recording
            .history
            .check(&volume, position)
            .map_err(failed)?;
        Ok(())
    }
}

/// Records a workload and examines its states.
///
/// # Errors
/// Returns a text: the failure, and the smallest sequence of operations that was found to fail in the same
/// way.
pub fn report(
    start: &Start,
    operations: &[Operation],
    plan: &Plan,
    seed: Seed,
) -> Result<Tally, String> {
    let examine = |operations: &[Operation], plan: &Plan| -> Result<Tally, String> {
        let recording = record(start, operations)?;
        survey(&recording, plan, seed).map_err(|failure| failure.to_string())
    };
    let what = match examine(operations, plan) {
        Ok(tally) => return Ok(tally),
        Err(what) => what,
    };
    // Shrinking takes long, so print this in case the run is aborted.
    eprintln!(
        "{}, {}, seed {seed}: {what}; shrinking the sequence",
        start.name, start.medium
    );
    // Cut at more positions, because a shorter sequence fails at another position.
    let thorough = Plan {
        cuts: match plan.cuts {
            Cuts::Every(step) => Cuts::Every(step.min(4)),
            Cuts::Spread(_) => Cuts::Every(1),
        },
        ..*plan
    };
    let words = |what: &str| kind_of_failure(what.split_once(": ").map_or(what, |(_, what)| what));
    let smallest = shrink(operations, 100, |rest| {
        examine(rest, &thorough).is_err_and(|other| words(&other) == words(&what))
    });
    let last = examine(&smallest, &thorough).err().unwrap_or_default();
    Err(format!(
        "{}, {}, seed {seed}: {what}\nsmallest failing sequence:\n{}{last}",
        start.name,
        start.medium,
        Listing(&smallest)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_reach_the_last_change() {
        assert_eq!(Cuts::Every(4).positions(8), [0, 4, 8]);
        assert_eq!(Cuts::Spread(3).positions(10), [3, 6, 10]);
    }
}
