//! Clients for the kinds of servers.

use crate::aws::{self, Profile, Variables};
use crate::connector::{Completion, Connector};
use crate::user::User;
use crate::{Error, ImageUrl, Result, google};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{
    AzureConfigKey, AzureCredentialProvider, MicrosoftAzure, MicrosoftAzureBuilder,
};
use object_store::gcp::{
    GcpCredential, GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey,
};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    ClientOptions, HeaderMap, HeaderValue, ObjectStore, RetryConfig, StaticCredentialProvider,
};
use std::sync::Arc;
use url::Url;

/// The region that S3-compatible servers expect if none is configured.
const DEFAULT_REGION: &str = "us-east-1";

/// The settings that select a server and credentials, in addition to the URL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions<'o> {
    pub(crate) endpoint: Option<&'o str>,
    pub(crate) anonymous: bool,
    /// Whether a new object is uploaded. An upload fails if the object exists.
    pub(crate) creates: bool,
}

/// A client for the server of an image.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The path of the object on the server.
    pub(crate) path: Path,
    /// The version that the URL names. `None` for the current one.
    pub(crate) version_id: Option<String>,
    /// The identity of the server, among servers that have buckets of the same name: the endpoint and, for
    /// Azure, the account. The identity is the same whether an option, a variable or a file has set them. Empty
    /// for a web server, which its URL identifies.
    pub(crate) server: String,
    pub(crate) user: User,
}

/// Returns a client for the server of `url`.
pub(crate) fn open(url: &ImageUrl, options: &StoreOptions<'_>) -> Result<Opened> {
    let secret = url.with_secrets();
    let version_id = url.version_id();
    if options.creates && version_id.is_some() {
        return Err(Error::Url {
            url: url.to_string(),
            why: "a new object has no version yet".to_owned(),
        });
    }
    let client = match secret.scheme() {
        "s3" => s3(secret, options)?,
        "gs" => google(secret, options)?,
        "az" => azure(secret, options)?,
        _ => {
            return Ok(Opened {
                store: web(secret)?,
                // The store of a web server has the whole URL, including the query.
                path: Path::default(),
                version_id,
                server: String::new(),
                user: User::Known(secret.username().to_owned()),
            });
        }
    };
    let path = Path::from_url_path(secret.path()).map_err(|error| Error::Url {
        url: url.to_string(),
        why: error.to_string(),
    })?;
    Ok(Opened {
        store: client.store,
        path,
        version_id,
        server: client.server,
        user: client.user,
    })
}

fn settings(error: &object_store::Error) -> Error {
    Error::Settings(crate::redact::redact(&error.to_string()))
}

/// Returns a configuration without retries. The fetcher repeats attempts, since it knows the version and the
/// deadline.
pub(crate) fn no_retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Returns the options of a client. Requests and redirects may use http only if `allows_http` is true. The
/// [`Connector`] reads no other option.
fn client(allows_http: bool) -> ClientOptions {
    ClientOptions::new().with_allow_http(allows_http)
}

/// Returns the configuration of retries. The client repeats only the requests of an upload.
fn retry(options: &StoreOptions<'_>) -> RetryConfig {
    if options.creates {
        RetryConfig::default()
    } else {
        no_retry()
    }
}

fn is_http(endpoint: Option<&str>) -> bool {
    endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"))
}

fn web(url: &Url) -> Result<Arc<dyn ObjectStore>> {
    let mut url = url.clone();
    let mut headers = HeaderMap::new();
    if !url.username().is_empty() || url.password().is_some() {
        headers.insert("authorization", basic_authorization(&url));
        // These fail only for URLs without a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
    }
    url.set_fragment(None);
    let allows_http = url.scheme() == "http";
    let store = HttpBuilder::new()
        .with_url(url)
        .with_http_connector(Connector {
            headers,
            follows_to_other_hosts: true,
            uses_proxies: true,
            completion: None,
            no_instance: None,
        })
        .with_client_options(client(allows_http))
        .with_retry(no_retry())
        .build()
        .map_err(|error| settings(&error))?;
    Ok(Arc::new(store))
}

/// Returns the header for the user name and the password in `url`. It is not sent to another host after a
/// redirect.
fn basic_authorization(url: &Url) -> HeaderValue {
    use base64::Engine as _;
    use percent_encoding::percent_decode_str;
    let mut pair: Vec<u8> = percent_decode_str(url.username()).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(url.password().unwrap_or_default()));
    let text = base64::engine::general_purpose::STANDARD.encode(pair);
    let mut value =
        HeaderValue::from_str(&format!("Basic {text}")).expect("base64 is valid in a header");
    value.set_sensitive(true);
    value
}

/// Builds the client of a store whose requests are signed. This is a macro because the builders have the same
/// methods, but no trait in common. If `object_store` queries the metadata service of an instance, `$no_instance` is as
/// [`Connector::no_instance`], and `$user` is a function that returns the user of the built client.
macro_rules! signed_client {
    ($builder:expr, $url:expr, $options:expr, $completion:expr, $endpoint:expr, $server:expr, $user:expr) => {
        signed_client!(
            $builder,
            $url,
            $options,
            $completion,
            $endpoint,
            $server,
            |_| $user,
            None
        )
    };
    ($builder:expr, $url:expr, $options:expr, $completion:expr, $endpoint:expr, $server:expr, $user:expr,
     $no_instance:expr) => {{
        let store = $builder
            .with_url(bucket($url))
            .with_skip_signature($options.anonymous)
            .with_client_options(client(is_http($endpoint.as_deref())))
            .with_http_connector(Connector {
                completion: $completion.filter(|_| $options.creates),
                no_instance: $no_instance,
                ..Connector::signed()
            })
            .with_retry(retry($options))
            .build()
            .map_err(|error| settings(&error))?;
        let user_of = $user;
        let user = user_of(&store);
        Ok(Client {
            store: Arc::new(store),
            server: $server,
            user: named(user, $options),
        })
    }};
}

