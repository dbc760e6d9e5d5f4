//! Credentials of a role that `object_store` obtains with the token of a web identity.

use super::profile::Profile;
use super::temporary::check;
use super::variables::Variables;
use crate::Error;
use crate::connector::Connector;
use crate::error::Failure;
use crate::redact::redact;
use object_store::ClientOptions;
use object_store::RetryConfig;
use object_store::aws::{
    AmazonS3Builder, AmazonS3ConfigKey as Key, AwsCredential, AwsCredentialProvider,
};
use std::sync::Arc;

/// The service, in errors.
const SERVICE: &str = "the token service, for the web identity";

/// A role.
pub(super) struct Role {
    inner: AwsCredentialProvider,
    /// What distinguishes the role from others.
    pub(super) name: String,
}

/// The variables or settings that describe a web identity.
pub(super) struct WebIdentity {
    token_file: String,
    role: String,
    session: Option<String>,
}

impl WebIdentity {
    pub(super) fn of_variables(variables: &Variables<'_>) -> Option<Self> {
        Some(Self {
            token_file: variables.get("AWS_WEB_IDENTITY_TOKEN_FILE")?,
            role: variables.get("AWS_ROLE_ARN")?,
            session: variables.get("AWS_ROLE_SESSION_NAME"),
        })
    }

    pub(super) fn of_profile(profile: &Profile) -> Option<Self> {
        let get = |key| profile.get(key).map(str::to_owned);
        Some(Self {
            token_file: get("web_identity_token_file")?,
            role: get("role_arn")?,
            session: get("role_session_name"),
        })
    }

    /// Returns the role of this identity in `region`.
    pub(super) fn role(self, variables: &Variables<'_>, region: &str) -> Result<Role, Error> {
        let mut settings = vec![
            (Key::WebIdentityTokenFile, self.token_file),
            (Key::RoleArn, self.role.clone()),
            (Key::Region, region.to_owned()),
        ];
        settings.extend(self.session.map(|name| (Key::RoleSessionName, name)));
        let endpoint = variables.get("AWS_ENDPOINT_URL_STS");
        settings.extend(endpoint.map(|url| (Key::StsEndpoint, url)));
        Role::new(settings, self.role)
    }
}

impl Role {
    fn new(settings: Vec<(Key, String)>, name: String) -> Result<Self, Error> {
        // `object_store` offers its providers only as those of a store.
        let builder = AmazonS3Builder::new()
            .with_bucket_name("unused")
            .with_http_connector(Connector::signed())
            .with_client_options(ClientOptions::new())
            .with_retry(RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            });
        let builder = settings.into_iter().fold(builder, |builder, (key, value)| {
            builder.with_config(key, value)
        });
        let store = builder
            .build()
            .map_err(|error| Error::Settings(redact(&error.to_string())))?;
        Ok(Self {
            inner: Arc::clone(store.credentials()),
            name,
        })
    }

    /// Returns the credentials of the role.
    pub(super) async fn credential(&self) -> Result<Arc<AwsCredential>, Failure> {
        let credential = self.inner.get_credential().await;
        let credential = credential.map_err(|error| failure(&error))?;
        check(SERVICE, &credential).map_err(|error| Failure::Final(Box::new(error)))?;
        Ok(credential)
    }
}

/// Classifies an error of the service.
fn failure(error: &object_store::Error) -> Failure {
    match Failure::of(error) {
        wrong @ Failure::WrongReply(_) => {
            let why = format!("{SERVICE}: {wrong}");
            Failure::Final(Box::new(Error::Credentials(why)))
        }
        failure => failure.of_service(SERVICE),
    }
}
