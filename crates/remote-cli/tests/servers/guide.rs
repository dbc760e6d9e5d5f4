//! Runs the console blocks of the guide to images at URLs, and of the README of this package, with versitygw as the
//! server.

use crate::image::Local;
use crate::larder::{PROGRAM, command_of};
use crate::s3::{KEY, S3, SECRET};
use larder_testkit::console::sessions;
use larder_testkit::{Requirement, skip};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// The pages, relative to the root of the repository.
const PAGES: [&str; 2] = ["docs/guide/remote.md", "crates/remote-cli/README.md"];
/// The server in the pages.
const ENDPOINT: &str = "http://127.0.0.1:7070";

#[test]
fn commands_of_the_remote_guide_and_of_the_readme_succeed() {
    let needed = ["curl", "fusermount3"].map(Requirement::Tool);
    if skip(&needed) || skip(&[Requirement::Fuse]) {
        return;
    }
    let (Some(local), Some(server)) = (Local::new(), S3::versitygw()) else {
        return;
    };
    server.put("disk.img", local.bytes());
    fs::rename(local.image(), local.path("disk.img")).unwrap();
    let programs = local.path("bin");
    fs::create_dir(&programs).unwrap();
    // larder-remote has the commands of larder.
    symlink(PROGRAM, programs.join("larder")).unwrap();
    // The guide uploads a file with the AWS tools: aws s3 cp start.pack s3://images/start.pack.
    let upload = format!(
        "#!/bin/sh\nexec curl --silent --show-error --fail --request PUT --data-binary \"@$3\" '{}'\n",
        server.signed("PUT", "start.pack", &[])
    );
    fs::write(programs.join("aws"), upload).unwrap();
    fs::set_permissions(programs.join("aws"), fs::Permissions::from_mode(0o755)).unwrap();

    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut scripts = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(repository.join(page)).unwrap();
        let sessions = sessions(&text.replace(ENDPOINT, &server.endpoint()));
        assert!(!sessions.is_empty(), "{page}");
        scripts.extend(sessions.into_iter().map(|session| session.script));
    }
    for script in scripts {
        let search = std::env::var("PATH").unwrap_or_default();
        let output = command_of("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(local.path(""))
            .env("PATH", format!("{}:{search}", programs.display()))
            .env("HOME", local.path("home"))
            .env("AWS_ENDPOINT_URL", server.endpoint())
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .output()
            .unwrap();
        let messages = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let _ = command_of(PROGRAM)
                .arg("umount")
                .arg(local.path("mnt"))
                .output();
        }
        assert!(output.status.success(), "{script}\n{messages}");
    }
}
