//! Credentials of a role that a service of this machine provides: the role of a container, or of an instance of EC2.
//!
//! Source: AWS SDKs and Tools, reference guide, "Container credential provider" and "IMDS credential provider".

use super::temporary::{Temporary, parse_time};
use super::variables::Variables;
use crate::Error;
use crate::connector::Connector;
use crate::error::Failure;
use object_store::aws::AwsCredential;
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody};
use object_store::{ClientOptions, HeaderValue};
use reqwest::Method;
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use url::{Host, Url};

/// The addresses of the services for containers in ECS, and in EKS.
const ECS: Ipv4Addr = Ipv4Addr::new(169, 254, 170, 2);
const EKS: Ipv4Addr = Ipv4Addr::new(169, 254, 170, 23);
const EKS_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23);

/// The usual address of the metadata service of an instance.
const METADATA: &str = "http://169.254.169.254";
/// The path of the roles of an instance. That of the credentials of a role has the role's name at its end.
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
/// If the metadata service has not answered after this time, the machine counts as one without the service.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(1);

/// The service for the role of the container in which this process runs.
pub(super) struct Container {
    client: HttpClient,
    url: String,
    token: Option<Token>,
}

/// Where the value of the header `authorization` is.
enum Token {
    Variable(String),
    File(PathBuf),
}

/// The metadata service of the instance of EC2 on which this process runs, if there is one.
pub(super) struct Instance {
    client: HttpClient,
    endpoint: String,
    /// The error of queries until the service has answered once.
    absent: Error,
    has_answered: AtomicBool,
}

/// Credentials in the form of both services.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reply {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

impl Container {
    /// Returns the service and the path or URL of the role, if the variables name them.
    ///
    /// # Errors
    /// If the credentials would be sent unencrypted from another machine.
    pub(super) fn of_variables(variables: &Variables<'_>) -> Result<Option<(Self, String)>, Error> {
        const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let relative = variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
        let relative = relative.map(|path| (format!("http://{ECS}{path}"), path));
        let full = || variables.get(FULL).map(|url| (url.clone(), url));
        let Some((url, role)) = relative.or_else(full) else {
            return Ok(None);
        };
        if !Url::parse(&url).is_ok_and(|url| is_allowed(&url)) {
            return Err(Error::Credentials(format!(
                "{FULL} must begin with https://, or have an address of this machine, of ECS or of EKS"
            )));
        }
        let file = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        let token = file.map(|path| Token::File(path.into())).or_else(|| {
            let token = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
            token.map(Token::Variable)
        });
        let client = client()?;
        Ok(Some((Self { client, url, token }, role)))
    }

    /// Returns the credentials of the role.
    pub(super) async fn credentials(&self) -> Result<Temporary, Failure> {
        const SERVICE: &str = "the service for the role of the container";
        let refused = |why: String| refused(format!("{SERVICE}: {why}"));
        let header = self.authorization().map_err(refused)?;
        let reply = query(&self.client, Method::GET, &self.url, header).await;
        let reply = reply.map_err(|failure| match failure {
            Failure::Final(error) => refused(error.to_string()),
            failure => failure,
        })?;
        parse(reply.as_bytes(), SystemTime::now()).map_err(|error| Failure::Final(Box::new(error)))
    }

    /// Returns the header with the token, if there is one.
    fn authorization(&self) -> Result<Option<(&'static str, String)>, String> {
        let token = match &self.token {
            None => return Ok(None),
            Some(Token::Variable(token)) => token.clone(),
            Some(Token::File(path)) => std::fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        };
        Ok(Some(("authorization", token.trim().to_owned())))
    }
}

impl Instance {
    /// Returns the metadata service. If it does not exist, or has no credentials, queries fail with `absent`.
    pub(super) fn new(variables: &Variables<'_>, absent: Error) -> Result<Self, Error> {
        let endpoint = variables.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        let endpoint = endpoint.as_deref().unwrap_or(METADATA);
        Ok(Self {
            client: client()?,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            absent,
            has_answered: AtomicBool::new(false),
        })
    }

    /// Returns the name of the instance's role.
    pub(super) async fn role(&self) -> Result<String, Failure> {
        self.in_time(async { self.role_of(&self.token().await?).await })
            .await
    }

    /// Returns the credentials of the instance's role.
    pub(super) async fn credentials(&self) -> Result<Temporary, Failure> {
        self.in_time(async {
            let token = self.token().await?;
            let role = self.role_of(&token).await?;
            let reply = self.get(&format!("{ROLES}{role}"), &token).await?;
            parse(reply.as_bytes(), SystemTime::now())
                .map_err(|error| Failure::Final(Box::new(error)))
        })
        .await
    }

    /// Returns a token for further queries.
    async fn token(&self) -> Result<String, Failure> {
        let url = format!("{}/latest/api/token", self.endpoint);
        let lifetime = ("x-aws-ec2-metadata-token-ttl-seconds", "60".to_owned());
        query(&self.client, Method::PUT, &url, Some(lifetime)).await
    }

    async fn role_of(&self, token: &str) -> Result<String, Failure> {
        Ok(self.get(ROLES, token).await?.trim().to_owned())
    }

