//! What all variants have in common.

use super::*;

#[test]
fn variants_are_found_by_their_names() {
    for variant in Variant::ALL {
        assert_eq!(variant.as_str().parse(), Ok(variant));
    }
    let error = "LRU".parse::<Variant>().unwrap_err().to_string();
    assert!(
        error.contains("`LRU`") && error.contains("list-lru"),
        "{error}"
    );
}
