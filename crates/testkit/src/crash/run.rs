//! A workload on a volume, with a record of when each operation began and ended.

use crate::model::NodeInodes;
use crate::model::{Model, Outcome};
use crate::operation::{Operation, Performer};
use larder::{Fallocate, OpenOptions, Volume};
use larder_block::BlockDevice;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;

/// The size of the caches of a volume under test: small, so that it reads again what it wrote.
const CACHE_BYTES: u64 = 2 << 20;

/// The operations that were performed, and the states of the model around them.
#[derive(Clone, Debug)]
pub struct Run {
    /// The operations.
    pub operations: Vec<Operation>,
    /// The outcome of each operation.
    pub outcomes: Vec<Outcome>,
    /// The model before the first operation, and after each.
    pub states: Vec<Model>,
    /// For each operation, the number of changes of the device that had returned when it began, and when
    /// it ended.
    pub spans: Vec<Range<usize>>,
}

/// Opens a volume for writing with the settings of the tests: no threads for readahead, no commit by
/// age.
///
/// # Errors
/// Returns the errors of the volume.
pub fn open(device: Arc<dyn BlockDevice>) -> larder::Result<Volume> {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.cache_size_bytes = CACHE_BYTES;
    options.readahead_max_bytes = 0;
    options.commit_seconds = 3600;
    Volume::open_device(device, &options)
}

/// Performs `operations` on the file system on `device`, whose contents match `model`. `position` returns the
/// number of changes of the device that have returned. An operation that fails with an error that `excused`
/// accepts changes nothing in the model.
///
/// Ends early, without an error, if the volume cannot be opened, or cannot be closed before it is opened
/// again, for a reason that `excused` accepts.
///
/// # Errors
/// Returns the difference between a result and the model's, or the reason why the volume could not be
/// opened.
pub fn run(
    model: Model,
    device: &Arc<dyn BlockDevice>,
    operations: &[Operation],
    position: impl Fn() -> usize,
    excused: impl Fn(Errno) -> bool,
) -> Result<Run, String> {
    let opened = || match open(Arc::clone(device)) {
        Ok(volume) => Ok(Some(volume)),
        Err(error) if excused(error.errno()) => Ok(None),
        Err(error) => Err(format!("cannot open the volume: {error}")),
    };
    let closed = |volume: &Volume| match volume.close() {
        Ok(()) => Ok(true),
        Err(error) if excused(error.errno()) => Ok(false),
        Err(error) => Err(format!("cannot close the volume: {error}")),
    };
    let mut run = Run {
        operations: Vec::new(),
        outcomes: Vec::new(),
        states: vec![model.clone()],
        spans: Vec::new(),
    };
    let Some(mut volume) = opened()? else {
        return Ok(run);
    };
    let mut performer = Performer::new(model);
    performer.inodes = NodeInodes::found(&performer.model, &volume);
    for operation in operations {
        let begun = position();
        if *operation == Operation::Reopen {
            if !closed(&volume)? {
                // Everything that was not durable is lost: the state after this is unknown.
                return Ok(run);
            }
            drop(volume);
            volume = match opened()? {
                Some(volume) => volume,
                None => return Ok(run),
            };
        }
        let (mut moved, number) = (performer.model.clone(), performer.number());
        let outcome = performer.perform(&volume, operation, &excused)?;
        let mut record = |outcome, state| {
            run.operations.push(operation.clone());
            run.outcomes.push(outcome);
            run.states.push(state);
            run.spans.push(begun..position());
        };
        if matches!(outcome, Outcome::Fails(errno) if excused(errno)) && moves_content(operation) {
            // The operation ends with a commit, which may be durable although the operation failed.
            record(moved.apply(number, operation), moved);
        }
        record(outcome, performer.model.clone());
    }
    closed(&volume)?;
    Ok(run)
}

fn moves_content(operation: &Operation) -> bool {
    let Operation::Allocate { mode, .. } = operation else {
        return false;
    };
    matches!(mode, Fallocate::Collapse | Fallocate::Insert)
}
