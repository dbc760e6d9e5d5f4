//! Removes secrets from texts.

/// Removes the user name, the password, the query and the fragment from each URL in `text`.
pub(crate) fn redact(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ')' | '>' | '<' | '`'))
            .unwrap_or(after.len());
        let (url, others) = after.split_at(end);
        let url = url.split(['?', '#']).next().unwrap_or_default();
        // A password may contain a slash that is not encoded.
        let url = url.rsplit_once('@').map_or(url, |(_, host)| host);
        shown.push_str(url);
        rest = others;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_urls_are_removed() {
        for (text, shown) in [
            (
                "error for url (https://host/x?sig=abc): reset",
                "error for url (https://host/x): reset",
            ),
            (
                "http://u:p/w@host/x and s3://b/k?q",
                "http://host/x and s3://b/k",
            ),
            ("no URL: a?b", "no URL: a?b"),
            ("://?secret", "://"),
        ] {
            assert_eq!(redact(text), shown);
        }
    }
}
