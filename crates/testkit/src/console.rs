//! The commands in the console blocks of a page in Markdown.
//!
//! A line that starts with `$ ` is a command of an ordinary user, one that starts with `# ` is a command of root, and
//! `> ` continues the previous command. All other lines are output.

/// Consecutive commands of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Whether root runs the commands.
    pub is_root: bool,
    /// The commands, one on each line.
    pub script: String,
}

/// Returns the commands of all console blocks in `page`.
#[must_use]
pub fn sessions(page: &str) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut in_block = false;
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = line == "```console";
            continue;
        }
        if !in_block {
            continue;
        }
        let (is_root, command) = match (line.strip_prefix("$ "), line.strip_prefix("# ")) {
            (Some(command), _) => (false, command),
            (_, Some(command)) => (true, command),
            _ => {
                if let (Some(rest), Some(last)) = (line.strip_prefix("> "), sessions.last_mut()) {
                    last.script.push_str(rest);
                    last.script.push('\n');
                }
                continue;
            }
        };
        match sessions.last_mut() {
            Some(last) if last.is_root == is_root => {
                last.script.push_str(command);
                last.script.push('\n');
            }
            _ => sessions.push(Session {
                is_root,
                script: format!("{command}\n"),
            }),
        }
    }
    sessions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_grouped_by_user() {
        let page = "```sh\n$ no\n```\n```console\n$ a <<END\n> b\noutput\n# c\n```\ntext\n```console\n# d\n```\n";
        let expected =
            [(false, "a <<END\nb\n"), (true, "c\nd\n")].map(|(is_root, script)| Session {
                is_root,
                script: script.to_owned(),
            });
        assert_eq!(sessions(page), expected);
    }
}
