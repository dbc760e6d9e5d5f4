//! Credentials of a role that a service of this machine provides: the role of a container, or of an instance of EC2.
//!
//! Source: AWS SDKs and Tools, reference guide, "Container credential provider" and "IMDS credential provider".

use super::temporary::{Temporary, parse_time};
use super::variables::Variables;
use crate::connector::{Connector, METADATA_SERVICE};
use crate::error::Failure;
use crate::{ContentDigest, Error};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object_store::aws::AwsCredential;
use object_store::client::{HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody};
use object_store::{ClientOptions, HeaderValue};
use reqwest::Method;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::OnceLock;
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
/// The service for the role of a container, in errors.
const CONTAINER_SERVICE: &str = "the service for the role of the container";
/// The origin of credentials, in errors of their parser.
const SOURCE: &str = "the service for the role";

/// The service for the role of the container in which this process runs.
pub(super) struct Container {
    client: HttpClient,
    url: String,
    token: Option<Token>,
    /// The ARN of the role that [`Container::user`] has returned.
    role: OnceLock<String>,
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

/// Credentials in the form of both services. The services for containers also return the ARN of the role (ECS) or the
/// account (EKS); other services may return neither, or an empty ARN.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reply {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
    role_arn: Option<String>,
    /// A text or a number.
    account_id: Option<serde_json::Value>,
}

/// The claims of a JSON Web Token (JWT) that stay the same when it is renewed: its issuer and its subject.
#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
}

impl Container {
    /// Returns the service, if the variables name it.
    ///
    /// # Errors
    /// If the credentials would be sent unencrypted from another machine.
    pub(super) fn of_variables(variables: &Variables<'_>) -> Result<Option<Self>, Error> {
        const RELATIVE: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        const FULL: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let (url, rule) = if let Some(path) = variables.get(RELATIVE) {
            let rule = format!("{RELATIVE} must begin with /");
            (format!("http://{ECS}{path}"), rule)
        } else if let Some(url) = variables.get(FULL) {
            let rule = format!(
                "{FULL} must begin with https://, or have an address of this machine, of ECS or of EKS"
            );
            (url, rule)
        } else {
            return Ok(None);
        };
        if !Url::parse(&url).is_ok_and(|url| is_allowed(&url)) {
            return Err(Error::Credentials(rule));
        }
        let file = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        let token = file.map(|path| Token::File(path.into())).or_else(|| {
            let token = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN");
            token.map(Token::Variable)
        });
        Ok(Some(Self {
            client: client()?,
            url,
            token,
            role: OnceLock::new(),
        }))
    }

    /// Returns the credentials of the role.
    ///
    /// # Errors
    /// If the service cannot be queried, or if the role is not the one that [`Container::user`] has returned.
    pub(super) async fn credentials(&self) -> Result<Temporary, Failure> {
        let last = |error| Failure::Final(Box::new(error));
        let reply = self.reply(self.token()?).await?;
        if let (Some(opened), Some(role)) = (self.role.get(), reply.role())
            && opened != role
        {
            return Err(last(Error::Credentials(format!(
                "{CONTAINER_SERVICE} returns credentials of another role now: {role} instead of {opened}; \
                 mount the image again"
            ))));
        }
        reply.into_credentials(SystemTime::now()).map_err(last)
    }

    /// Returns what distinguishes the role from others: its ARN. If the service does not return it, the account, the URL
    /// of the service and the owner of the token distinguish the role. The URL is not enough, because all containers
    /// of a machine can have the same one. Without a token, the ID of the key distinguishes the role.
    pub(super) async fn user(&self) -> Result<String, Failure> {
        let token = self.token()?;
        let reply = self.reply(token.clone()).await?;
        if let Some(role) = reply.role() {
            let role = self.role.get_or_init(|| role.to_owned());
            return Ok(format!("role {role}"));
        }
        let owner = token.map_or(reply.access_key_id, |token| owner_of(&token));
        let account = reply.account_id.unwrap_or_default();
        Ok(format!("role {}\n{account}\n{owner}", self.url))
    }

