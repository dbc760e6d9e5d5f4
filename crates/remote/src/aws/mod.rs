//! Credentials for S3, found as the AWS tools find them.
//!
//! # Model
//! The first of these places that has credentials is used:
//!
//! 1. the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`;
//! 2. a web identity in the variables `AWS_WEB_IDENTITY_TOKEN_FILE` and `AWS_ROLE_ARN`;
//! 3. the profile: a web identity, single sign-on, keys, or a program that prints credentials;
//! 4. the role of a container (`AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, or
//!    `AWS_CONTAINER_CREDENTIALS_FULL_URI`, with or without a token in `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`
//!    or `AWS_CONTAINER_AUTHORIZATION_TOKEN`);
//! 5. the role of an instance of EC2, from its metadata service.
//!
//! The places 1 to 4 are chosen without a request. The services of the places 4 and 5 are queried when the first
//! request is signed, or earlier if the disk cache needs the name of the role. If the metadata service does not answer
//! within a second, the error lists all places.

mod machine;
mod process;
mod profile;
mod provider;
mod roles;
mod sso;
mod temporary;
#[cfg(any(test, fuzzing))]
pub(crate) mod untrusted;
mod variables;

pub(crate) use profile::Profile;
pub(crate) use variables::Variables;

use crate::connector::Connector;
use crate::user::User;
use crate::{Error, Result};
use machine::{Container, Instance};
use object_store::ClientOptions;
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use object_store::client::HttpConnector as _;
use provider::{Provider, Source};
use roles::WebIdentity;
use sso::Login;
use std::sync::Arc;
use std::time::SystemTime;
use temporary::Temporary;

/// Credentials that were found.
pub(crate) struct Found {
    pub(crate) provider: AwsCredentialProvider,
    /// The user to whom the credentials belong.
    pub(crate) user: User,
}

/// Finds the credentials of the user, for requests in `region`.
///
/// # Errors
/// If the first place that has credentials cannot be used, or no place has any.
pub(crate) fn find(variables: &Variables<'_>, profile: &Profile, region: &str) -> Result<Found> {
    let (source, user) = if let Some(keys) = keys_of_variables(variables)? {
        keys
    } else if let Some(identity) = WebIdentity::of_variables(variables) {
        role(identity.role(variables, region)?)
    } else if let Some(found) = in_profile(variables, profile, region)? {
        found
    } else if let Some(container) = Container::of_variables(variables)? {
        return Ok(of_container(container));
    } else {
        return of_instance(variables, profile);
    };
    Ok(Found {
        provider: Arc::new(Provider::new(source)),
        user: User::Known(user),
    })
}

/// Returns the credentials of the container in which this process runs.
fn of_container(container: Container) -> Found {
    let container = Arc::new(container);
    let source = Source::Container(Arc::clone(&container));
    Found {
        provider: Arc::new(Provider::new(source)),
        user: User::of_service(move || {
            let container = Arc::clone(&container);
            async move { container.user().await }
        }),
    }
}

/// Returns the credentials of the instance of EC2 on which this process runs, unless the user has disabled this.
fn of_instance(variables: &Variables<'_>, profile: &Profile) -> Result<Found> {
    let disabled = variables.get("AWS_EC2_METADATA_DISABLED");
    let is_disabled = disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let absent = nothing_found(profile, is_disabled);
    if is_disabled {
        return Err(absent);
    }
    let instance = Arc::new(Instance::new(variables, absent)?);
    let source = Source::Instance(Arc::clone(&instance));
    Ok(Found {
        provider: Arc::new(Provider::new(source)),
        user: User::of_service(move || {
            let instance = Arc::clone(&instance);
            async move {
                let role = instance.role().await;
                role.map(|role| format!("role {role}"))
            }
        }),
    })
}

fn role(role: roles::Role) -> (Source, String) {
    let user = format!("role {}", role.name);
    (Source::Role(role), user)
}

/// Returns keys, and the user to whom they belong.
fn keys(from: &str, id: &str, secret: &str, token: Option<String>) -> Result<(Source, String)> {
    let credential = AwsCredential {
        key_id: id.to_owned(),
        secret_key: secret.to_owned(),
        token,
    };
    let keys = Temporary::new(from, credential, None, SystemTime::now())?;
    Ok((Source::Keys(keys), id.to_owned()))
}

fn keys_of_variables(variables: &Variables<'_>) -> Result<Option<(Source, String)>> {
    let Some(id) = variables.get("AWS_ACCESS_KEY_ID") else {
        return Ok(None);
    };
    let secret = variables.get("AWS_SECRET_ACCESS_KEY").ok_or_else(|| {
        let why = "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not";
        Error::Credentials(why.to_owned())
    })?;
    let token = variables.get("AWS_SESSION_TOKEN");
    keys("the environment", &id, &secret, token).map(Some)
}

/// Returns the credentials that `profile` has.
fn in_profile(
    variables: &Variables<'_>,
    profile: &Profile,
    region: &str,
) -> Result<Option<(Source, String)>> {
    let name = profile.name();
    if let Some(variable) = profile.missing() {
        let [credentials, config] = profile.paths();
        let mut why = format!(
            "{variable} names the profile {name}, which is neither in {credentials} nor in {config}"
        );
        for problem in profile.problems() {
            why = format!("{why}; {problem}");
        }
        return Err(Error::Credentials(why));
    }
    if let Some(identity) = WebIdentity::of_profile(profile) {
        return Ok(Some(role(identity.role(variables, region)?)));
    }
    if profile.get("role_arn").is_some() {
        return Err(Error::Credentials(format!(
            "profile {name} assumes a role, which larder does not do itself; use another profile with this \
             line: credential_process = aws configure export-credentials --profile {name}"
        )));
    }
    if sso::is_configured(profile) {
        let client = Connector::signed().connect(&ClientOptions::new());
        let client = client.map_err(|error| Error::Settings(error.to_string()))?;
        let login = Login::of_profile(profile, variables, client)?;
        let setting = |key| profile.get(key).unwrap_or_default();
        let (account, role) = (setting("sso_account_id"), setting("sso_role_name"));
        let user = format!("role {role} of {account}");
        return Ok(Some((Source::SingleSignOn(login), user)));
    }
    if let Some((id, secret)) = profile.keys() {
        let token = profile.get("aws_session_token").map(str::to_owned);
        return keys(&format!("profile {name}"), id, secret, token).map(Some);
    }
    let process = profile.get("credential_process").map(|command| {
        let user = format!("process {command}");
        (Source::Process(command.to_owned()), user)
    });
    Ok(process)
}

/// Returns the error that lists where credentials were looked for.
fn nothing_found(profile: &Profile, is_metadata_disabled: bool) -> Error {
    let [credentials, config] = profile.paths();
    let name = profile.name();
    let mut places = vec![
        "AWS_ACCESS_KEY_ID is not set".to_owned(),
        format!("profile {name} has none in {credentials} and {config}"),
        "no variable names a web identity or the role of a container".to_owned(),
        if is_metadata_disabled {
            "AWS_EC2_METADATA_DISABLED is set".to_owned()
        } else {
            "the instance metadata service has none, or does not answer".to_owned()
        },
    ];
    places.extend_from_slice(profile.problems());
    Error::NoCredentials(places.join("; "))
}

#[cfg(test)]
mod tests;
