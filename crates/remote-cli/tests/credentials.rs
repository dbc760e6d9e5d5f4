//! Credentials for S3: where they are found, and the error if there are none.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::Fixture;
use larder::command;
use larder_testkit::http::{Fault, HttpServer, Link, Object, TlsServer};
use std::fs;
use std::process::{Command, Output};

const URL: &str = "s3://bucket/disk.img";
const KEY: &str = "TESTKEY";
/// A time in the far future.
const FUTURE: &str = "2200-01-01T00:00:00Z";

/// Returns credentials with the key [`KEY`], in the form of the services for roles, and with `version` before them.
fn json(version: &str) -> String {
    format!(
        r#"{{{version}"AccessKeyId": "{KEY}", "SecretAccessKey": "s", "Token": "T", "SessionToken": "T",
            "Expiration": "{FUTURE}"}}"#
    )
    .replace('\n', " ")
}

/// Returns a command that lists the image on the server of `fixture`, for a user whose AWS configuration is `config`.
fn ls(fixture: &Fixture, config: &str) -> Command {
    let folder = fixture.path("home/.aws");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config"), config).unwrap();
    let mut command = command();
    command.args(["ls", URL, "--endpoint", &fixture.server.url("")]);
    command.env("HOME", fixture.path("home"));
    // A port that nothing listens on: the discard service.
    command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9");
    command
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks that `command` succeeds, with requests that are signed with [`KEY`] and the token `T`.
#[track_caller]
fn assert_signed(fixture: &Fixture, command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let requests = fixture.server.take_requests();
    assert!(!requests.is_empty());
    for request in requests {
        let signature = request.header("authorization").unwrap();
        assert!(
            signature.contains(&format!("Credential={KEY}/")),
            "{signature}"
        );
        assert_eq!(request.header("x-amz-security-token"), Some("T"));
    }
}

/// Checks that `command` fails with all of `expected`, without a request to the server.
#[track_caller]
fn assert_fails(fixture: &Fixture, command: &mut Command, expected: &[&str]) {
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let messages = messages(&output);
    for text in expected {
        assert!(messages.contains(text), "{messages}");
    }
    assert!(fixture.server.take_requests().is_empty());
}

#[test]
fn error_without_credentials_lists_the_searched_places() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let expected = [
        "no credentials were found",
        "AWS_ACCESS_KEY_ID",
        ".aws/credentials",
        "instance metadata service",
        "--anonymous",
    ];
    assert_fails(&fixture, &mut ls(&fixture, ""), &expected);
    // A machine on which the address of the service does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let mut without_answer = ls(&fixture, "");
    without_answer.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", silent);
    assert_fails(&fixture, &mut without_answer, &expected);
    let output = ls(&fixture, "").arg("--anonymous").output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    for request in fixture.server.take_requests() {
        assert_eq!(request.header("authorization"), None);
    }
}

#[test]
fn program_of_a_profile_prints_credentials() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let config = format!(
        "[profile tool]\ncredential_process = /bin/echo '{}'\n[profile broken]\ncredential_process = /bin/false\n",
        json(r#""Version": 1, "#)
    );
    assert_signed(&fixture, ls(&fixture, &config).env("AWS_PROFILE", "tool"));
    let mut broken = ls(&fixture, &config);
    let expected = ["credential_process failed: /bin/false ended with exit status: 1"];
    assert_fails(&fixture, broken.env("AWS_PROFILE", "broken"), &expected);
    let mut absent = ls(&fixture, &config);
    let expected = ["AWS_PROFILE names the profile absent"];
    assert_fails(&fixture, absent.env("AWS_PROFILE", "absent"), &expected);
}

