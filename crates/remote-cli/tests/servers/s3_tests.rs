//! Images on servers that are compatible with S3.

use crate::image::{Local, fails, plain, succeeds};
use crate::s3::{KEY, S3, SECRET, write_profile};
use std::process::Command;

/// The name of the image in the bucket.
const NAME: &str = "folder/disk.img";

/// Returns the server with the local image in its bucket.
fn with_image(server: Option<S3>) -> Option<(S3, Local)> {
    let local = Local::new()?;
    let server = server?;
    server.put(NAME, local.bytes());
    Some((server, local))
}

#[test]
fn image_on_versitygw_equals_the_local_image() {
    if let Some((server, local)) = with_image(S3::versitygw()) {
        local.assert_same(&S3::url(NAME), |subcommand| server.ready(subcommand));
    }
}

#[test]
fn image_on_moto_equals_the_local_image() {
    if let Some((server, local)) = with_image(S3::moto()) {
        local.assert_same(&S3::url(NAME), |subcommand| server.ready(subcommand));
    }
}

#[test]
fn replaced_or_removed_image_is_stale() {
    for start in [S3::versitygw, S3::moto] {
        let Some((server, local)) = with_image(start()) else {
            continue;
        };
        let url = S3::url(NAME);
        local.assert_stale(
            &url,
            |subcommand| server.ready(subcommand),
            || server.put(NAME, local.other_bytes()),
        );
        local.assert_stale(
            &url,
            |subcommand| server.ready(subcommand),
            || server.delete(NAME),
        );
    }
}

#[test]
fn commit_of_an_overlay_uploads_a_new_object_and_replaces_none() {
    for start in [S3::versitygw, S3::moto] {
        let Some((server, local)) = with_image(start()) else {
            continue;
        };
        let overlay = local.path("changes.qcow2");
        let (url, target) = (S3::url(NAME), S3::url("folder/new.img"));
        let mut mkdir = server.ready("mkdir");
        succeeds(mkdir.arg("--overlay").arg(&overlay).args([&url, "/new"]));
        let commit = || {
            let mut commit = server.ready("overlay");
            commit.args(["commit", "--to", &target]).arg(&overlay);
            commit
        };
        succeeds(commit().arg(&url));
        let list = |url: &str| {
            let names = succeeds(server.ready("ls").args([url, "/"]));
            String::from_utf8(names).unwrap()
        };
        assert!(list(&target).contains("new") && !list(&url).contains("new"));
        // The overlay still belongs to the image.
        let differences = succeeds(server.ready("overlay").arg("diff").arg(&overlay).arg(&url));
        assert_eq!(differences, b"A /new/\n");
        fails(&mut commit(), &url, "the object exists");
    }
}

#[test]
fn endpoint_is_an_option_a_variable_or_in_a_profile() {
    let Some((server, local)) = with_image(S3::versitygw()) else {
        return;
    };
    let endpoint = server.endpoint();
    let reads = |command: &mut Command| {
        let hello = succeeds(command.args([&S3::url(NAME), "/hello"]));
        assert_eq!(hello, b"hello\n");
    };
    reads(S3::command("cat").args(["--endpoint", &endpoint]));
    reads(S3::command("cat").env("AWS_ENDPOINT_URL", &endpoint));
    let unused = "http://127.0.0.1:1";
    reads(
        S3::command("cat")
            .env("AWS_ENDPOINT_URL", unused)
            .env("AWS_ENDPOINT_URL_S3", &endpoint),
    );
    let config =
        format!("[default]\nendpoint_url = {unused}\n[profile own]\nendpoint_url = {endpoint}\n");
    let keys = format!("[own]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n");
    write_profile(&local.path("home"), &config, &keys);
    let mut profile = plain("cat");
    reads(
        profile
            .env("HOME", local.path("home"))
            .env("AWS_PROFILE", "own"),
    );
    let mut files = plain("cat");
    reads(
        files
            .env("AWS_CONFIG_FILE", local.path("home/.aws/config"))
            .env(
                "AWS_SHARED_CREDENTIALS_FILE",
                local.path("home/.aws/credentials"),
            )
            .env("AWS_PROFILE", "own"),
    );
}

#[test]
fn wrong_credentials_are_refused() {
    let Some((server, _local)) = with_image(S3::versitygw()) else {
        return;
    };
    let denied = "the server denies access";
    let url = S3::url(NAME);
    fails(
        server.ready("ls").env("AWS_SECRET_ACCESS_KEY", "wrong"),
        &url,
        denied,
    );
    fails(server.ready("ls").arg("--anonymous"), &url, denied);
}

#[test]
fn absent_image_is_reported() {
    for start in [S3::versitygw, S3::moto] {
        let Some(server) = start() else {
            continue;
        };
        let message = "the server has no such object";
        fails(&mut server.ready("ls"), &S3::url("absent.img"), message);
        fails(
            &mut server.ready("ls"),
            "s3://absent-bucket/disk.img",
            message,
        );
    }
}

#[test]
fn public_image_needs_no_credentials() {
    let Some((server, local)) = with_image(S3::versitygw()) else {
        return;
    };
    server.publish();
    let endpoint = server.endpoint();
    local.assert_same(&S3::url(NAME), |subcommand| {
        let mut command = plain(subcommand);
        command.args(["--anonymous", "--endpoint", &endpoint]);
        command
    });
}

#[test]
fn presigned_url_needs_no_credentials() {
    for start in [S3::versitygw, S3::moto] {
        let Some((server, local)) = with_image(start()) else {
            continue;
        };
        local.assert_same(&server.presigned(NAME), plain);
    }
}

#[test]
fn presigned_url_with_a_wrong_signature_is_refused() {
    if let Some((server, _local)) = with_image(S3::versitygw()) {
        let wrong = server.presigned("another.img").replace("another.img", NAME);
        fails(&mut plain("ls"), &wrong, "the server denies access");
    }
}
