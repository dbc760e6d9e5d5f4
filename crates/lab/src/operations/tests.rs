//! Tests of the format and of the recorded script.

use super::script::SDM;
use super::*;

#[test]
fn written_operations_are_read_back() {
    let operations = Operations::sdm();
    let mut text = Vec::new();
    operations.write(&mut text).unwrap();
    assert_eq!(Operations::read(&*text).unwrap(), operations);
    assert_eq!(text, SDM.as_bytes());
}

#[test]
fn open_mode_converts_to_its_letters_and_back() {
    for letters in ["", "r", "rw", "wct", "wcx", "rwcxt"] {
        let mode = OpenMode::try_from(letters.to_owned()).unwrap();
        assert_eq!(String::from(mode), letters);
    }
    assert!(OpenMode::try_from("rq".to_owned()).is_err());
}

#[test]
fn invalid_line_is_reported_by_number() {
    let text =
        "{\"version\":1,\"directories\":[],\"files\":[]}\n[{\"close\":1},0]\n[{\"jump\":1},0]\n";
    let error = Operations::read(text.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Line { line: 3, .. }), "{error}");
    let newer = "{\"version\":2,\"directories\":[],\"files\":[]}\n";
    let error = Operations::read(newer.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Version(2)), "{error}");
    assert!(matches!(Operations::read(&b""[..]), Err(Error::Empty)));
}

#[test]
fn recorded_script_has_every_kind_of_lookup() {
    let operations = Operations::sdm();
    let count = |is: fn(&Done) -> bool| operations.done.iter().filter(|done| is(done)).count();
    assert!(
        count(|Done(operation, result)| matches!(operation, Operation::Open(..)) && *result < 0)
            > 50
    );
    assert!(count(|Done(operation, _)| matches!(operation, Operation::Read(..))) > 300);
    assert!(count(|Done(operation, _)| matches!(operation, Operation::Write(..))) > 50);
    assert!(count(|Done(operation, _)| matches!(operation, Operation::Rename(..))) == 1);
}
