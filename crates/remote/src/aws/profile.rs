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
    /// The variable with which the user has named the profile.
    variable: Option<&'static str>,
    /// The folder `~/.aws`, or `None` if the user's home is not known.
    folder: Option<PathBuf>,
    /// The paths of the files, as errors show them.
    paths: [String; 2],
    /// For each file that cannot be used, the reason.
    problems: Vec<String>,
}

impl Profile {
    /// Reads the profile that a variable names, or `default`. A file that does not exist counts as empty.
    pub(crate) fn of_user(variables: &Variables<'_>) -> Self {
        let mut both = ["AWS_PROFILE", "AWS_DEFAULT_PROFILE"].into_iter();
        let named = both.find_map(|variable| Some((variable, variables.get(variable)?)));
        let (variable, name) = named.unzip();
        let mut profile = Self {
            variable,
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

    /// If the profile is in neither file, returns the variable with which the user has named it.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let is_missing = self.credentials.section(Some(self.name())).is_none()
            && self.config_section().is_none();
        self.variable.filter(|_| is_missing)
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

    /// Returns the URL of the server for S3: of the section `[services NAME]` that the profile names, or of the profile.
    pub(crate) fn endpoint(&self) -> Option<&str> {
        let services = self.get("services").and_then(|name| {
            let section = Some(format!("services {name}"));
            self.config.get_from(section, "s3.endpoint_url")
        });
        let endpoint = services.filter(|endpoint| !endpoint.is_empty());
        endpoint.or_else(|| self.get("endpoint_url"))
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

/// Parses a file. Quotes and backslashes are parts of values. Of the settings in indented lines after `s3 =`, the name
/// begins with `s3.`, and correspondingly for other names.
fn parse(text: &str) -> Result<Ini, String> {
    let options = ParseOption {
        enabled_quote: false,
        enabled_escape: false,
        ..ParseOption::default()
    };
    Ini::load_from_str_opt(&flat(text), options)
        .map_err(|error| format!("line {} is not valid", error.line + 1))
}

/// Returns `text` with the same number of lines, without comments and nested settings. The parser supports neither
/// nested settings nor comments that are indented.
fn flat(text: &str) -> String {
    let mut flat = String::with_capacity(text.len());
    // The name of the setting to which indented lines belong.
    let mut outer = None;
    for line in text.lines() {
        let content = line.trim();
        let is_comment = content.starts_with(['#', ';']);
        let is_indented = line.starts_with([' ', '\t']);
        if !is_comment && !content.is_empty() {
            if !is_indented {
                // A value can also end in an equals sign.
                let name = content.strip_suffix('=').map(str::trim_end);
                outer = name.filter(|name| !name.contains('='));
            } else if let Some(outer) = outer {
                flat.push_str(outer);
                flat.push('.');
            }
            flat.push_str(content);
        }
        flat.push('\n');
    }
    flat
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
            variable: (name != DEFAULT).then_some("AWS_PROFILE"),
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
        assert_eq!(profile("absent").missing(), Some("AWS_PROFILE"));
        assert_eq!(profile("other").missing(), None);
        assert_eq!(profile("default").missing(), None);
    }

    #[test]
    fn profile_is_named_by_either_variable() {
        let profile = |variables: &'static [(&str, &str)]| {
            let get = |name: &str| {
                let found = variables.iter().find(|(own, _)| *own == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let profile = Profile::of_user(&Variables(&get));
            (profile.name().to_owned(), profile.missing())
        };
        assert_eq!(profile(&[]), ("default".to_owned(), None));
        let named = ("a".to_owned(), Some("AWS_DEFAULT_PROFILE"));
        assert_eq!(profile(&[("AWS_DEFAULT_PROFILE", "a")]), named);
        let named = ("b".to_owned(), Some("AWS_PROFILE"));
        assert_eq!(
            profile(&[("AWS_DEFAULT_PROFILE", "a"), ("AWS_PROFILE", "b")]),
            named
        );
    }

    #[test]
    fn indented_comment_is_not_part_of_the_next_setting() {
        let config = "# a\n[profile own]\n  # b = c\nregion = r # not a comment\n\t; d\nendpoint_url = http://e\n";
        let profile = Profile::of_text("own", "", config).unwrap();
        assert_eq!(profile.get("region"), Some("r # not a comment"));
        assert_eq!(profile.endpoint(), Some("http://e"));
        // A token can end in equals signs, and the next line can be indented.
        let padded = "[profile own]\naws_session_token = a==\n  region = r\n";
        let profile = Profile::of_text("own", "", padded).unwrap();
        assert_eq!(profile.get("aws_session_token"), Some("a=="));
        assert_eq!(profile.get("region"), Some("r"));
    }

    #[test]
    fn endpoint_of_the_services_has_precedence() {
        let config = "[profile own]\nservices = local\nendpoint_url = http://all\ns3 =\n  endpoint_url = http://wrong\n\
            [profile other]\nservices = none\nendpoint_url = http://all\n\
            [services local]\ndynamodb =\n  endpoint_url = http://dynamodb\n# a comment\ns3 = \n\n\tregion = x\n  \
            endpoint_url = http://s3\n";
        let endpoint = |name: &str| {
            let profile = Profile::of_text(name, "", config).unwrap();
            profile.endpoint().map(str::to_owned)
        };
        assert_eq!(endpoint("own").as_deref(), Some("http://s3"));
        assert_eq!(endpoint("other").as_deref(), Some("http://all"));
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
