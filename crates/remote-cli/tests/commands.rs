//! The commands of larder-remote with images at URLs.

mod fixture;
mod larder;

use fixture::{Fixture, SECRET, assert_hidden, larder, larder_fails, larder_ok, large};
use larder::{Mounted, PROGRAM, command, command_of};
use larder_testkit::http::{Fault, HttpServer, Link, Object};
use std::ffi::OsStr;
use std::fs;
use std::process::Command;

/// Returns the file `/hello` of the image at `url`, as read by a command with the variables `env` and the cache in the
/// folder of `fixture`.
fn hello(fixture: &Fixture, url: &str, env: &[(&str, &str)]) -> String {
    let mut command = command();
    command.args(["cat", url, "/hello", "--anonymous", "--cache-dir"]);
    command.arg(fixture.path("cache")).envs(env.iter().copied());
    let output = command.output().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{env:?}: {messages}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn image_commands_read_an_image_at_a_url() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let url = fixture.url();
    let listing = String::from_utf8(larder_ok(["ls", &url])).unwrap();
    assert!(
        listing.contains("hello") && listing.contains("directory"),
        "{listing}"
    );
    assert_eq!(larder_ok(["cat", &url, "/hello"]), b"hello\n");
    assert_eq!(larder_ok(["cat", &url, "/directory/large"]), large());
    let info = String::from_utf8(larder_ok(["info", &url])).unwrap();
    assert!(info.contains("ext4"), "{info}");
    assert!(!larder_ok(["stat", "--json", &url, "/hello"]).is_empty());
    // A path can follow the URL, which has secrets in its query.
    let inside = |path: &str| format!("{url}:{path}");
    assert_eq!(larder_ok(["cat", &inside("/hello")]), b"hello\n");
    let listed = larder_ok(["ls", &inside("/directory"), &inside("/hello")]);
    assert_eq!(listed, larder_ok(["ls", &url, "/directory", "/hello"]));
    // The text after :// in a query is part of the URL, and is not shown.
    let nested = format!("{url}&from=https://host/{SECRET}");
    assert_eq!(larder_ok(["cat", &nested, "/hello"]), b"hello\n");
    let message = larder_fails(["cat", &nested, "/none"]);
    assert!(message.contains("/none"), "{message}");
    let copy = fixture.path("copy");
    larder_ok([
        "cp".as_ref(),
        "-r".as_ref(),
        url.as_ref(),
        "/".as_ref(),
        copy.as_os_str(),
    ]);
    assert_eq!(fs::read(copy.join("directory/large")).unwrap(), large());
}

#[test]
fn url_can_be_read_from_a_file() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let file = fixture.path("url");
    fs::write(&file, fixture.url()).unwrap();
    let args = [
        "cat".as_ref(),
        "--url-file".as_ref(),
        file.as_os_str(),
        "/hello".as_ref(),
    ];
    assert_eq!(larder_ok(args), b"hello\n");
}

#[test]
fn secrets_of_a_url_with_a_scheme_in_upper_case_are_hidden() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let url = fixture.url().replace("http://", "HTTP://");
    assert_eq!(larder_ok(["cat", &url, "/hello"]), b"hello\n");
    let secret = "HTTP://user:hush@localhost/absent?sig=hush";
    let message = larder_fails(["ls", "--offline", secret]);
    assert!(message.contains("http://"), "{message}");
    assert!(!message.contains("hush"), "{message}");
}

#[test]
fn two_urls_can_differ_only_in_their_query() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let url = |id: &str| fixture.server.url(&format!("get?id={id}"));
    assert_eq!(larder_ok(["diff", &url("a"), &url("b")]), b"");
    let requests = fixture.server.take_requests();
    for id in ["a", "b"] {
        let target = format!("/get?id={id}");
        assert!(requests.iter().any(|request| request.target == target));
    }
}

#[test]
fn version_in_the_url_of_an_object_is_requested() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let endpoint = fixture.server.url("").trim_end_matches('/').to_owned();
    let env = [("AWS_ENDPOINT_URL", endpoint.as_str())];
    let read = |query: &str| hello(&fixture, &format!("s3://bucket/disk.img{query}"), &env);
    assert_eq!(read("?versionId=a%2Bb"), "hello\n");
    for request in fixture.server.take_requests() {
        assert_eq!(request.target, "/bucket/disk.img?versionId=a%2Bb");
    }
    // Another version has its own cached units.
    read("?versionId=c");
    let requests = fixture.server.take_requests();
    assert!(
        requests
            .iter()
            .any(|request| request.range() != Some((0, 0)))
    );
    for url in ["s3://bucket/disk.img?version=a", "gs://bucket/disk.img#a"] {
        let message = larder_fails(["ls", url]);
        assert!(message.contains('%'), "{message}");
    }
    assert_eq!(fixture.server.take_requests().len(), 0);
}