#[test]
fn role_of_an_instance_or_a_container_is_used() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let roles = "/latest/meta-data/iam/security-credentials/";
    let pages = [
        ("/latest/api/token", "metadata-token"),
        (roles, "reader"),
        (&format!("{roles}reader"), &json("")),
        ("/container", &json("")),
    ];
    let service = HttpServer::of_pages(&pages, Link::default());
    let mut instance = ls(&fixture, "");
    instance.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", local(&service, ""));
    assert_signed(&fixture, without_proxy(&fixture, &mut instance));
    let requests = service.take_requests();
    // The disk cache needs the name of the role: a token and the role. The credentials need both again.
    assert_eq!(requests.len(), 5);
    fs::write(fixture.path("token"), "container-token\n").unwrap();
    let token_file = fixture.path("token").into_os_string();
    for (variable, value, expected) in [
        ("TOKEN_FILE", token_file, Some("container-token")),
        ("TOKEN", "own-token".into(), Some("own-token")),
        ("UNUSED", "x".into(), None),
    ] {
        let mut container = ls(&fixture, "");
        container
            .env(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                local(&service, "container"),
            )
            .env(format!("AWS_CONTAINER_AUTHORIZATION_{variable}"), value);
        assert_signed(&fixture, without_proxy(&fixture, &mut container));
        let requests = service.take_requests();
        assert_eq!(requests[0].header("authorization"), expected);
    }
    let mut other = ls(&fixture, "");
    other.env(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "http://192.0.2.1/role",
    );
    assert_fails(&fixture, &mut other, &["must begin with https://"]);
}

/// Returns the URL of a page of a service, with a name of this machine for which [`without_proxy`] makes no exception.
fn local(service: &HttpServer, path: &str) -> String {
    format!("http://localhost:{}/{path}", service.address().port())
}

/// Sets a proxy that does not work, for all hosts except for the server of `fixture`.
fn without_proxy<'c>(fixture: &Fixture, command: &'c mut Command) -> &'c mut Command {
    command.env("HTTP_PROXY", "http://127.0.0.1:9");
    command.env("NO_PROXY", fixture.server.address().ip().to_string())
}

/// Returns a command that lists the image at `url` on the server of `fixture`, for a user without credentials on a
/// machine without a metadata service.
fn ls_without_credentials(fixture: &Fixture, url: &str) -> Command {
    let mut command = command();
    command.args(["ls", url, "--endpoint"]);
    command.arg(fixture.server.url("").trim_end_matches('/'));
    command.env("HOME", fixture.path("home"));
    command.env("GCE_METADATA_HOST", "127.0.0.1:9");
    command.env("GCE_METADATA_IP", "127.0.0.1:9");
    command.env("AZURE_STORAGE_ACCOUNT_NAME", "account");
    command.env("AZURE_MSI_ENDPOINT", "http://127.0.0.1:9/token");
    command
}

#[test]
fn google_and_azure_without_credentials_list_the_searched_places() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for (url, variable) in [
        ("gs://bucket/disk.img", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/disk.img", "AZURE_STORAGE_ACCOUNT_KEY"),
    ] {
        let expected = [
            "no credentials were found",
            variable,
            "instance metadata service",
            "--anonymous",
        ];
        let mut command = ls_without_credentials(&fixture, url);
        assert_fails(&fixture, &mut command, &expected);
    }
}

#[test]
fn instances_of_google_and_azure_have_credentials_without_a_proxy() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let account = "/computeMetadata/v1/instance/service-accounts/default";
    let token = r#"{"access_token": "T", "expires_in": 3600, "expires_on": "7258118400"}"#;
    let pages = [
        ("/msi", token),
        (&format!("{account}/token"), token),
        (&format!("{account}/email"), "reader@project"),
    ];
    let service = HttpServer::of_pages(&pages, Link::default());
    let host = format!("localhost:{}", service.address().port());
    for (url, variable, value) in [
        ("gs://bucket/disk.img", "GCE_METADATA_HOST", host),
        (
            "az://container/disk.img",
            "AZURE_MSI_ENDPOINT",
            local(&service, "msi"),
        ),
    ] {
        let mut command = ls_without_credentials(&fixture, url);
        command.env(variable, value);
        let output = without_proxy(&fixture, &mut command).output().unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        for request in fixture.server.take_requests() {
            assert_eq!(request.header("authorization"), Some("Bearer T"));
        }
    }
}

#[test]
fn failure_of_the_token_service_of_azure_names_the_service() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let service = HttpServer::of_pages(&[], Link::default());
    let mut command = ls_without_credentials(&fixture, "az://container/disk.img");
    command.env("AZURE_CLIENT_ID", "client");
    command.env("AZURE_CLIENT_SECRET", "secret");
    command.env("AZURE_TENANT_ID", "tenant");
    command.env(
        "AZURE_AUTHORITY_HOST",
        service.url("").trim_end_matches('/'),
    );
    let expected = ["the token service", "status 404"];
    assert_fails(&fixture, &mut command, &expected);
}

/// Runs `command`, and returns whether it requests only one byte of the image, because the rest is cached.
#[track_caller]
fn reads_cached(fixture: &Fixture, command: &mut Command) -> bool {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let requests = fixture.server.take_requests();
    let is_check = |range: Option<(usize, usize)>| range == Some((0, 0));
    requests.iter().all(|request| is_check(request.range()))
}

