//! Images that are only reachable through a proxy, and servers with certificates of an authority of the user.

#[allow(dead_code, reason = "each test uses a part of it")]
mod fixture;
#[allow(dead_code, reason = "each test uses a part of it")]
mod larder;

use fixture::{Fixture, SECRET, assert_hidden};
use larder::command;
use larder_testkit::http::{Fault, Proxy, TlsServer};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A name that is not in the DNS: only the proxy knows the server.
const HOST: &str = "images.invalid";

/// Returns a command that prints the file `hello` of the image at `url`, with the variables `env`.
fn cat(url: &str, env: &[(&str, &str)]) -> Command {
    let mut command = command();
    command.args(["cat", url, "/hello"]);
    command.envs(env.iter().copied());
    command
}

fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert_hidden(&output.stdout);
    assert_hidden(&output.stderr);
    output
}

#[track_caller]
fn assert_reads(command: &mut Command) {
    let output = output(command);
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{messages}");
    assert_eq!(output.stdout, b"hello\n");
}

#[test]
fn image_is_read_through_the_proxy_of_its_scheme() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let proxy = Proxy::before(fixture.server.address());
    let url = format!("http://{HOST}/disk.img?token={SECRET}");
    // Base64 of the user name and the password.
    let authorization = "Basic dXNlcjpoaWRkZW4tdG9rZW4=";
    let proxy_url = proxy.url(&format!("user:{SECRET}"));
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        assert_reads(&mut cat(&url, &[(variable, &proxy_url)]));
        let requests = proxy.take_requests();
        assert!(requests[0].target.starts_with("http://images.invalid/"));
        for request in requests {
            assert_eq!(request.header("proxy-authorization"), Some(authorization));
        }
    }
    // `HTTPS_PROXY` is not for http.
    drop(fixture.server.take_requests());
    let direct = [("NO_PROXY", "127.0.0.1"), ("ALL_PROXY", proxy_url.as_str())];
    assert_reads(&mut cat(&fixture.url(), &direct));
    assert_reads(&mut cat(&fixture.url(), &[("HTTPS_PROXY", &proxy_url)]));
    assert_eq!(proxy.take_requests().len(), 0);
}

#[test]
fn image_with_tls_is_read_through_a_tunnel() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let tls = TlsServer::before(fixture.server.address(), HOST);
    let proxy = Proxy::before(tls.address());
    let authority = fixture.path("authority");
    fs::write(&authority, tls.authority()).unwrap();
    let url = format!("https://{HOST}/disk.img?token={SECRET}");
    let proxy_url = proxy.url(&format!("user:{SECRET}"));
    let env = [
        ("HTTPS_PROXY", proxy_url.as_str()),
        ("SSL_CERT_FILE", authority.to_str().unwrap()),
    ];
    assert_reads(&mut cat(&url, &env));
    for request in proxy.take_requests() {
        assert_eq!(request.method, "CONNECT");
        assert_eq!(request.target, "images.invalid:443");
        assert!(request.header("proxy-authorization").is_some());
    }
    for request in fixture.server.take_requests() {
        assert_eq!(request.header("proxy-authorization"), None);
    }
}

/// Starts a server with TLS in front of the fixture's server. Returns it, and the path of its authority's certificate.
fn tls_server(fixture: &Fixture) -> (TlsServer, PathBuf) {
    let tls = TlsServer::before(fixture.server.address(), "localhost");
    let authority = fixture.path("authority");
    fs::write(&authority, tls.authority()).unwrap();
    (tls, authority)
}

#[test]
fn certificate_must_be_of_a_trusted_authority_and_for_the_host() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (tls, authority) = tls_server(&fixture);
    let trusted = [("SSL_CERT_FILE", authority.to_str().unwrap())];
    let url = |host: &str| {
        let port = tls.address().port();
        format!("https://{host}:{port}/disk.img?token={SECRET}")
    };
    assert_reads(&mut cat(&url("localhost"), &trusted));
    drop(fixture.server.take_requests());
    for (host, env) in [("localhost", &[][..]), ("127.0.0.1", &trusted)] {
        let output = output(&mut cat(&url(host), env));
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(messages.contains("invalid peer certificate"), "{messages}");
        assert!(messages.contains("SSL_CERT_FILE"), "{messages}");
        assert_eq!(fixture.server.take_requests().len(), 0);
    }
}

#[test]
fn machine_without_certificates_trusts_no_server_with_tls_and_reads_from_others() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (tls, _) = tls_server(&fixture);
    let absent = fixture.path("absent");
    let env = [("SSL_CERT_FILE", absent.to_str().unwrap())];
    assert_reads(&mut cat(&fixture.url(), &env));
    let port = tls.address().port();
    let url = format!("https://localhost:{port}/disk.img?token={SECRET}");
    let output = output(&mut cat(&url, &env));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains("invalid peer certificate"), "{messages}");
}

#[test]
fn redirect_from_https_to_http_is_refused_at_once() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (tls, authority) = tls_server(&fixture);
    let trusted = [("SSL_CERT_FILE", authority.to_str().unwrap())];
    let plain = fixture.server.url("disk.img");
    fixture.server.inject([Fault::Redirect(plain)]);
    let port = tls.address().port();
    let url = format!("https://localhost:{port}/disk.img?token={SECRET}");
    let output = output(&mut cat(&url, &trusted));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains("status 302"), "{messages}");
    assert_eq!(fixture.server.take_requests().len(), 1);
}

#[test]
fn redirect_from_http_over_https_to_http_is_refused() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let (tls, authority) = tls_server(&fixture);
    let trusted = [("SSL_CERT_FILE", authority.to_str().unwrap())];
    let encrypted = format!("https://localhost:{}/disk.img", tls.address().port());
    let plain = fixture.server.url("disk.img");
    let to = |url: &str| Fault::Redirect(url.to_owned());
    fixture.server.inject([to(&encrypted), to(&plain)]);
    let output = output(&mut cat(&fixture.url(), &trusted));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains("status 302"), "{messages}");
    assert_eq!(fixture.server.take_requests().len(), 2);
}

#[test]
fn proxy_that_cannot_be_reached_is_reported_without_its_password() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    // A port that nothing listens on: the discard service.
    let proxy = format!("http://user:{SECRET}@127.0.0.1:9");
    let mut command = command();
    command.args(["mount", &fixture.url(), "-o", "device_timeout=1"]);
    command.arg(fixture.path("mnt")).env("HTTP_PROXY", proxy);
    let output = output(command.env("LARDER_LOG", "trace"));
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(messages.contains("cannot connect"), "{messages}");
    assert_eq!(fixture.server.take_requests().len(), 0);
}
