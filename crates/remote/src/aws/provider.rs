//! Provides the credentials with which requests are signed, and renews them before they expire.

use super::machine::{Container, Instance};
use super::process;
use super::roles::Role;
use super::sso::Login;
use super::temporary::Temporary;
use crate::error::Failure;
use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::Mutex;

/// After a failure, the source is not queried again for this time. Many requests can need credentials at once.
const FAILURE_MEMORY: Duration = Duration::from_secs(5);

/// Where credentials are from.
pub(super) enum Source {
    /// Keys that do not expire, as far as is known.
    Keys(Temporary),
    /// The command of `credential_process`.
    Process(String),
    SingleSignOn(Login),
    Role(Role),
    Container(Arc<Container>),
    Instance(Arc<Instance>),
}

/// Provides credentials from one source.
pub(super) struct Provider {
    source: Source,
    kept: Mutex<Kept>,
}

/// What the source returned.
#[derive(Default)]
struct Kept {
    temporary: Option<Temporary>,
    /// The last failure, and the time until which the source is not queried again.
    failure: Option<(Failure, Instant)>,
}

impl Provider {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            kept: Mutex::default(),
        }
    }

    async fn credential(&self) -> Result<Arc<AwsCredential>, Failure> {
        match &self.source {
            Source::Keys(keys) => Ok(Arc::clone(&keys.credential)),
            Source::Role(role) => role.credential().await,
            Source::Process(command) => {
                let run = async {
                    let run = process::run(command).await;
                    run.map_err(|error| Failure::Final(Box::new(error)))
                };
                self.kept.lock().await.get(run).await
            }
            Source::SingleSignOn(login) => self.kept.lock().await.get(login.credentials()).await,
            Source::Container(container) => {
                self.kept.lock().await.get(container.credentials()).await
            }
            Source::Instance(instance) => self.kept.lock().await.get(instance.credentials()).await,
        }
    }
}

impl Kept {
    /// Returns the stored credentials if they are fresh, and otherwise new ones from `source`. If `source` fails,
    /// returns the stored credentials as long as they are valid.
    async fn get(
        &mut self,
        source: impl Future<Output = Result<Temporary, Failure>>,
    ) -> Result<Arc<AwsCredential>, Failure> {
        let now = SystemTime::now();
        if let Some(kept) = &self.temporary
            && kept.is_fresh(now)
        {
            return Ok(Arc::clone(&kept.credential));
        }
        if let Some((failure, end)) = &self.failure
            && Instant::now() < *end
        {
            return Err(failure.clone());
        }
        match (source.await, &mut self.temporary) {
            (Ok(renewed), kept) => {
                let credential = Arc::clone(&renewed.credential);
                *kept = Some(renewed);
                Ok(credential)
            }
            (Err(failure), Some(kept)) if kept.is_valid(SystemTime::now()) => {
                tracing::warn!("cannot renew the credentials yet: {failure}");
                kept.postpone(SystemTime::now());
                Ok(Arc::clone(&kept.credential))
            }
            (Err(failure), _) => {
                self.failure = Some((failure.clone(), Instant::now() + FAILURE_MEMORY));
                Err(failure)
            }
        }
    }
}

#[async_trait]
impl CredentialProvider for Provider {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let credential = self.credential().await;
        credential.map_err(|failure| object_store::Error::Generic {
            store: "S3",
            // The fetcher finds the failure in the chain of sources.
            source: Box::new(failure),
        })
    }
}

impl Debug for Provider {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        // The source can contain secrets.
        f.write_str("Provider")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    /// Returns credentials with the ID `id` that were received `age` ago, and were then valid for an hour.
    fn received(id: &str, age: Duration) -> Temporary {
        let credential = AwsCredential {
            key_id: id.to_owned(),
            secret_key: "secret".to_owned(),
            token: None,
        };
        let then = SystemTime::now() - age;
        let expires = then + Duration::from_hours(1);
        Temporary::new("a test", credential, Some(expires), then).unwrap()
    }

    fn denied() -> Failure {
        Failure::Final(Box::new(Error::Denied))
    }

    /// Returns the ID of the credentials that `kept` returns if the source returns `answer`.
    fn get(kept: &mut Kept, answer: Result<Temporary, Failure>) -> Result<String, Failure> {
        let credential = in_runtime(kept.get(async { answer }));
        credential.map(|credential| credential.key_id.clone())
    }

    #[test]
    fn fresh_credentials_are_used_again_and_old_ones_renewed() {
        let mut kept = Kept::default();
        let mut query = |answer| get(&mut kept, answer).unwrap();
        let old = Duration::from_mins(58);
        assert_eq!(query(Ok(received("A", Duration::ZERO))), "A");
        assert_eq!(query(Ok(received("B", Duration::ZERO))), "A");
        let mut kept = Kept::default();
        let mut query = |answer| get(&mut kept, answer).unwrap();
        assert_eq!(query(Ok(received("A", old))), "A");
        // They are valid for two more minutes.
        assert_eq!(query(Err(denied())), "A");
        assert_eq!(query(Ok(received("B", Duration::ZERO))), "A");
    }

    #[test]
    fn failed_source_is_not_queried_again_at_once() {
        let mut kept = Kept::default();
        assert_eq!(get(&mut kept, Err(denied())), Err(denied()));
        let answer = Ok(received("A", Duration::ZERO));
        assert_eq!(get(&mut kept, answer.clone()), Err(denied()));
        kept.failure = Some((denied(), Instant::now()));
        assert_eq!(get(&mut kept, answer), Ok("A".to_owned()));
    }
}
