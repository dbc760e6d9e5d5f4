//! The parsers of credentials, as the fuzz targets call them.

use super::profile::Profile;
use super::provider::Source;
use super::roles::WebIdentity;
use super::sso::{self, Login};
use super::temporary::Temporary;
use super::variables::Variables;
use super::{keys, machine, process};
use crate::untrusted::FixedReply;
use object_store::client::HttpClient;
use std::time::{Duration, SystemTime};

/// The ID of an access key, and the token that belongs to it.
pub type Key = (String, Option<String>);

/// Reads the settings of two profiles from the content of a user's files. Returns the keys with which requests can be
/// signed.
///
/// # Errors
/// The reason why a file cannot be used. It has no content of the file.
pub fn keys_in_files(credentials: &str, config: &str) -> Result<Vec<Key>, String> {
    let variables = Variables(&|_| None);
    let mut found = Vec::new();
    for name in ["default", "own"] {
        let profile = Profile::of_text(name, credentials, config)?;
        let _ = profile.missing();
        let _ = profile.endpoint();
        let _ = WebIdentity::of_profile(&profile);
        if sso::is_configured(&profile) {
            let client = HttpClient::new(FixedReply::default());
            // The user's home is not known, so no file is read.
            let _ = Login::of_profile(&profile, &variables, client);
        }
        let command = profile.get("credential_process");
        let _ = command.and_then(shlex::split);
        if let Some((id, secret)) = profile.keys() {
            let token = profile.get("aws_session_token").map(str::to_owned);
            if let Ok((Source::Keys(temporary), _)) = keys("a file", id, secret, token) {
                found.push(key_of(&temporary));
            }
        }
    }
    Ok(found)
}

/// Parses `bytes` four times: as the output of a program, as a file with a token, as a reply of the portal of IAM
/// Identity Center, and as a reply of a service of the machine. Returns the keys with which requests can be signed.
#[must_use]
pub fn keys_in_output(bytes: &[u8]) -> Vec<Key> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 30);
    let _ = sso::parse_token(bytes, now);
    let parsed = [
        process::parse(bytes, now),
        sso::parse_reply(bytes, now),
        machine::parse(bytes, now),
    ];
    let parsed = parsed.iter().flatten();
    parsed.map(key_of).collect()
}

fn key_of(temporary: &Temporary) -> Key {
    let credential = &temporary.credential;
    (credential.key_id.clone(), credential.token.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_files_and_output() {
        let credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = s\n";
        let config = "[profile own]\naws_access_key_id = B\naws_secret_access_key = s\n\
            aws_session_token = T\nsso_account_id = 1\nsso_role_name = r\nsso_region = x\n\
            sso_start_url = https://host\ncredential_process = /bin/tool 'a b'\n";
        let key = |id: &str, token: Option<&str>| (id.to_owned(), token.map(str::to_owned));
        assert_eq!(
            keys_in_files(credentials, config),
            Ok(vec![key("A", None), key("B", Some("T"))])
        );
        assert!(keys_in_files("[default", "").is_err());
        let output = br#"{"Version": 1, "AccessKeyId": "C", "SecretAccessKey": "s"}"#;
        // It is also valid as a reply of a service.
        assert_eq!(keys_in_output(output), [key("C", None), key("C", None)]);
        let reply = br#"{"roleCredentials": {"accessKeyId": "D", "secretAccessKey": "s",
            "sessionToken": "T", "expiration": 4000000000000}}"#;
        assert_eq!(keys_in_output(reply), [key("D", Some("T"))]);
    }
}
