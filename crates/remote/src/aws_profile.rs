//! The settings of the AWS tools in a user's files, which hold several *profiles*.
//!
//! Source: AWS Command Line Interface, user guide, "Configuration and credential file settings".

use ini::Ini;
use std::env;
use std::path::PathBuf;

/// The settings of a profile, from the files of credentials and of configuration.
#[derive(Default)]
pub(crate) struct Profile {
    credentials: Ini,
    config: Ini,
    name: String,
}

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or `default`. A file that cannot be read counts as empty.
    pub(crate) fn of_user() -> Self {
        let file = |variable: &str, name: &str| {
            let path = env::var_os(variable).map(PathBuf::from);
            let default = || Some(PathBuf::from(env::var_os("HOME")?).join(".aws").join(name));
            path.or_else(default)
                .and_then(|path| Ini::load_from_file_noescape(path).ok())
                .unwrap_or_default()
        };
        Self {
            credentials: file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            config: file("AWS_CONFIG_FILE", "config"),
            name: env::var("AWS_PROFILE").unwrap_or_else(|_| "default".to_owned()),
        }
    }

    /// Returns a setting. The file of credentials takes precedence.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let section = if self.name == "default" {
            self.name.clone()
        } else {
            format!("profile {}", self.name)
        };
        self.credentials
            .get_from(Some(self.name.as_str()), key)
            .or_else(|| self.config.get_from(Some(section), key))
    }

    /// Returns the ID and the secret of the access key.
    pub(crate) fn keys(&self) -> Option<(&str, &str)> {
        Some((
            self.get("aws_access_key_id")?,
            self.get("aws_secret_access_key")?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_contribute_to_the_named_profile() {
        let profile = |name: &str| {
            Profile {
            credentials: Ini::load_from_str_noescape(
                "[default]\naws_access_key_id = A\naws_secret_access_key = a/+=\n[other]\naws_access_key_id = B\n",
            )
            .unwrap(),
            config: Ini::load_from_str_noescape(
                "[default]\nregion = r1\n[profile other]\nregion = r2\nendpoint_url = http://e\n",
            )
            .unwrap(),
            name: name.to_owned(),
        }
        };
        assert_eq!(profile("default").keys(), Some(("A", "a/+=")));
        assert_eq!(profile("default").get("region"), Some("r1"));
        assert_eq!(profile("other").keys(), None);
        assert_eq!(profile("other").get("region"), Some("r2"));
        assert_eq!(profile("other").get("endpoint_url"), Some("http://e"));
        assert_eq!(profile("absent").get("region"), None);
    }
}