/// The client of a store whose requests are signed.
struct Client {
    store: Arc<dyn ObjectStore>,
    /// As [`Opened::server`].
    server: String,
    user: User,
}

/// Returns an endpoint without slashes at its end.
fn trimmed(endpoint: &str) -> String {
    endpoint.trim_end_matches('/').to_owned()
}

fn s3(url: &Url, options: &StoreOptions<'_>) -> Result<Client> {
    let mut builder = AmazonS3Builder::from_env();
    let is_unset = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_none();
    let variables = Variables(&|name| std::env::var(name).ok());
    let profile = Profile::of_user(&variables);
    // `AmazonS3Builder::from_env` has read the variables.
    let endpoint = options.endpoint.map(str::to_owned);
    let endpoint = endpoint
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::S3Endpoint))
        .or_else(|| builder.get_config_value(&AmazonS3ConfigKey::Endpoint))
        .or_else(|| profile.endpoint().map(str::to_owned))
        .map(|endpoint| trimmed(&endpoint));
    if is_unset(&builder, AmazonS3ConfigKey::Region) {
        builder = builder.with_region(profile.get("region").unwrap_or(DEFAULT_REGION));
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let mut user = None;
    if !options.anonymous {
        let region = region.as_deref().unwrap_or(DEFAULT_REGION);
        let found = aws::find(&variables, &profile, region)?;
        builder = builder.with_credentials(found.provider);
        user = Some(found.user);
    }
    if let Some(endpoint) = &endpoint {
        // This key has precedence over the other keys of endpoints.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let server = endpoint.clone().unwrap_or_default();
    let completion = Some(Completion::IfAbsent(None));
    signed_client!(builder, url, options, completion, endpoint, server, user)
}

fn google(url: &Url, options: &StoreOptions<'_>) -> Result<Client> {
    let mut builder = GoogleCloudStorageBuilder::from_env();
    let user = google::user(&builder);
    let user =
        |store: &GoogleCloudStorage| Some(user.unwrap_or_else(|| google::user_of_instance(store)));
    let configured = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let endpoint = options.endpoint.map(str::to_owned).or(configured);
    let endpoint = endpoint.map(|endpoint| trimmed(&endpoint));
    if let Some(endpoint) = &endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if options.anonymous {
        // `object_store` needs a token for the requests of an upload. The connector removes it.
        let bearer = String::new();
        let empty = StaticCredentialProvider::new(GcpCredential { bearer });
        builder = builder.with_credentials(Arc::new(empty));
    }
    let server = endpoint.clone().unwrap_or_default();
    let completion = Some(Completion::Plain);
    let absent = Some(google::no_credentials());
    signed_client!(
        builder, url, options, completion, endpoint, server, user, absent
    )
}

fn azure(url: &Url, options: &StoreOptions<'_>) -> Result<Client> {
    let mut builder = MicrosoftAzureBuilder::from_env();
    let account = builder.get_config_value(&AzureConfigKey::AccountName);
    let user = builder
        .get_config_value(&AzureConfigKey::ClientId)
        .or_else(|| account.clone())
        .map(User::Known);
    let configured = builder.get_config_value(&AzureConfigKey::Endpoint);
    let endpoint = options.endpoint.map(str::to_owned).or(configured);
    let endpoint = endpoint.map(|endpoint| trimmed(&endpoint));
    if let Some(endpoint) = &endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let emulator = builder.get_config_value(&AzureConfigKey::UseEmulator);
    let server = [endpoint.clone(), emulator, account].map(Option::unwrap_or_default);
    let server = server.join("\n");
    let credentials = options.creates.then(|| azure_credentials(&builder, url));
    let completion = Some(Completion::IfAbsent(credentials.transpose()?));
    let (user, absent) = (|_: &MicrosoftAzure| user, Some(no_azure_credentials()));
    signed_client!(
        builder, url, options, completion, endpoint, server, user, absent
    )
}

/// Returns the credentials with which a client of `builder` signs requests.
fn azure_credentials(
    builder: &MicrosoftAzureBuilder,
    url: &Url,
) -> Result<AzureCredentialProvider> {
    let builder = builder.clone().with_url(bucket(url));
    let client = builder.with_http_connector(Connector::signed()).build();
    let client = client.map_err(|error| settings(&error))?;
    Ok(Arc::clone(client.credentials()))
}

/// Returns the error of requests if no place has credentials for Azure.
fn no_azure_credentials() -> Error {
    let places = "no variable has a key (AZURE_STORAGE_ACCOUNT_KEY), a signature (AZURE_STORAGE_SAS_TOKEN), a token \
                  (AZURE_STORAGE_TOKEN), or a client (AZURE_CLIENT_ID and AZURE_TENANT_ID, with AZURE_CLIENT_SECRET \
                  or AZURE_FEDERATED_TOKEN_FILE); AZURE_USE_AZURE_CLI is not true; the instance metadata service has \
                  none, or does not answer";
    Error::NoCredentials(places.to_owned())
}

/// Returns the user whose credentials are sent: without a name if requests are anonymous.
fn named(user: Option<User>, options: &StoreOptions<'_>) -> User {
    let user = user.filter(|_| !options.anonymous);
    user.unwrap_or_else(|| User::Known(String::new()))
}

/// Returns the URL of the bucket of `url`.
fn bucket(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default())
}
