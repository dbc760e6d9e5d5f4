use super::rules::Rules;
use super::text::{Kind, Text};
use super::{hash, markdown, rust};

fn phrases(texts: &[Text]) -> Vec<(usize, String)> {
    let rules = Rules::new();
    let found = texts.iter().flat_map(|text| rules.check(text));
    found
        .map(|finding| (finding.line, finding.phrase))
        .collect()
}

#[test]
fn markdown_prose_is_checked_and_code_is_not() {
    let source = "# Title\n\nThe tail lies\nbehind `who is told` it.\n\n```\nwho is told\n```\n\
                  See [this](behind.md).\n";
    let found = phrases(&markdown::texts(source));
    assert_eq!(found, [(4, "behind".into()), (3, "lies".into())]);
}

#[test]
fn comments_strings_and_names_are_checked_on_their_lines() {
    let source = "//! Nobody is here.\n\nfn is_told(asked: u32) -> u32 {\n    // It lies\n    // behind.\n    \
                  let url = \"http://x // y\"; // we come\n    asked + f(\"our text\")\n}\n";
    let found = phrases(&rust::texts(source).unwrap());
    let expected = [
        (1, "nobody"),
        (3, "told"),
        (3, "asked"),
        (5, "behind"),
        (4, "lies"),
        (6, "come"),
        (7, "our"),
    ];
    assert_eq!(
        found,
        expected.map(|(line, phrase)| (line, phrase.to_owned()))
    );
}

#[test]
fn variants_and_loop_variables_are_names() {
    let source = "enum Event {\n    #[default]\n    Told,\n    Came(u32) = 1,\n    Other { who: u8 },\n}\n\
                  fn f() {\n    for asked in 0..1 {\n        let (_, _) = (Told, asked);\n    }\n}\n";
    let found = phrases(&rust::texts(source).unwrap());
    let expected = [(3, "told"), (4, "came"), (5, "who"), (8, "asked")];
    assert_eq!(
        found,
        expected.map(|(line, phrase)| (line, phrase.to_owned()))
    );
}

#[test]
fn clause_as_subject_is_found_at_the_start_of_a_sentence() {
    for sentence in [
        "Who waits is woken.",
        "**Locks.** Who waits is woken.",
        "- Who waits is woken.",
    ] {
        assert_eq!(phrases(&markdown::texts(sentence)).len(), 1, "{sentence}");
    }
}

#[test]
fn comments_of_scripts_and_documentation_strings_are_checked() {
    let script = "#!/bin/sh\n# It lies here.\necho behind\nall: build ## Told to build\n";
    let found = phrases(&hash::texts(script));
    assert_eq!(found, [(2, "lies".to_owned()), (4, "told".to_owned())]);
    let module = "\"\"\"One line.\"\"\"\nbehind = 1\n\ndef f():\n    \"\"\"First.\n\n    It lies.\n    \"\"\"\n    behind\n";
    let found = phrases(&hash::texts(module));
    assert_eq!(found, [(7, "lies".to_owned())]);
    let code = "text = \"\"\"\nIt lies.\n\"\"\"\nbehind()\n# It lies.\n";
    assert_eq!(phrases(&hash::texts(code)), [(5, "lies".to_owned())]);
}

#[test]
fn established_phrases_pass() {
    for phrase in [
        "There is no space.",
        "The value comes from the inode.",
        "Who may write?",
        "It lags behind.",
        "A stand-alone function.",
    ] {
        let content = phrase.to_owned();
        let text = Text {
            line: 1,
            kind: Kind::Prose,
            content,
        };
        assert_eq!(phrases(&[text]), [], "{phrase}");
    }
}

#[test]
fn literal_without_blank_is_not_prose() {
    let found =
        phrases(&rust::texts("const PATH: [&str; 2] = [\"ours/behind\", \"behind it\"];").unwrap());
    assert_eq!(found, [(1, "behind".to_owned())]);
}

#[test]
fn each_kind_of_name_is_divided_into_words() {
    for name in ["lines_told", "LinesTold", "LINES_TOLD"] {
        let content = name.to_owned();
        let text = Text {
            line: 1,
            kind: Kind::Name,
            content,
        };
        assert_eq!(phrases(&[text]), [(1, "told".to_owned())], "{name}");
    }
}
