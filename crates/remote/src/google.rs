//! The user of Google Cloud Storage, found in the same places in which `object_store` finds credentials.

use crate::error::Failure;
use crate::user::User;
use crate::{ContentDigest, Error};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

/// The default credentials of a user, in the user's home.
const DEFAULT_CREDENTIALS: &str = ".config/gcloud/application_default_credentials.json";

/// A file with credentials, or a key.
#[derive(Deserialize)]
struct Account {
    client_email: String,
}

/// Returns the error of requests if no place has credentials.
pub(crate) fn no_credentials() -> Error {
    Error::NoCredentials(format!(
        "GOOGLE_SERVICE_ACCOUNT, GOOGLE_SERVICE_ACCOUNT_KEY, GOOGLE_APPLICATION_CREDENTIALS and GOOGLE_BEARER_TOKEN \
         are not set; ~/{DEFAULT_CREDENTIALS} does not exist; the instance metadata service has none, or does not answer"
    ))
}

/// Returns the user whose credentials `builder` finds, or `None` if the credentials are those of the instance. For a
/// service account, the name of the user is the email address.
pub(crate) fn user(builder: &GoogleCloudStorageBuilder) -> Option<User> {
    let get = |key: GoogleConfigKey| builder.get_config_value(&key);
    let secret =
        get(GoogleConfigKey::BearerToken).or_else(|| get(GoogleConfigKey::ServiceAccountKey));
    let text = secret.or_else(|| {
        let path = get(GoogleConfigKey::ServiceAccount)
            .or_else(|| get(GoogleConfigKey::ApplicationCredentials))
            .map(PathBuf::from)
            .or_else(default_credentials)?;
        // `object_store` returns an error if it cannot read the file.
        Some(std::fs::read_to_string(path).unwrap_or_default())
    })?;
    Some(User::Known(name(&text)))
}

/// Returns the user whose credentials the metadata service returns to `store`.
pub(crate) fn user_of_instance(store: &GoogleCloudStorage) -> User {
    let account = Arc::clone(store.signing_credentials());
    User::of_service(move || {
        let account = Arc::clone(&account);
        async move {
            let account = account.get_credential().await;
            let name = account.map(|account| format!("account {}", account.email.trim()));
            name.map_err(|error| Failure::of(&error))
        }
    })
}

fn default_credentials() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    let path = PathBuf::from(home).join(DEFAULT_CREDENTIALS);
    path.exists().then_some(path)
}

/// Returns what distinguishes the user with the credentials `text` from others.
fn name(text: &str) -> String {
    let account = serde_json::from_str::<Account>(text).ok();
    match account.filter(|account| !account.client_email.is_empty()) {
        Some(account) => format!("account {}", account.client_email),
        None => format!("credentials {}", ContentDigest(Sha256::digest(text).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(builder: &GoogleCloudStorageBuilder) -> String {
        match user(builder) {
            Some(User::Known(name)) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn user_is_the_service_account_or_the_content_of_the_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let path = |content: &str| {
            let path = folder.path().join("file");
            std::fs::write(&path, content).unwrap();
            path.into_os_string().into_string().unwrap()
        };
        let new = GoogleCloudStorageBuilder::new;
        let account = |key: &str| format!(r#"{{"client_email": "a@b", "private_key": "{key}"}}"#);
        let key = new().with_service_account_key(account("one"));
        assert_eq!(name_of(&key), "account a@b");
        let file = new().with_service_account_path(path(&account("two")));
        assert_eq!(name_of(&file), "account a@b");
        let login = |token: &str| {
            let content = format!(r#"{{"type": "authorized_user", "refresh_token": "{token}"}}"#);
            name_of(&new().with_application_credentials(path(&content)))
        };
        assert_eq!(login("one"), login("one"));
        assert_ne!(login("one"), login("two"));
        let tokens = ["one", "two"].map(|token| name_of(&new().with_bearer_token(token)));
        assert_ne!(tokens[0], tokens[1]);
        assert!(!login("one").contains("one") && !tokens[0].contains("one"));
    }
}