#[test]
fn cached_units_belong_to_the_role_of_the_instance() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let reads_cached = |role: &str| {
        let roles = "/latest/meta-data/iam/security-credentials/";
        let pages = [
            ("/latest/api/token", "metadata-token"),
            (roles, role),
            (&format!("{roles}{role}"), &json("")),
        ];
        let service = HttpServer::of_pages(&pages, Link::default());
        let mut command = ls(&fixture, "");
        command.env("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url(""));
        reads_cached(&fixture, &mut command)
    };
    assert!(!reads_cached("reader"));
    assert!(reads_cached("reader"));
    assert!(!reads_cached("other"));
}

#[test]
fn cached_units_belong_to_the_role_of_the_container() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let reply = |role: &str| {
        let reply = json(&format!(r#""RoleArn": "{role}", "#));
        Object::new(reply.into_bytes(), "x")
    };
    let service = HttpServer::of_object(reply("arn:reader"), Link::default());
    let mut command = ls(&fixture, "");
    let url = service.url("container");
    command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
    // The query for the name of the role is repeated.
    service.inject([Fault::Status(503), Fault::Close]);
    assert!(!reads_cached(&fixture, &mut command));
    assert!(reads_cached(&fixture, &mut command));
    service.replace(reply("arn:other"));
    assert!(!reads_cached(&fixture, &mut command));
}

#[test]
fn login_of_single_sign_on_is_used_until_it_expires() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let reply = format!(
        r#"{{"roleCredentials": {{"accessKeyId": "{KEY}", "secretAccessKey": "s", "sessionToken": "T",
            "expiration": 7258118400000}}}}"#
    );
    let portal = HttpServer::of_pages(&[("/federation/credentials", &reply)], Link::default());
    let tls = TlsServer::before(portal.address(), "localhost");
    let config = "[profile dev]\nsso_session = abc\nsso_account_id = 12\nsso_role_name = read&er\n\
        [sso-session abc]\nsso_region = eu-west-1\nsso_start_url = https://host/start\n";
    fs::write(fixture.path("authority"), tls.authority()).unwrap();
    let with_portal = |scheme: &str| {
        let mut command = ls(&fixture, config);
        let portal = format!("{scheme}://localhost:{}", tls.address().port());
        command
            .env("AWS_PROFILE", "dev")
            .env("SSL_CERT_FILE", fixture.path("authority"))
            .env("AWS_ENDPOINT_URL_SSO", portal);
        command
    };
    let login = ["run: aws sso login --profile dev"];
    assert_fails(&fixture, &mut with_portal("https"), &login);
    let cache = fixture.path("home/.aws/sso/cache");
    fs::create_dir_all(&cache).unwrap();
    let write_token = |expires: &str| {
        let token = format!(r#"{{"accessToken": "login-token", "expiresAt": "{expires}"}}"#);
        // The SHA-1 of the name of the session.
        let name = "a9993e364706816aba3e25717850c26c9cd0d89d.json";
        fs::write(cache.join(name), token).unwrap();
    };
    write_token("2020-01-01T00:00:00Z");
    assert_fails(&fixture, &mut with_portal("https"), &login);
    write_token(FUTURE);
    assert_fails(
        &fixture,
        &mut with_portal("http"),
        &["begins with https://"],
    );
    assert!(portal.take_requests().is_empty());
    assert_signed(&fixture, &mut with_portal("https"));
    let requests = portal.take_requests();
    let target = "/federation/credentials?role_name=read%26er&account_id=12";
    assert_eq!(requests[0].target, target);
    let token = requests[0].header("x-amz-sso_bearer_token");
    assert_eq!(token, Some("login-token"));
    portal.inject([Fault::Status(401)]);
    assert_fails(&fixture, &mut with_portal("https"), &login);
    let name = "the portal of IAM Identity Center";
    portal.inject([Fault::Status(405)]);
    let expected = [name, "status 405"];
    assert_fails(&fixture, &mut with_portal("https"), &expected);
    let mut untrusted = with_portal("https");
    untrusted.env("SSL_CERT_FILE", fixture.path("absent"));
    // The hint names the variable.
    let expected = [name, "invalid peer certificate", "SSL_CERT_FILE"];
    assert_fails(&fixture, &mut untrusted, &expected);
}
