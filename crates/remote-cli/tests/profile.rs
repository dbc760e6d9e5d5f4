//! The options --profile-record and --profile, and the command profile pack.

mod fixture;
mod larder;

use fixture::{Fixture, SECRET, larder_fails, larder_ok, large};
use larder::{Mounted, command};
use larder_testkit::http::{HttpServer, Link, Object};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Mounts the image with `options`, reads what a start needs, and returns the statistics of the server.
#[track_caller]
fn start(fixture: &Fixture, options: &[&OsStr]) -> serde_json::Value {
    let mountpoint = fixture.path("mnt");
    let mut args: Vec<OsString> = vec!["mount".into(), fixture.url().into()];
    args.push(mountpoint.clone().into());
    args.extend(options.iter().map(OsString::from));
    larder_ok(args);
    let mounted = Mounted(&mountpoint);
    assert_eq!(fs::read(mountpoint.join("hello")).unwrap(), b"hello\n");
    let file = mountpoint.join("directory/large");
    assert_eq!(fs::read(file).unwrap(), large());
    let json = larder_ok(["stats".as_ref(), "--json".as_ref(), mountpoint.as_os_str()]);
    let text = larder_ok(["stats".as_ref(), mountpoint.as_os_str()]);
    let has_line = String::from_utf8(text).unwrap().contains("for the profile");
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let server = json["server"].clone();
    assert_eq!(has_line, server["profile_bytes"].as_u64().unwrap() > 0);
    drop(mounted);
    server
}

/// Checks that most of what was fetched for a profile was used.
#[track_caller]
fn assert_used(server: &serde_json::Value) {
    let bytes = |name: &str| server[name].as_u64().unwrap();
    let (fetched, used) = (bytes("profile_bytes"), bytes("profile_used_bytes"));
    assert!(fetched > 2_000_000 && used * 5 >= fetched * 4, "{server}");
}

#[test]
fn start_is_recorded_repeated_and_packed() {
    let Some(fixture) = Fixture::to_mount() else {
        return;
    };
    let (profile, pack) = (fixture.path("start.profile"), fixture.path("start.pack"));
    let server = start(
        &fixture,
        &["--profile-record".as_ref(), profile.as_os_str()],
    );
    assert_eq!(server["profile_bytes"], 0);
    let text = fs::read_to_string(&profile).unwrap();
    assert!(text.starts_with("larder profile 1\n"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
    drop(fixture.server.take_requests());

    let server = start(&fixture, &["--profile".as_ref(), profile.as_os_str()]);
    assert_used(&server);
    let requests = fixture.server.take_requests().len();
    assert!(requests <= 20, "{requests} requests");

    let url_file = fixture.path("url");
    fs::write(&url_file, fixture.url()).unwrap();
    for image in [
        vec![fixture.url().into()],
        vec!["--url-file".into(), url_file.into()],
    ] {
        let mut args: Vec<OsString> = vec!["profile".into(), "pack".into(), profile.clone().into()];
        args.extend(image);
        args.push(pack.clone().into());
        larder_ok(args);
    }
    drop(fixture.server.take_requests());
    let object = Object::new(fs::read(&pack).unwrap(), "pack");
    let packs = HttpServer::of_object(object, Link::default());
    let url = packs.url(&format!("start.pack?token={SECRET}"));
    let server = start(&fixture, &["--profile".as_ref(), url.as_ref()]);
    assert_used(&server);
    let requests = fixture.server.take_requests().len() + packs.take_requests().len();
    assert!(requests <= 2, "{requests} requests");
    let option = format!("profile={}", pack.display());
    let server = start(&fixture, &["-o".as_ref(), option.as_ref()]);
    assert_used(&server);
}

/// Records what `cat` reads.
fn recorded(fixture: &Fixture) -> OsString {
    let profile = fixture.path("profile");
    let url = fixture.url();
    let args = [
        "cat".as_ref(),
        "--profile-record".as_ref(),
        profile.as_os_str(),
        url.as_ref(),
        "/directory/large".as_ref(),
    ];
    assert_eq!(larder_ok(args), large());
    profile.into()
}

#[test]
fn commands_without_a_mount_record_profiles_and_use_them() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let profile = recorded(&fixture);
    drop(fixture.server.take_requests());
    let url = fixture.url();
    let args = [
        "cat".as_ref(),
        "--profile".as_ref(),
        profile.as_os_str(),
        url.as_ref(),
        "/directory/large".as_ref(),
    ];
    assert_eq!(larder_ok(args), large());
    let requests = fixture.server.take_requests().len();
    assert!(requests <= 20, "{requests} requests");
}

#[test]
fn failed_command_writes_no_profile() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let profile = fixture.path("profile");
    let url = fixture.url();
    let cat = |name: &'static str| {
        [
            "cat".into(),
            "--profile-record".into(),
            profile.clone().into_os_string(),
            OsString::from(&url),
            name.into(),
        ]
    };
    larder_fails(cat("/missing"));
    assert!(!profile.exists());
    let directory = profile.parent().unwrap();
    let names = fs::read_dir(directory).unwrap();
    let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains("pending")));
    larder_ok(cat("/hello"));
    assert!(profile.exists());
}