    async fn get(&self, path: &str, token: &str) -> Result<String, Failure> {
        let url = format!("{}{path}", self.endpoint);
        let token = ("x-aws-ec2-metadata-token", token.to_owned());
        query(&self.client, Method::GET, &url, Some(token)).await
    }

    /// Awaits `answer`. If it is not a success, and no earlier answer was, the service does not exist or has no
    /// credentials.
    async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if self.has_answered.load(Relaxed) {
            return answer.await;
        }
        let answer = tokio::time::timeout(INSTANCE_TIMEOUT, answer).await;
        let answer = answer.ok().and_then(Result::ok);
        self.has_answered.store(answer.is_some(), Relaxed);
        answer.ok_or_else(|| Failure::Final(Box::new(self.absent.clone())))
    }
}

/// Returns whether credentials may be received from `url`: over TLS, or from an address that no other machine has.
fn is_allowed(url: &Url) -> bool {
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback() || [ECS, EKS].contains(&address),
        Some(Host::Ipv6(address)) => address.is_loopback() || address == EKS_V6,
        None => false,
    };
    url.scheme() == "https" || url.scheme() == "http" && is_local
}

/// Returns a client for services of this machine.
fn client() -> Result<HttpClient, Error> {
    let options = ClientOptions::new().with_allow_http(true);
    let client = Connector::direct().connect(&options);
    client.map_err(|error| Error::Settings(error.to_string()))
}

/// Sends a request with `header`, which can be secret. Returns the text of the reply.
async fn query(
    client: &HttpClient,
    method: Method,
    url: &str,
    header: Option<(&'static str, String)>,
) -> Result<String, Failure> {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    let uri = url.parse();
    *request.uri_mut() = uri.map_err(|_| refused("its URL is not valid".to_owned()))?;
    *request.method_mut() = method;
    if let Some((name, value)) = header {
        let value = HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| refused("its token is not valid".to_owned()))?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
    }
    let reply = client.execute(request).await;
    let reply = reply.map_err(|error| Failure::of_http(&error))?;
    let status = reply.status();
    if !status.is_success() {
        return Err(Failure::of_status(status.as_u16()));
    }
    let body = reply.into_body().bytes().await;
    let body = body.map_err(|error| Failure::of_http(&error))?;
    let text = String::from_utf8(body.into());
    text.map_err(|_| refused("the reply is not a text".to_owned()))
}

fn refused(why: String) -> Failure {
    Failure::Final(Box::new(Error::Credentials(why)))
}

/// Parses credentials that were received at the time `now`. Errors contain no part of them.
pub(super) fn parse(bytes: &[u8], now: SystemTime) -> Result<Temporary, Error> {
    const SOURCE: &str = "the service for the role";
    let wrong = || Error::Credentials(format!("the reply of {SOURCE} is not as expected"));
    let reply: Reply = serde_json::from_slice(bytes).map_err(|_| wrong())?;
    let expires = reply
        .expiration
        .map(|time| parse_time(&time).ok_or_else(wrong));
    let credential = AwsCredential {
        key_id: reply.access_key_id,
        secret_key: reply.secret_access_key,
        token: reply.token,
    };
    Temporary::new(SOURCE, credential, expires.transpose()?, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_received_over_tls_or_from_this_machine() {
        let is_allowed = |url: &str| is_allowed(&Url::parse(url).unwrap());
        for url in [
            "https://any.host/role",
            "http://localhost:80/role",
            "http://127.1.2.3/role",
            "http://[::1]/role",
            "http://169.254.170.2/role",
            "http://169.254.170.23/v1/credentials",
            "http://[fd00:ec2::23]/v1/credentials",
        ] {
            assert!(is_allowed(url), "{url}");
        }
        for url in [
            "http://any.host/role",
            "http://169.254.170.2@any.host/role",
            "http://192.0.2.1/role",
            "http://[2001:db8::1]/role",
            "file:///role",
        ] {
            assert!(!is_allowed(url), "{url}");
        }
    }

    #[test]
    fn variables_that_name_another_machine_are_refused() {
        let of = |name: &'static str, value: &'static str| {
            let get = move |own: &str| (own == name).then(|| value.to_owned());
            let container = Container::of_variables(&Variables(&get));
            container.map(|container| container.map(|(_, role)| role))
        };
        let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        assert_eq!(of(relative, "/role"), Ok(Some("/role".to_owned())));
        let url = "http://localhost/role";
        assert_eq!(of(full, url), Ok(Some(url.to_owned())));
        assert_eq!(of("OTHER", "x"), Ok(None));
        assert!(of(relative, "@any.host/role").is_err());
        assert!(of(full, "http://any.host/role").is_err());
    }

    #[test]
    fn reply_must_be_valid() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let reply = |end: &str| {
            let start = r#"{"AccessKeyId": "A", "SecretAccessKey": "hidden""#;
            parse(format!("{start}{end}}}").as_bytes(), now)
        };
        let valid = reply(r#", "Token": "T", "Expiration": "1970-01-01T01:00:00Z""#).unwrap();
        assert_eq!(valid.credential.token.as_deref(), Some("T"));
        assert!(valid.is_valid(now) && !valid.is_valid(now + Duration::from_hours(1)));
        assert!(reply("").unwrap().is_fresh(now));
        for end in [r#", "Expiration": "soon""#, r#", "Token": 7"#, ","] {
            let error = reply(end).err().unwrap().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
