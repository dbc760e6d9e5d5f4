//! Credentials of roles that `object_store` obtains: with the token of a web identity, in a container, and on an
//! instance of EC2.

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
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// If the instance metadata service has not answered after this time, the machine counts as one without the service.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(1);

/// A role, and the service that has its credentials.
pub(super) struct Role {
    inner: AwsCredentialProvider,
    /// What distinguishes the role from others.
    pub(super) name: String,
    /// The service, in errors.
    service: &'static str,
    /// The error of a failed query, as long as the service has never answered. `None` for a service that must exist.
    absent: Option<Error>,
    has_answered: AtomicBool,
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
        let service = "the token service, for the web identity";
        Role::new(settings, Connector::signed(), self.role, service)
    }
}

/// Returns the role of the container in which this process runs, if the variables name one.
pub(super) fn of_container(variables: &Variables<'_>) -> Option<Result<Role, Error>> {
    let service = "the service for the role of the container";
    if let Some(uri) = variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        let settings = vec![(Key::ContainerCredentialsRelativeUri, uri.clone())];
        return Some(Role::new(settings, Connector::direct(), uri, service));
    }
    let uri = variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")?;
    let file = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")?;
    let settings = vec![
        (Key::ContainerCredentialsFullUri, uri.clone()),
        (Key::ContainerAuthorizationTokenFile, file),
    ];
    Some(Role::new(settings, Connector::direct(), uri, service))
}

/// Returns the role of the instance on which this process runs. If there is none, credentials fail with `absent`.
pub(super) fn of_instance(variables: &Variables<'_>, absent: Error) -> Result<Role, Error> {
    let mut settings = Vec::new();
    let endpoint = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    settings.extend(endpoint.map(|endpoint| {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        (Key::MetadataEndpoint, endpoint)
    }));
    let service = "the instance metadata service";
    let name = "instance".to_owned();
    let role = Role::new(settings, Connector::direct(), name, service)?;
    Ok(Role {
        absent: Some(absent),
        ..role
    })
}

impl Role {
    fn new(
        settings: Vec<(Key, String)>,
        connector: Connector,
        name: String,
        service: &'static str,
    ) -> Result<Self, Error> {
        // `object_store` offers its providers only as those of a store.
        let builder = AmazonS3Builder::new()
            .with_bucket_name("unused")
            .with_http_connector(connector)
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
            service,
            absent: None,
            has_answered: AtomicBool::new(false),
        })
    }

    /// Returns the credentials of the role.
    pub(super) async fn credential(&self) -> Result<Arc<AwsCredential>, Failure> {
        let credential = self.inner.get_credential();
        let answer = match &self.absent {
            Some(absent) if !self.has_answered.load(Relaxed) => {
                let answer = tokio::time::timeout(INSTANCE_TIMEOUT, credential).await;
                let answer = answer.ok().and_then(Result::ok);
                answer.ok_or_else(|| Failure::Final(Box::new(absent.clone())))
            }
            _ => credential.await.map_err(|error| self.failure(&error)),
        };
        let credential = answer?;
        check(self.service, &credential).map_err(|error| Failure::Final(Box::new(error)))?;
        self.has_answered.store(true, Relaxed);
        Ok(credential)
    }

    /// Classifies an error of the service.
    fn failure(&self, error: &object_store::Error) -> Failure {
        let failure = Failure::of(error);
        if failure.may_pass() && !matches!(failure, Failure::WrongReply(_)) {
            return failure;
        }
        let why = format!("{}: {failure}", self.service);
        Failure::Final(Box::new(Error::Credentials(why)))
    }
}