#[test]
fn unusable_profiles_are_refused_with_a_hint() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let profile = recorded(&fixture);
    let url = fixture.url();
    let ls = |profile: &OsStr, other: &str, image: &OsStr| {
        let args: [&OsStr; 5] = [
            "ls".as_ref(),
            "--profile".as_ref(),
            profile,
            other.as_ref(),
            image,
        ];
        larder_fails(args)
    };
    let none = "--anonymous";
    let message = ls(fixture.path("missing").as_ref(), none, url.as_ref());
    assert!(message.contains("missing: No such file"), "{message}");
    let message = ls(fixture.path("image").as_ref(), none, url.as_ref());
    assert!(
        message.contains("neither a profile nor a pack"),
        "{message}"
    );
    let message = ls(&profile, "--offline", url.as_ref());
    assert!(message.contains("omit --profile"), "{message}");
    let message = ls(&profile, none, fixture.path("image").as_ref());
    assert!(message.contains("an image at a URL"), "{message}");
    let image = fs::read(fixture.path("image")).unwrap();
    fixture.server.replace(Object::new(image, "two"));
    let message = ls(&profile, none, url.as_ref());
    assert!(message.contains("another version"), "{message}");
    assert!(message.contains("--profile-record"), "{message}");
}

#[test]
fn unusable_places_of_a_recording_are_refused() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let url = fixture.url();
    let record = |path: &Path, image: &OsStr| {
        let args: [&OsStr; 4] = [
            "ls".as_ref(),
            "--profile-record".as_ref(),
            path.as_ref(),
            image,
        ];
        larder_fails(args)
    };
    let message = record(&fixture.path("missing/profile"), url.as_ref());
    assert!(message.contains("cannot write"), "{message}");
    let message = record(&fixture.path("profile"), fixture.path("image").as_ref());
    assert!(message.contains("an image at a URL"), "{message}");
    let message = larder_fails(["profile", "pack", &url, "disk.img", "pack"]);
    assert!(message.contains("disk.img is not a URL"), "{message}");
    // The URLs differ only in parts that can be secret.
    let other = url.replace(SECRET, "other");
    let message = larder_fails(["ls", "--profile", &other, &url]);
    assert!(message.contains("neither a profile"), "{message}");
    let profile = fixture.path("profile");
    let args = ["diff", &url, &other, "--profile-record"].map(OsStr::new);
    let message = larder_fails(args.into_iter().chain([profile.as_os_str()]));
    assert!(message.contains("records one image"), "{message}");
    assert!(message.contains("a command of its own"), "{message}");
    assert!(!profile.exists());
}

#[test]
fn help_of_pack_has_no_options_of_a_mount() {
    let output = command()
        .args(["profile", "pack", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(
        help.contains("--endpoint") && !help.contains("--profile-record"),
        "{help}"
    );
}