#[test]
fn object_without_a_strong_etag_is_read_with_a_warning() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut object = Object::new(fs::read(fixture.path("image")).unwrap(), "one");
    object.etag = None;
    fixture.server.replace(object);
    let output = larder(["cat", "--allow-unversioned", &fixture.url(), "/hello"]);
    assert_eq!(output.stdout, b"hello\n");
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("warning: the server sends no strong ETag"),
        "{message}"
    );
    assert!(!message.contains(SECRET), "{message}");
}

#[test]
fn failures_say_what_to_do_and_hide_secrets() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let url = fixture.url();
    for (fault, expected) in [
        (Fault::Status(404), "no such object"),
        (Fault::Status(403), "credentials"),
        (Fault::Status(400), "status 400 (Bad Request)"),
        (Fault::Status(400), "--endpoint"),
        (Fault::Status(301), "status 301 (Moved Permanently)"),
        (Fault::Status(301), "AWS_REGION"),
        (Fault::NoEtag, "--allow-unversioned"),
    ] {
        fixture.server.inject([fault]);
        let message = larder_fails(["ls", &url]);
        assert!(message.contains(expected), "{message}");
    }
    let message = larder_fails(["rm", &url, "/hello"]);
    assert!(message.contains("not local"), "{message}");
    let message = larder_fails(["ls", "https://user:hidden-token?x@host:99999/x"]);
    assert!(message.contains("https://..."), "{message}");
    let file = fixture.path("url");
    fs::write(&file, "/dev/sda").unwrap();
    let args = ["ls".as_ref(), "--url-file".as_ref(), file.as_os_str()];
    let message = larder_fails(args);
    assert!(message.contains("not a URL"), "{message}");
}

#[test]
fn mount_shows_the_files_and_no_secret() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    let url = fixture.url();
    larder_ok(["mount".as_ref(), url.as_ref(), mountpoint.as_os_str()]);
    let mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    assert_eq!(
        fs::read(mountpoint.join("directory/large")).unwrap(),
        large()
    );
    assert!(fs::write(mountpoint.join("new"), "new").is_err());
    assert_hidden(&fs::read("/proc/self/mountinfo").unwrap());
    let text = larder_ok(["stats".as_ref(), mountpoint.as_os_str()]);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\nserver "), "{text}");
    let json = larder_ok(["stats".as_ref(), "--json".as_ref(), mountpoint.as_os_str()]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(
        json["server"]["fetched_bytes"].as_u64().unwrap() >= 3_000_000,
        "{json}"
    );
    drop(mounted);
}

#[test]
fn large_requests_are_read_ahead_on_a_mount() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    let url = fixture.url();
    larder_ok(["mount".as_ref(), url.as_ref(), mountpoint.as_os_str()]);
    let mounted = Mounted(&mountpoint);
    let file = mountpoint.join("directory/large");
    let read = Command::new("dd")
        .arg(format!("if={}", file.display()))
        .args(["of=/dev/null", "bs=512k", "count=4", "iflag=direct"])
        .output()
        .unwrap();
    assert!(read.status.success(), "{read:?}");
    let json = larder_ok(["stats".as_ref(), "--json".as_ref(), mountpoint.as_os_str()]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let ahead = &json["readahead"]["pages_ahead"];
    assert!(ahead.as_u64().unwrap() > 0, "{json}");
    assert_eq!(json["readahead"]["max_bytes"], 32 << 20);
    drop(mounted);
}

#[test]
fn url_of_a_mount_can_be_read_from_standard_input() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    let url = fixture.path("url");
    fs::write(&url, fixture.url()).unwrap();
    let mut command = command();
    let args = [
        "mount".as_ref(),
        "--url-file".as_ref(),
        "-".as_ref(),
        mountpoint.as_os_str(),
    ];
    command.args(args).stdin(fs::File::open(url).unwrap());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    drop(mounted);
}

#[test]
fn url_of_a_mount_can_be_in_the_file_that_a_mount_option_names() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    let url = fixture.path("url");
    fs::write(&url, fixture.url()).unwrap();
    let option = format!("ro,url_file={}", url.display());
    let directory = mountpoint.as_os_str();
    larder_ok(["mount".as_ref(), "-o".as_ref(), option.as_ref(), directory]);
    let mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    drop(mounted);
    // The same as mount(8) does for a line in /etc/fstab.
    let helper = fixture.path("mount.larder");
    std::os::unix::fs::symlink(PROGRAM, &helper).unwrap();
    let mut helper = command_of(helper.to_str().unwrap());
    helper.arg("none").arg(directory).args(["-o", &option]);
    let output = helper.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    drop(mounted);
}

