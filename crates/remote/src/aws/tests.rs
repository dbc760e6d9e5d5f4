use super::*;

/// Finds the credentials with `variables` and the profile `name`, whose files have the content `credentials` and
/// `config`. Returns the user to whom the credentials belong.
fn user(variables: &[(&str, &str)], name: &str, credentials: &str, config: &str) -> Result<String> {
    let get = |name: &str| {
        let found = variables.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let profile = Profile::of_text(name, credentials, config).unwrap();
    let found = find(&Variables(&get), &profile, "us-east-1")?;
    Ok(match found.user {
        User::Known(name) => name,
        User::OfService(_) => "of a service".to_owned(),
    })
}

const KEYS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key = s\n";

#[test]
fn first_place_with_credentials_is_used() {
    let all = [
        ("AWS_ACCESS_KEY_ID", "E"),
        ("AWS_SECRET_ACCESS_KEY", "e"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
        ("AWS_ROLE_ARN", "arn:web"),
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/container"),
        // So the service is that of the container.
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    for (variables, credentials, expected) in [
        (&all[..], KEYS, "E"),
        (&all[2..], KEYS, "role arn:web"),
        (&all[3..], KEYS, "A"),
        (&all[3..], "", "of a service"),
        (&[], "", "of a service"),
    ] {
        assert_eq!(
            user(variables, "default", credentials, ""),
            Ok(expected.to_owned())
        );
    }
}

#[test]
fn profile_can_have_each_kind_of_credentials() {
    for (settings, expected) in [
        (
            "web_identity_token_file = /t\nrole_arn = arn:p",
            "role arn:p",
        ),
        ("credential_process = /bin/tool a", "process /bin/tool a"),
        ("aws_access_key_id = B\naws_secret_access_key = s", "B"),
    ] {
        let config = format!("[profile own]\n{settings}\n");
        assert_eq!(user(&[], "own", "", &config), Ok(expected.to_owned()));
    }
    let home = [("HOME", "/home/own")];
    let config = "[profile own]\nsso_session = s\nsso_account_id = 12\nsso_role_name = reader\n\
        [sso-session s]\nsso_region = eu-west-1\nsso_start_url = https://host/start\n";
    // `Profile::of_text` sets no folder, so the file with the token cannot be found.
    let error = user(&home, "own", "", config).unwrap_err().to_string();
    assert!(error.contains("HOME"), "{error}");
}

#[test]
fn errors_say_what_to_change() {
    let no_secret = [("AWS_ACCESS_KEY_ID", "E")];
    let line_break = [("AWS_ACCESS_KEY_ID", "E\n"), ("AWS_SECRET_ACCESS_KEY", "e")];
    let disabled = [("AWS_EC2_METADATA_DISABLED", "true")];
    let assumed = "[profile own]\nrole_arn = arn:x\nsource_profile = default\n";
    let sso = "[profile own]\nsso_account_id = 1\nsso_start_url = https://host\n";
    for (variables, name, config, expected) in [
        (
            &no_secret[..],
            "default",
            "",
            "AWS_SECRET_ACCESS_KEY is not",
        ),
        (
            &line_break[..],
            "default",
            "",
            "characters that are not allowed",
        ),
        (
            &disabled[..],
            "default",
            "",
            "AWS_EC2_METADATA_DISABLED is set",
        ),
        (&[], "absent", "", "profile absent"),
        (&[], "own", assumed, "export-credentials --profile own"),
        (&[], "own", sso, "has no sso_region"),
    ] {
        let error = user(variables, name, "", config).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
