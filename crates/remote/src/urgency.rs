//! The priority of a fetch. It may rise while the fetch waits in the queue.

use larder_block::Priority;
use tokio::sync::watch;

/// The priority of a fetch. All tasks that know the fetch share it.
#[derive(Debug)]
pub(crate) struct Urgency(watch::Sender<Priority>);

impl Urgency {
    pub(crate) fn new(priority: Priority) -> Self {
        Self(watch::Sender::new(priority))
    }

    pub(crate) fn priority(&self) -> Priority {
        *self.0.borrow()
    }

    /// Raises the priority to [`Priority::Demand`].
    pub(crate) fn raise(&self) {
        self.0.send_if_modified(|priority| {
            std::mem::replace(priority, Priority::Demand) != Priority::Demand
        });
    }

    /// Waits until the priority is [`Priority::Demand`].
    pub(crate) async fn raised(&self) {
        let is_raised = |priority: &Priority| *priority == Priority::Demand;
        // The sender exists as long as this value, so the wait cannot fail.
        drop(self.0.subscribe().wait_for(is_raised).await);
    }
}
