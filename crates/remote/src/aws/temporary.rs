//! Credentials that may expire.

use crate::Error;
use object_store::aws::AwsCredential;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Credentials are renewed this long before they expire. If less than twice this time is left, they are renewed after
/// half of the time that is left.
const MARGIN: Duration = Duration::from_mins(5);

/// Credentials, and the time until which they are valid.
#[derive(Clone)]
pub(super) struct Temporary {
    pub(super) credential: Arc<AwsCredential>,
    /// The time at which the credentials expire. `None` if they do not expire.
    expires: Option<SystemTime>,
    /// The time from which on the credentials are to be renewed. `None` if they do not expire.
    renew: Option<SystemTime>,
}

impl Temporary {
    /// Creates credentials that were received at the time `now`. `source` names where they are from.
    ///
    /// # Errors
    /// If the credentials have expired, or are not valid in the header of a request.
    pub(super) fn new(
        source: &str,
        credential: AwsCredential,
        expires: Option<SystemTime>,
        now: SystemTime,
    ) -> Result<Self, Error> {
        check(source, &credential)?;
        if expires.is_some_and(|expires| expires <= now) {
            return Err(Error::Credentials(format!(
                "the credentials from {source} have expired"
            )));
        }
        let mut temporary = Self {
            credential: Arc::new(credential),
            expires,
            renew: None,
        };
        temporary.renew = temporary.next_renewal(now);
        Ok(temporary)
    }

    /// Returns whether the credentials are valid and need no renewal.
    pub(super) fn is_fresh(&self, now: SystemTime) -> bool {
        self.renew.is_none_or(|renew| now < renew)
    }

    /// Returns whether the credentials are valid.
    pub(super) fn is_valid(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Postpones the renewal, because an attempt failed.
    pub(super) fn postpone(&mut self, now: SystemTime) {
        self.renew = self.next_renewal(now);
    }

    /// Returns the time of the next renewal.
    fn next_renewal(&self, now: SystemTime) -> Option<SystemTime> {
        let left = self.expires?.duration_since(now).unwrap_or_default();
        now.checked_add(left.saturating_sub(MARGIN).max(left / 2))
    }
}

/// Parses a time in ISO 8601.
pub(super) fn parse_time(text: &str) -> Option<SystemTime> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.into())
}

/// Checks that requests can be signed with a credential: its ID and its token become parts of headers.
pub(super) fn check(source: &str, credential: &AwsCredential) -> Result<(), Error> {
    let is_plain =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    let token = credential.token.as_deref();
    if is_plain(&credential.key_id)
        && !credential.secret_key.is_empty()
        && token.is_none_or(is_plain)
    {
        return Ok(());
    }
    Err(Error::Credentials(format!(
        "the credentials from {source} are empty, or have characters that are not allowed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(key_id: &str, token: Option<&str>) -> AwsCredential {
        AwsCredential {
            key_id: key_id.to_owned(),
            secret_key: "secret".to_owned(),
            token: token.map(str::to_owned),
        }
    }

    #[test]
    fn credentials_are_renewed_before_they_expire() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
        let after = |minutes| now + Duration::from_mins(minutes);
        let of = |minutes| {
            Temporary::new("a test", credential("A", None), Some(after(minutes)), now).unwrap()
        };
        let hour = of(60);
        assert!(hour.is_fresh(after(54)) && !hour.is_fresh(after(55)));
        assert!(hour.is_valid(after(59)) && !hour.is_valid(after(60)));
        let mut short = of(4);
        assert!(short.is_fresh(after(1)) && !short.is_fresh(after(2)));
        short.postpone(after(2));
        assert!(short.is_fresh(after(2)) && !short.is_fresh(after(3)));
        let forever = Temporary::new("a test", credential("A", None), None, now).unwrap();
        assert!(forever.is_fresh(after(1 << 20)) && forever.is_valid(after(1 << 20)));
        assert!(Temporary::new("a test", credential("A", None), Some(now), now).is_err());
    }

    #[test]
    fn credentials_that_no_header_may_contain_are_refused() {
        for (key_id, token) in [
            ("", None),
            ("A\nB", None),
            ("A", Some("")),
            ("A", Some("x y")),
            ("A", Some("\u{e9}")),
        ] {
            let error = check("a test", &credential(key_id, token)).unwrap_err();
            assert!(!error.to_string().contains("x y"), "{error}");
        }
        check("a test", &credential("A", Some("b+/=="))).unwrap();
    }
}
