//! The user whose credentials requests have.

use crate::Result;
use crate::error::Failure;
use crate::fetch::Attempts;
use crate::meter::Meter;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::fmt::{self, Debug, Formatter};
use std::time::Duration;

/// Queries a service for the name of the user.
type Query = Box<dyn Fn() -> BoxFuture<'static, Result<String, Failure>> + Send>;

/// The user whose credentials requests have, among the users of a server.
pub(crate) enum User {
    /// The name is known. It is empty if requests have no credentials.
    Known(String),
    /// The service that provides the credentials of the instance or the container must be queried for the name.
    OfService(Query),
}

impl User {
    /// Returns the user whose name `query` returns.
    pub(crate) fn of_service<F>(query: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<String, Failure>> + Send + 'static,
    {
        Self::OfService(Box::new(move || query().boxed()))
    }

    /// Returns the name, which is empty only if requests have no credentials. It stays the same when the credentials
    /// are renewed. A query that fails temporarily is repeated until `deadline` has passed.
    ///
    /// # Errors
    /// If the service does not return the name.
    pub(crate) async fn name(self, deadline: Duration) -> Result<String> {
        let query = match self {
            Self::Known(name) => return Ok(name),
            Self::OfService(query) => query,
        };
        // The counts of the image do not include these requests.
        let meter = Meter::default();
        let mut attempts = Attempts::new(&meter, deadline);
        loop {
            match attempts.in_time(query()).await {
                Ok(name) => return Ok(name),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }
}

impl Debug for User {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("User")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Returns the name that a service returns after `count` queries that fail with `failure`, and the number of queries.
    fn name_after(failure: &Failure, count: usize, deadline: Duration) -> (Result<String>, usize) {
        let queries = Arc::new(AtomicUsize::new(0));
        let (counted, failure) = (Arc::clone(&queries), failure.clone());
        let user = User::of_service(move || {
            let is_failed = counted.fetch_add(1, Relaxed) < count;
            let failed = is_failed.then(|| failure.clone());
            async move { failed.map_or(Ok("role a".to_owned()), Err) }
        });
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let name = runtime.block_on(user.name(deadline));
        (name, queries.load(Relaxed))
    }

    #[test]
    fn query_is_repeated_only_while_its_failure_is_temporary() {
        let (temporary, deadline) = (Failure::Status(503), Duration::from_mins(1));
        let name = Ok("role a".to_owned());
        assert_eq!(name_after(&temporary, 2, deadline), (name, 3));
        let last = Failure::Final(Box::new(Error::Denied));
        assert_eq!(name_after(&last, 2, deadline), (Err(Error::Denied), 1));
        let none_left = Duration::ZERO;
        let late = Err(Error::Deadline(none_left, temporary.clone()));
        assert_eq!(name_after(&temporary, 2, none_left), (late, 1));
    }
}
