//! Tests of `larder lab constant`: its figures, and invalid arguments.

mod support;

use serde_json::Value;
use support::{assert_fails, lab, lab_ok};

const CONSTANT: [&str; 2] = ["constant", "--table-bits=8"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    CONSTANT.iter().chain(more).copied().collect()
}

#[test]
fn constant_of_32_bits_is_the_published_one() {
    let text = lab_ok(with(&["--bits=32"]));
    assert!(
        text.contains("The published 2654435761 is that prime."),
        "{text}"
    );
    assert!(text.contains("sequential"), "{text}");
}

#[test]
fn constant_json_contains_the_multiplier_and_its_links() {
    let text = lab_ok(with(&["--json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["bits"], 64);
    assert_eq!(json["multiplier_hex"], "0x9e3779b97f4a7c55");
    assert_eq!(json["multiplications"][0]["quality"]["prime"], true);
    let measured = &json["key_sets"][0]["measured"][0];
    assert_eq!(measured["multiplication"], "prime");
    assert!(measured["links"].as_f64().unwrap() >= 1.0, "{measured}");
}

#[test]
fn constant_rejects_word_sizes_outside_the_bounds() {
    for bits in ["--bits=7", "--bits=65", "--bits=word"] {
        let output = lab(with(&[bits]));
        assert_fails(&output, 2, &["--bits"]);
    }
    assert_fails(&lab(with(&["--bits=65"])), 2, &["8 to 64"]);
}

#[test]
fn constant_of_a_missing_trace_fails_with_a_hint() {
    let missing = with(&["--trace=/nowhere/keys.parquet"]);
    assert_fails(
        &lab(missing),
        1,
        &["/nowhere/keys.parquet", "hint: give the path"],
    );
    let small = with(&["--bits=16", "--trace=keys.parquet"]);
    assert_fails(&lab(small), 2, &["16 bits", "hint: use --bits 32"]);
}
