//! The priority of a fetch. It may rise while the fetch waits in the queue.

use futures_util::future::{Either, select};
use larder_block::Priority;
use std::pin::pin;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

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

    /// Waits for a permit of `permits`, which must not be closed, or until the priority is [`Priority::Demand`]. Returns
    /// `None` if the priority is [`Priority::Demand`]: the fetch needs no permit, and no longer waits for one.
    pub(crate) async fn permit_unless_raised<'s>(
        &self,
        permits: &'s Semaphore,
    ) -> Option<SemaphorePermit<'s>> {
        self.unless_raised(permits.acquire()).await?.ok()
    }

    /// Waits for `condition`, or until the priority is [`Priority::Demand`]. Returns `None` if it is.
    pub(crate) async fn unless_raised<T>(&self, condition: impl Future<Output = T>) -> Option<T> {
        match select(pin!(self.raised()), pin!(condition)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }

    async fn raised(&self) {
        let is_raised = |priority: &Priority| *priority == Priority::Demand;
        // The sender exists as long as this value, so the wait cannot fail.
        drop(self.0.subscribe().wait_for(is_raised).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn raised_fetch_takes_no_permit() {
        let permits = Semaphore::new(1);
        let held = permits.try_acquire().unwrap();
        let urgency = Urgency::new(Priority::Background);
        let mut waiting = Box::pin(urgency.permit_unless_raised(&permits));
        assert!(waiting.as_mut().now_or_never().is_none());
        urgency.raise();
        assert!(waiting.as_mut().now_or_never().unwrap().is_none());
        drop(held);
        // The completed future still exists.
        assert!(permits.try_acquire().is_ok());
    }

    #[test]
    fn background_fetch_waits_for_a_permit() {
        let permits = Semaphore::new(1);
        let urgency = Urgency::new(Priority::Background);
        let mut permit = urgency.permit_unless_raised(&permits).boxed_local();
        let first = permit.as_mut().now_or_never().unwrap();
        assert!(first.is_some());
        let second = urgency.permit_unless_raised(&permits).now_or_never();
        assert!(second.is_none());
    }
}
