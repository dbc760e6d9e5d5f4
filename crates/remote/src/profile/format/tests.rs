use super::*;
use proptest::prelude::*;

const SIZE_BYTES: u64 = 100 * UNIT_BYTES + 7;

fn strong(etag: &str) -> Version {
    Version {
        etag: Some(etag.to_owned()),
        modified_seconds: 0,
        size_bytes: SIZE_BYTES,
    }
}

fn text_of(body: &str) -> String {
    let head = format!("{MAGIC}image x\nsize {SIZE_BYTES}\netag \"a\"\n");
    let text = format!("{head}{body}");
    format!("{text}end {}\n", checksum(&text))
}

fn units_in(body: &str) -> Result<Vec<u64>> {
    Profile::parse(text_of(body).as_bytes()).map(|profile| profile.units().to_vec())
}

#[test]
fn profile_is_a_readable_text_in_order_of_first_use() {
    let profile = Profile::new(
        "https://host/disk.img",
        strong("\"a b\""),
        [7, 8, 0, 7, 100, 101],
    );
    let text = profile.to_text().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..7],
        [
            "larder profile 1",
            "image https://host/disk.img",
            "size 6553607",
            "etag \"a b\"",
            "read 458752 131072",
            "read 0 65536",
            "read 6553600 7",
        ]
    );
    assert_eq!(Profile::parse(text.as_bytes()), Ok(profile));
}

#[test]
fn version_without_an_etag_is_its_time_and_size() {
    let version = Version {
        etag: None,
        modified_seconds: -5,
        size_bytes: SIZE_BYTES,
    };
    let profile = Profile::new("x", version.clone(), [1]);
    let parsed = Profile::parse(profile.to_text().unwrap().as_bytes()).unwrap();
    assert_eq!(parsed.check(&version), Ok(()));
    let later = Version {
        modified_seconds: -4,
        ..version
    };
    assert!(matches!(
        parsed.check(&later),
        Err(Error::OtherVersion { .. })
    ));
}

#[test]
fn other_version_is_refused_and_both_are_named() {
    let profile = Profile::new("x", strong("\"one\""), [1]);
    assert_eq!(profile.check(&strong("\"one\"")), Ok(()));
    let error = profile.check(&strong("\"two\"")).unwrap_err().to_string();
    assert!(error.contains("one") && error.contains("two"), "{error}");
    let longer = Version {
        size_bytes: SIZE_BYTES + 1,
        ..strong("\"one\"")
    };
    assert!(profile.check(&longer).is_err());
}

#[test]
fn damaged_profile_is_refused() {
    let text = Profile::new("x", strong("\"a\""), [3, 9])
        .to_text()
        .unwrap();
    for at in 0..text.len() {
        let mut damaged = text.clone().into_bytes();
        damaged[at] ^= 1;
        assert!(Profile::parse(&damaged).is_err(), "byte {at}");
        assert!(
            Profile::parse(&text.as_bytes()[..at]).is_err(),
            "length {at}"
        );
    }
}

/// Texts whose checksums are right.
#[test]
fn invalid_ranges_are_refused() {
    assert_eq!(units_in("read 1 1\nread 65535 2\n"), Ok(vec![0, 1]));
    assert_eq!(units_in(""), Ok(Vec::new()));
    for body in [
        "read 0\n",
        "read 0 0\n",
        "read -1 1\n",
        "read +1 1\n",
        "read 1 1 1\n",
        "read 0 6553608\n",
        "read 18446744073709551615 1\n",
        "read 0 18446744073709551616\n",
        "write 0 1\n",
        "\n",
    ] {
        let refused = Err(Error::Damaged("a range is invalid"));
        assert_eq!(units_in(body), refused, "{body}");
    }
}

#[test]
fn invalid_heads_are_refused() {
    for (line, other) in [
        ("image x", "picture x"),
        ("size 6553607", "size 9223372036854775808"),
        ("etag \"a\"", "etag "),
        ("etag \"a\"", "modified x"),
        ("etag \"a\"", "read 0 1"),
    ] {
        let text = text_of("");
        let lines = checked_lines(&text).unwrap().replace(line, other);
        let text = format!("{lines}end {}\n", checksum(&lines));
        assert!(Profile::parse(text.as_bytes()).is_err(), "{other}");
    }
    assert_eq!(Profile::parse(b"larder profile 2\n"), Err(Error::Unknown));
    assert_eq!(Profile::parse(b""), Err(Error::Unknown));
}

#[test]
fn too_many_units_are_refused() {
    let size_bytes = (MAX_UNITS as u64 + 1) * UNIT_BYTES;
    let text_of = |len_bytes: u64| {
        let text = format!("{MAGIC}image x\nsize {size_bytes}\netag \"a\"\nread 0 {len_bytes}\n");
        format!("{text}end {}\n", checksum(&text))
    };
    let parsed = Profile::parse(text_of(size_bytes - UNIT_BYTES).as_bytes()).unwrap();
    assert_eq!(parsed.units().len(), MAX_UNITS);
    assert_eq!(
        Profile::parse(text_of(size_bytes).as_bytes()),
        Err(Error::TooLarge)
    );
}

/// A line can be short, and list all units again.
#[test]
fn repetitions_are_limited() {
    let size_bytes = MAX_UNITS as u64 * UNIT_BYTES;
    let parse = |repetitions: usize| {
        let lines = format!("read 0 {size_bytes}\n").repeat(repetitions);
        let text = format!("{MAGIC}image x\nsize {size_bytes}\netag \"a\"\n{lines}");
        let text = format!("{text}end {}\n", checksum(&text));
        Profile::parse(text.as_bytes())
    };
    assert_eq!(parse(2).unwrap().units().len(), MAX_UNITS);
    assert_eq!(parse(9), Err(Error::TooLarge));
}

#[test]
fn longest_text_fits_into_the_limit() {
    let size_bytes = MAX_OBJECT_BYTES;
    let version = Version {
        size_bytes,
        ..strong(&"e".repeat(MAX_ETAG_BYTES))
    };
    let last = unit_count(size_bytes) - 1;
    let units = (0..MAX_UNITS as u64).map(|index| last - 2 * index);
    let profile = Profile::new(&"i".repeat(2000), version, units);
    let text = profile.to_text().unwrap();
    assert!(text.len() <= MAX_TEXT_BYTES, "{}", text.len());
    assert_eq!(Profile::parse(text.as_bytes()), Ok(profile));
}

#[test]
fn invalid_etag_is_not_written() {
    for etag in ["", "a\nb", &"e".repeat(MAX_ETAG_BYTES + 1)] {
        assert!(Profile::new("x", strong(etag), [1]).to_text().is_err());
    }
}

proptest! {
    #[test]
    fn written_profile_is_parsed(units in prop::collection::vec(0_u64..101, 0..200)) {
        let profile = Profile::new("x", strong("\"a\""), units.clone());
        let parsed = Profile::parse(profile.to_text().unwrap().as_bytes()).unwrap();
        let mut first_uses = Vec::new();
        for unit in units {
            if !first_uses.contains(&unit) {
                first_uses.push(unit);
            }
        }
        prop_assert_eq!(parsed.units(), &first_uses[..]);
        prop_assert_eq!(parsed, profile);
    }
}
