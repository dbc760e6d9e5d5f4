//! The user whose credentials requests have.

use crate::error::Failure;
use crate::{Error, Result};
use futures_util::future::BoxFuture;
use std::fmt::{self, Debug, Formatter};

/// The user whose credentials requests have, among the users of a server.
pub(crate) enum User {
    /// The name is known. It is empty if requests have no credentials.
    Known(String),
    /// The metadata service of the instance must be queried for the name.
    OfInstance(BoxFuture<'static, Result<String, Failure>>),
}

impl User {
    /// Returns the name, which is empty only if requests have no credentials. It stays the same when the credentials
    /// are renewed.
    ///
    /// # Errors
    /// If the metadata service does not return the name.
    pub(crate) async fn name(self) -> Result<String> {
        match self {
            Self::Known(name) => Ok(name),
            Self::OfInstance(name) => name.await.map_err(|failure| match failure {
                Failure::Final(error) => *error,
                failure => {
                    Error::Credentials(format!("cannot find the role of the instance: {failure}"))
                }
            }),
        }
    }
}

impl Debug for User {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("User")
    }
}