    /// Queries the service with `token`.
    async fn reply(&self, token: Option<String>) -> Result<Reply, Failure> {
        let header = token.map(|token| ("authorization", token));
        let reply = query(&self.client, Method::GET, &self.url, header).await;
        let reply = reply.map_err(|failure| failure.of_service(CONTAINER_SERVICE))?;
        parse_reply(reply.as_bytes()).map_err(|error| Failure::Final(Box::new(error)))
    }

    /// Returns the token, if there is one.
    fn token(&self) -> Result<Option<String>, Failure> {
        let token = match &self.token {
            None => return Ok(None),
            Some(Token::Variable(token)) => token.clone(),
            Some(Token::File(path)) => std::fs::read_to_string(path).map_err(|error| {
                let why = format!("cannot read {}: {error}", path.display());
                refused(why).of_service(CONTAINER_SERVICE)
            })?,
        };
        Ok(Some(token.trim().to_owned()))
    }
}

impl Reply {
    /// Returns the ARN of the role, if the service knows it.
    fn role(&self) -> Option<&str> {
        self.role_arn.as_deref().filter(|role| !role.is_empty())
    }

    /// Returns the credentials, which were received at the time `now`.
    fn into_credentials(self, now: SystemTime) -> Result<Temporary, Error> {
        let expires = self
            .expiration
            .map(|time| parse_time(&time).ok_or_else(unexpected));
        let credential = AwsCredential {
            key_id: self.access_key_id,
            secret_key: self.secret_access_key,
            token: self.token,
        };
        Temporary::new(SOURCE, credential, expires.transpose()?, now)
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
            let answer = answer.await;
            return answer.map_err(|failure| failure.of_service(METADATA_SERVICE));
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

fn unexpected() -> Error {
    Error::Credentials(format!("the reply of {SOURCE} is not as expected"))
}

/// Returns what distinguishes the owner of `token` from others. It stays the same when a JWT is renewed.
fn owner_of(token: &str) -> String {
    let owner = match claims(token) {
        Some(Claims { iss, sub }) => format!("{iss}\n{sub}"),
        None => token.to_owned(),
    };
    ContentDigest(Sha256::digest(owner).into()).to_string()
}

/// Returns the claims of `token`, if it is a JWT.
fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    serde_json::from_slice(&payload).ok()
}

fn parse_reply(bytes: &[u8]) -> Result<Reply, Error> {
    serde_json::from_slice(bytes).map_err(|_| unexpected())
}

/// Parses credentials that were received at the time `now`. Errors contain no part of them.
pub(super) fn parse(bytes: &[u8], now: SystemTime) -> Result<Temporary, Error> {
    parse_reply(bytes)?.into_credentials(now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_testkit::http::{Fault, HttpServer, Link, Object};

    fn runtime() -> tokio::runtime::Runtime {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap()
    }

    /// Returns the reply of a service: credentials with the ID `key`, after `fields`.
    fn reply(key: &str, fields: &str) -> Object {
        let reply = format!(r#"{{{fields}"AccessKeyId": "{key}", "SecretAccessKey": "hidden"}}"#);
        Object::new(reply.into_bytes(), "x")
    }

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
            container.map(|container| container.map(|container| container.url))
        };
        let relative = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
        let full = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let url = "http://169.254.170.2/role";
        assert_eq!(of(relative, "/role"), Ok(Some(url.to_owned())));
        let url = "http://localhost/role";
        assert_eq!(of(full, url), Ok(Some(url.to_owned())));
        assert_eq!(of("OTHER", "x"), Ok(None));
        for (variable, value) in [(relative, "@any.host/role"), (full, "http://any.host/role")] {
            let error = of(variable, value).unwrap_err().to_string();
            assert!(error.starts_with(variable), "{error}");
        }
    }

    #[test]
    fn roles_at_the_same_url_have_different_names() {
        let service = HttpServer::of_object(Object::new(Vec::new(), "x"), Link::default());
        let name_with_key = |key: &str, variable: &str, value: &str, fields: &str| {
            service.replace(reply(key, fields));
            let get = |own: &str| match own {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI" => Some(service.url("role")),
                own => (own == variable).then(|| value.to_owned()),
            };
            let container = Container::of_variables(&Variables(&get)).unwrap();
            runtime().block_on(container.unwrap().user()).unwrap()
        };
        let name =
            |variable: &str, value: &str, fields: &str| name_with_key("A", variable, value, fields);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
        let (reader, account) = (r#""RoleArn": "arn:reader", "#, r#""AccountId": "12", "#);
        // The tokens of EKS. All of them are in files of the same name.
        let name_with_jwt = |subject: &str, expires: u32| {
            let claims = format!(r#"{{"iss": "i", "sub": "{subject}", "exp": {expires}}}"#);
            let jwt = format!("e30.{}.signature\n", URL_SAFE_NO_PAD.encode(claims));
            std::fs::write(&path, jwt).unwrap();
            name(&format!("{token}_FILE"), path.to_str().unwrap(), account)
        };
        let names = [
            name("", "", reader),
            name("", "", r#""RoleArn": "arn:writer", "#),
            name("", "", ""),
            name_with_key("B", "", "", ""),
            name("", "", account),
            name("", "", r#""AccountId": 34, "#),
            name(token, "one", account),
            name(token, "two", account),
            name_with_jwt("one", 1),
            name_with_jwt("two", 1),
        ];
        assert_eq!(names[0], "role arn:reader");
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert!(!names[6].contains("one") && !names.concat().contains("hidden"));
        // Credentials or a token that are renewed do not change the name.
        assert_eq!(name_with_key("B", token, "three", reader), names[0]);
        assert_eq!(name_with_jwt("one", 2), names[8]);
        let empty = format!(r#""RoleArn": "", {account}"#);
        assert_eq!(name("", "", &empty), names[4]);
    }

    #[test]
    fn credentials_of_another_role_than_that_of_the_name_are_refused() {
        let of_role = |role: &str| reply("A", &format!(r#""RoleArn": "{role}", "#));
        let service = HttpServer::of_object(of_role("arn:reader"), Link::default());
        let get = |name: &str| {
            (name == "AWS_CONTAINER_CREDENTIALS_FULL_URI").then(|| service.url("role"))
        };
        let container = Container::of_variables(&Variables(&get)).unwrap().unwrap();
        let runtime = runtime();
        assert_eq!(
            runtime.block_on(container.user()),
            Ok("role arn:reader".to_owned())
        );
        for role in ["arn:reader", ""] {
            service.replace(of_role(role));
            assert!(runtime.block_on(container.credentials()).is_ok(), "{role}");
        }
        service.replace(of_role("arn:writer"));
        let failure = runtime.block_on(container.credentials()).err().unwrap();
        assert!(!failure.is_temporary());
        let text = failure.to_string();
        assert!(text.contains("arn:writer instead of arn:reader"), "{text}");
    }

    #[test]
    fn failure_after_the_first_answer_names_the_metadata_service() {
        let service = HttpServer::of_pages(&[], Link::default());
        let endpoint = service.url("");
        let get =
            |name: &str| (name == "AWS_EC2_METADATA_SERVICE_ENDPOINT").then(|| endpoint.clone());
        let instance = Instance::new(&Variables(&get), Error::Denied).unwrap();
        let runtime = runtime();
        let absent = Failure::Final(Box::new(Error::Denied));
        assert_eq!(runtime.block_on(instance.role()), Err(absent));
        instance.has_answered.store(true, Relaxed);
        for (fault, is_temporary) in [
            (Fault::Status(503), true),
            (Fault::Close, true),
            (Fault::Status(404), false),
        ] {
            service.inject([fault]);
            let failure = runtime.block_on(instance.role()).unwrap_err();
            assert_eq!(failure.is_temporary(), is_temporary, "{failure}");
            let text = failure.to_string();
            assert!(text.contains(METADATA_SERVICE), "{text}");
        }
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
