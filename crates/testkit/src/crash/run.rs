//! A workload on a volume, with a note of when each operation began and ended.

use super::Layout;
use crate::model::{Model, Outcome};
use crate::operation::{Operation, Performer};
use larder::{OpenOptions, Volume};
use larder_block::BlockDevice;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;

/// Caches of a volume under test: small, so that it has to read again what it wrote.
const CACHE_BYTES: u64 = 2 << 20;

/// Operations that were performed, and what the model was around them.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was done.
    pub operations: Vec<Operation>,
    /// How each ended.
    pub outcomes: Vec<Outcome>,
    /// The model before the first operation, and after each.
    pub states: Vec<Model>,
    /// Which changes of the device had returned when each began, and when it had ended.
    pub spans: Vec<Range<usize>>,
}

/// Opens a volume for writing as the tests do: no threads that read ahead, no commit by age.
///
/// # Errors
/// The volume's.
pub fn open(device: Arc<dyn BlockDevice>) -> larder::Result<Volume> {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options.cache_size_bytes = CACHE_BYTES;
    options.readahead_threads = 0;
    options.commit_seconds = 3600;
    Volume::open_device(device, &options)
}

/// Performs `operations` on the file system of `layout` on `device`. `position` tells how many
/// changes of the device have returned; errors that `excused` accepts change nothing.
///
/// # Errors
/// How a result differed from the model's, or why the volume could not be opened.
pub fn run(
    layout: &Layout,
    device: &Arc<dyn BlockDevice>,
    operations: &[Operation],
    position: impl Fn() -> usize,
    excused: impl Fn(Errno) -> bool,
) -> Result<Run, String> {
    let opened = || open(Arc::clone(device)).map_err(|error| format!("opening: {error}"));
    let mut performer = Performer::new(Model::new(layout.rules));
    let mut run = Run {
        operations: operations.to_vec(),
        outcomes: Vec::new(),
        states: vec![performer.model.clone()],
        spans: Vec::new(),
    };
    let mut volume = opened()?;
    for operation in operations {
        let begun = position();
        if *operation == Operation::Reopen {
            let closed = volume.close();
            closed.map_err(|error| format!("closing: {error}"))?;
            drop(volume);
            volume = opened()?;
        }
        let outcome = performer.perform(&volume, operation, &excused)?;
        run.outcomes.push(outcome);
        run.states.push(performer.model.clone());
        run.spans.push(begun..position());
    }
    if let Err(error) = volume.close() {
        if !excused(error.errno()) {
            return Err(format!("closing: {error}"));
        }
    }
    Ok(run)
}
