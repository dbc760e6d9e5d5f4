//! The settings of the AWS tools in a user's files, which hold several *profiles*.
//!
//! Source: AWS Command Line Interface, user guide, "Configuration and credential file settings".

use super::variables::Variables;
use ini::{Ini, ParseOption};
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// The profile that is used if none is named.
const DEFAULT: &str = "default";
/// The maximum length of a file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The settings of a profile, from the files of credentials and of configuration.
#[derive(Default)]
pub(crate) struct Profile {
    credentials: Ini,
    config: Ini,
    name: String,
    /// Whether the user has named the profile.
    is_named: bool,
    /// The folder `~/.aws`, or `None` if the user's home is not known.
    folder: Option<PathBuf>,
    /// The paths of the files, as errors show them.
    paths: [String; 2],
    /// For each file that cannot be used, the reason.
    problems: Vec<String>,
}

impl Profile {
    /// Reads the profile that `AWS_PROFILE` names, or `default`. A file that does not exist counts as empty.
    pub(crate) fn of_user(variables: &Variables<'_>) -> Self {
        let name = variables.get("AWS_PROFILE");
        let mut profile = Self {
            is_named: name.is_some(),
            name: name.unwrap_or_else(|| DEFAULT.to_owned()),
            folder: variables
                .get("HOME")
                .map(|home| PathBuf::from(home).join(".aws")),
            ..Self::default()
        };
        profile.credentials = profile.read(variables, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
        profile.config = profile.read(variables, "AWS_CONFIG_FILE", "config");
        profile
    }

    /// Reads the file at the path in `variable`, or else at `name` in the folder.
    fn read(&mut self, variables: &Variables<'_>, variable: &str, name: &str) -> Ini {
        let path = variables.get(variable).map(PathBuf::from);
        let path = path.or_else(|| Some(self.folder.as_ref()?.join(name)));
        let index = usize::from(name == "config");
        let Some(path) = path else {
            self.paths[index] = format!("~/.aws/{name}");
            return Ini::default();
        };
        self.paths[index] = path.display().to_string();
        load(&path).unwrap_or_else(|why| {
            self.problems.push(format!("{}: {why}", path.display()));
            Ini::default()
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the user has named a profile that is in neither file.
    pub(super) fn is_missing(&self) -> bool {
        self.is_named
            && self.credentials.section(Some(self.name())).is_none()
            && self.config_section().is_none()
    }

    /// Returns the paths of the files of credentials and of configuration.
    pub(super) fn paths(&self) -> &[String; 2] {
        &self.paths
    }

    /// Returns the path of a file in the folder `~/.aws`.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(name))
    }

    /// Returns why a file cannot be used, for each such file.
    pub(super) fn problems(&self) -> &[String] {
        &self.problems
    }

    fn config_section(&self) -> Option<&ini::Properties> {
        let section = self.config.section(Some(format!("profile {}", self.name)));
        section.or_else(|| {
            let default = (self.name == DEFAULT).then_some(DEFAULT)?;
            self.config.section(Some(default))
        })
    }

    /// Returns a setting that is not empty. The file of credentials takes precedence.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let value = self
            .credentials
            .get_from(Some(self.name()), key)
            .or_else(|| self.config_section()?.get(key));
        value.filter(|value| !value.is_empty())
    }

    /// Returns a setting of the section `[sso-session NAME]`.
    pub(super) fn in_session(&self, session: &str, key: &str) -> Option<&str> {
        let section = Some(format!("sso-session {session}"));
        let value = self.config.get_from(section, key);
        value.filter(|value| !value.is_empty())
    }

    /// Returns the ID and the secret of the access key.
    pub(super) fn keys(&self) -> Option<(&str, &str)> {
        Some((
            self.get("aws_access_key_id")?,
            self.get("aws_secret_access_key")?,
        ))
    }
}

/// Reads a file. If the file cannot be used, returns the reason, which contains no content of the file.
fn load(path: &Path) -> Result<Ini, String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => parse(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Ini::default()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a file. Quotes and backslashes are parts of values.
fn parse(text: &str) -> Result<Ini, String> {
    let options = ParseOption {
        enabled_quote: false,
        enabled_escape: false,
        ..ParseOption::default()
    };
    Ini::load_from_str_opt(text, options)
        .map_err(|error| format!("line {} is not valid", error.line + 1))
}

#[cfg(any(test, fuzzing))]
impl Profile {
    /// Creates the profile `name` from the content of both files.
    ///
    /// # Errors
    /// The reason why a file cannot be used.
    pub(super) fn of_text(name: &str, credentials: &str, config: &str) -> Result<Self, String> {
        Ok(Self {
            credentials: parse(credentials)?,
            config: parse(config)?,
            name: name.to_owned(),
            is_named: name != DEFAULT,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_files_contribute_to_the_named_profile() {
        let profile = |name: &str| {
            Profile::of_text(
                name,
                "[default]\naws_access_key_id = A\naws_secret_access_key = a/+=\n[other]\naws_access_key_id = B\n",
                "[default]\nregion = r1\n[profile other]\nregion = r2\nendpoint_url = http://e\n",
            )
            .unwrap()
        };
        assert_eq!(profile("default").keys(), Some(("A", "a/+=")));
        assert_eq!(profile("default").get("region"), Some("r1"));
        assert_eq!(profile("other").keys(), None);
        assert_eq!(profile("other").get("region"), Some("r2"));
        assert_eq!(profile("other").get("endpoint_url"), Some("http://e"));
        assert_eq!(profile("absent").get("region"), None);
        assert!(profile("absent").is_missing());
        assert!(!profile("other").is_missing() && !profile("default").is_missing());
    }

    #[test]
    fn quotes_are_part_of_a_value() {
        let config = "[profile own]\ncredential_process = \"/opt/own tool\" 'a b' c\\d # e\n";
        let profile = Profile::of_text("own", "", config).unwrap();
        let command = profile.get("credential_process");
        assert_eq!(command, Some("\"/opt/own tool\" 'a b' c\\d # e"));
    }

    #[test]
    fn file_that_cannot_be_used_is_reported_without_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("config"), "[default]\nsecret\n[profile").unwrap();
        let variables = |name: &str| match name {
            "AWS_CONFIG_FILE" => Some(path("config").into_os_string().into_string().unwrap()),
            "AWS_SHARED_CREDENTIALS_FILE" => Some(folder.path().to_str().unwrap().to_owned()),
            _ => None,
        };
        let profile = Profile::of_user(&Variables(&variables));
        let [credentials, config] = profile.problems() else {
            panic!("{:?}", profile.problems());
        };
        assert!(credentials.contains("directory"), "{credentials}");
        assert!(config.ends_with("is not valid"), "{config}");
        assert!(!config.contains("secret"), "{config}");
    }
}
