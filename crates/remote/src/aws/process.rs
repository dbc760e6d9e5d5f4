//! Credentials that a program prints (`credential_process` in a profile).
//!
//! Source: AWS Command Line Interface, user guide, "Source credentials with an external process".

use super::temporary::{Temporary, parse_time};
use crate::Error;
use object_store::aws::AwsCredential;
use serde::Deserialize;
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

/// The time after which the program is killed.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// The maximum length of what the program prints, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// The version of the output.
const VERSION: u64 = 1;
/// The origin of the credentials in error texts. The command itself is not shown, because it may contain secrets.
const SOURCE: &str = "credential_process";

/// What the program prints.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Output {
    version: u64,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

/// Runs `command` without a shell, and returns the credentials that it prints. Quotes in `command` group
/// words. If the returned future is dropped, the program is killed. The program's standard error is neither read nor
/// logged.
///
/// # Errors
/// If the program cannot be run or fails, or if its output is not as expected.
pub(super) async fn run(command: &str) -> Result<Temporary, Error> {
    let failed = |why: String| Error::Credentials(format!("{SOURCE} {why}"));
    let words = shlex::split(command).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| failed("is not a valid command line".to_owned()))?;
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("cannot run {}: {error}", words[0])))?;
    let output = child.stdout.take();
    let finish = async {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            output
                .take(MAX_OUTPUT_BYTES)
                .read_to_end(&mut bytes)
                .await?;
        }
        std::io::Result::Ok((bytes, child.wait().await?))
    };
    let finished = tokio::time::timeout(TIME_LIMIT, finish).await;
    let finished = finished.map_err(|_| failed(format!("did not end within {TIME_LIMIT:?}")))?;
    let (bytes, status) = finished.map_err(|error| failed(format!("failed: {error}")))?;
    if !status.success() {
        return Err(failed(format!("failed: {} ended with {status}", words[0])));
    }
    parse(&bytes, SystemTime::now())
}

/// Parses the output of a program at the time `now`. Errors contain no part of the output.
pub(super) fn parse(bytes: &[u8], now: SystemTime) -> Result<Temporary, Error> {
    let wrong = |why: &str| Error::Credentials(format!("the output of {SOURCE} {why}"));
    let output: Output = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(&format!(
            "is not the expected JSON (line {line}, column {column})"
        ))
    })?;
    if output.version != VERSION {
        return Err(wrong(&format!(
            "has version {}, not {VERSION}",
            output.version
        )));
    }
    let expires = output.expiration.map(|time| {
        let time = parse_time(&time);
        time.ok_or_else(|| wrong("has an Expiration that is not in ISO 8601"))
    });
    let credential = AwsCredential {
        key_id: output.access_key_id,
        secret_key: output.secret_access_key,
        token: output.session_token.filter(|token| !token.is_empty()),
    };
    Temporary::new(SOURCE, credential, expires.transpose()?, now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    /// Writes a program that prints its arguments as a token, one after the other.
    fn program(path: &Path) {
        let script = "#!/bin/sh\nIFS=,\n\
            printf '{\"Version\": 1, \"AccessKeyId\": \"A\", \"SecretAccessKey\": \"s\", \
            \"SessionToken\": \"%s\"}' \"$*\"\n";
        std::fs::write(path, script).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn quotes_group_words_and_nothing_else_is_expanded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own tool");
        program(&path);
        let command = format!("\"{}\" a \"$HOME;b\" '*' c\\,d", path.display());
        let temporary = in_runtime(run(&command)).unwrap();
        let token = temporary.credential.token.as_deref();
        assert_eq!(token, Some("a,$HOME;b,*,c,d"));
    }

    #[test]
    fn failed_program_is_reported() {
        for (command, expected) in [
            ("/bin/sh -c 'echo secret; exit 3'", "exit status: 3"),
            ("/absent/program secret", "cannot run /absent/program"),
            ("/bin/echo 'secret", "is not a valid command line"),
            ("", "is not a valid command line"),
            ("/bin/echo secret", "is not the expected JSON"),
        ] {
            let error = in_runtime(run(command)).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn output_must_be_of_version_1_and_valid() {
        let output = |change: &str| {
            format!(r#"{{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "hidden"{change}}}"#)
        };
        let now = SystemTime::from("2026-11-27T12:00:00Z".parse::<jiff::Timestamp>().unwrap());
        let parse = |text: &str| parse(text.as_bytes(), now);
        let valid = parse(&output(r#", "Expiration": "2026-11-27T13:00:00+00:00""#)).unwrap();
        assert!(valid.is_valid(now + Duration::from_mins(59)));
        assert!(!valid.is_valid(now + Duration::from_hours(1)));
        assert!(parse(&output("")).unwrap().is_fresh(now));
        for (text, expected) in [
            (
                output(r#", "Expiration": "2026-11-27T11:59:59Z""#),
                "have expired",
            ),
            (output(r#", "Expiration": "soon""#), "ISO 8601"),
            (output(r#", "SessionToken": "a b""#), "not allowed"),
            (output(r#", "SessionToken": 7"#), "line 1"),
            (output("").replace("n\": 1", "n\": 2"), "has version 2"),
            (output("").replace("\"A\"", "\"\""), "are empty"),
            (String::new(), "line 1"),
        ] {
            let error = parse(&text).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hidden"), "{error}");
        }
    }
}