#[test]
fn read_of_a_replaced_image_fails_with_estale_on_a_mount() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let mountpoint = fixture.path("mnt");
    larder_ok([
        "mount".as_ref(),
        fixture.url().as_ref(),
        mountpoint.as_os_str(),
    ]);
    let mounted = Mounted(&mountpoint);
    let image = fs::read(fixture.path("image")).unwrap();
    fixture.server.replace(Object::new(image, "two"));
    let error = fs::read(mountpoint.join("directory/large")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(116), "{error}");
    drop(mounted);
}

#[test]
fn cached_images_are_listed_and_removed() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let directory = fixture.path("cache");
    let with_cache = |args: &[&str]| {
        let mut all: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        all.extend(["--cache-dir".as_ref(), directory.as_os_str()]);
        larder_ok(all)
    };
    let text = |args: &[&str]| String::from_utf8(with_cache(args)).unwrap();
    assert!(text(&["cache", "ls"]).contains("is empty"));
    assert!(!directory.exists(), "listing creates nothing");
    let url = fixture.url();
    with_cache(&["cat", &url, "/directory/large"]);
    let listing = text(&["cache", "ls"]);
    assert!(listing.contains("disk.img"), "{listing}");
    let json: serde_json::Value =
        serde_json::from_slice(&with_cache(&["cache", "ls", "--json"])).unwrap();
    let image = &json["images"][0];
    assert_eq!(image["size_bytes"], 64 << 20);
    assert_eq!(image["in_use"], false);
    assert_eq!(image["stored_bytes"], json["stored_bytes"]);
    assert!(image["stored_bytes"].as_u64().unwrap() > 3_000_000);
    let pruned = text(&["cache", "prune", "1G"]);
    assert!(pruned.starts_with("cached images removed: 0 "), "{pruned}");
    let cleared = text(&["cache", "clear"]);
    assert!(
        cleared.starts_with("cached images removed: 1 "),
        "{cleared}"
    );
    assert!(text(&["cache", "ls"]).contains("is empty"));
}

#[test]
fn servers_with_the_same_bucket_do_not_share_cached_units() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    // An image of the same length with the same ETag, and another content of the file.
    let mut image = fs::read(fixture.path("image")).unwrap();
    let at = image.windows(6).position(|bytes| bytes == b"hello\n");
    image[at.unwrap()] = b'j';
    let other = HttpServer::of_object(Object::new(image, "one"), Link::default());
    let endpoint = |server: &HttpServer| server.url("").trim_end_matches('/').to_owned();
    let (first, second) = (endpoint(&fixture.server), endpoint(&other));
    let s3 = "s3://bucket/disk.img";
    let config = fixture.path("config");
    let write_config = |endpoint: &str| {
        let text = format!("[default]\nendpoint_url = {endpoint}\n");
        fs::write(&config, text).unwrap();
    };
    let variable = |endpoint: &str| hello(&fixture, s3, &[("AWS_ENDPOINT_URL", endpoint)]);
    let profile = |endpoint: &str| {
        write_config(endpoint);
        hello(
            &fixture,
            s3,
            &[("AWS_CONFIG_FILE", config.to_str().unwrap())],
        )
    };
    let google = |endpoint: &str| {
        hello(
            &fixture,
            "gs://bucket/disk.img",
            &[("GOOGLE_BASE_URL", endpoint)],
        )
    };
    assert_eq!(variable(&first), "hello\n");
    assert_eq!(variable(&second), "jello\n");
    drop(fixture.server.take_requests());
    assert_eq!(profile(&first), "hello\n");
    // The content is cached, although the endpoint is now configured in another place.
    let requests = fixture.server.take_requests();
    assert!(
        requests
            .iter()
            .all(|request| request.range() == Some((0, 0)))
    );
    assert_eq!(profile(&second), "jello\n");
    assert_eq!(google(&first), "hello\n");
    assert_eq!(google(&second), "jello\n");
}

#[test]
fn accounts_of_azure_do_not_share_cached_units() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let endpoint = fixture.server.url("").trim_end_matches('/').to_owned();
    let account = |name: &str| {
        let env = [
            ("AZURE_STORAGE_ENDPOINT", endpoint.as_str()),
            ("AZURE_STORAGE_ACCOUNT_NAME", name),
        ];
        hello(&fixture, "az://container/disk.img", &env)
    };
    assert_eq!(account("one"), "hello\n");
    drop(fixture.server.take_requests());
    account("two");
    let requests = fixture.server.take_requests();
    assert!(
        requests
            .iter()
            .any(|request| request.range() != Some((0, 0)))
    );
}

#[test]
fn option_has_precedence_over_variables() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let endpoint = fixture.server.url("");
    let mut command = command();
    command.args(["cat", "s3://bucket/disk.img", "/hello", "--anonymous"]);
    command.args(["--endpoint", endpoint.trim_end_matches('/')]);
    for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
        command.env(name, "http://127.0.0.1:1");
    }
    assert_eq!(command.output().unwrap().stdout, b"hello\n");
}
